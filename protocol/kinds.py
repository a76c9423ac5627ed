"""The kinds of fields: how a number, a text, an identifier or a list travels.

A class names a kind for each of its fields by its annotation: `name: name8` is a str whose
length travels in one byte. Annotations that are types of the domain (Identifier, Consumer,
Permissions, an IntEnum, another such class, `X | None`) stand for the kind in NATURAL or below
it. layout.py makes readers and writers of whole classes from that.

Wrong bytes raise as described in payload.py. A kind checks one field; what two fields have to do
with each other is for handlers, with two exceptions: counts and lists, and snapshots of all.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Annotated, Any, Final, TypeAlias

from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.identifiers import U32_MAX, Consumer, Identifier, PollingStrategy
from borzoi.protocol.payload import (
    PRESENT,
    PayloadReader,
    cut_short,
    pack_consumer,
    pack_identifier,
    pack_optional_partition,
    pack_str8,
    pack_str32,
    pack_strategy,
)
from borzoi.protocol.permissions import Permissions, decode_permissions, pack_permissions

Read: TypeAlias = Callable[[PayloadReader], Any]
Pack: TypeAlias = Callable[[Any], bytes]


class Kind:
    """Reads one value and writes it; `size_min` bytes are the least it occupies.

    Values that are nothing but numbers have a `row`, the struct of one of them. Then `rows` makes
    values from what the struct unpacks, without Python code for each.
    """

    __slots__ = ("pack", "read", "row", "rows", "size_min")

    def __init__(self, read: Read, pack: Pack, size_min: int) -> None:
        self.read = read
        self.pack = pack
        self.size_min = size_min
        self.row: struct.Struct | None = None
        self.rows: Callable[[Iterable[tuple[Any, ...]]], Iterable[Any]] = iter


class Number(Kind):
    """One number, by its character in the struct module; neighbours travel in one struct.

    `load` makes the value from the number and `dump` the reverse. A number that `may_fail` ends
    its struct: it is refused before anything is said about the bytes behind it.
    """

    __slots__ = ("dump", "format", "load", "may_fail")

    def __init__(
        self,
        format: str,
        load: Callable[[Any], Any] | None = None,
        dump: Callable[[Any], Any] | None = None,
        may_fail: bool = False,
    ) -> None:
        one = struct.Struct("<" + format)
        number = one.pack
        super().__init__(
            (lambda reader: load(reader.unpack(one)[0]))
            if load
            else (lambda reader: reader.unpack(one)[0]),
            (lambda value: number(dump(value))) if dump else number,
            one.size,
        )
        self.format = format
        self.load = load
        self.dump = dump
        self.may_fail = may_fail
        if load is None:
            self.row, self.rows = one, chain.from_iterable


def enumeration(members: type[IntEnum]) -> Number:
    """One byte that is a member."""
    by_number = {int(member): member for member in members}

    def load(number: int) -> IntEnum:
        member = by_number.get(number)
        if member is None:
            raise InvalidCommand(f"{number} is no {members.__name__}")
        return member

    return Number("B", load, may_fail=True)


def none_as(number: int, format: str) -> Number:
    """A number where one value stands for None."""
    return Number(
        format,
        lambda found: None if found == number else found,
        lambda value: number if value is None else value,
    )


def absent(value: Any) -> Kind:
    """A field that does not travel and always has this value when read."""
    return Kind(lambda _reader: value, lambda _value: b"", 0)


class Composed:
    """A kind made of another one; a generation that changes that one changes this one as well."""

    __slots__ = ("item", "made")

    def __init__(self, item: Any, made: Callable[[Kind], Kind]) -> None:
        self.item = described(item)
        self.made = made


def optional(item: Any, without: bytes = b"\0") -> Composed:
    """A flag, 1 if a value follows; `without` is all that travels for None."""
    present = bytes((PRESENT,))
    return Composed(
        item,
        lambda kind: Kind(
            lambda reader: kind.read(reader) if reader.flag() else None,
            lambda value: without if value is None else present + kind.pack(value),
            1,
        ),
    )


def trailing(item: Any, without: Any) -> Composed:
    """A value that older clients leave out, with all that follows."""
    return Composed(
        item,
        lambda kind: Kind(
            lambda reader: kind.read(reader) if reader.remaining else without, kind.pack, 0
        ),
    )


def listed(item: Any) -> Composed:
    """Items up to the end of the payload."""
    return Composed(
        item,
        lambda kind: Kind(partial(read_to_the_end, kind), partial(pack_items, kind), 0),
    )


def counted(item: Any) -> Composed:
    """A count of four bytes, then so many items."""

    def made(kind: Kind) -> Kind:
        count = U32.pack
        return Kind(
            lambda reader: read_items(kind, reader, reader.u32()),
            lambda items: b"".join((count(len(items)), *map(kind.pack, items))),
            U32.size_min,
        )

    return Composed(item, made)


class Announced:
    """Items whose count stands in the field before this one, under the name `count`.

    With `to_the_end` they are all that follows, and a count that differs is InvalidFormat.
    """

    __slots__ = ("count", "item", "to_the_end")

    def __init__(self, item: Any, count: str, *, to_the_end: bool = False) -> None:
        self.item = described(item)
        self.count = count
        self.to_the_end = to_the_end


def read_items(item: Kind, reader: PayloadReader, count: int) -> tuple[Any, ...]:
    """So many items, one after the other."""
    # Before the loop: a hostile count must not cause four billion rounds.
    reader.require(count * item.size_min)
    if item.row is not None:
        return tuple(item.rows(item.row.iter_unpack(reader.take(count * item.row.size))))
    read = item.read
    return tuple([read(reader) for _ in range(count)])


def read_to_the_end(item: Kind, reader: PayloadReader) -> tuple[Any, ...]:
    """Items up to the end of the payload. InvalidCommand if the last is cut short."""
    if item.row is not None:
        if reader.remaining % item.row.size:
            raise cut_short()
        return tuple(item.rows(item.row.iter_unpack(reader.take(reader.remaining))))
    read, items = item.read, []
    while reader.at < reader.end:
        items.append(read(reader))
    return tuple(items)


def pack_items(item: Kind, items: Iterable[Any]) -> bytes:
    """Items, one after the other; their count is written elsewhere."""
    return b"".join(map(item.pack, items))


def read_blob(reader: PayloadReader) -> bytes:
    """Bytes behind their length."""
    return bytes(reader.take(reader.u32()))


def pack_blob(data: bytes) -> bytes:
    """What read_blob() reads."""
    return U32.pack(len(data)) + data


U32: Final = Number("I")
IDENTIFIER: Final = Kind(PayloadReader.identifier, pack_identifier, 3)
CONSUMER: Final = Kind(PayloadReader.consumer, pack_consumer, 4)
STRATEGY: Final = Kind(PayloadReader.strategy, pack_strategy, 9)
PERMISSIONS: Final = Kind(decode_permissions, pack_permissions, 4)
BOOLEAN: Final = Number("B", bool)  # any byte but zero is true
PARTITION: Final = Kind(PayloadReader.optional_partition, pack_optional_partition, 5)
ID: Final = Number("I")

u8: TypeAlias = Annotated[int, Number("B")]
u16: TypeAlias = Annotated[int, Number("H")]
u32: TypeAlias = Annotated[int, U32]
u64: TypeAlias = Annotated[int, Number("Q")]
f32: TypeAlias = Annotated[float, Number("f")]
name8: TypeAlias = Annotated[str, Kind(PayloadReader.str8, pack_str8, 1)]  # 1 to 255 bytes
text32: TypeAlias = Annotated[str, Kind(PayloadReader.str32, pack_str32, 4)]
blob32: TypeAlias = Annotated[bytes, Kind(read_blob, pack_blob, 4)]  # length u32, bytes
no_options: TypeAlias = Annotated[bytes, absent(b"")]
"""Named values (consensus/options.py), in the generations that have them."""
id32: TypeAlias = Annotated[int, ID]
"""The number of a stream, topic, partition, group or user; other generations count from 1."""
partition: TypeAlias = Annotated[int | None, PARTITION]
"""A partition, or None where the server chooses: flag u8 | id32."""
chosen_id: TypeAlias = Annotated[int | None, absent(None)]
"""The id that a new thing is to have. Only older generations have bytes for it."""
user_or_none: TypeAlias = Annotated[int | None, none_as(U32_MAX, "I")]
time_or_none: TypeAlias = Annotated[int | None, none_as(0, "Q")]

# Types of the domain that have one way to travel.
NATURAL: Final[Mapping[Any, Kind]] = {
    bool: BOOLEAN,
    Identifier: IDENTIFIER,
    Consumer: CONSUMER,
    PollingStrategy: STRATEGY,
    Permissions: PERMISSIONS,
}


def described(annotation: Any) -> Any:
    """What an annotation says about its field: a kind, a composed kind, or a class with fields."""
    if isinstance(annotation, Kind | Composed | Announced):
        return annotation
    if hasattr(annotation, "__metadata__"):
        return annotation.__metadata__[0]
    if annotation in NATURAL:
        return NATURAL[annotation]
    arguments: tuple[Any, ...] = getattr(annotation, "__args__", ())
    if arguments[1:] == (type(None),):
        return optional(arguments[0])
    if isinstance(annotation, type) and issubclass(annotation, IntEnum):
        return enumeration(annotation)
    if arguments or annotation in (int, float, str, bytes):
        raise TypeError(f"{annotation} does not say how it travels")
    return annotation
