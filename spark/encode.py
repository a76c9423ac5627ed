"""Rows to messages: an Arrow batch becomes batches for partitions, ready to be sent.

Columns, all but the payload optional: `payload` (binary or string), `topic`, `partition` or
`key`, `id` (16 bytes, big-endian, as the source gives it), `origin_timestamp`, `headers`.

Which partition a row goes to depends on the row and its number alone, never on chance, so that a
repeated task sends the same messages to the same partitions, where the broker can recognise
their ids. Keys choose the partition as the broker itself would.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from borzoi.protocol.batch import encode_outgoing
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.headers import (
    HeaderField,
    HeaderKind,
    encode_user_headers,
)
from borzoi.protocol.message import MESSAGE_PAYLOAD_SIZE_MAX, USER_HEADERS_SIZE_MAX, Message
from borzoi.protocol.send_messages import PreparedBatch
from borzoi.spark.failures import InvalidRow

ID_SIZE: Final = 16
ROWS_MAX: Final = 8192  # of one send
ROWS_IN_A_ROW: Final = 1000  # for one partition, before the next one gets as many
BYTES_MAX: Final = 4 * 1024 * 1024  # of one send, unless a single message is larger


class Chunk(NamedTuple):
    """What goes to one partition in one request."""

    partition: int
    prepared: PreparedBatch


def first_id(*seed: object) -> int:
    """Where the ids of a task begin: the same for the same seed, and not 0."""
    return xxhash.xxh3_128_intdigest("\0".join(map(str, seed)).encode()) or 1


def ids_from(first: int, count: int) -> bytes:
    """`count` ids in a row, as the wire has them; numbers wrap around and leave out 0."""
    low_words = 1 << 64
    low = np.arange(count, dtype=np.uint64) + np.uint64(first % low_words)
    carried = low < np.uint64(first % low_words)
    high = np.full(count, first // low_words % low_words, np.uint64) + carried.astype(np.uint64)
    words = np.stack((low, high), axis=1).astype("<u8")
    words[(words == 0).all(axis=1), 1] = 1 << 63
    return words.tobytes()


def chunks_of(
    batch: pa.RecordBatch, partitions_count: int, first: int, number: int, now_us: int
) -> Iterator[Chunk]:
    """The messages of one topic. `first` is the id of the first row, where rows have none.

    `number` is that of the first row; it chooses the partitions of rows that name none.
    """
    partitions = _partitions(batch, partitions_count, number)
    payloads = _payloads(batch)
    ids = ids_from(first, len(batch))
    messages = _messages(batch, payloads)
    if (partitions == partitions[0]).all():
        yield from _cut(int(partitions[0]), messages, ids, now_us)
        return
    order = np.argsort(partitions, kind="stable")
    matrix = np.frombuffer(ids, np.uint8).reshape(-1, ID_SIZE)
    for rows in np.split(order, np.flatnonzero(np.diff(partitions[order])) + 1):
        chosen = [messages[row] for row in rows.tolist()]
        yield from _cut(int(partitions[rows[0]]), chosen, matrix[rows].tobytes(), now_us)


def _cut(
    partition: int, messages: Sequence[bytes | Message], ids: bytes, now_us: int
) -> Iterator[Chunk]:
    start = 0
    size = 0
    for number, message in enumerate(messages):
        added = len(message) if isinstance(message, bytes) else message.size_bytes
        if number - start >= ROWS_MAX or (size + added > BYTES_MAX and number > start):
            yield _chunk(
                partition, messages[start:number], ids[start * ID_SIZE : number * ID_SIZE], now_us
            )
            start, size = number, 0
        size += added
    yield _chunk(partition, messages[start:], ids[start * ID_SIZE :], now_us)


def _chunk(partition: int, messages: Sequence[bytes | Message], ids: bytes, now_us: int) -> Chunk:
    return Chunk(partition, PreparedBatch(len(messages), encode_outgoing(messages, now_us, ids)))


def _payloads(batch: pa.RecordBatch) -> list[bytes]:
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
    payloads: list[bytes] = column.to_pylist()
    return payloads


def _messages(batch: pa.RecordBatch, payloads: list[bytes]) -> Sequence[bytes | Message]:
    """Plain payloads where rows have nothing else, which is much faster to encode."""
    given = set(batch.schema.names) & {"id", "headers", "origin_timestamp"}
    if not given:
        return payloads
    ids = [0] * len(payloads)
    blocks = [b""] * len(payloads)
    times = [0] * len(payloads)
    if "id" in given:
        ids = [_id(value) for value in batch.column("id").to_pylist()]
    if "headers" in given:
        known: dict[tuple[tuple[str, bytes], ...], bytes] = {}
        blocks = [_block(value, known) for value in batch.column("headers").to_pylist()]
    if "origin_timestamp" in given:
        column = batch.column("origin_timestamp").cast(pa.timestamp("us", "UTC"))
        times = [value or 0 for value in column.view(pa.int64()).to_pylist()]
    return [
        Message(payload, id=identity, user_headers=block, origin_timestamp=time_us)
        for payload, identity, block, time_us in zip(payloads, ids, blocks, times, strict=True)
    ]


def _id(value: bytes | None) -> int:
    if value is None:
        return 0
    if len(value) != ID_SIZE:
        raise InvalidRow(f"an id of {len(value)} bytes; {ID_SIZE} are needed")
    return int.from_bytes(value, "big")


def _block(value: Any, known: dict[Any, bytes]) -> bytes:
    """User headers from a map, or from structs with kinds as the source gives them."""
    if not value:
        return b""
    pairs = tuple(tuple(pair.values()) if isinstance(pair, dict) else pair for pair in value)
    block = known.get(pairs)
    if block is None:
        try:
            block = encode_user_headers(dict(map(_header, pairs)))
        except (BrokerError, ValueError) as error:
            raise InvalidRow(f"headers cannot be sent: {error}") from error
        if len(block) > USER_HEADERS_SIZE_MAX:
            raise InvalidRow(f"{len(block)} bytes of headers; at most {USER_HEADERS_SIZE_MAX}")
        known[pairs] = block
    return block


def _header(pair: Sequence[Any]) -> tuple[HeaderField, HeaderField]:
    if len(pair) == 4:
        key, key_kind, value, value_kind = pair
        key_field = HeaderField(HeaderKind(key_kind), key)
        return key_field, HeaderField(HeaderKind(value_kind), value)
    key, value = pair
    if isinstance(value, str):
        return HeaderField(HeaderKind.STRING, key.encode()), HeaderField(
            HeaderKind.STRING, value.encode()
        )
    return HeaderField(HeaderKind.STRING, key.encode()), HeaderField(HeaderKind.RAW, value or b"")


def _partitions(batch: pa.RecordBatch, partitions_count: int, number: int) -> npt.NDArray[np.int64]:
    numbers = np.arange(number, number + len(batch), dtype=np.int64)
    chosen = numbers // ROWS_IN_A_ROW % partitions_count
    if "key" in batch.schema.names:
        keys = batch.column("key").cast(pa.binary()).to_pylist()
        hashed: Mapping[Any, int] = {
            key: xxhash.xxh32_intdigest(key) % partitions_count for key in set(keys) - {None}
        }
        for row, key in enumerate(keys):
            if key is not None:
                chosen[row] = hashed[key]
    if "partition" in batch.schema.names:
        column = batch.column("partition")
        given = column.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        if given.max() >= partitions_count or (given < -1).any():
            raise InvalidRow(
                f"partition {int(given.max() if given.max() >= 0 else given.min())} is not there;"
                f" the topic has {partitions_count}"
            )
        chosen = np.where(given >= 0, given, chosen)
    return chosen
