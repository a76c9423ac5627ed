"""An event loop turned by hand, so that tests own the clock and the order of things.

It does only what Peers and GroupCommit ask of a loop. One `turn` runs what was scheduled before
it began, then the readers whose descriptor is readable: like the real loop, a callback that
schedules another one is not followed by it in the same turn.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, cast

from tests.readable import readable

TURNS_MAX = 1000


class HandTimer:
    """What call_later returns."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    """Time stands still until `advance` is called."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._soon: list[Callable[[], None]] = []
        self._timers: list[HandTimer] = []
        self._readers: dict[int, Callable[[], None]] = {}

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast(asyncio.AbstractEventLoop, self)

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._soon.append(lambda: callback(*arguments))

    call_soon_threadsafe = call_soon

    def call_later(self, delay: float, callback: Callable[[], None]) -> HandTimer:
        return self.call_at(self.now + delay, callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> HandTimer:
        timer = HandTimer(when, callback)
        self._timers.append(timer)
        return timer

    def add_reader(self, fd: int, callback: Callable[[], None]) -> None:
        self._readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self._readers.pop(fd, None)

    def turn(self) -> bool:
        """One round; False when there was nothing to do."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()
        ready = readable(self._readers)
        for fd, _ in ready:
            self._readers[fd]()
        return bool(soon or ready)

    def settle(self) -> None:
        """Turn until nothing is left to do."""
        for _ in range(TURNS_MAX):
            if not self.turn():
                return
        raise AssertionError(f"still busy after {TURNS_MAX} turns")

    def advance(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end = self.now + seconds
        while due := [one for one in self._timers if one.when <= end]:
            timer = min(due, key=lambda one: one.when)
            self._timers.remove(timer)
            self.now = max(self.now, timer.when)
            if not timer.cancelled:
                timer.callback()
            self.settle()
        self.now = end


class HandExecutor(Executor):
    """Work waits until the test lets the next piece of it run."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], Any]] = []

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append(lambda: work(*args, **kwargs))
        return Future()

    def run_next(self) -> None:
        self.waiting.pop(0)()
