"""The one thread of a shard that hashes passwords, and who is next.

A hash costs tens of milliseconds of CPU and 19 MiB, so there is never more than one at a time.
Whoever has failed to log in waits behind everybody who has not; that is looked up when somebody
is chosen, because it changes while they wait. Who has disconnected is passed over.

Always: at most one turn is taken; at most `waiting_max` wait for one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from borzoi.protocol.errors import Disconnected
from borzoi.shards.passwords import hash_password, verify_password

Result = TypeVar("Result")


class Waiting(NamedTuple):
    """Somebody in the queue."""

    rank: Callable[[], int]
    turn: asyncio.Future[None]
    is_there: Callable[[], bool]


class Hashing:
    """Hashes and verifies, one at a time."""

    def __init__(self, thread: Executor, waiting_max: int) -> None:
        self._thread = thread
        self._waiting_max = waiting_max
        self._waiting: list[Waiting] = []
        self._taken = False
        # Stands for users who do not exist. Made before anybody can ask, by the thread that would
        # be asked; so it is there in time, and boot does not wait for it.
        self._dummy_hash = thread.submit(hash_password, "nobody has this password")

    @asynccontextmanager
    async def turn(
        self, rank: Callable[[], int], is_there: Callable[[], bool]
    ) -> AsyncIterator[None]:
        """Wait to be the one who may hash: the lowest rank, then who has waited longest.

        Disconnected if too many wait, or if nobody is there any more.
        """
        if self._taken:
            await self._wait(rank, is_there)
        self._taken = True
        try:
            yield
        finally:
            self._next()

    async def hash(self, password: str) -> str:
        """The hash of a new password. Within a turn."""
        return await self._run(hash_password, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password is the one of that hash. As slow for no hash. Within a turn."""
        return await self._run(self._verify, stored, password)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    async def _wait(self, rank: Callable[[], int], is_there: Callable[[], bool]) -> None:
        if len(self._waiting) >= self._waiting_max:
            self._pass_over_the_gone()
        if len(self._waiting) >= self._waiting_max:
            raise Disconnected(f"{len(self._waiting)} others wait to have a password hashed")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(rank, turn, is_there))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # It was our turn already: hand it on.
                self._next()
            raise

    def _next(self) -> None:
        self._pass_over_the_gone()
        if not self._waiting:
            self._taken = False
            return
        # The first of several that are equal: `min` keeps the order of arrival.
        chosen = min(self._waiting, key=lambda waiting: waiting.rank())
        self._waiting.remove(chosen)
        chosen.turn.set_result(None)

    def _pass_over_the_gone(self) -> None:
        kept = []
        for waiting in self._waiting:
            if waiting.turn.done():
                continue
            if waiting.is_there():
                kept.append(waiting)
            else:
                waiting.turn.set_exception(Disconnected("the client is gone"))
        self._waiting = kept

    def _verify(self, stored: str | None, password: str) -> bool:
        if stored is None:
            verify_password(self._dummy_hash.result(), password)
            return False
        return verify_password(stored, password)

    async def _run(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
