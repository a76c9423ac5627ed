"""Where a batch of SEND_MESSAGES is to go: stream, topic, partitioning, one after the other.

    stream, topic     kind u8 | length u8 | value
    partitioning      kind u8 | length u8 | value

The statuses differ from all other commands: a bad identifier is always InvalidIdentifier, a bad
partitioning InvalidCommand. Names are not checked for UTF-8; a malformed one is not found.
The compiled loops read the same parts themselves; the tests hold the two against each other.
"""

import struct
from typing import Final

from borzoi.protocol.errors import InvalidCommand, InvalidIdentifier
from borzoi.protocol.identifiers import (
    Balanced,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.payload import (
    BALANCED,
    MESSAGES_KEY,
    NUMERIC,
    NUMERIC_SIZE,
    PARTITION_ID,
    STRING,
    U32,
)

# Of target and message count together, as the first word of a request tells it.
METADATA_SIZE_MIN: Final = 12  # two names of one byte, balanced, the count
METADATA_SIZE_MAX: Final = 775  # two names and a key of 255 bytes each, the count
HEAD_SIZE_MAX: Final = U32.size + METADATA_SIZE_MAX
"""So many bytes of a request say where its batch is to go, in both layouts."""

KIND_AND_LENGTH: Final = struct.Struct("<BB")


def head_place(head: memoryview) -> bytes:
    """The bytes by which the place of a request is remembered, b"" if it cannot be.

    Needs its first HEAD_SIZE_MAX bytes; nothing is checked.
    """
    (metadata_size,) = U32.unpack_from(head)
    if METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX:
        return bytes(head[:metadata_size])
    return b""


def read_head(head: memoryview) -> tuple[Identifier, Identifier, bytes]:
    """Stream and topic of a request, and the bytes by which its place is remembered.

    Needs its first HEAD_SIZE_MAX bytes. Without an index, the bytes to remember are empty.
    """
    (metadata_size,) = U32.unpack_from(head)
    if METADATA_SIZE_MIN <= metadata_size <= METADATA_SIZE_MAX:
        stream, topic, _, _ = read_target(head, U32.size, U32.size + metadata_size)
        return stream, topic, bytes(head[:metadata_size])
    stream, topic, _, _ = read_target(head, 0, HEAD_SIZE_MAX)
    return stream, topic, b""


def read_target(
    view: memoryview, at: int, limit: int
) -> tuple[Identifier, Identifier, Partitioning, int]:
    """Stream, topic and partitioning from `at` on, none beyond `limit`, and where they end."""
    stream, at = _identifier(view, at, limit)
    topic, at = _identifier(view, at, limit)
    partitioning, at = _partitioning(view, at, limit)
    return stream, topic, partitioning, at


def _identifier(view: memoryview, at: int, limit: int) -> tuple[Identifier, int]:
    start = at + KIND_AND_LENGTH.size
    if start > limit:
        raise InvalidIdentifier("an identifier is cut short")
    kind, size = KIND_AND_LENGTH.unpack_from(view, at)
    end = start + size
    if end > limit:
        raise InvalidIdentifier("an identifier is cut short")
    if kind == NUMERIC and size == NUMERIC_SIZE:
        number: int = U32.unpack_from(view, start)[0]
        return number, end
    if kind == STRING and size > 0:
        return str(view[start:end], "utf-8", "surrogateescape"), end
    raise InvalidIdentifier(f"an identifier of kind {kind} with {size} bytes")


def _partitioning(view: memoryview, at: int, limit: int) -> tuple[Partitioning, int]:
    start = at + KIND_AND_LENGTH.size
    if start > limit:
        raise InvalidCommand("the partitioning is cut short")
    kind, size = KIND_AND_LENGTH.unpack_from(view, at)
    end = start + size
    if end > limit:
        raise InvalidCommand("the partitioning is cut short")
    if kind == PARTITION_ID and size == NUMERIC_SIZE:
        return PartitionId(U32.unpack_from(view, start)[0]), end
    if kind == BALANCED and size == 0:
        return Balanced(), end
    if kind == MESSAGES_KEY:
        return MessagesKey(bytes(view[start:end])), end
    raise InvalidCommand(f"a partitioning of kind {kind} with {size} bytes")
