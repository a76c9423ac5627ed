"""Whether the ports of a start are free, asked before anything is made or changed.

A port that is taken names its setting and its variable. Always: nothing stays bound. Port 0 is
free, and so is what `iggy-server` shares with the harness that holds it.
"""

import socket
from collections.abc import Mapping
from typing import Final

from borzoi.shards.listening.sockets import check_port_is_free
from borzoi.shards.settings.addresses import parse_address
from borzoi.shards.settings.errors import ConfigError

DATAGRAMS: Final = "quic"
NEVER_SHARED: Final = "metrics"


def check_doors_are_free(doors: Mapping[str, str], *, shares_port: bool) -> None:
    """ConfigError with a sentence for each door that cannot be opened."""
    problems = [
        problem
        for name, address in doors.items()
        if name == NEVER_SHARED or not shares_port
        if (problem := door_problem(name, address)) is not None
    ]
    if problems:
        raise ConfigError(problems)


def cannot_listen(name: str, address: str, error: OSError) -> str:
    """The sentence about a door that cannot be opened."""
    return (
        f"cannot listen on {address}: {error.strerror or error};"
        f" {name}.address or IGGY_{name.upper()}_ADDRESS names another address"
    )


def door_problem(name: str, address: str) -> str | None:
    """Why a door cannot be opened; None if it can."""
    if not parse_address(address).port:
        return None
    kind = socket.SOCK_DGRAM if name == DATAGRAMS else socket.SOCK_STREAM
    try:
        check_port_is_free(address, kind)
    except OSError as error:
        return cannot_listen(name, address, error)
    return None
