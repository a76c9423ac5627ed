"""From callbacks to `await`: for handlers that are not on the hot path."""

import asyncio
from collections.abc import Callable

from borzoi.protocol.errors import error_for
from borzoi.shards.rings.peers import ABANDONED
from borzoi.shards.rings.requests import Done


class Abandoned(Exception):
    """The outcome is unknown (the owner died and is not back): close without a status."""


async def asked(start: Callable[[Done], None]) -> tuple[int, int, int]:
    """Start an operation and wait for its three results; errors are raised."""
    future: asyncio.Future[tuple[int, int, int, int]] = asyncio.get_running_loop().create_future()

    def done(status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
        if not future.done():
            future.set_result((status, first, second, third))

    start(done)
    status, first, second, third = await future
    if status == ABANDONED:
        raise Abandoned
    if status:
        raise error_for(status)
    return first, second, third
