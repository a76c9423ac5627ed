"""The one thread of a shard that hashes passwords, and the queue for it.

A hash costs tens of milliseconds of CPU and 19 MiB, so there is never more than one at a time. The
thread yields to the loop: a login may take longer on a busy shard, but sends and polls do not. The
next one is decided by address before the login and by user after it (turns.py); after failed logins
it waits behind others.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple, TypeVar

from borzoi.shards.identity.passwords import hash_password, verify_password
from borzoi.shards.loop.turns import FairTurns, no_handicap

NICENESS: Final = 5
"""Above the loop's, which leaves a third of its weight: on a core that is quite taken a hash takes
four times as long."""

NICENESS_MAX: Final = 19

Result = TypeVar("Result")


def hashing_thread() -> Executor:
    """Where hashing happens: on the worker's core, behind its loop."""

    def lower() -> None:
        # By so much, not to so much: a broker that was started with nice would be refused that.
        thread = threading.get_native_id()
        loops = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(loops + NICENESS, NICENESS_MAX))

    return ThreadPoolExecutor(1, "hashing", initializer=lower)


class Asker(NamedTuple):
    """A session that wants a password hashed, and its place in the queue."""

    taker: str
    is_there: Callable[[], bool]
    rank: Callable[[], int] = no_handicap
    order: Callable[[], int] = no_handicap


class Hashing:
    """Hashes and verifies, one at a time."""

    def __init__(self, thread: Executor, turns: FairTurns) -> None:
        self._thread = thread
        self._turns = turns
        # Stands for users that do not exist. Made before the first login, by the thread that
        # verifies; so it is there in time, and boot does not wait for it.
        self._dummy_hash = thread.submit(hash_password, "no account has this password")

    def turn(self, asker: Asker) -> AbstractAsyncContextManager[None]:
        """Waits for the turn to hash. Disconnected if too many wait, or the asker is gone."""
        return self._turns.turn(
            asker.taker, rank=asker.rank, order=asker.order, is_there=asker.is_there
        )

    async def hash(self, password: str) -> str:
        """The hash of a new password. Within a turn."""
        return await self._run(hash_password, password)

    async def verify(self, stored: str | None, password: str) -> bool:
        """Whether the password is the one of that hash. As slow for no hash. Within a turn."""
        return await self._run(self._verify, stored, password)

    def _verify(self, stored: str | None, password: str) -> bool:
        if stored is None:
            verify_password(self._dummy_hash.result(), password)
            return False
        return verify_password(stored, password)

    async def _run(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)
