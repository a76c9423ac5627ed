"""SEND_MESSAGES of SDK 0.1 to 0.8: where the batch goes, and its messages as they are stored.

Up to SDK 0.6, messages follow the target to the end of the payload, without length, count and
index. SDK 0.7 and 0.8 send the envelope of send_messages.py around messages with short heads.
The layouts of messages are drawn in edge_layouts.py. Up to SDK 0.7 ids count from 1.
"""

from typing import TypeVar

from borzoi.protocol.edges import stored_from_old, stored_from_short
from borzoi.protocol.errors import InvalidCommand, InvalidMessagesCount
from borzoi.protocol.identifiers import Identifier, PartitionId, Partitioning
from borzoi.protocol.index_entry import INDEX_ENTRY_SIZE
from borzoi.protocol.older.one_based import from_one
from borzoi.protocol.payload import U32
from borzoi.protocol.send_messages import SendMessages
from borzoi.protocol.send_target import (
    HEAD_SIZE_MAX,
    METADATA_SIZE_MAX,
    METADATA_SIZE_MIN,
    read_head,
    read_target,
)

T = TypeVar("T")


def decode_old_send(payload: memoryview, now: int) -> SendMessages:
    """A send up to SDK 0.6. Its messages do not say when they were made: `now`, in microseconds."""
    stream, topic, partitioning, at = read_target(payload, 0, len(payload))
    target = _from_one(stream, topic, partitioning)
    count, batch = stored_from_old(payload[at:], now)
    return SendMessages(*target, count, memoryview(batch), None)


def decode_hybrid_send(payload: memoryview) -> SendMessages:
    """A send of SDK 0.7."""
    stream, topic, partitioning, count, batch = _decode_short(payload)
    return SendMessages(*_from_one(stream, topic, partitioning), count, batch, None)


def decode_bare_keys_send(payload: memoryview) -> SendMessages:
    """A send of SDK 0.8."""
    return SendMessages(*_decode_short(payload), None)


def find_short_send(
    payload: memoryview, routes: dict[bytes, T]
) -> tuple[T, int, memoryview] | None:
    """A send of SDK 0.7 or 0.8 to a place that is known: what as, message count, stored batch.

    None when it is not known. `routes` is keyed as those of the classic generation.
    """
    if len(payload) <= METADATA_SIZE_MIN:
        return None
    (metadata_size,) = U32.unpack_from(payload)
    if not METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX:
        return None
    route = routes.get(bytes(payload[:metadata_size]))
    if route is None:
        return None
    count, batch = _short_batch(payload, metadata_size, U32.size + metadata_size)
    return route, count, batch


def read_old_head(head: memoryview) -> tuple[Identifier, Identifier, bytes]:
    """Stream and topic of a send up to SDK 0.6; no bytes to remember its place by."""
    stream, topic, _, _ = read_target(head, 0, HEAD_SIZE_MAX)
    return from_one(stream), from_one(topic), b""


def read_hybrid_head(head: memoryview) -> tuple[Identifier, Identifier, bytes]:
    """Stream and topic of a send of SDK 0.7, and the bytes by which its place is remembered."""
    stream, topic, place = read_head(head)
    return from_one(stream), from_one(topic), place


def _from_one(
    stream: Identifier, topic: Identifier, partitioning: Partitioning
) -> tuple[Identifier, Identifier, Partitioning]:
    if isinstance(partitioning, PartitionId):
        # 0 becomes -1, a partition that no topic has.
        partitioning = PartitionId(partitioning.partition_id - 1)
    return from_one(stream), from_one(topic), partitioning


def _decode_short(
    payload: memoryview,
) -> tuple[Identifier, Identifier, Partitioning, int, memoryview]:
    if len(payload) < U32.size:
        raise InvalidCommand("the payload is cut short")
    (metadata_size,) = U32.unpack_from(payload)
    end = U32.size + metadata_size
    if not METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX or end > len(payload):
        raise InvalidCommand(f"metadata of {metadata_size} bytes")
    stream, topic, partitioning, at = read_target(payload, U32.size, end)
    if at + U32.size > end:
        raise InvalidCommand("the metadata has no message count")
    return stream, topic, partitioning, *_short_batch(payload, at, end)


def _short_batch(payload: memoryview, count_at: int, index_at: int) -> tuple[int, memoryview]:
    """Count and stored batch of the messages behind the index."""
    if index_at > len(payload):
        raise InvalidCommand("the metadata is cut short")
    (count,) = U32.unpack_from(payload, count_at)
    start = index_at + count * INDEX_ENTRY_SIZE
    if start > len(payload):
        raise InvalidCommand("the index is cut short")
    if count == 0:
        raise InvalidMessagesCount
    return count, memoryview(stored_from_short(payload[index_at:start], payload[start:], count))
