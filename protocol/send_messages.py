"""SEND_MESSAGES, the one command whose payload is mostly not for us but for the log.

Real clients send:

    metadata_length u32      of the next four parts, 12 to 775; does not count itself
    stream, topic            identifiers
    partitioning             kind u8 | length u8 | value
    messages_count u32
    index                    per message 0 u32 | its end within the messages u32 | 0 u64
    messages                 to the end of the payload

The public schema page has another, plain layout without length, count and index. There, user
headers may lie before the payload of their message. It is recognised by its first word, which
cannot lie between 12 and 775 unless a stream name begins with two NUL bytes.

The statuses here differ from all other commands: identifiers are 6, other parts are 3, and the
batch has statuses of its own.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from borzoi.protocol.batch import (
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    SENT_FIELDS,
    USER_HEADERS_SIZE_MAX,
    encode_batch,
    read_sent_batch,
    sent_index,
)
from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidMessagesCount,
    InvalidMessagesSize,
    InvalidOffset,
    TooBigMessagePayload,
    TooBigUserHeaders,
)
from borzoi.protocol.headers import is_header_block
from borzoi.protocol.identifiers import Identifier, Partitioning
from borzoi.protocol.message import Message
from borzoi.protocol.payload import U32, pack_identifier, pack_partitioning
from borzoi.protocol.send_target import METADATA_SIZE_MAX, METADATA_SIZE_MIN, read_target


class SendMessages(NamedTuple):
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
    """A send in either layout, its batch checked and not copied."""
    if len(payload) < U32.size:
        raise InvalidCommand("the payload is cut short")
    (metadata_size,) = U32.unpack_from(payload)
    if METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX:
        return _decode_indexed(payload, U32.size + metadata_size)
    return _decode_plain(payload)


def prepare_messages(messages: Iterable[Message]) -> PreparedBatch:
    """Messages with their index, encoded once."""
    batch = list(messages)
    return PreparedBatch(len(batch), encode_batch(batch))


def prepare_batch(batch: memoryview, message_count: int) -> PreparedBatch:
    """From messages that already lie back to back."""
    index = sent_index(batch, message_count)
    end = INDEX_ENTRY.unpack_from(index, len(index) - INDEX_ENTRY_SIZE)[1] if index else 0
    return PreparedBatch(message_count, b"".join((index, batch[:end])))


def encode_prepared_messages(
    stream: Identifier, topic: Identifier, partitioning: Partitioning, batch: PreparedBatch
) -> bytes:
    """The payload of a send of a prepared batch, with an index."""
    metadata = b"".join(
        (
            pack_identifier(stream),
            pack_identifier(topic),
            pack_partitioning(partitioning),
            U32.pack(batch.message_count),
        )
    )
    return b"".join((U32.pack(len(metadata)), metadata, batch.index_and_messages))


def encode_sent_messages(command: SendMessages) -> bytes:
    """The payload of a decoded send, with an index in both cases."""
    batch = prepare_batch(command.batch, command.message_count)
    return encode_prepared_messages(command.stream, command.topic, command.partitioning, batch)


def encode_send_messages(
    stream: Identifier,
    topic: Identifier,
    partitioning: Partitioning,
    messages: Sequence[Message],
) -> bytes:
    """The payload of a send of these messages, with an index."""
    return encode_prepared_messages(stream, topic, partitioning, prepare_messages(messages))


def _decode_indexed(payload: memoryview, metadata_end: int) -> SendMessages:
    stream, topic, partitioning, message_count, batch_start = read_sent_batch(
        payload, U32.size, metadata_end
    )
    batch = payload[batch_start:]
    return SendMessages(stream, topic, partitioning, message_count, batch, batch_start)


def _decode_plain(payload: memoryview) -> SendMessages:
    stream, topic, partitioning, at = read_target(payload, 0, len(payload))
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
