"""One lane that this process writes: the machine on a store, with many groups on their way.

Belongs to one event loop. A group is appended without waiting; `ended` is called with its slot and
outcome, those that are STORED in the order of their slots. Puts are repeated until the store says
what became of them, so an outcome may take as long as the store is away.

`lost` is called once: another writer has taken the lane, or the store refuses this one for good.
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Final

from borzoi.cluster.driver import Driver
from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.lane import LaneWriter, Opened, Outcome, Replay, opening
from borzoi.cluster.operations import Listed, ListKeys, Operation
from borzoi.cluster.slots import WRITER_SIZE, Entry
from borzoi.cluster.stores import StoreRefused

TAKEN_OVER: Final = "another node has taken the lane over"
SWEPT_AFTER_S: Final = 3600.0

Ended = Callable[[int, Outcome], None]
Lost = Callable[[str], None]


class LaneLog:
    """The writing end of a lane."""

    def __init__(self, driver: Driver, opened: Opened, ended: Ended, lost: Lost) -> None:
        self._driver = driver
        self._writer = LaneWriter(opened)
        self._ended = ended
        self._lost = lost
        self._is_reported = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_room(self) -> bool:
        """Whether a group may be appended now."""
        return self._writer.has_room

    @property
    def is_idle(self) -> bool:
        """Whether every outcome is known."""
        return self._writer.is_idle

    def append(self, entries: Iterable[Entry]) -> int:
        """Send a group; returns its slot."""
        slot, put = self._writer.append(entries)
        self._start(put)
        return slot

    def next_checkpoint(self) -> Checkpoint | None:
        """The name of a checkpoint of all that is STORED at this moment, None if nothing is new."""
        return self._writer.next_checkpoint()

    async def checkpoint(
        self, name: Checkpoint, body: bytes, pack: bytes, packs: frozenset[Checkpoint]
    ) -> None:
        """Store a checkpoint and free what it covers; one at a time."""
        await self._driver.run(self._writer.checkpointing(name, body, pack, packs))

    async def sweep(self, now_s: float) -> int:
        """Remove what kills have left for an hour by the store's clock; returns how much."""

        def is_old(one: Listed) -> bool:
            return one.modified_s < now_s - SWEPT_AFTER_S

        return await self._driver.run(self._writer.sweeping(is_old))

    def close(self) -> None:
        """End what is on its way; what becomes of it is not said."""
        for task in self._tasks:
            task.cancel()

    def _start(self, operation: Operation) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_out(operation))
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _carry_out(self, operation: Operation) -> None:
        try:
            result = await self._driver.carry_out(operation)
        except StoreRefused as error:
            self._report_lost(str(error))
            return
        step = self._writer.take(operation, result)
        for following in step.operations:
            self._start(following)
        for slot, outcome in step.outcomes:
            self._ended(slot, outcome)
        if isinstance(operation, ListKeys) and self._writer.is_lost:
            # Its groups have their outcomes now.
            self._report_lost(TAKEN_OVER)

    def _report_lost(self, why: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            self._lost(why)


async def open_lane(driver: Driver, lane: int, window: int, replay: Replay) -> Opened:
    """Take a lane over; the replay has its log then. LaneDamaged if it cannot be followed."""
    return await driver.run(opening(lane, window, os.urandom(WRITER_SIZE), replay))
