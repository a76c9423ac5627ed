"""Work that is repeated at an interval, on the worker's loop.

The next interval begins when the work has ended, so two rounds never overlap. On a grid the next
round comes at the next multiple of the interval after the start; rounds that a stalled loop has
missed are not made up for.

An error of the work is not caught here. That of a callback reaches the exception handler of the
loop, which logs it and may end the process; if it does not, the next round comes all the same. That
of a task reaches `Tasks`, and there is no further round.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from borzoi.shards.loop.tasks import Tasks


class Periodic:
    """Calls `work` at each interval, from `start` to `stop`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        work: Callable[[], None],
        *,
        on_grid: bool = False,
    ) -> None:
        self._loop = loop
        self._interval_s = interval_s
        self._work = work
        self._on_grid = on_grid
        self._due_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False

    def start(self) -> None:
        """Begin; the first round comes after one interval. Once begun this changes nothing."""
        if not self._is_running:
            self._is_running = True
            self._due_at = self._loop.time()
            self._schedule()

    def start_at_once(self) -> None:
        """Begin with a round now."""
        assert not self._is_running, "it has begun"
        self._is_running = True
        self._due_at = self._loop.time()
        self._round()

    def stop(self) -> None:
        """Begin no further round; also for the work itself, and before `start` again."""
        self._is_running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        if not self._is_running:
            return
        now = self._loop.time()
        if not self._on_grid:
            self._due_at = now + self._interval_s
        while self._due_at <= now:
            self._due_at += self._interval_s
        self._timer = self._loop.call_at(self._due_at, self._round)

    def _round(self) -> None:
        self._timer = None
        try:
            self._work()
        finally:
            # The work may have stopped the rounds, and even started them again.
            if self._timer is None:
                self._schedule()


class PeriodicTask(Periodic):
    """Runs a coroutine at each interval; the next interval begins when it has ended."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        interval_s: float,
        work: Callable[[], Coroutine[Any, Any, None]],
        tasks: Tasks,
    ) -> None:
        super().__init__(loop, interval_s, lambda: tasks.start(self._run(work)))

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await work()
        self._schedule()

    def _round(self) -> None:
        self._timer = None
        self._work()
