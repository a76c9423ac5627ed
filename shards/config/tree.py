"""The shape of the schema: which keys exist, of which kind, under which environment name.

Derived once from the annotations in schema.py; nothing here is written twice. Pure. Always: every
setting has exactly one environment name, and no two settings share one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from borzoi.shards.settings.kinds import Kind, choice
from borzoi.shards.settings.schema import Config, Table

# Elements of an array of tables have their index in the environment name, one digit.
ENV_INDEXES: Final = range(10)

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Leaf:
    """One value. `required` only inside arrays of tables: everything else has a default."""

    kind: Kind
    required: bool


@dataclass(frozen=True)
class SubTable:
    """A table within a table."""

    table: type[Table]


@dataclass(frozen=True)
class TableArray:
    """Any number of tables of one kind."""

    table: type[Table]


Node = Leaf | SubTable | TableArray


@cache
def nodes_of(table: type[Table]) -> dict[str, Node]:
    """What the keys of `table` are, in the order of the schema."""
    hints = get_type_hints(table, include_extras=True)
    return {
        field.name: _node(hints[field.name], required=field.required)
        for field in msgspec.structs.fields(table)
    }


def _node(hint: Any, *, required: bool) -> Node:
    origin = get_origin(hint)
    if origin is Literal:
        return Leaf(choice(*get_args(hint)), required)
    if origin is Annotated:
        return Leaf(next(mark for mark in get_args(hint) if isinstance(mark, Kind)), required)
    if origin in (Union, UnionType):
        return _node(get_args(hint)[0], required=required)
    if origin is tuple:
        return TableArray(get_args(hint)[0])
    assert issubclass(hint, Table), hint
    return SubTable(hint)


def leaf_paths(table: type[Table] = Config, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Every value of the schema; an array of tables appears with the indexes of ENV_INDEXES."""
    for name, node in nodes_of(table).items():
        here = (*path, name)
        if isinstance(node, Leaf):
            yield here, node
        elif isinstance(node, SubTable):
            yield from leaf_paths(node.table, here)
        else:
            for index in ENV_INDEXES:
                yield from leaf_paths(node.table, (*here, index))


@cache
def environment_names() -> dict[str, tuple[Path, Leaf]]:
    """IGGY_... name of every setting."""
    return {environment_name(path): (path, leaf) for path, leaf in leaf_paths()}


def environment_name(path: Path) -> str:
    """The variable of a setting: its path in upper case behind IGGY_."""
    return "_".join(["IGGY", *(str(part).upper() for part in path)])


def key_text(path: Path) -> str:
    """The path as sentences have it, `cluster.node.others[0].ports.tcp`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def values_of(config: Table, path: Path = ()) -> Iterator[tuple[Path, Leaf, Any]]:
    """Every value of `config`, arrays of tables with their real elements."""
    for name, node in nodes_of(type(config)).items():
        here = (*path, name)
        value = getattr(config, name)
        if isinstance(node, Leaf):
            yield here, node, value
        elif isinstance(node, SubTable):
            yield from values_of(value, here)
        else:
            for index, element in enumerate(value):
                yield from values_of(element, (*here, index))
