"""Rows to messages, held against the protocol's own decoder."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.batch import decode_batch, sent_index
from borzoi.protocol.headers import header_field
from borzoi.protocol.message import Message
from borzoi.spark.encode import (
    ROWS_IN_A_ROW,
    ROWS_MAX,
    Chunk,
    Numbers,
    chunks_of,
    first_id,
    first_turn,
    ids_of,
)
from borzoi.spark.failures import InvalidRow

NOW = 123


def messages_of(chunk: Chunk) -> list[Message]:
    """What the protocol's own decoder finds, once the index is what it would have made."""
    assert bytes(chunk.entries) == sent_index(chunk.messages, chunk.message_count)
    return list(decode_batch(chunk.messages))


def rows_from(number: int, count: int) -> Numbers:
    return np.arange(number, number + count)


def sent(
    columns: Mapping[str, object],
    partitions: int = 1,
    first: int = 1,
    number: int = 0,
    turn: int = 0,
) -> list[tuple[int, Message]]:
    batch = pa.RecordBatch.from_pydict(dict(columns))
    found = chunks_of(batch, partitions, first, rows_from(number, len(batch)), NOW, turn)
    return [(chunk.partition, message) for chunk in found for message in messages_of(chunk)]


@given(payloads=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=50))
def test_payloads_arrive_in_order_with_ids_and_time(payloads: list[bytes]) -> None:
    found = [message for _, message in sent({"payload": payloads}, first=100)]
    assert [one.payload for one in found] == payloads
    assert [one.id % 2**64 for one in found] == list(range(100, 100 + len(payloads)))
    assert {one.origin_timestamp for one in found} == {NOW}


@given(first=st.integers(1, 2**128 - 1), count=st.integers(1, 20))
def test_ids_count_up_and_are_never_zero(first: int, count: int) -> None:
    words = ids_of(first, rows_from(0, count), np.zeros(count, np.uint64)).tolist()
    found = [low | high << 64 for low, high in words]
    wanted = [(first + number) % 2**128 or 1 << 127 for number in range(count)]
    assert found == wanted


def test_the_same_task_has_the_same_ids_and_another_has_others() -> None:
    assert first_id("q", 1, 0) == first_id("q", 1, 0)
    assert (
        len({first_id("q", 1, 0), first_id("q", 10), first_id("q", 1, 1), first_id("r", 1, 0)}) == 4
    )


def test_keys_choose_as_the_broker_does() -> None:
    keys = [b"a", b"b", None, b"c", b"a"]
    found = sent({"payload": [b"0", b"1", b"2", b"3", b"4"], "key": keys}, partitions=7)
    by_payload = {message.payload: partition for partition, message in found}
    for number, key in enumerate(keys):
        wanted = 0 if key is None else xxhash.xxh32_intdigest(key) % 7
        assert by_payload[b"%d" % number] == wanted
    ids = {message.payload: message.id % 2**64 for _, message in found}
    assert ids == {b"%d" % number: 1 + number for number in range(5)}, "ids follow rows"


def test_partitions_by_column_win_over_keys() -> None:
    columns = {"payload": ["a", "b"], "partition": [2, None], "key": ["k", "k"]}
    found = sent(columns, partitions=3)
    assert sorted((partition, one.payload) for partition, one in found) == sorted(
        [(2, b"a"), (xxhash.xxh32_intdigest(b"k") % 3, b"b")]
    )


def test_rows_without_a_place_are_spread_by_their_number() -> None:
    payloads = [b"x"] * (2 * ROWS_IN_A_ROW)
    found = [partition for partition, _ in sent({"payload": payloads}, partitions=4)]
    assert found == [0] * ROWS_IN_A_ROW + [1] * ROWS_IN_A_ROW
    later = sent({"payload": payloads}, partitions=4, number=ROWS_IN_A_ROW)
    assert [partition for partition, _ in later] == [1] * ROWS_IN_A_ROW + [2] * ROWS_IN_A_ROW


def test_small_batches_do_not_all_go_to_one_partition() -> None:
    turns = [first_turn(("query", number), 0) for number in range(64)]
    found = {sent({"payload": [b"x"]}, partitions=4, turn=turn)[0][0] for turn in turns}
    assert found == {0, 1, 2, 3}
    assert [first_turn(("query", 7), task) - turns[7] for task in range(3)] == [0, 1, 2]
    assert [first_turn(None, task) for task in range(3)] == [0, 1, 2]


def test_rows_are_moved_only_where_few_follow_each_other() -> None:
    """Either way each partition gets its rows in their order."""
    for run, counts in ((1000, [1000, 1000, 1000, 1000]), (100, [2000, 2000])):
        partitions = [number // run % 2 for number in range(4000)]
        batch = pa.RecordBatch.from_pydict(
            {"payload": [b"%d" % number for number in range(4000)], "partition": partitions}
        )
        found = list(chunks_of(batch, 2, 1, rows_from(0, 4000), NOW))
        assert [chunk.message_count for chunk in found] == counts
        for partition in (0, 1):
            numbers = [number for number in range(4000) if partitions[number] == partition]
            got = [m for chunk in found if chunk.partition == partition for m in messages_of(chunk)]
            assert [int(message.payload) for message in got] == numbers
            assert [message.id % 2**64 for message in got] == [number + 1 for number in numbers]


ROWS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=3), st.none() | st.just({"k": b"v"})),
    min_size=1,
    max_size=20,
)


@given(rows=ROWS, data=st.data())
def test_an_id_never_stands_for_two_rows(
    rows: list[tuple[bytes, dict[str, bytes] | None]], data: st.DataObject
) -> None:
    """Or the broker drops one that it has not seen, when a task comes with other rows."""

    def ids(rows: list[tuple[bytes, dict[str, bytes] | None]]) -> dict[int, tuple[bytes, bytes]]:
        kind = pa.map_(pa.string(), pa.binary())
        headers = pa.array([row and list(row.items()) for _, row in rows], kind)
        found = sent({"payload": [payload for payload, _ in rows], "headers": headers}, first=7)
        return {one.id: (one.payload, one.user_headers) for _, one in found}

    before = ids(rows)
    assert len(before) == len(rows)
    assert ids(rows) == before
    others = data.draw(st.permutations(rows) | ROWS)
    assert {one: row for one, row in ids(others).items() if one in before} in ({}, before)


def test_ids_see_where_one_payload_ends() -> None:
    one, two = (
        {message.id for _, message in sent({"payload": payloads})}
        for payloads in ([b"ab", b"c"], [b"a", b"bc"])
    )
    assert not one & two


def test_ids_and_partitions_do_not_depend_on_how_a_task_is_cut() -> None:
    rows = {"payload": [b"%d" % number for number in range(2500)]}
    whole = sent(rows, partitions=3, first=2**64 - 5, turn=1)
    parts = [
        one
        for begin, end in ((0, ROWS_IN_A_ROW), (ROWS_IN_A_ROW, 2500))
        for one in sent(
            {"payload": rows["payload"][begin:end]}, 3, first=2**64 - 5, number=begin, turn=1
        )
    ]
    assert len(whole) == 2500
    by_payload = {one.payload: (partition, one.id) for partition, one in whole}
    assert by_payload == {one.payload: (partition, one.id) for partition, one in parts}
    assert by_payload[b"9"][0] == 1
    assert by_payload[b"9"][1] % 2**64 == 4
    sliced = pa.RecordBatch.from_pydict(rows)[ROWS_IN_A_ROW:]
    found = chunks_of(sliced, 3, 2**64 - 5, rows_from(ROWS_IN_A_ROW, len(sliced)), NOW, 1)
    for chunk in found:
        for one in messages_of(chunk):
            assert by_payload[one.payload] == (chunk.partition, one.id)


def test_sends_are_bounded() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"payload": [b"x"] * (ROWS_MAX + 1), "partition": [0] * (ROWS_MAX + 1)}
    )
    assert counts_of(batch) == [ROWS_MAX, 1]
    assert counts_of(pa.RecordBatch.from_pydict({"payload": [b"x" * 3_000_000] * 3})) == [1, 1, 1]
    assert counts_of(pa.RecordBatch.from_pydict({"payload": [b"x" * 5_000_000] * 2})) == [1, 1]
    assert counts_of(pa.RecordBatch.from_pydict({"payload": [b"x" * 2_000_000] * 3})) == [2, 1]


def counts_of(batch: pa.RecordBatch) -> list[int]:
    found = chunks_of(batch, 1, 1, rows_from(0, len(batch)), NOW)
    return [chunk.message_count for chunk in found]


def test_ids_headers_and_times_from_columns() -> None:
    columns = {
        "payload": pa.array([b"a", b"b"]),
        "id": pa.array([(7).to_bytes(16, "big"), None]),
        "origin_timestamp": pa.array([5, None], pa.timestamp("us", "UTC")),
        "headers": pa.array([[("k", b"v")], None], pa.map_(pa.string(), pa.binary())),
    }
    (_, one), (_, two) = sent(columns, first=50)
    assert (one.id, one.origin_timestamp) == (7, 5)
    assert one.headers == {header_field("k"): header_field(b"v")}
    assert (two.id % 2**64, two.origin_timestamp, two.user_headers) == (51, NOW, b"")


def test_large_types_are_as_good() -> None:
    """With spark.sql.execution.arrow.useLargeVarTypes, Spark has no others."""
    small = {
        "payload": pa.array(["a", "b", "c"]),
        "id": pa.array([None, bytes(range(16)), bytes(16)]),
        "key": pa.array(["k", None, "l"]),
        "headers": pa.array([[("k", "v")], [], None], pa.map_(pa.string(), pa.string())),
    }
    types = {
        "payload": pa.large_string(),
        "id": pa.large_binary(),
        "key": pa.large_string(),
        "headers": pa.map_(pa.large_string(), pa.large_string()),
    }
    large = {name: column.cast(types[name]) for name, column in small.items()}
    assert sent(large, partitions=5) == sent(small, partitions=5)


def test_headers_with_kinds_come_back_as_they_were() -> None:
    pair = {"key": b"k", "key_kind": 2, "value": b"\1", "value_kind": 3}
    [(_, one)] = sent({"payload": [b"a"], "headers": [[pair]]})
    assert one.headers == {header_field("k"): header_field(True)}


HEADERS = st.lists(
    st.none() | st.dictionaries(st.text(min_size=1, max_size=9), st.binary(min_size=1), max_size=4),
    min_size=1,
    max_size=9,
)


@given(headers=HEADERS, as_texts=st.booleans())
def test_headers_of_many_rows(headers: list[dict[str, bytes] | None], as_texts: bool) -> None:
    rows = [
        {key: value.hex() if as_texts else value for key, value in (row or {}).items()}
        for row in headers
    ]
    kind = pa.map_(pa.string(), pa.string() if as_texts else pa.binary())
    given_rows = [None if row is None else list(row.items()) for row in rows]
    column = pa.array([[("before", "x" if as_texts else b"x")], *given_rows], kind)
    sliced = pa.RecordBatch.from_pydict({"payload": ["p"] * len(column), "headers": column})[1:]
    found = chunks_of(sliced, 2, 1, rows_from(995, len(sliced)), NOW)
    messages = [message for chunk in found for message in messages_of(chunk)]
    assert [message.headers for message in messages] == [
        {header_field(key): header_field(value) for key, value in row.items()} for row in rows
    ]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"payload": [b"a", None]}, "a payload is null"),
        ({"payload": [b"a", b""]}, "payloads of 0 to 1 bytes"),
        ({"payload": [b"a"], "partition": [3]}, "partition 3 is not there; the topic has 2"),
        ({"payload": [b"a"], "partition": [-1]}, "partition -1 is not there"),
        ({"payload": [b"a", b"b"], "partition": [1, -2]}, "partition -2 is not there"),
        ({"payload": [b"a"], "id": [b"short"]}, "an id of 5 bytes"),
        (
            {"payload": [b"a"], "headers": pa.array([[("", b"v")]], pa.map_("string", "binary"))},
            "headers cannot be sent",
        ),
        (
            {"payload": [b"a"], "headers": pa.array([[("k", None)]], pa.map_("string", "binary"))},
            "a value of kind 1 with 0 bytes",
        ),
        (
            {
                "payload": [b"a"],
                "headers": [[{"key": b"k", "key_kind": 2, "value": b"ab", "value_kind": 3}]],
            },
            "a value of kind 3 with 2 bytes",
        ),
        (
            {
                "payload": [b"a"],
                "headers": [[{"key": b"k", "key_kind": 16, "value": b"a", "value_kind": 1}]],
            },
            "a key of kind 16",
        ),
        (
            {"payload": [b"a"], "origin_timestamp": pa.array([-1], pa.timestamp("us", "UTC"))},
            "before 1970",
        ),
    ],
)
def test_rows_that_cannot_be_messages(columns: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRow, match=says):
        sent(columns, partitions=2)
