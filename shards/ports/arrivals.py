"""`follow` as a port: what waits for messages on one shard, woken when a partition grows.

The board shows the end of every partition to every shard, so nothing is sent to wake a reader. One
timer looks at the partitions that have readers, however many readers these are; without readers it
does not run. In mode buffered the board does not show what is acknowledged: there everything that
waits looks for itself, at a slower pace.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from borzoi.router.target import Target
from borzoi.storage.published import Published

LOOK_INTERVAL_S: Final = 0.01
BUFFERED_INTERVAL_S: Final = 0.1


class Place(NamedTuple):
    """A partition, and the offset whose message ends a wait."""

    target: Target
    next_offset: int


class Arrivals:
    """What waits on this shard, by slot of the board."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        published: Callable[[int], Published],
        *,
        is_buffered: bool,
        before_look: Callable[[], object] = lambda: None,
    ) -> None:
        self._loop = loop
        self._published = published
        self._is_buffered = is_buffered
        self._before_look = before_look
        self._interval_s = BUFFERED_INTERVAL_S if is_buffered else LOOK_INTERVAL_S
        self._waiting: dict[int, dict[asyncio.Future[None], tuple[int, int]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """How many readers wait; one of several partitions counts for each."""
        return sum(map(len, self._waiting.values()))

    def end(self, target: Target) -> int:
        """The offset that the next message of the partition will have, as the board shows it."""
        published = self._published(target.slot)
        return published.next_offset if published.birth == target.birth else 0

    async def wait(self, places: Sequence[Place], time_s: float) -> None:
        """Until one partition has a message at its offset, has another life, or time is over."""
        future = self._loop.create_future()
        for target, next_offset in places:
            self._waiting.setdefault(target.slot, {})[future] = (target.birth, next_offset)
        if self._timer is None and places:
            self._timer = self._loop.call_later(self._interval_s, self._look)
        try:
            await asyncio.wait({future}, timeout=time_s)
        finally:
            for target, _ in places:
                waiters = self._waiting.get(target.slot, {})
                waiters.pop(future, None)
                if not waiters:
                    self._waiting.pop(target.slot, None)

    def wake_all(self) -> None:
        """The shard stops, or what they wait for is in another state."""
        for waiters in self._waiting.values():
            for future in waiters:
                _wake(future)

    def _look(self) -> None:
        self._before_look()
        for slot, waiters in self._waiting.items():
            published = self._published(slot)
            for future, (birth, offset) in waiters.items():
                if (
                    self._is_buffered
                    or published.next_offset > offset
                    or published.birth not in (birth, 0)
                ):
                    _wake(future)
        self._timer = None
        if self._waiting:
            self._timer = self._loop.call_later(self._interval_s, self._look)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
