"""One message as it travels and as it lies on disk: 64 bytes of header, payload, user headers.

     0   checksum u64            XXH3-64 of everything behind this field; 0 while unstamped
     8   id u128                 0 asks the server for a random one
    24   offset u64              given by the server
    32   timestamp u64           given by the server, microseconds, one value per batch
    40   origin_timestamp u64    the client's own clock, kept as it is
    48   user_headers_length u32
    52   payload_length u32
    56   reserved u64            0 once stamped; in a file not if encrypted (plain_seals.py)
    64   payload
     +   user headers            behind the payload

The server works on whole batches in place (batch.py); the Message value is for
clients and tests.
"""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import xxhash

from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.headers import UserHeaders, decode_user_headers, is_header_block

MESSAGE_HEADER: Final = struct.Struct("<Q16sQQQIIQ")
MESSAGE_HEADER_SIZE: Final = MESSAGE_HEADER.size
CHECKSUM_SIZE: Final = 8  # the checksum covers all that follows it

# Where the fields of a header are, as drawn above.
ID_AT: Final = 8
OFFSET_AT: Final = 24
TIMESTAMP_AT: Final = 32
LENGTHS_AT: Final = 48
RESERVED_AT: Final = 56

# Offset, user headers length, payload length. Spans the whole header, so that unpacking also finds
# out whether the header is there at all.
SENT_FIELDS: Final = struct.Struct("<24xQ16xII8x")

MESSAGE_PAYLOAD_SIZE_MAX: Final = 64_000_000
USER_HEADERS_SIZE_MAX: Final = 100_000
STORED_HEADERS_SIZE_MAX: Final = USER_HEADERS_SIZE_MAX + 64
"""In a segment file: an encrypted message keeps its tag and nonce behind the user headers."""

ENCRYPTED_MARK: Final = 1 << 63
"""The bit that the offset of an encrypted message has in a segment file."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message; what the server gives is 0 on the way there. `user_headers` is the raw block."""

    payload: bytes
    id: int = 0
    user_headers: bytes = b""
    origin_timestamp: int = 0
    offset: int = 0
    timestamp: int = 0
    checksum: int = 0

    @property
    def headers(self) -> UserHeaders:
        """The user headers; a block that cannot be read counts as no headers."""
        if not is_header_block(memoryview(self.user_headers)):
            return {}
        return decode_user_headers(self.user_headers)

    @property
    def size_bytes(self) -> int:
        """What the message occupies in a batch or a segment, its header included."""
        return MESSAGE_HEADER_SIZE + len(self.payload) + len(self.user_headers)


def encode_message(message: Message) -> bytes:
    """The message with the fields it has; nothing is stamped."""
    return b"".join(
        (
            MESSAGE_HEADER.pack(
                message.checksum,
                message.id.to_bytes(16, "little"),
                message.offset,
                message.timestamp,
                message.origin_timestamp,
                len(message.user_headers),
                len(message.payload),
                0,
            ),
            message.payload,
            message.user_headers,
        )
    )


def encode_messages(messages: Iterable[Message]) -> bytes:
    """Messages back to back, as encode_message() writes each."""
    return b"".join(map(encode_message, messages))


def decode_message(view: memoryview, at: int = 0) -> Message:
    """The message that begins at `at`; it occupies `size_bytes` bytes."""
    start = at + MESSAGE_HEADER_SIZE
    if start > len(view):
        raise InvalidCommand("a message header is cut short")
    (
        checksum,
        id_bytes,
        offset,
        timestamp,
        origin_timestamp,
        user_headers_length,
        payload_length,
        _reserved,
    ) = MESSAGE_HEADER.unpack_from(view, at)
    middle = start + payload_length
    end = middle + user_headers_length
    if end > len(view):
        raise InvalidCommand("a message is cut short")
    return Message(
        payload=bytes(view[start:middle]),
        id=int.from_bytes(id_bytes, "little"),
        user_headers=bytes(view[middle:end]),
        origin_timestamp=origin_timestamp,
        offset=offset,
        timestamp=timestamp,
        checksum=checksum,
    )


def decode_messages(view: memoryview, at: int = 0) -> Iterator[Message]:
    """Every message from `at` to the end of the view."""
    while at < len(view):
        message = decode_message(view, at)
        yield message
        at += message.size_bytes


def checksum_of(message: memoryview) -> int:
    """What the first field of this whole, already stamped message must hold."""
    return xxhash.xxh3_64_intdigest(message[CHECKSUM_SIZE:])
