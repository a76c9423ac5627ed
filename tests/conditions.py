"""Waiting in an event loop until a condition of a test holds."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")

TIMEOUT_S = 60.0


async def until(condition: Callable[[], Found], pause_s: float = 0.0) -> Found:
    """Returns the first result of `condition` that is true; raises TimeoutError without one."""
    found = condition()
    async with asyncio.timeout(TIMEOUT_S):
        while not found:
            await asyncio.sleep(pause_s)
            found = condition()
    return found
