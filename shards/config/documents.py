"""TOML documents and the configuration: read against the schema, and written from it.

Settings are nested dicts that hold only what the document sets, already as values of the schema;
the defaults come in when the Config is built from them. The writer knows exactly the shapes of the
schema. Does no I/O. Always: what render_toml returns parses, reads back as the same Config, and
holds no secret (a set one shows as ******).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from borzoi.shards.config.tree import Leaf, Path, SubTable, key_text, nodes_of
from borzoi.shards.settings.errors import asks_for_protection, nearest
from borzoi.shards.settings.kinds import Kind, TomlValue
from borzoi.shards.settings.schema import Config, Table

Settings = dict[str, Any]
AnyTable = TypeVar("AnyTable", bound=Table)

MASK: Final = "******"
ESCAPES: Final = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"} | {
    code: f"\\u{code:04x}" for code in (*range(9), *range(11, 32), 127)
}


@dataclass
class Findings:
    """What reading complains about. `problems` always stop a boot, `unknown` only a strict one.

    `unprotected` stops it too: unknown names that are nearly those of a protection.
    """

    unknown: list[str] = field(default_factory=list)
    unprotected: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def does_not_know(self, what: str, name: str, guess: str, *, quoted: bool = True) -> None:
        """Notes a name that no setting has, and the nearest one that there is."""
        shown, meant = (repr(name), repr(guess)) if quoted else (name, guess)
        if asks_for_protection(name, guess):
            self.unprotected.append(
                f"unknown {what} {shown}: it would leave something unprotected; {meant} is meant"
            )
        else:
            self.unknown.append(
                f"unknown {what} {shown} is ignored, the nearest known one is {meant}"
            )


def read_document(document: dict[str, object], findings: Findings) -> Settings:
    """The settings in a parsed TOML document. Keys that do not exist are left out and reported."""
    return _read_table(Config, document, (), findings)


def _read_table(
    table: type[Table], document: dict[str, object], path: Path, findings: Findings
) -> Settings:
    nodes = nodes_of(table)
    settings: Settings = {}
    for name, value in document.items():
        here = (*path, name)
        node = nodes.get(name)
        if node is None:
            # One report for an unknown table, not one for each key in it.
            guess = key_text((*path, nearest(name, nodes)))
            what = "table" if isinstance(value, dict) else "key"
            findings.does_not_know(what, key_text(here), guess)
        elif isinstance(node, Leaf):
            try:
                settings[name] = node.kind.read(value)
            except ValueError as error:
                findings.problems.append(complaint(key_text(here), node.kind, value, error))
        elif isinstance(node, SubTable):
            if isinstance(value, dict):
                settings[name] = _read_table(node.table, value, here, findings)
            else:
                findings.problems.append(f"{key_text(here)} is {value!r}: needs a table")
        elif isinstance(value, list) and all(isinstance(element, dict) for element in value):
            settings[name] = [
                _read_table(node.table, element, (*here, index), findings)
                for index, element in enumerate(value)
            ]
        else:
            findings.problems.append(f"{key_text(here)} is {value!r}: needs an array of tables")
    return settings


def complaint(key: str, kind: Kind, value: object, error: ValueError) -> str:
    """The sentence about a value that its kind does not take; secrets are masked."""
    found = MASK if kind.secret else repr(value)
    return f"{key} is {found} ({error}): needs {kind.needs}"


def build_config(settings: Settings, findings: Findings) -> Config | None:
    """Settings over defaults. None, with problems reported, when an array's element lacks a key."""
    return _build(Config, settings, (), findings)


def _build(
    table: type[AnyTable], settings: Settings, path: Path, findings: Findings
) -> AnyTable | None:
    fields: dict[str, Any] = {}
    complete = True
    for name, node in nodes_of(table).items():
        here = (*path, name)
        if name not in settings:
            if isinstance(node, Leaf) and node.required:
                findings.problems.append(f"{key_text(here)} is missing: needs {node.kind.needs}")
                complete = False
        elif isinstance(node, Leaf):
            fields[name] = settings[name]
        elif isinstance(node, SubTable):
            fields[name] = _build(node.table, settings[name], here, findings)
            complete = complete and fields[name] is not None
        else:
            fields[name] = tuple(
                _build(node.table, element, (*here, index), findings)
                for index, element in enumerate(settings[name])
            )
            complete = complete and None not in fields[name]
    return table(**fields) if complete else None


def render_toml(config: Config, bound: Mapping[str, str] | None = None) -> str:
    """The whole configuration. `bound` has the real addresses of doors, by their tables."""
    changed: dict[str, Any] = {
        name: msgspec.structs.replace(getattr(config, name), address=address)
        for name, address in (bound or {}).items()
    }
    shown = msgspec.structs.replace(config, **changed)
    return "\n".join(_lines(shown, "")).lstrip() + "\n"


def _lines(table: Table, path: str) -> Iterator[str]:
    """Values first: after a sub-table's header they would belong to the sub-table."""
    nodes = nodes_of(type(table))
    for name, node in nodes.items():
        value = getattr(table, name)
        if isinstance(node, Leaf) and value is not None:
            shown = MASK if node.kind.secret and value else node.kind.show(value)
            yield f"{name} = {_toml(shown)}"
    for name, node in nodes.items():
        value = getattr(table, name)
        here = f"{path}.{name}" if path else name
        if isinstance(node, SubTable):
            yield from ("", f"[{here}]", *_lines(value, here))
        elif not isinstance(node, Leaf):
            for element in value:
                yield from ("", f"[[{here}]]", *_lines(element, here))


def _toml(value: TomlValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return '"' + value.translate(ESCAPES) + '"'
