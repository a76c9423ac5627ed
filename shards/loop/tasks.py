"""Coroutines without a caller that awaits them, kept alive and watched."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """Runs requests that take more than one step. A broken invariant ends the worker."""

    def __init__(self, on_broken: Callable[[BaseException], None]) -> None:
        self._on_broken = on_broken
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine to its end."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def drain(self, timeout_s: float) -> None:
        """Wait for what runs; cancel what does not end in time."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=timeout_s)
            for task in late:
                task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_broken(error)
