"""What calls hold in memory: bytes that have come and are not stored, answers that are not sent.

One `CallMemory` is shared by all calls of a shard, by user and before the login by address. A call
that wants more than the share of its user waits, and its connection is not read from meanwhile, so
flow control slows its client down.

Always: what an Allowance has taken is given back when its connection ends.
"""

import asyncio
from typing import Final

from borzoi.shares import Shares

WAIT_TIME_MAX_S: Final = 30.0
"""A call that gets no memory for so long ends."""


class CallMemory:
    """The bytes that all calls of one shard may hold."""

    def __init__(self, size_max: int, weight: int = 1) -> None:
        self.shares = Shares("bytes of Liftbridge calls", size_max, weight)
        self._freed = asyncio.Event()

    def freed(self) -> None:
        """Something was given back: let those that wait look."""
        self._freed.set()

    async def wait(self) -> None:
        """Until something was given back."""
        self._freed.clear()
        await self._freed.wait()


class Allowance:
    """What the calls of one connection hold of it."""

    def __init__(self, memory: CallMemory, taker: str) -> None:
        self._memory = memory
        self._shares = memory.shares
        self._taker = taker
        self._held = 0

    @property
    def is_used_up(self) -> bool:
        """Whether the taker has to wait for more."""
        return not self._shares.allows(self._taker, 1)

    async def hold(self, size: int) -> None:
        """Take so much, as soon as the share allows it. TimeoutError if it does not for long."""
        if not self._shares.take(self._taker, size):
            self._shares.note_wait(self._taker, size)
            async with asyncio.timeout(WAIT_TIME_MAX_S):
                while not self._shares.take(self._taker, size):
                    await self._memory.wait()
        self._held += size

    def hold_anyway(self, size: int) -> None:
        """Take so much in any case: it is there already."""
        self._shares.take_anyway(self._taker, size)
        self._held += size

    def give_back(self, size: int) -> None:
        """So much is not in memory any more. Nothing happens where all was given back."""
        size = min(size, self._held)
        if size:
            self._held -= size
            self._shares.give_back(self._taker, size)
            self._memory.freed()

    def give_back_all(self) -> None:
        """The connection has ended."""
        self.give_back(self._held)

    def count_for(self, taker: str) -> None:
        """Let another taker have what is held: the calls stand for a user now."""
        if taker != self._taker:
            held = self._held
            self.give_back_all()
            self._taker = taker
            if held:
                self.hold_anyway(held)
