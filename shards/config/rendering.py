"""The effective configuration as TOML: what runs, readable by people and programs.

A small writer for exactly the shapes that the schema has. Pure. Always: the result parses, reads
back as the same Config, and holds no secret (a set one shows as ******).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from borzoi.shards.config.kinds import TomlValue
from borzoi.shards.config.schema import Config, Table
from borzoi.shards.config.tree import Leaf, SubTable, nodes_of

MASK: Final = "******"

ESCAPES: Final = {ord('"'): '\\"', ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t"} | {
    code: f"\\u{code:04x}" for code in (*range(9), *range(11, 32), 127)
}


def render_toml(
    config: Config,
    *,
    tcp_address: str | None = None,
    http_address: str | None = None,
    quic_address: str | None = None,
    websocket_address: str | None = None,
    metrics_address: str | None = None,
) -> str:
    """The whole configuration. A given address is the one really bound, not the configured."""
    bound = {
        "tcp": tcp_address,
        "http": http_address,
        "quic": quic_address,
        "websocket": websocket_address,
        "metrics": metrics_address,
    }
    return "\n".join(_lines(_with_addresses(config, bound), "")).lstrip() + "\n"


def _with_addresses(config: Config, bound: Mapping[str, str | None]) -> Config:
    changed: dict[str, Any] = {
        name: msgspec.structs.replace(getattr(config, name), address=address)
        for name, address in bound.items()
        if address is not None
    }
    return msgspec.structs.replace(config, **changed)


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
