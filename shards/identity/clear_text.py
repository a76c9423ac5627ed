"""Secrets in clear: doors without TLS that other hosts reach, and whether one may log in there.

A password or a personal access token that crosses a network in clear can be read and used again by
whatever is between. `limits.plain_login` says what becomes of such a login: a warning when the door
opens, or a refusal of each. An access token of HTTP is accepted: it cannot be got there, and ends
by itself.

Always: a refused login is not looked at. It says nothing of the user, and counts as no failure.
"""

import logging
import time
from typing import Final

from borzoi.protocol.errors import FeatureUnavailable
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.loop.rarely import Rarely
from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.settings.schema import PlainLogin

LOG: Final = logging.getLogger(__name__)


class ClearText:
    """The doors of one shard that are in clear text and can be reached from other hosts."""

    def __init__(self, plain_login: PlainLogin, *, warns: bool = True) -> None:
        """`warns`: one shard speaks for all, which open the same doors."""
        self._refuses = plain_login == "refuse"
        self._warns = warns
        self._open: set[Transport] = set()
        self._rarely = Rarely()

    def opened(self, transport: Transport, address: str, *, encrypted: bool) -> None:
        """A door opens at this address, as the configuration has it."""
        if encrypted or is_loopback(address):
            return
        self._open.add(transport)
        if self._warns and not self._refuses:
            LOG.warning(
                "passwords and personal access tokens come to the %s door at %s in clear: set"
                ' %s.tls, or limits.plain_login = "refuse"',
                *(transport.name, address, _table(transport)),
            )

    def check_login(self, transport: Transport, host: str) -> None:
        """FeatureUnavailable if a secret must not come through this door."""
        if not self._refuses or transport not in self._open:
            return
        if self._rarely.is_due(host, time.monotonic()):
            LOG.warning(
                "refused a login of %s through the %s door, which is in clear: limits.plain_login"
                ' is "refuse"; set %s.tls, or log in from this machine to a door on loopback',
                *(host, transport.name, _table(transport)),
            )
        raise FeatureUnavailable(
            f"a login in clear: limits.plain_login refuses it here, {_table(transport)}.tls allows"
            " it"
        )


def _table(transport: Transport) -> str:
    """The settings of a door."""
    return transport.name.lower()
