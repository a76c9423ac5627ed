"""Rows to messages, held against the protocol's own decoder."""

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, decode_batch
from borzoi.protocol.headers import header_field
from borzoi.protocol.message import Message
from borzoi.spark.encode import ROWS_IN_A_ROW, ROWS_MAX, Chunk, chunks_of, first_id, ids_from
from borzoi.spark.failures import InvalidRow

NOW = 123


def messages_of(chunk: Chunk) -> list[Message]:
    count, sent = chunk.prepared
    return list(decode_batch(memoryview(sent), count * INDEX_ENTRY_SIZE))


def sent(
    columns: dict[str, object], partitions: int = 1, first: int = 1, number: int = 0
) -> list[tuple[int, Message]]:
    batch = pa.RecordBatch.from_pydict(columns)
    found = chunks_of(batch, partitions, first, number, NOW)
    return [(chunk.partition, message) for chunk in found for message in messages_of(chunk)]


@given(payloads=st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=50))
def test_payloads_arrive_in_order_with_ids_and_time(payloads: list[bytes]) -> None:
    found = [message for _, message in sent({"payload": payloads}, first=100)]
    assert [one.payload for one in found] == payloads
    assert [one.id for one in found] == list(range(100, 100 + len(payloads)))
    assert {one.origin_timestamp for one in found} == {NOW}


@given(first=st.integers(1, 2**128 - 1), count=st.integers(1, 20))
def test_ids_count_up_and_are_never_zero(first: int, count: int) -> None:
    raw = ids_from(first, count)
    found = [int.from_bytes(raw[at : at + 16], "little") for at in range(0, len(raw), 16)]
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
    ids = {message.payload: message.id for _, message in found}
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


def test_sends_are_bounded() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"payload": [b"x"] * (ROWS_MAX + 1), "partition": [0] * (ROWS_MAX + 1)}
    )
    assert [c.prepared.message_count for c in chunks_of(batch, 1, 1, 0, NOW)] == [ROWS_MAX, 1]
    batch = pa.RecordBatch.from_pydict({"payload": [b"x" * 3_000_000] * 3})
    assert [c.prepared.message_count for c in chunks_of(batch, 1, 1, 0, NOW)] == [1, 1, 1]


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
    assert (two.id, two.origin_timestamp, two.user_headers) == (51, NOW, b"")


def test_headers_with_kinds_come_back_as_they_were() -> None:
    pair = {"key": b"k", "key_kind": 2, "value": b"\1", "value_kind": 3}
    [(_, one)] = sent({"payload": [b"a"], "headers": [[pair]]})
    assert one.headers == {header_field("k"): header_field(True)}


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"payload": [b"a", None]}, "a payload is null"),
        ({"payload": [b"a", b""]}, "payloads of 0 to 1 bytes"),
        ({"payload": [b"a"], "partition": [3]}, "partition 3 is not there; the topic has 2"),
        ({"payload": [b"a"], "partition": [-2]}, "partition -2 is not there"),
        ({"payload": [b"a"], "id": [b"short"]}, "an id of 5 bytes"),
        (
            {"payload": [b"a"], "headers": pa.array([[("", b"v")]], pa.map_("string", "binary"))},
            "headers cannot be sent",
        ),
    ],
)
def test_rows_that_cannot_be_messages(columns: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRow, match=says):
        sent(columns, partitions=2)
