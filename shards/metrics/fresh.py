"""A value that is made on request, by one task at a time, and kept for a moment.

Always: it is made at most once in that time, however many requests there are. Requests that come
while it is being made wait for the same value. A failure is raised in all of them and not kept.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Fresh(Generic[T]):
    """Owned by the loop."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], kept_s: float) -> None:
        self._make = make
        self._kept_s = kept_s
        self._task: asyncio.Task[T] | None = None
        self._asked_at = 0.0

    async def get(self) -> T:
        """A value that is not older, at its beginning, than it may be; or the one being made."""
        loop = asyncio.get_running_loop()
        if self._task is None or (
            self._task.done() and loop.time() - self._asked_at >= self._kept_s
        ):
            self._asked_at = loop.time()
            self._task = loop.create_task(self._make())
            self._task.add_done_callback(self._made)
        # A request that is cancelled leaves the making to the others.
        return await asyncio.shield(self._task)

    def _made(self, task: asyncio.Task[T]) -> None:
        # To ask for the error is to have seen it: the requests that wait raise it, if there are
        # any.
        if task.cancelled() or task.exception() is not None:
            self._task = None
