"""User headers: the typed key/value pairs an application may attach to a message.

The server stores the block as it came and never looks inside, with one exception: the plain
layout of SEND_MESSAGES, where a valid block tells on which side of the payload it lies.

One pair; a block is pairs back to back, without a count:

    key_kind u8 | key_length u32 | key | value_kind u8 | value_length u32 | value
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidHeaderKey,
    InvalidHeaderKind,
    InvalidHeaderValue,
)

HEADER_FIELD_SIZE_MAX: Final = 255  # bytes of one key or one value
FIELD: Final = struct.Struct("<BI")  # kind, length


class HeaderKind(IntEnum):
    """The type of a header value, as its first byte says it."""

    RAW = 1
    STRING = 2
    BOOL = 3
    INT8 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    INT128 = 8
    UINT8 = 9
    UINT16 = 10
    UINT32 = 11
    UINT64 = 12
    UINT128 = 13
    FLOAT32 = 14
    FLOAT64 = 15


# Kinds that are not here have any size from 1 to HEADER_FIELD_SIZE_MAX.
FIXED_SIZES: Final[Mapping[HeaderKind, int]] = {
    HeaderKind.BOOL: 1,
    HeaderKind.INT8: 1,
    HeaderKind.INT16: 2,
    HeaderKind.INT32: 4,
    HeaderKind.INT64: 8,
    HeaderKind.INT128: 16,
    HeaderKind.UINT8: 1,
    HeaderKind.UINT16: 2,
    HeaderKind.UINT32: 4,
    HeaderKind.UINT64: 8,
    HeaderKind.UINT128: 16,
    HeaderKind.FLOAT32: 4,
    HeaderKind.FLOAT64: 8,
}
SIGNED: Final = frozenset(
    (HeaderKind.INT8, HeaderKind.INT16, HeaderKind.INT32, HeaderKind.INT64, HeaderKind.INT128)
)
FLOATS: Final[Mapping[HeaderKind, struct.Struct]] = {
    HeaderKind.FLOAT32: struct.Struct("<f"),
    HeaderKind.FLOAT64: struct.Struct("<d"),
}

HeaderScalar = bytes | str | bool | int | float


class HeaderField(NamedTuple):
    """A key or a value: what it is, and its bytes as they travel."""

    kind: HeaderKind
    data: bytes


UserHeaders = dict[HeaderField, HeaderField]


def header_field(value: HeaderScalar, kind: HeaderKind | None = None) -> HeaderField:
    """A Python value as a key or value; without a kind, the natural one of its type."""
    if kind is None:
        kind = _natural_kind(value)
    try:
        data = _scalar_bytes(value, kind)
    except (OverflowError, struct.error) as error:
        raise InvalidHeaderValue(f"{value!r} does not fit {kind.name}") from error
    field = HeaderField(kind, data)
    if not is_well_formed(field):
        raise InvalidHeaderValue(f"{value!r} does not fit {kind.name}")
    return field


def header_scalar(field: HeaderField) -> HeaderScalar:
    """The Python value of a key or value."""
    kind, data = field
    if kind == HeaderKind.RAW:
        return data
    if kind == HeaderKind.STRING:
        return data.decode("utf-8", "replace")
    if kind == HeaderKind.BOOL:
        return data != b"\0"
    if kind in FLOATS:
        value: float = FLOATS[kind].unpack(data)[0]
        return value
    return int.from_bytes(data, "little", signed=kind in SIGNED)


def encode_user_headers(headers: Mapping[HeaderField, HeaderField]) -> bytes:
    """The pairs in the order of the mapping."""
    parts: list[bytes] = []
    for key, value in headers.items():
        if not is_well_formed(key):
            raise InvalidHeaderKey(f"a key of kind {key.kind.name} with {len(key.data)} bytes")
        if not is_well_formed(value):
            raise InvalidHeaderValue(f"a {value.kind.name} value with {len(value.data)} bytes")
        parts += (
            FIELD.pack(key.kind, len(key.data)),
            key.data,
            FIELD.pack(value.kind, len(value.data)),
            value.data,
        )
    return b"".join(parts)


def decode_user_headers(block: bytes | memoryview) -> UserHeaders:
    """The pairs of a block; the last one wins where a key is repeated."""
    return dict(decode_pairs(memoryview(block)))


def decode_pairs(view: memoryview) -> Iterator[tuple[HeaderField, HeaderField]]:
    """The pairs of a block in their order, each checked."""
    at = 0
    while at < len(view):
        key, at = _field_at(view, at)
        if not is_well_formed(key):
            raise InvalidHeaderKey(f"a key of kind {key.kind.name} with {len(key.data)} bytes")
        value, at = _field_at(view, at)
        if not is_well_formed(value):
            raise InvalidHeaderValue(f"a {value.kind.name} value with {len(value.data)} bytes")
        yield key, value


def is_header_block(block: memoryview) -> bool:
    """Whether these bytes read as user headers from their first byte to their last."""
    try:
        decode_user_headers(block)
    except (InvalidCommand, InvalidHeaderKind, InvalidHeaderKey, InvalidHeaderValue):
        return False
    return True


def _field_at(view: memoryview, at: int) -> tuple[HeaderField, int]:
    start = at + FIELD.size
    if start > len(view):
        raise InvalidCommand("the user headers are cut short")
    number, size = FIELD.unpack_from(view, at)
    try:
        kind = HeaderKind(number)
    except ValueError:
        raise InvalidHeaderKind(f"header kind {number}") from None
    if start + size > len(view):
        raise InvalidCommand("the user headers are cut short")
    return HeaderField(kind, bytes(view[start : start + size])), start + size


def is_well_formed(field: HeaderField) -> bool:
    """Whether the kind of a key or value allows so many bytes."""
    fixed = FIXED_SIZES.get(field.kind)
    if fixed is not None:
        return len(field.data) == fixed
    return 1 <= len(field.data) <= HEADER_FIELD_SIZE_MAX


def _natural_kind(value: HeaderScalar) -> HeaderKind:
    match value:
        case bool():  # before int, of which it is a subclass
            return HeaderKind.BOOL
        case bytes():
            return HeaderKind.RAW
        case str():
            return HeaderKind.STRING
        case float():
            return HeaderKind.FLOAT64
        case int():
            return HeaderKind.INT64 if -(2**63) <= value < 2**63 else HeaderKind.INT128


def _scalar_bytes(value: HeaderScalar, kind: HeaderKind) -> bytes:
    match value:
        case bytes() if kind == HeaderKind.RAW:
            return value
        case str() if kind == HeaderKind.STRING:
            return value.encode()
        case bool() if kind == HeaderKind.BOOL:
            return bytes((value,))
        case int() | float() if kind in FLOATS:
            return FLOATS[kind].pack(value)
        case int() if kind in FIXED_SIZES and kind != HeaderKind.BOOL:
            return value.to_bytes(FIXED_SIZES[kind], "little", signed=kind in SIGNED)
        case _:
            raise InvalidHeaderValue(f"{value!r} is no {kind.name}")
