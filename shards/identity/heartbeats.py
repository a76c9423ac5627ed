"""The periodic scan of a shard over its sessions: silent clients leave the registry.

Only PING counts as a sign of life, and connecting counts as the first. A client that is silent for
longer than 1.2 intervals at a scan leaves the registry of clients, and with it its consumer groups.
Its connection stays: plain sends and polls go on, because clients that never ping exist and have
done nothing wrong. What needs a registered client is refused.

Always: no client is evicted between two scans, and the clock of the scans starts with the listener.
Evicting by a timer of each client would be earlier than official clients expect.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from borzoi.shards.identity.clients import Clients, Connected
from borzoi.shards.loop.periodic import Periodic

SILENT_INTERVALS_MAX: Final = 1.2


class Heartbeats:
    """Scans the clients of this shard."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clients: Clients,
        interval_s: float,
        on_evicted: Callable[[Connected], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._interval_s = interval_s
        self._on_evicted = on_evicted
        self._clock = clock
        # Scans stay on their grid; those that a stalled loop has missed are not made up for.
        self._scans = Periodic(loop, interval_s, self._scan, on_grid=True)

    def start(self) -> None:
        """Scan every interval from now on; the first time when one has passed."""
        self._scans.start()

    def _scan(self) -> None:
        silent_since = self._clock() - SILENT_INTERVALS_MAX * self._interval_s
        for session in self._clients.silent(silent_since):
            self._clients.evict(session)
            self._on_evicted(session)
