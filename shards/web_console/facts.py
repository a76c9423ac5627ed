"""How this broker is set up: GET /server, for users that may read servers.

Every setting with its default, secrets as stars; what an acknowledgement means; what is worth a
warning. Figures that change are in /stats and in the metrics.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from borzoi import __version__
from borzoi.protocol.codes import Code
from borzoi.protocol.loops import LOOPS
from borzoi.shards.config.documents import MASK
from borzoi.shards.config.not_yet import without_effect
from borzoi.shards.config.tree import Leaf, key_text, values_of
from borzoi.shards.metadata.access import require
from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.settings.open_doors import WITH_LOGIN, open_doors
from borzoi.shards.settings.schema import Config
from borzoi.shards.web_connections.exchange import Exchange

SWITCHED_OFF: Final = (
    ("system.segment.protect_unread", "never", "retention deletes what consumers have not read"),
    ("system.state.enforce_fsync", False, "a power cut may lose streams, topics and users"),
)


class SettingAnswer(msgspec.Struct, frozen=True):
    """A setting as the configuration writes it. A secret that is set is stars."""

    key: str
    value: bool | int | str | list[str]
    default: bool | int | str | list[str]
    is_changed: bool


class ServerAnswer(msgspec.Struct, frozen=True):
    """How the broker is set up."""

    version: str
    durability: str
    protect_unread: str
    loops: str
    data: str
    doors: dict[str, str]
    warnings: list[str]
    settings: list[SettingAnswer]


class ServerFacts:
    """The set-up of this broker. Always: the same answer for as long as it runs."""

    def __init__(self, config: Config, data: str) -> None:
        self._config = config
        self._data = data

    def show(self, one: Exchange) -> ServerAnswer:
        """The answer to a request. Needs the permission to read servers."""
        require(one.services.metadata.refresh(), one.caller.user, Code.GET_STATS)
        system = self._config.system
        return ServerAnswer(
            __version__,
            system.partition.durability,
            system.segment.protect_unread,
            LOOPS,
            self._data,
            dict(one.services.cluster.addresses),
            list(warnings_of(self._config)),
            list(settings_of(self._config)),
        )


def settings_of(config: Config) -> Iterator[SettingAnswer]:
    """All settings, in the order of the schema."""
    defaults = {path: value for path, _, value in values_of(Config())}
    for path, leaf, value in values_of(config):
        if value is None:
            continue
        default = defaults.get(path)
        shown = None if default is None else _shown(leaf, default)
        yield SettingAnswer(
            key_text(path), _shown(leaf, value), "" if shown is None else shown, value != default
        )


def _shown(leaf: Leaf, value: Any) -> Any:
    return MASK if leaf.kind.secret and value else leaf.kind.show(value)


def warnings_of(config: Config) -> Iterator[str]:
    """What the set-up gives up, in words."""
    yield from without_effect(config)
    if LOOPS == "plain":
        yield "the loops over messages are not compiled: install a C compiler and Python's headers"
    for door, address in open_doors(config).items():
        tls = getattr(getattr(config, door), "tls", None)
        if door in WITH_LOGIN and not is_loopback(address) and tls is not None and not tls.enabled:
            yield f"passwords come to the {door} door at {address} in clear: set {door}.tls"
    values = {key_text(path): value for path, _, value in values_of(config)}
    for key, off, cost in SWITCHED_OFF:
        if values[key] == off:
            yield f"{key} = {off!r}: {cost}"
    if config.system.partition.durability == "buffered":
        yield 'system.partition.durability = "buffered": a crash loses acknowledged messages'
