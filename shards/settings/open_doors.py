"""Which doors the configuration switches on, and whether other hosts can log in through them.

A door has the name of its table in the configuration. Pure. Always: a door that is not named here
is not opened, is not shown in the current configuration, and counts for no rule about passwords.
"""

from typing import Final

from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.settings.schema import Config

WITH_LOGIN: Final = ("tcp", "quic", "websocket", "http", "liftbridge")
"""Doors through which a password may come."""

DOORS: Final = (*WITH_LOGIN, "metrics")


def open_doors(config: Config) -> dict[str, str]:
    """The configured addresses of the doors that are switched on."""
    tables = {name: getattr(config, name) for name in DOORS}
    return {name: table.address for name, table in tables.items() if table.enabled}


def is_loopback_only(config: Config) -> bool:
    """Whether only this machine can log in."""
    doors = open_doors(config)
    return all(is_loopback(doors[name]) for name in WITH_LOGIN if name in doors)
