"""Options: named values that a stream, a topic or a user may be created with.

A block is pairs in the form of user headers (headers.py): kind u8 | length u32 | key, and the same
for the value. It runs to the end of a request, and has its length u32 before it in an answer. Keys
are texts; a key occurs once. Which keys there are is not known here.
"""

from collections.abc import Mapping
from typing import Final

from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidOptionValue,
    OptionsBlockTooLarge,
    UnsupportedOptionKey,
)
from borzoi.protocol.headers import FIELD, FIXED_SIZES, HeaderField, HeaderKind
from borzoi.protocol.kinds import Kind
from borzoi.protocol.payload import PayloadReader

OPTIONS_MAX: Final = 1024
OPTIONS_SIZE_MAX: Final = 100_000
KEY_SHOWN_MAX: Final = 64
"""Characters of a key in an error."""


def read_options(block: bytes | memoryview) -> dict[str, HeaderField]:
    """The values by key; what is no block of options is refused by the key that is wrong."""
    if len(block) > OPTIONS_SIZE_MAX:
        raise OptionsBlockTooLarge(f"{len(block)} bytes of options, {OPTIONS_SIZE_MAX} is the most")
    found: dict[str, HeaderField] = {}
    view = memoryview(block)
    at = 0
    while at < len(view):
        if len(found) == OPTIONS_MAX:
            raise OptionsBlockTooLarge(f"more than {OPTIONS_MAX} options")
        key, at = _key_at(view, at)
        if key in found:
            raise InvalidOptionValue(f"option {shown(key)} is given twice")
        found[key], at = _value_at(view, at, key)
    return found


def pack_options(options: Mapping[str, HeaderField]) -> bytes:
    """A block, its keys in ascending order."""
    parts: list[bytes] = []
    for key, (kind, data) in sorted(options.items()):
        name = key.encode()
        parts += (FIELD.pack(HeaderKind.STRING, len(name)), name, FIELD.pack(kind, len(data)), data)
    return b"".join(parts)


def shown(key: str) -> str:
    """A key as an error names it."""
    return repr(key if len(key) <= KEY_SHOWN_MAX else key[:KEY_SHOWN_MAX] + "...")


def _key_at(view: memoryview, at: int) -> tuple[str, int]:
    kind, data, at = _field_at(view, at)
    if kind != HeaderKind.STRING:
        raise UnsupportedOptionKey(f"an option whose key is of kind {kind}, texts are needed")
    try:
        return data.decode(), at
    except UnicodeDecodeError:
        raise UnsupportedOptionKey(
            f"an option whose key {data[:KEY_SHOWN_MAX]!r} is no text"
        ) from None


def _value_at(view: memoryview, at: int, key: str) -> tuple[HeaderField, int]:
    number, data, at = _field_at(view, at)
    try:
        kind = HeaderKind(number)
    except ValueError:
        raise InvalidOptionValue(f"option {shown(key)} is of the unknown kind {number}") from None
    size = FIXED_SIZES.get(kind, len(data))
    if len(data) != size:
        raise InvalidOptionValue(
            f"option {shown(key)} is a {kind.name} of {len(data)} bytes, {size} are needed"
        )
    return HeaderField(kind, data), at


def _field_at(view: memoryview, at: int) -> tuple[int, bytes, int]:
    start = at + FIELD.size
    if start > len(view):
        raise InvalidCommand("the options are cut short")
    kind, size = FIELD.unpack_from(view, at)
    if start + size > len(view):
        raise InvalidCommand("the options are cut short")
    return kind, bytes(view[start : start + size]), start + size


def _read_to_the_end(reader: PayloadReader) -> bytes:
    block = bytes(reader.take(reader.remaining))
    read_options(block)
    return block


TRAILING_OPTIONS: Final = Kind(_read_to_the_end, bytes, 0)
"""The rest of a request, checked."""
