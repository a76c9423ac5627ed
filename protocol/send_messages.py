"""SEND_MESSAGES, the one command whose payload is mostly not for us but for the log.

Real clients send:

    metadata_length u32      of the next four parts, 12 to 775; does not count itself
    stream, topic            identifiers
    partitioning             kind u8 | length u8 | value
    messages_count u32
    index                    per message 0 u32 | its end within the messages u32 | 0 u64
    messages                 to the end of the payload

The public schema page has another, plain layout without length, count and index. There, user
headers may lie before the payload of their message. It is told apart by its first word, which
cannot lie between 12 and 775 unless a stream name begins with two NUL bytes.

The statuses here differ from all other commands: identifiers are 6, other parts are 3, and the
batch has statuses of its own. Names are not checked for UTF-8; a malformed one is not found.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

from borzoi.protocol.batch import (
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    SENT_FIELDS,
    USER_HEADERS_SIZE_MAX,
    check_sent_batch,
    message_start,
)
from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidIdentifier,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.headers import is_header_block
from borzoi.protocol.identifiers import (
    Balanced,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.message import Message, encode_message
from borzoi.protocol.payload import (
    BALANCED,
    MESSAGES_KEY,
    NUMERIC,
    NUMERIC_SIZE,
    PARTITION_ID,
    STRING,
    U32,
    pack_identifier,
    pack_partitioning,
)

METADATA_SIZE_MIN: Final = 12  # two names of one byte, balanced, the count
METADATA_SIZE_MAX: Final = 775  # two names and a key of 255 bytes each, the count
KIND_AND_LENGTH: Final = struct.Struct("<BB")


@dataclass(frozen=True, slots=True)
class SendMessages:
    """A batch for one partition.

    `batch` is the messages back to back, payload before user headers. `batch_start` is where it
    begins inside the request's payload; None when it had to be rebuilt and lies elsewhere.
    """

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    message_count: int
    batch: memoryview
    batch_start: int | None


class PreparedBatch(NamedTuple):
    """Index and messages as they are sent, ready for any partition and any number of sends."""

    message_count: int
    index_and_messages: bytes


def decode_send_messages(payload: memoryview) -> SendMessages:
    if len(payload) < U32.size:
        raise InvalidCommand("the payload is cut short")
    (metadata_size,) = U32.unpack_from(payload)
    if METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX:
        return _decode_indexed(payload, U32.size + metadata_size)
    return _decode_plain(payload)


def prepare_messages(messages: Iterable[Message]) -> PreparedBatch:
    return _prepare([encode_message(message) for message in messages])


def prepare_batch(batch: memoryview, message_count: int) -> PreparedBatch:
    """From messages that already lie back to back."""
    parts = []
    rest = batch
    for _ in range(message_count):
        end = message_start(rest, 1)
        parts.append(bytes(rest[:end]))
        rest = rest[end:]
    return _prepare(parts)


def encode_prepared_messages(
    stream: Identifier, topic: Identifier, partitioning: Partitioning, batch: PreparedBatch
) -> bytes:
    metadata = b"".join(
        (
            pack_identifier(stream),
            pack_identifier(topic),
            pack_partitioning(partitioning),
            U32.pack(batch.message_count),
        )
    )
    return b"".join((U32.pack(len(metadata)), metadata, batch.index_and_messages))


def encode_send_messages(
    stream: Identifier,
    topic: Identifier,
    partitioning: Partitioning,
    messages: Sequence[Message],
) -> bytes:
    return encode_prepared_messages(stream, topic, partitioning, prepare_messages(messages))


def _prepare(messages: list[bytes]) -> PreparedBatch:
    ends = accumulate(map(len, messages))
    index = b"".join([INDEX_ENTRY.pack(0, end, 0) for end in ends])
    return PreparedBatch(len(messages), index + b"".join(messages))


def _decode_indexed(payload: memoryview, metadata_end: int) -> SendMessages:
    if metadata_end > len(payload):
        raise InvalidCommand("the metadata is cut short")
    # Identifiers must not reach into the index, so they are read from the metadata alone.
    metadata = payload[:metadata_end]
    stream, topic, partitioning, at = _target(metadata, U32.size)
    if at + U32.size > metadata_end:
        raise InvalidCommand("the metadata has no message count")
    (message_count,) = U32.unpack_from(metadata, at)
    batch_start = metadata_end + message_count * INDEX_ENTRY_SIZE
    if batch_start > len(payload):
        raise InvalidCommand("the index is cut short")
    if message_count == 0:
        raise InvalidMessagesCount
    batch = payload[batch_start:]
    check_sent_batch(payload[metadata_end:batch_start], batch, message_count)
    return SendMessages(stream, topic, partitioning, message_count, batch, batch_start)


def _decode_plain(payload: memoryview) -> SendMessages:
    stream, topic, partitioning, at = _target(payload, 0)
    message_count, batch = _rebuild(payload[at:])
    return SendMessages(stream, topic, partitioning, message_count, memoryview(batch), None)


def _rebuild(messages: memoryview) -> tuple[int, bytearray]:
    """Count and copy plain messages, each with its payload before its user headers."""
    if not messages:
        raise InvalidMessagesCount
    batch = bytearray(len(messages))
    batch[:] = messages
    start = count = header_offset = 0
    while start < len(messages):
        body = start + MESSAGE_HEADER_SIZE
        if body > len(messages):
            raise InvalidMessagesSize(f"the header of message {count} is cut short")
        offset, user_headers_length, payload_length = SENT_FIELDS.unpack_from(messages, start)
        end = body + user_headers_length + payload_length
        if end > len(messages):
            raise InvalidMessagesSize(f"message {count} is cut short")
        if payload_length > MESSAGE_PAYLOAD_SIZE_MAX:
            raise TooBigMessagePayload(f"message {count} has {payload_length} bytes of payload")
        if user_headers_length > USER_HEADERS_SIZE_MAX:
            raise TooBigUserHeaders(f"message {count} has {user_headers_length} bytes of headers")
        if offset < header_offset:
            raise InvalidOffset(f"offset {offset} of message {count} follows {header_offset}")
        middle = body + user_headers_length
        if user_headers_length and is_header_block(messages[body:middle]):
            batch[body : body + payload_length] = messages[middle:end]
            batch[body + payload_length : end] = messages[body:middle]
        header_offset = offset
        start = end
        count += 1
    return count, batch


def _target(view: memoryview, at: int) -> tuple[Identifier, Identifier, Partitioning, int]:
    stream, at = _identifier(view, at)
    topic, at = _identifier(view, at)
    partitioning, at = _partitioning(view, at)
    return stream, topic, partitioning, at


def _identifier(view: memoryview, at: int) -> tuple[Identifier, int]:
    start = at + KIND_AND_LENGTH.size
    if start > len(view):
        raise InvalidIdentifier("an identifier is cut short")
    kind, size = KIND_AND_LENGTH.unpack_from(view, at)
    end = start + size
    if end > len(view):
        raise InvalidIdentifier("an identifier is cut short")
    if kind == NUMERIC and size == NUMERIC_SIZE:
        number: int = U32.unpack_from(view, start)[0]
        return number, end
    if kind == STRING and size > 0:
        return str(view[start:end], "utf-8", "surrogateescape"), end
    raise InvalidIdentifier(f"an identifier of kind {kind} with {size} bytes")


def _partitioning(view: memoryview, at: int) -> tuple[Partitioning, int]:
    start = at + KIND_AND_LENGTH.size
    if start > len(view):
        raise InvalidCommand("the partitioning is cut short")
    kind, size = KIND_AND_LENGTH.unpack_from(view, at)
    end = start + size
    if end > len(view):
        raise InvalidCommand("the partitioning is cut short")
    if kind == PARTITION_ID and size == NUMERIC_SIZE:
        return PartitionId(U32.unpack_from(view, start)[0]), end
    if kind == BALANCED and size == 0:
        return Balanced(), end
    if kind == MESSAGES_KEY:
        return MessagesKey(bytes(view[start:end])), end
    raise InvalidCommand(f"a partitioning of kind {kind} with {size} bytes")
