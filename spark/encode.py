"""Rows to messages: an Arrow batch becomes batches for partitions, ready to be sent.

Columns, all but the payload optional: `payload` (binary or string), `topic`, `partition` or
`key`, `id` (16 bytes, big-endian, as the source gives it), `origin_timestamp`, `headers`.

Which partition a row goes to depends on the row and its number within its task alone. It never
depends on chance or on how Spark cuts a task into batches. The id of a row depends also on the rows
around it, ROWS_IN_A_ROW at a time. These are of one batch, and Spark cuts batches by counting. So a
repeated task sends the same messages to the same partitions, where the broker can recognise their
ids. One whose rows are others, or come in another order, sends other ids. Otherwise the broker
would drop rows that it has never seen. Keys choose the partition as the broker itself would.

There is no loop over rows. Fixed headers are a numpy array. Rows of one partition are brought
together by Arrow's `take` unless many follow each other anyway. Arrow's join of headers, payloads
and user headers has as its memory the messages back to back. A million rows of 200 B cost about 0.1
s. Only keys are hashed one by one, each distinct one once per batch.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from borzoi.protocol.message import (
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    USER_HEADERS_SIZE_MAX,
)
from borzoi.spark.encode_headers import header_blocks
from borzoi.spark.failures import InvalidRow

ID_SIZE: Final = 16
ROWS_MAX: Final = 8192  # of one send
ROWS_IN_A_ROW: Final = 1000  # for one partition, before the next one gets as many
ROWS_WORTH_A_SEND: Final = 500  # on average; moving rows costs more than sends of that many
BYTES_MAX: Final = 4 * 1024 * 1024  # of one send, unless a single message is larger
LOW_WORDS: Final = 1 << 64

# As drawn in protocol/message.py and protocol/batch.py; both are what a client sends.
FIXED: Final = np.dtype(
    [
        ("checksum", "<u8"),
        ("id", "<u8", (2,)),  # the lower word first
        ("offset", "<u8"),
        ("timestamp", "<u8"),
        ("origin_timestamp", "<u8"),
        ("headers_size", "<u4"),
        ("payload_size", "<u4"),
        ("reserved", "<u8"),
    ]
)
ENTRY: Final = np.dtype([("offset", "<u4"), ("end", "<u4"), ("timestamp", "<u8")])
FIXED_ENDS: Final = np.arange(ROWS_MAX + 1, dtype=np.int32) * MESSAGE_HEADER_SIZE

Numbers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]


class Chunk(NamedTuple):
    """What goes to one partition in one request; in memory of its own."""

    partition: int
    message_count: int
    entries: memoryview
    messages: memoryview


def first_id(*seed: object) -> int:
    """Where the ids of a task begin: the same for the same seed, and not 0."""
    return xxhash.xxh3_128_intdigest("\0".join(map(str, seed)).encode()) or 1


def first_turn(seed: tuple[object, ...] | None, task: int) -> int:
    """Tasks begin with different partitions, and so do the batches of a stream, however small."""
    return task if seed is None else first_id(*seed) % LOW_WORDS + task


def ids_of(first: int, numbers: Numbers, contents: Words) -> Words:
    """The id of each row as two words, the lower first; ids wrap around and leave out 0."""
    base = np.uint64(first % LOW_WORDS)
    high = np.uint64(first // LOW_WORDS % LOW_WORDS)
    words = np.empty((len(numbers), 2), np.uint64)
    low = np.add(numbers.astype(np.uint64), base, out=words[:, 0])
    np.add(low < base, high, out=words[:, 1])
    words[:, 1] ^= contents
    words[(low == 0) & (words[:, 1] == 0), 1] = 1 << 63
    return words


def chunks_of(
    batch: pa.RecordBatch,
    partitions_count: int,
    first: int,
    numbers: Numbers,
    now_us: int,
    first_turn: int = 0,
) -> Iterator[Chunk]:
    """The messages of one topic.

    `numbers` are those of the rows within their task. Where rows have none of their own, ids
    begin with `first`, and row 0 goes to the partition whose turn is the first.
    """
    turns = numbers // ROWS_IN_A_ROW + first_turn % partitions_count
    partitions = _partitions(batch, partitions_count, turns)
    payloads = _payloads(batch)
    blocks = header_blocks(batch.column("headers")) if "headers" in batch.schema.names else None
    fixed = np.zeros(len(batch), FIXED)
    fixed["origin_timestamp"] = _origin_times(batch, now_us)
    fixed["payload_size"] = _sizes(payloads)
    if blocks is not None:
        fixed["headers_size"] = _header_sizes(blocks)
    contents = _contents(numbers, payloads, blocks)
    fixed["id"] = _ids(batch, ids_of(first, numbers, contents))
    if _changes(partitions).size * ROWS_WORTH_A_SEND > len(partitions):
        order = np.argsort(partitions, kind="stable")
        partitions, fixed, rows = partitions[order], fixed[order], pa.array(order)
        payloads = payloads.take(rows)
        blocks = blocks.take(rows) if blocks is not None else None
    sizes = fixed["payload_size"].astype(np.int64) + fixed["headers_size"] + MESSAGE_HEADER_SIZE
    ends = np.cumsum(sizes)
    for begin, end in _cuts(partitions, ends):
        columns = [_as_binary(fixed[begin:end]), payloads.slice(begin, end - begin)]
        if blocks is not None:
            columns.append(blocks.slice(begin, end - begin))
        joined = pc.binary_join_element_wise(*columns, b"")
        index = np.zeros(end - begin, ENTRY)
        index["end"] = ends[begin:end] - (ends[begin] - sizes[begin])
        messages = memoryview(joined.buffers()[2])[: int(index["end"][-1])]
        yield Chunk(
            int(partitions[begin]), end - begin, memoryview(index.view(np.uint8).data), messages
        )


def _cuts(partitions: Numbers, ends: Numbers) -> Iterator[tuple[int, int]]:
    """First and last row (exclusive) of each request: rows that follow each other."""
    begin = 0
    bounds = [*_changes(partitions).tolist(), len(partitions)]
    for bound in bounds:
        while begin < bound:
            before = int(ends[begin - 1]) if begin else 0
            fitting = int(np.searchsorted(ends, before + BYTES_MAX, side="right"))
            end = min(max(fitting, begin + 1), begin + ROWS_MAX, bound)
            yield begin, end
            begin = end


def _changes(partitions: Numbers) -> Numbers:
    """The rows that go elsewhere than the row before them."""
    return np.flatnonzero(partitions[1:] != partitions[:-1]) + 1


def _as_binary(fixed: npt.NDArray[np.void]) -> pa.Array:
    ends = pa.py_buffer(FIXED_ENDS[: len(fixed) + 1])
    return pa.BinaryArray.from_buffers(pa.binary(), len(fixed), [None, ends, pa.py_buffer(fixed)])


def _payloads(batch: pa.RecordBatch) -> pa.Array:
    column = batch.column("payload")
    if column.null_count:
        raise InvalidRow("a payload is null; leave such rows out")
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.binary())
    sizes = pc.min_max(pc.binary_length(column)).as_py()
    if sizes["min"] < 1 or sizes["max"] > MESSAGE_PAYLOAD_SIZE_MAX:
        raise InvalidRow(
            f"payloads of {sizes['min']} to {sizes['max']} bytes;"
            f" 1 to {MESSAGE_PAYLOAD_SIZE_MAX} are possible"
        )
    return column


def _sizes(column: pa.Array) -> npt.NDArray[np.int32]:
    sizes: npt.NDArray[np.int32] = pc.binary_length(column).to_numpy(zero_copy_only=False)
    return sizes


def _header_sizes(blocks: pa.Array) -> npt.NDArray[np.int32]:
    sizes = _sizes(blocks)
    if sizes.max() > USER_HEADERS_SIZE_MAX:
        raise InvalidRow(f"{sizes.max()} bytes of headers; at most {USER_HEADERS_SIZE_MAX}")
    return sizes


def _contents(numbers: Numbers, payloads: pa.Array, blocks: pa.Array | None) -> Words:
    """For each row, a digest of the rows that go to one partition in a row with it.

    Of all of them at once, because a call for each costs more than everything else here.
    """
    contents = np.empty(len(numbers), np.uint64)
    edges = np.flatnonzero(np.diff(numbers // ROWS_IN_A_ROW)) + 1
    for begin, end in pairwise([0, *edges.tolist(), len(numbers)]):
        digest = xxhash.xxh3_64()
        for column in (payloads, blocks):
            if column is not None:
                bounds = np.frombuffer(column.buffers()[1], np.int32)
                bounds = bounds[column.offset + begin : column.offset + end + 1]
                digest.update(np.diff(bounds).tobytes())
                if bounds[0] < bounds[-1]:
                    digest.update(memoryview(column.buffers()[2])[bounds[0] : bounds[-1]])
        contents[begin:end] = digest.intdigest()
    return contents


def _ids(batch: pa.RecordBatch, made: Words) -> Words:
    """Those of the rows; the made ones where there are none."""
    if "id" not in batch.schema.names:
        return made
    column = batch.column("id").cast(pa.binary()).fill_null(bytes(ID_SIZE))
    sizes = _sizes(column)
    if (sizes != ID_SIZE).any():
        wrong = int(sizes[np.argmax(sizes != ID_SIZE)])
        raise InvalidRow(f"an id of {wrong} bytes; {ID_SIZE} are needed")
    # All have the same size, so they are the bytes of a matrix, from where this slice begins.
    start, count = column.offset, len(column)
    first = int(np.frombuffer(column.buffers()[1], np.int32)[start])
    raw = np.frombuffer(column.buffers()[2], np.uint8, count * ID_SIZE, first)
    words = np.ascontiguousarray(raw.reshape(count, ID_SIZE)[:, ::-1]).view("<u8")
    return np.where((words == 0).all(axis=1)[:, np.newaxis], made, words)


def _origin_times(batch: pa.RecordBatch, now_us: int) -> npt.NDArray[np.int64]:
    if "origin_timestamp" not in batch.schema.names:
        return np.full(len(batch), now_us, np.int64)
    column = batch.column("origin_timestamp").cast(pa.timestamp("us", "UTC")).view(pa.int64())
    times: Numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    if (times < 0).any():
        raise InvalidRow("an origin_timestamp lies before 1970")
    return np.where(times == 0, now_us, times)


def _partitions(batch: pa.RecordBatch, partitions_count: int, turns: Numbers) -> Numbers:
    """`turns` choose where rows name neither partition nor key."""
    chosen = turns % partitions_count
    if "key" in batch.schema.names:
        keys = batch.column("key").cast(pa.binary()).dictionary_encode()
        hashed = [
            xxhash.xxh32_intdigest(key) % partitions_count for key in keys.dictionary.to_pylist()
        ]
        rows = keys.indices.fill_null(len(hashed)).to_numpy(zero_copy_only=False)
        chosen = np.where(rows == len(hashed), chosen, np.array([*hashed, 0], np.int64)[rows])
    if "partition" in batch.schema.names:
        column = batch.column("partition")
        given = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        wrong = given[(given < 0) | (given >= partitions_count)]
        if wrong.size:
            raise InvalidRow(f"partition {wrong[0]} is not there; the topic has {partitions_count}")
        if column.null_count:
            given = np.where(column.is_null().to_numpy(zero_copy_only=False), chosen, given)
        chosen = given
    return chosen
