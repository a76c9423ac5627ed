"""Raw messages to columns, held against the plain decoder message by message."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.batch import sent_index
from borzoi.protocol.headers import encode_user_headers, header_field
from borzoi.protocol.message import Message, encode_messages
from borzoi.spark.columns import HEADERS, NULLABLE, TYPES, Column, arrow_schema
from borzoi.spark.decode import ROWS_MAX, MessageOrigin, decode_run
from borzoi.spark.failures import IggyError
from borzoi.spark.polling import Run

PLACE = MessageOrigin("s", "t", 3)
NAMES = (*TYPES, HEADERS)


def wanted(*names: str, as_structs: bool = False) -> pa.Schema:
    return arrow_schema([Column(name, name in NULLABLE) for name in names], as_structs)


BLOCKS = st.sampled_from(
    [
        b"",
        encode_user_headers({header_field("k"): header_field("v")}),
        encode_user_headers(
            {header_field("n"): header_field(7), header_field("r"): header_field(b"x")}
        ),
        b"no headers at all",
    ]
)
MESSAGES = st.lists(
    st.builds(
        Message,
        payload=st.binary(min_size=1, max_size=40),
        id=st.integers(0, 2**128 - 1),
        user_headers=BLOCKS,
        origin_timestamp=st.sampled_from([0, 1, 1_700_000_000_000_000]),
        timestamp=st.integers(1, 2**62),
    ),
    min_size=1,
    max_size=30,
)


def run_of(messages: list[Message], first_offset: int = 0) -> Run:
    raw = bytearray(encode_messages(messages))
    # As the socket gives them: memory that another object owns and nothing changes.
    return Run(
        memoryview(raw), sent_index(memoryview(raw), len(messages)), len(messages), first_offset
    )


def numbered(messages: list[Message], first_offset: int) -> list[Message]:
    return [replace(one, offset=first_offset + at) for at, one in enumerate(messages)]


def plain(message: Message) -> dict[str, Any]:
    """What a loop over messages makes of it."""
    pairs = {key.data.decode(): value.data for key, value in message.headers.items()}
    return {
        "stream": "s",
        "topic": "t",
        "partition": 3,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "origin_timestamp": message.origin_timestamp or None,
        "id": message.id.to_bytes(16, "big"),
        "payload": message.payload,
        "headers": list(pairs.items()),
    }


def rows(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    table = pa.Table.from_batches(batches)
    for name in ("timestamp", "origin_timestamp"):
        at = table.schema.get_field_index(name)
        if at >= 0:  # dates beyond Python's own
            table = table.set_column(at, name, table.column(name).cast(pa.int64()))
    found: list[dict[str, Any]] = table.to_pylist()
    return found


@given(messages=MESSAGES, first_offset=st.integers(0, 2**40))
def test_columns_say_what_the_messages_say(messages: list[Message], first_offset: int) -> None:
    messages = numbered(messages, first_offset)
    batches = decode_run(run_of(messages, first_offset), PLACE, wanted(*NAMES))
    assert rows(batches) == [plain(one) for one in messages]
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema == wanted(*NAMES)


@given(
    count=st.integers(1, 50),
    size=st.integers(1, 60),
    block=BLOCKS,
    names=st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)
def test_messages_of_one_size_in_any_choice_of_columns(
    count: int, size: int, block: bytes, names: list[str]
) -> None:
    messages = numbered(
        [
            Message(bytes([n]) * size, id=n, user_headers=block, timestamp=n + 1)
            for n in range(count)
        ],
        9,
    )
    found = rows(decode_run(run_of(messages, 9), PLACE, wanted(*names)))
    assert found == [{name: plain(one)[name] for name in names} for one in messages]
    assert list(found[0]) == names


def test_equal_messages_whose_parts_differ() -> None:
    block = encode_user_headers({header_field("k"): header_field("v")})
    payload = b"p" * 10
    messages = numbered(
        [Message(payload, user_headers=block, timestamp=1), Message(payload + block, timestamp=1)],
        0,
    )
    assert messages[0].size_bytes == messages[1].size_bytes
    found = rows(decode_run(run_of(messages), PLACE, wanted("payload", "headers")))
    assert [row["payload"] for row in found] == [payload, payload + block]
    assert [row["headers"] for row in found] == [[("k", b"v")], []]


def test_long_runs_are_cut_into_batches() -> None:
    count = ROWS_MAX * 2 + 5
    messages = numbered([Message(b"x" * (n % 7 + 1), timestamp=1) for n in range(count)], 0)
    batches = decode_run(run_of(messages), PLACE, wanted("offset", "payload"))
    assert [len(batch) for batch in batches] == [ROWS_MAX, ROWS_MAX, 5]
    assert np.array_equal(
        np.concatenate([batch.column("offset").to_numpy() for batch in batches]), np.arange(count)
    )
    assert rows(batches)[-1] == {"offset": count - 1, "payload": messages[-1].payload}


def test_headers_as_structs_keep_their_kinds() -> None:
    block = encode_user_headers({header_field("k"): header_field(True)})
    messages = numbered([Message(b"x", user_headers=block, timestamp=1), Message(b"y")], 0)
    batches = decode_run(run_of(messages), PLACE, wanted(HEADERS, as_structs=True))
    assert batches[0].schema == wanted(HEADERS, as_structs=True)
    pair = {"key": b"k", "key_kind": 2, "value": b"\1", "value_kind": 3}
    assert rows(batches) == [{"headers": [pair]}, {"headers": []}]


def test_a_hole_is_not_passed_over() -> None:
    messages = [Message(b"x", offset=5), Message(b"y", offset=7)]
    with pytest.raises(IggyError, match="offset 7 where 6 should be"):
        decode_run(run_of(messages, 5), PLACE, wanted("payload"))
