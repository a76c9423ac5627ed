"""The loops over messages that arrive in another layout, in plain Python.

Names and behaviour are those of the compiled twin, _arriving.pyx; callers import neither, but
edges.py. The layouts are drawn in edge_layouts.py. What comes out is always a batch as it is
stored (message.py), in memory of its own, not stamped yet: checksum, offset and timestamp are 0,
ids and origin timestamps are those of the client, user headers have today's form.

Everything is checked before anything is returned, and a batch is taken whole or not at all.
"""

from typing import Final, TypeVar

import xxhash

from borzoi.protocol.bare_headers import keyed_headers
from borzoi.protocol.edge_layouts import (
    BATCH_CHECKED,
    BATCH_HEADER,
    BATCH_HEADER_SIZE,
    FRAME_HEADER,
    FRAME_HEADER_SIZE,
    NO_RESERVED,
    OLD_SENT_HEADER,
    SHORT_HEADER,
    SHORT_HEADER_SIZE,
)
from borzoi.protocol.errors import (
    CannotReadIndexPosition,
    InvalidBatchChecksum,
    InvalidCommand,
    InvalidMessageChecksum,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidMessageTimestampDelta,
    InvalidOffset,
    MissingIndex,
    NonZeroOffset,
    NonZeroTimestamp,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.index_entry import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.protocol.message import (
    CHECKSUM_SIZE,
    MESSAGE_HEADER,
    MESSAGE_PAYLOAD_SIZE_MAX,
    USER_HEADERS_SIZE_MAX,
)
from borzoi.protocol.payload import U32
from borzoi.protocol.send_target import METADATA_SIZE_MAX, METADATA_SIZE_MIN

NO_ID: Final = bytes(16)

T = TypeVar("T")


def find_consensus_send(
    payload: memoryview, routes: dict[bytes, T]
) -> tuple[T, int, memoryview] | None:
    """A send to a place that is known: what it is known as, message count, the stored batch.

    None when it is not known, or not cut like a send of this kind: then all of it has to be
    decoded. `routes` is keyed by the first bytes of a request, up to its message count.
    """
    if payload.nbytes <= METADATA_SIZE_MIN:
        return None
    (metadata_size,) = U32.unpack_from(payload)
    batch_start = metadata_size + U32.size
    if metadata_size > METADATA_SIZE_MAX or batch_start > payload.nbytes:
        return None
    route = routes.get(bytes(payload[:metadata_size]))
    if route is None:
        return None
    (message_count,) = U32.unpack_from(payload, metadata_size)
    batch = stored_from_consensus(payload[batch_start:], message_count)
    return route, message_count, memoryview(batch)


def stored_from_consensus(body: memoryview, message_count: int) -> bytearray:
    """The messages of one batch: its header of 256 bytes and `message_count` frames, no more."""
    origin, checked = _batch_header(body, message_count)
    stored = bytearray()
    checksums = [checked]
    at, size = BATCH_HEADER_SIZE, len(body)
    for number in range(message_count):
        start = at + FRAME_HEADER_SIZE
        if start > size:
            raise InvalidMessagesSize(f"the header of message {number} is cut short")
        head = FRAME_HEADER.unpack_from(body, at)
        checksum, id_bytes, offset_delta, timestamp_delta, headers_size, payload_size, rest = head
        _check_sizes(number, headers_size, payload_size, size - start)
        if rest or id_bytes == NO_ID:
            raise InvalidCommand(f"message {number} has no id, or a reserved field that is not 0")
        if offset_delta != number:
            raise InvalidOffset(f"message {number} has offset delta {offset_delta}")
        if timestamp_delta > U64_MAX - origin:
            raise InvalidMessageTimestampDelta(f"message {number} was made after all time")
        end = start + payload_size + headers_size
        if xxhash.xxh3_64_intdigest(body[at + CHECKSUM_SIZE : end]) != checksum:
            raise InvalidMessageChecksum(f"message {number} does not match its checksum")
        checksums.append(bytes(body[at : at + CHECKSUM_SIZE]))
        stored += _header(id_bytes, origin + timestamp_delta, headers_size, payload_size)
        stored += body[start:end]
        at = end
    if at != size:
        raise InvalidMessagesSize(f"{at} bytes of messages in a batch of {size}")
    if xxhash.xxh3_64_intdigest(b"".join(checksums)) != BATCH_HEADER.unpack_from(body)[5]:
        raise InvalidBatchChecksum("the batch does not match its checksum")
    return stored


def _batch_header(body: memoryview, message_count: int) -> tuple[int, bytes]:
    """The origin timestamp, and the part of the header that the batch checksum covers."""
    if len(body) < BATCH_HEADER_SIZE:
        raise InvalidCommand(f"a batch header of {len(body)} bytes, {BATCH_HEADER_SIZE} are needed")
    *places, origin, length, _checksum, count, reserved = BATCH_HEADER.unpack_from(body)
    if count != message_count or not count:
        raise InvalidMessagesCount(f"{count} messages in the batch, {message_count} in the request")
    if length != len(body):
        raise InvalidMessagesSize(f"a batch of {length} bytes in room for {len(body)}")
    if reserved != NO_RESERVED:
        raise InvalidCommand("the reserved bytes of the batch header are not 0")
    if count > (length - BATCH_HEADER_SIZE) // FRAME_HEADER_SIZE:
        raise InvalidMessagesSize(f"{count} messages in a batch of {length} bytes")
    return origin, BATCH_CHECKED.pack(*places, origin, length, count)


def stored_from_old(messages: memoryview, origin_timestamp: int = 0) -> tuple[int, bytearray]:
    """Count and batch of the messages of an old client, which fill these bytes.

    Such clients do not say when a message was made; `origin_timestamp` is set for them.
    """
    stored = bytearray()
    at = count = 0
    while at < len(messages):
        headers_start = at + OLD_SENT_HEADER.size
        if headers_start > len(messages):
            raise InvalidCommand(f"the header of message {count} is cut short")
        id_bytes, headers_size = OLD_SENT_HEADER.unpack_from(messages, at)
        headers_end = headers_start + headers_size
        start = headers_end + U32.size
        if start > len(messages):
            raise InvalidCommand(f"the user headers of message {count} are cut short")
        (payload_size,) = U32.unpack_from(messages, headers_end)
        at = start + payload_size
        if at > len(messages) or payload_size == 0:
            raise InvalidCommand(f"message {count} has no payload, or is cut short")
        _check_limits(count, headers_size, payload_size)
        headers = keyed_headers(messages[headers_start:headers_end])
        stored += _header(id_bytes, origin_timestamp, len(headers), payload_size)
        stored += messages[start:at]
        stored += headers
        count += 1
    if not count:
        raise InvalidMessagesCount
    return count, stored


def stored_from_short(indexes: memoryview, messages: memoryview, message_count: int) -> bytearray:
    """The messages with headers of 56 bytes, each where its index entry says.

    `indexes` holds exactly one entry per message. Checks, their order and statuses are those of
    plain_requests.check_sent_batch(); then come those of the user headers.
    """
    assert len(indexes) == message_count * INDEX_ENTRY_SIZE, "one index entry for each message"
    stored = bytearray()
    size = len(messages)
    start = total = header_offset = 0
    for number, entry in enumerate(INDEX_ENTRY.iter_unpack(indexes)):
        index_offset, position, index_timestamp = entry
        if index_offset:
            raise NonZeroOffset(f"index entry {number} has offset {index_offset}")
        if index_timestamp:
            raise NonZeroTimestamp(f"index entry {number} has timestamp {index_timestamp}")
        # The last message owns all that is left, whatever its entry says.
        end = size if number == message_count - 1 else position
        room = end - start
        if end > size or room < SHORT_HEADER_SIZE:
            raise MissingIndex(f"message {number} has no room between {start} and {end}")
        head = SHORT_HEADER.unpack_from(messages, start)
        _checksum, id_bytes, offset, _timestamp, origin, headers_size, payload_size = head
        message_size = SHORT_HEADER_SIZE + headers_size + payload_size
        if message_size > room:
            raise MissingIndex(f"message {number} has {message_size} bytes in room for {room}")
        _check_limits(number, headers_size, payload_size)
        if offset < header_offset:
            raise InvalidOffset(f"offset {offset} of message {number} follows {header_offset}")
        if position < start:
            raise CannotReadIndexPosition(f"position {position} follows {start}")
        middle = start + SHORT_HEADER_SIZE + payload_size
        headers = keyed_headers(messages[middle : middle + headers_size])
        stored += _header(id_bytes, origin, len(headers), payload_size)
        stored += messages[start + SHORT_HEADER_SIZE : middle]
        stored += headers
        header_offset = offset
        total += message_size
        start = position
    if total != size:
        raise InvalidMessagesSize(f"{total} bytes of messages in a batch of {size}")
    return stored


def _check_sizes(number: int, headers_size: int, payload_size: int, room: int) -> None:
    if headers_size + payload_size > room:
        raise InvalidMessagesSize(f"message {number} is cut short")
    _check_limits(number, headers_size, payload_size)


def _check_limits(number: int, headers_size: int, payload_size: int) -> None:
    if payload_size > MESSAGE_PAYLOAD_SIZE_MAX:
        raise TooBigMessagePayload(f"message {number} has {payload_size} bytes of payload")
    if headers_size > USER_HEADERS_SIZE_MAX:
        raise TooBigUserHeaders(f"message {number} has {headers_size} bytes of headers")


def _header(id_bytes: bytes, origin: int, headers_size: int, payload_size: int) -> bytes:
    return MESSAGE_HEADER.pack(0, id_bytes, 0, 0, origin, headers_size, payload_size, 0)
