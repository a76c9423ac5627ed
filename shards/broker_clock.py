"""The time of day by which messages expire: the broker's start, and even seconds since then.

Not the wall clock: if that is put forward by a year, by hand or by mistake, nothing expires. The
supervisor notes when it began, so a worker that is restarted after such a jump goes on counting
where the others are.
"""

import time

from borzoi.shards.worker_spec import BrokerStart


class BrokerClock:
    """Microseconds since 1970, for all workers of a run the same."""

    def __init__(self, start: BrokerStart) -> None:
        self._start = start

    def now_us(self) -> int:
        """The time of day."""
        return self._start.wall_us + (time.monotonic_ns() - self._start.monotonic_ns) // 1000
