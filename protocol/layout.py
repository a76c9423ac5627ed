"""Readers and writers of whole classes, made from the kinds of their fields.

A generation of clients is one Layouts. It takes each class as its annotations describe it,
except for what the generation has otherwise:

    fields    of a class: another order, another kind, one more or one less on the wire
    kinds     wherever they occur: say, identifiers that count from 1

Everything else follows, also in classes that contain a changed one. For each class two functions
are written and compiled, on first use; `source` shows them. Numbers side by side are one struct,
so a row of an answer costs one struct call, its texts and its class.
"""

import struct
from collections.abc import Mapping
from functools import partial
from inspect import get_annotations
from itertools import starmap
from typing import Any, Final, TypeAlias

from borzoi.protocol.errors import InvalidFormat
from borzoi.protocol.kinds import (
    Announced,
    Composed,
    Kind,
    Number,
    described,
    pack_items,
    read_items,
    read_to_the_end,
)
from borzoi.protocol.payload import PayloadReader

ADDED_PARTS_MAX: Final = 2
"""More parts of a payload are joined: each addition would copy those before it."""

Fields: TypeAlias = Mapping[str, Any]
"""What travels of a class, in the order of the wire: names, and what described() returns.

A name that the class does not have is a part of the wire only: its kind is read for nothing and
gets None to write."""


def fields_of(layout: type[Any]) -> dict[str, Any]:
    """The fields of a class as it declares them; `fields_of(X) | {"name": kind}` changes one."""
    return {name: described(one) for name, one in get_annotations(layout).items()}


def moved(layout: type[Any], name: str, *, before: str) -> Fields:
    """The fields of a class with one of them at another place of the wire."""
    fields = fields_of(layout)
    one = fields.pop(name)
    names = list(fields)
    names.insert(names.index(before), name)
    return {each: fields.get(each, one) for each in names}


class Layouts:
    """How the classes of commands and answers travel in one generation."""

    def __init__(
        self,
        fields: Mapping[type[Any], Fields] | None = None,
        kinds: Mapping[Kind, Kind] | None = None,
    ) -> None:
        self._fields = fields or {}
        self._kinds = kinds or {}
        self._made: dict[Any, Kind] = {}

    def changed(
        self,
        fields: Mapping[type[Any], Fields] | None = None,
        kinds: Mapping[Kind, Kind] | None = None,
    ) -> "Layouts":
        """The same with other fields for some classes, and others in place of some kinds."""
        return Layouts({**self._fields, **(fields or {})}, {**self._kinds, **(kinds or {})})

    def kind(self, description: Any) -> Kind:
        """How a class, a composed kind or a kind travels in this generation."""
        made = self._made.get(description)
        if made is None:
            made = self._made[description] = self._make(description)
        return made

    def source(self, layout: type[Any]) -> str:
        """The two functions that read and write a class."""
        return self._written(layout).source()

    def _make(self, description: Any) -> Kind:
        if isinstance(description, Kind):
            return self._kinds.get(description, description)
        if isinstance(description, Composed):
            return description.made(self.kind(description.item))
        return self._written(description).compiled()

    def _written(self, layout: type[Any]) -> "_Functions":
        functions = _Functions(layout)
        for name, description in (self._fields.get(layout) or fields_of(layout)).items():
            if isinstance(description, Announced):
                functions.add_announced(name, self.kind(description.item), description)
            else:
                functions.add(name, self.kind(description))
        return functions


class _Functions:
    """The two functions of a class, written field by field, and what they use."""

    def __init__(self, layout: type[Any]) -> None:
        self._layout = layout
        self._members = list(get_annotations(layout))
        self._names: list[str] = []  # in the order of the wire
        self._numbers: dict[str, Number] = {}  # the last ones, not yet written down
        self._rows: list[struct.Struct] = []
        self._reading: list[str] = []
        self._checks: list[str] = []
        self._parts: list[str] = []
        self._uses: dict[str, Any] = {"layout": layout}
        self._size_min = 0

    def add(self, name: str, kind: Kind) -> None:
        self._size_min += kind.size_min
        is_member = name in self._members
        if isinstance(kind, Number) and is_member:
            self._names.append(name)
            self._numbers[name] = kind
            if kind.may_fail:
                self._end_numbers()
            return
        self._end_numbers()
        self._names.append(name)
        self._uses |= {f"read_{name}": kind.read, f"pack_{name}": kind.pack}
        self._reading.append(f"{name} = read_{name}(reader)")
        self._parts.append(f"pack_{name}({f'value.{name}' if is_member else None})")

    def add_announced(self, name: str, item: Kind, announced: Announced) -> None:
        self._end_numbers()
        count = f"{self._names[-1]}.{announced.count}"
        self._names.append(name)
        self._uses |= {"item_of_" + name: item, "pack_items": pack_items}
        if announced.to_the_end:
            self._uses["read_announced"] = _read_announced
            self._reading.append(
                f"{name} = read_announced(item_of_{name}, reader, {count}, {name!r})"
            )
        else:
            self._uses["read_items"] = read_items
            self._reading.append(f"{name} = read_items(item_of_{name}, reader, {count})")
        self._checks.append(f"assert value.{count} == len(value.{name})")
        self._parts.append(f"pack_items(item_of_{name}, value.{name})")

    def source(self) -> str:
        self._end_numbers()
        given = [name for name in self._names if name in self._members]
        if not self._is_in_order():
            given = [f"{name}={name}" for name in given]
        written = " + ".join(self._parts) or 'b""'
        if len(self._parts) > ADDED_PARTS_MAX:
            written = f'b"".join(({", ".join(self._parts)}))'
        lines = ["def read(reader):", *self._reading, f"return layout({', '.join(given)})"]
        lines += ["def pack(value):", *self._checks, f"return {written}"]
        return "\n".join(line if line.startswith("def ") else "    " + line for line in lines)

    def compiled(self) -> Kind:
        functions = self._uses
        exec(compile(self.source(), f"<layout of {self._layout.__name__}>", "exec"), functions)
        made = Kind(functions["read"], functions["pack"], self._size_min)
        if len(self._rows) == len(self._reading) == 1 and self._is_in_order():
            made.row, made.rows = self._rows[0], partial(starmap, self._layout)
        return made

    def _is_in_order(self) -> bool:
        return self._names == self._members[: len(self._names)]

    def _end_numbers(self) -> None:
        if not self._numbers:
            return
        row = struct.Struct("<" + "".join(number.format for number in self._numbers.values()))
        self._rows.append(row)
        which = f"row_{len(self._rows)}"
        self._uses |= {which: row, "pack_" + which: row.pack}
        self._reading.append(f"{', '.join(self._numbers)}, = reader.unpack({which})")
        values = []
        for name, number in self._numbers.items():
            value = f"value.{name}"
            if number.load:
                self._uses["load_" + name] = number.load
                self._reading.append(f"{name} = load_{name}({name})")
            if number.dump:
                self._uses["dump_" + name] = number.dump
                value = f"dump_{name}({value})"
            values.append(value)
        self._parts.append(f"pack_{which}({', '.join(values)})")
        self._numbers = {}


def _read_announced(item: Kind, reader: PayloadReader, count: int, name: str) -> tuple[Any, ...]:
    items = read_to_the_end(item, reader)
    if len(items) != count:
        raise InvalidFormat(f"{len(items)} {name} where {count} were announced")
    return items
