"""User headers of clients up to SDK 0.8, whose keys have no kind.

One pair; a block is pairs back to back, without a count. Today's form (headers.py) has the kind
of the key in front of it, and is the same otherwise:

    key_length u32 | key | value_kind u8 | value_length u32 | value

One bad pair spoils a whole poll for a client that reads it. So pairs are checked in both
directions: a bad one that arrives is refused, and a block with a bad one leaves as no headers.

Keys that are not strings leave as text, by one rule. Integers are decimal, booleans `true` or
`false`, floats as Python writes them. Raw bytes, and strings that are not UTF-8, stay as they are
if they are UTF-8, and are hexadecimal otherwise. A text ends after 255 bytes.
"""

from typing import Final

from borzoi.protocol.errors import (
    BrokerError,
    InvalidCommand,
    InvalidHeaderKey,
    InvalidHeaderValue,
    TooBigUserHeaders,
)
from borzoi.protocol.headers import (
    FIELD,
    HEADER_FIELD_SIZE_MAX,
    HeaderField,
    HeaderKind,
    decode_pairs,
    header_scalar,
    is_well_formed,
)
from borzoi.protocol.message import USER_HEADERS_SIZE_MAX
from borzoi.protocol.payload import U32

KINDS: Final = frozenset(map(int, HeaderKind))
STRING_KEY: Final = bytes((HeaderKind.STRING,))


def keyed_headers(block: memoryview) -> bytes:
    """The block of an older client in today's form."""
    parts: list[bytes | memoryview] = []
    at = 0
    while at < len(block):
        end = _end_of_pair(block, at)
        parts += (STRING_KEY, block[at:end])
        at = end
    keyed = b"".join(parts)
    if len(keyed) > USER_HEADERS_SIZE_MAX:
        raise TooBigUserHeaders(f"{len(keyed)} bytes of headers once their keys have kinds")
    return keyed


def bare_headers(block: memoryview) -> bytes:
    """A stored block as older clients read it; empty when it does not read as user headers."""
    try:
        pairs = list(decode_pairs(block))
    except BrokerError:
        return b""
    parts: list[bytes] = []
    for key, value in pairs:
        text = key_text(key)
        parts += (U32.pack(len(text)), text, FIELD.pack(value.kind, len(value.data)), value.data)
    return b"".join(parts)


def key_text(key: HeaderField) -> bytes:
    """A key of any kind as the text older clients know it by: 1 to 255 bytes of UTF-8."""
    if key.kind in (HeaderKind.RAW, HeaderKind.STRING):
        return key.data if _is_utf8(key.data) else key.data.hex().encode()[:HEADER_FIELD_SIZE_MAX]
    if key.kind == HeaderKind.BOOL:
        return b"true" if header_scalar(key) else b"false"
    return str(header_scalar(key)).encode()


def _end_of_pair(block: memoryview, at: int) -> int:
    key_start = at + U32.size
    if key_start > len(block):
        raise InvalidCommand("a header key is cut short")
    (key_size,) = U32.unpack_from(block, at)
    if not 1 <= key_size <= HEADER_FIELD_SIZE_MAX:
        raise InvalidHeaderKey(f"a header key of {key_size} bytes")
    value_at = key_start + key_size
    value_start = value_at + FIELD.size
    if value_start > len(block):
        raise InvalidCommand("a header is cut short")
    if not _is_utf8(bytes(block[key_start:value_at])):
        raise InvalidHeaderKey("a header key that is not UTF-8")
    kind, size = FIELD.unpack_from(block, value_at)
    if size > len(block) - value_start:
        raise InvalidCommand("a header value is cut short")
    if kind not in KINDS:
        raise InvalidCommand(f"a header value of kind {kind}")
    end: int = value_start + size
    value = HeaderField(HeaderKind(kind), bytes(block[value_start:end]))
    if not is_well_formed(value):
        raise InvalidHeaderValue(f"a {value.kind.name} value with {size} bytes")
    return end


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
