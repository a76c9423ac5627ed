"""What every group of calls stands on: the session, and arguments checked before they are sent."""

import time
from collections.abc import Callable
from typing import Any

from borzoi.client.arguments import check_command
from borzoi.client.session import Session
from borzoi.protocol.commands import Command


def now_us() -> int:
    """Returns microseconds since the epoch."""
    return time.time_ns() // 1_000


class Calling:
    """Holds no state but the session; the clock gives messages their origin timestamp."""

    def __init__(self, session: Session, clock_us: Callable[[], int] = now_us) -> None:
        self._session = session
        self._clock_us = clock_us

    async def _ask(self, command: Command) -> Any:
        check_command(command)
        return await self._session.request(command)
