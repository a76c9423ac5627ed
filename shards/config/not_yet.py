"""Settings that are understood but whose part of the broker does not exist yet.

A changed one is a warning at the start. Its line goes when the part is built. Pure. Always: a
prefix names a key or a table of the schema (tested).
"""

from __future__ import annotations

from typing import Final

from borzoi.shards.config.documents import MASK
from borzoi.shards.config.tree import Leaf, key_text, values_of
from borzoi.shards.settings.schema import Config

NOT_YET: Final[dict[str, str]] = {
    "http.jwt.trusted_issuers": "tokens of other issuers are not accepted yet",
    "tcp.ipv6": "the family follows the address",
    "quic.max_concurrent_bidi_streams": "a client has 100 streams at a time",
    "quic.datagram_send_buffer_size": "messages come on streams, unreliable datagrams are not used",
    "quic.socket.keepalive": "UDP has none, quic.keep_alive_interval is for that",
    "websocket.read_buffer_size": "requests are read into the receive buffers of all doors",
    "websocket.write_buffer_size": "answers are not buffered",
    "websocket.max_write_buffer_size": "limits.write_timeout and limits.read_rate_min say it",
    "telemetry": "nothing is exported yet",
    "system.backup.compatibility": "data of other servers is not migrated",
    "system.state.max_file_operation_retries": "file operations are not retried",
    "system.state.retry_delay": "file operations are not retried",
    "system.recovery": "missing state is never invented",
}


def without_effect(config: Config) -> tuple[str, ...]:
    """One warning per setting that differs from its default and has no effect."""
    defaults = {path: value for path, _, value in values_of(Config())}
    warnings = []
    for path, leaf, value in values_of(config):
        key = key_text(path)
        reason = _reason(key)
        # Switching off what is not there is no reason to warn.
        if reason is None or value is False or defaults.get(path) == value:
            continue
        warnings.append(f"{key} = {_shown(leaf, value)} has no effect: {reason}")
    return tuple(warnings)


def _reason(key: str) -> str | None:
    for prefix, reason in NOT_YET.items():
        if key == prefix or key.startswith((f"{prefix}.", f"{prefix}[")):
            return reason
    return None


def _shown(leaf: Leaf, value: object) -> str:
    return MASK if leaf.kind.secret else repr(leaf.kind.show(value))
