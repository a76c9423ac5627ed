"""Values as MessagePack: the form of the metadata log, of its snapshots and of proposals.

A struct or dataclass is a map of its fields, an `array_like` struct an array, bytes stay bytes.
The package msgpack writes and reads the bytes; msgspec compares what was read with the types.
Pure. Always: unpack(pack(value), type(value)) == value, and one value has one form in bytes.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from typing import Any, Final, TypeVar

import msgpack
import msgspec

T = TypeVar("T")

BYTES: Final = (bytes,)
"""Without this msgspec would make text of bytes, and accept text for bytes."""


class NotPacked(Exception):
    """The bytes are no MessagePack, or not of the type that was asked for."""


def pack(value: object) -> bytes:
    """The bytes of a value."""
    # The hook unfolds one object at a time: to_builtins of a whole state takes twice as long, and
    # the objects it leaves behind set off the garbage collector.
    packed: bytes = msgpack.packb(value, default=_unfolded)
    return packed


def unpack(data: bytes, kind: type[T]) -> T:
    """The value in these bytes; NotPacked names what does not fit."""
    return converted(unpacked(data), kind)


def unpacked(data: bytes) -> Any:
    """What the bytes say, as maps and tuples; NotPacked if they are no MessagePack."""
    try:
        return msgpack.unpackb(data, strict_map_key=False, use_list=False)
    except (ValueError, TypeError) as error:  # a TypeError: a map as the key of a map
        raise NotPacked(f"no MessagePack: {error or type(error).__name__}") from error


def converted(plain: object, kind: type[T]) -> T:
    """A value of what unpacked() has returned; NotPacked names the field that does not fit."""
    try:
        return msgspec.convert(plain, kind, builtin_types=BYTES)
    except msgspec.ValidationError as error:
        raise NotPacked(str(error)) from error


def _unfolded(value: Any) -> object:
    return _unfolding(value.__class__)(value)


@cache
def _unfolding(kind: Any) -> Callable[[Any], object]:
    """How one level of such an object becomes a map or a tuple."""
    if not issubclass(kind, msgspec.Struct):
        names = [field.name for field in fields(kind)]
        return lambda value: {name: getattr(value, name) for name in names}
    if kind.__struct_config__.array_like:
        return msgspec.structs.astuple
    if kind.__struct_config__.tag is None:
        return _given
    return partial(msgspec.to_builtins, builtin_types=BYTES)


def _given(value: msgspec.Struct) -> dict[str, object]:
    """The fields of a struct, without those that were never set."""
    fields = msgspec.structs.asdict(value)
    return {name: one for name, one in fields.items() if one is not msgspec.UNSET}
