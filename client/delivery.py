"""The outcome of a batch, for every message in it: acknowledged, or lost and why."""

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from borzoi.client.outgoing import Sendable
from borzoi.protocol.identifiers import Partitioning


@dataclass(frozen=True, slots=True)
class LostBatch:
    """Messages that were not acknowledged, and why.

    When the cause is a ConnectionClosed or a RequestTimeout they may be there all the same.
    """

    partitioning: Partitioning
    messages: tuple[Sendable, ...]
    cause: Exception


class DeliveryFailed(Exception):
    """Batches were not acknowledged; `batches` has them, in the order in which they were sent."""

    def __init__(self, *batches: LostBatch) -> None:
        count = sum(len(batch.messages) for batch in batches)
        super().__init__(f"{count} messages were not acknowledged: {batches[0].cause}")
        self.batches = batches


class Delivery:
    """Awaiting it returns when the batch is acknowledged, or raises DeliveryFailed.

    One object serves a whole batch, and its future exists only while it is awaited. So a message
    whose outcome is not asked for costs nothing.
    """

    __slots__ = ("_is_settled", "_waiter", "is_watched", "lost")

    def __init__(self) -> None:
        self.lost: LostBatch | None = None
        self.is_watched = False  # a caller got the outcome, or will
        self._is_settled = False
        self._waiter: asyncio.Future[None] | None = None

    def __await__(self) -> Generator[Any, None, None]:
        self.is_watched = True
        yield from self.wait_settled().__await__()
        if self.lost is not None:
            raise DeliveryFailed(self.lost) from self.lost.cause

    def settle(self, lost: LostBatch | None = None) -> None:
        """Notes the outcome and wakes the waiting task. Called once per batch."""
        self.lost = lost
        self._is_settled = True
        if self._waiter is not None:
            self._waiter.set_result(None)

    async def wait_settled(self) -> None:
        """Return when the fate is known, whatever it is."""
        if self._is_settled:
            return
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiter)  # one of several waiters may be cancelled
