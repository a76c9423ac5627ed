"""How late the event loop is: the time by which rounds at an interval come after their due time.

A loop that is late serves every client of the shard late, whatever keeps it. The loop's clock
has milliseconds, so a lag below two of them means nothing.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.tallies.meters import Times, times_of
from borzoi.shards.tallies.plain_meter import CELLS, SUM_AT

INTERVAL_S: Final = 0.25


class LoopLag:
    """Looks four times a second; nothing of it runs for a request."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float = INTERVAL_S,
        clock_ns: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._interval_ns = round(interval_s * 1e9)
        self._clock_ns = clock_ns
        self._cells = [0] * CELLS
        self._last = self._clock_ns()
        self._rounds = Periodic(loop, interval_s, self._look)

    def start(self) -> None:
        """Begin to look."""
        self._last = self._clock_ns()
        self._rounds.start()

    def stop(self) -> None:
        """Look no more."""
        self._rounds.stop()

    def times(self) -> Times:
        """The histogram of all rounds so far."""
        return times_of(self._cells)

    def _look(self) -> None:
        now = self._clock_ns()
        late = max(0, now - self._last - self._interval_ns)
        self._last = now
        self._cells[late.bit_length()] += 1
        self._cells[SUM_AT] += late
