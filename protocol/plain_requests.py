"""The loops over requests in plain Python: what runs where nothing could be compiled.

Names and behaviour are those of the compiled twin, _requests.pyx; callers import neither, but
batch.py. A change here is made there as well, and LOOPS_VERSION (loops.py) raised: the tests run
both, and compare them on random and damaged input.

Per-message Python is what makes a broker slow, so all these loops are written flat: local names,
one struct call for all the fields that are needed.
"""

import struct
from typing import Final, TypeVar

from borzoi.protocol.equal_messages import EqualMessages
from borzoi.protocol.errors import (
    CannotReadIndexPosition,
    InvalidCommand,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.identifiers import Identifier, Partitioning
from borzoi.protocol.index_entry import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.protocol.message import (
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    SENT_FIELDS,
    USER_HEADERS_SIZE_MAX,
)
from borzoi.protocol.payload import U32, U64
from borzoi.protocol.send_target import METADATA_SIZE_MAX, METADATA_SIZE_MIN, read_target

POLL_TAIL: Final = struct.Struct("<BQIB")  # strategy, its value, count, auto-commit

T = TypeVar("T")


def read_sent_batch(
    payload: memoryview, metadata_start: int, metadata_end: int
) -> tuple[Identifier, Identifier, Partitioning, int, int]:
    """The parts of a request with an index, whose metadata lies between these two places.

    Stream, topic, partitioning, message count, and where the messages begin; they are checked.
    """
    if metadata_end > len(payload):
        raise InvalidCommand("the metadata is cut short")
    # Identifiers must not reach into the index.
    stream, topic, partitioning, at = read_target(payload, metadata_start, metadata_end)
    if at + U32.size > metadata_end:
        raise InvalidCommand("the metadata has no message count")
    (message_count,) = U32.unpack_from(payload, at)
    batch_start = metadata_end + message_count * INDEX_ENTRY_SIZE
    if batch_start > len(payload):
        raise InvalidCommand("the index is cut short")
    if message_count == 0:
        raise InvalidMessagesCount
    check_sent_batch(payload[metadata_end:batch_start], payload[batch_start:], message_count)
    return stream, topic, partitioning, message_count, batch_start


def check_sent_batch(  # noqa: C901 - a flat list of checks, in the order of the reference server
    indexes: memoryview, messages: memoryview, message_count: int
) -> None:
    """Raises unless these bytes are `message_count` messages, each where its index entry says.

    `indexes` holds exactly one entry per message. The order of the checks decides which status
    a batch with several faults gets, and is that of the reference server.
    """
    assert len(indexes) == message_count * INDEX_ENTRY_SIZE, "one index entry for each message"
    size = len(messages)
    equal = EqualMessages.find(messages, message_count)
    if equal is not None and equal.is_sent_with(indexes):
        return
    last = message_count - 1
    start = total = header_offset = 0
    read = SENT_FIELDS.unpack_from
    for number, entry in enumerate(INDEX_ENTRY.iter_unpack(indexes)):
        index_offset, position, index_timestamp = entry
        if index_offset:
            raise NonZeroOffset(f"index entry {number} has offset {index_offset}")
        if index_timestamp:
            raise NonZeroTimestamp(f"index entry {number} has timestamp {index_timestamp}")
        # The last message owns all that is left, whatever its entry says.
        end = size if number == last else position
        room = end - start
        if end > size or room < MESSAGE_HEADER_SIZE:
            raise MissingIndex(f"message {number} has no room between {start} and {end}")
        offset, user_headers_length, payload_length = read(messages, start)
        message_size = MESSAGE_HEADER_SIZE + user_headers_length + payload_length
        if message_size > room:
            raise MissingIndex(f"message {number} has {message_size} bytes in room for {room}")
        if payload_length > MESSAGE_PAYLOAD_SIZE_MAX:
            raise TooBigMessagePayload(f"message {number} has {payload_length} bytes of payload")
        if user_headers_length > USER_HEADERS_SIZE_MAX:
            raise TooBigUserHeaders(f"message {number} has {user_headers_length} bytes of headers")
        if offset < header_offset:
            raise InvalidOffset(f"offset {offset} of message {number} follows {header_offset}")
        if position < start:
            raise CannotReadIndexPosition(f"position {position} follows {start}")
        header_offset = offset
        total += message_size
        start = position
    if total != size:
        raise InvalidMessagesSize(f"{total} bytes of messages in a batch of {size}")


def find_send(payload: memoryview, routes: dict[bytes, T]) -> tuple[T, int, int] | None:
    """A send to a place that is known: what it is known as, message count, start of the batch.

    None when it is not known, or not cut like a send with an index: then all of it has to be
    decoded. `routes` is keyed by the first bytes of a request, up to its message count. The
    batch is checked, and its first checksum cleared: it is not stamped yet.
    """
    size = payload.nbytes
    if size <= METADATA_SIZE_MIN:
        return None
    (metadata_size,) = U32.unpack_from(payload)
    index_start = metadata_size + U32.size
    if metadata_size > METADATA_SIZE_MAX or index_start > size:
        return None
    route = routes.get(bytes(payload[:metadata_size]))
    if route is None:
        return None
    (message_count,) = U32.unpack_from(payload, metadata_size)
    batch_start = index_start + message_count * INDEX_ENTRY_SIZE
    if message_count == 0 or batch_start >= size:
        return None
    check_sent_batch(payload[index_start:batch_start], payload[batch_start:], message_count)
    U64.pack_into(payload, batch_start, 0)
    return route, message_count, batch_start


def find_poll(payload: memoryview, routes: dict[bytes, T]) -> tuple[T, int, int, int, int] | None:
    """A poll of a place that is known: what it is known as, and the fields of POLL_TAIL.

    None when it is not known. `routes` is keyed by the bytes of a request before its tail.
    """
    place = payload.nbytes - POLL_TAIL.size
    if place <= 0:
        return None
    route = routes.get(bytes(payload[:place]))
    if route is None:
        return None
    strategy, value, count, auto_commit = POLL_TAIL.unpack_from(payload, place)
    return route, strategy, value, count, auto_commit
