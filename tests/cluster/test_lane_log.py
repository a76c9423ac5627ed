"""The writing end of a lane, on a directory and on a bucket."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from borzoi.cluster.driver import Driver
from borzoi.cluster.lane import Outcome
from borzoi.cluster.lane_log import TAKEN_OVER, LaneLog, open_lane
from borzoi.cluster.operations import PutResult
from borzoi.cluster.replay import LaneReplay, LifeKey
from borzoi.cluster.slots import Entry, EntryKind
from borzoi.cluster.stores import DirectorySlots, SlotStore, StoreRefused
from tests.cluster.test_stores import MakeStore, new_store

__all__ = ["new_store"]


class Writer:
    """A lane that is open, and what became of its groups."""

    def __init__(self, store: SlotStore) -> None:
        self.driver = Driver(store)
        self.replay = LaneReplay(0)
        self.ended: list[tuple[int, Outcome]] = []
        self.lost: list[str] = []
        self.changed = asyncio.Event()

    async def open(self) -> None:
        opened = await open_lane(self.driver, 0, 4, self.replay)
        self.log = LaneLog(self.driver, opened, self._ended, self._lost)

    def _ended(self, slot: int, outcome: Outcome) -> None:
        self.ended.append((slot, outcome))
        self.changed.set()

    def _lost(self, why: str) -> None:
        self.lost.append(why)
        self.changed.set()

    def append(self, first: int) -> int:
        return self.log.append([Entry(EntryKind.BATCH, 1, 1, first, 1, 0, first, body=b"x")])

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def test_groups_are_stored_in_order_and_read_back(new_store: MakeStore) -> None:
    async def run() -> None:
        writer = Writer(new_store())
        await writer.open()
        slots = [writer.append(number) for number in range(4)]
        assert not writer.log.has_room
        await writer.until(lambda: len(writer.ended) == 4)
        assert writer.ended == [(slot, Outcome.STORED) for slot in slots]
        assert (writer.log.has_room, writer.log.is_idle) == (True, True)
        reader = Writer(new_store())
        await reader.open()
        assert reader.replay.lives[LifeKey(1, 1)].next_offset == 4

    asyncio.run(run())


def test_a_writer_that_is_taken_over_hears_it_once_and_loses_nothing(new_store: MakeStore) -> None:
    async def run() -> None:
        first, second = Writer(new_store()), Writer(new_store())
        await first.open()
        first.append(0)
        await first.until(lambda: bool(first.ended))
        await second.open()
        for number in (1, 2):
            first.append(number)
        await first.until(lambda: bool(first.lost))
        assert first.lost == [TAKEN_OVER]
        assert [one for _, one in first.ended] == [Outcome.STORED] + 2 * [Outcome.REFUSED]
        second.append(1)
        await second.until(lambda: bool(second.ended))
        third = Writer(new_store())
        await third.open()
        assert third.replay.lives[LifeKey(1, 1)].next_offset == 2

    asyncio.run(run())


class Forbidding(DirectorySlots):
    async def put_if_absent(self, key: str, body: bytes) -> PutResult:
        raise StoreRefused("no right to put")


def test_a_store_that_refuses_ends_the_lane(tmp_path: Path) -> None:
    async def run() -> None:
        writer = Writer(DirectorySlots(str(tmp_path)))
        await writer.open()
        writer.driver._store = Forbidding(str(tmp_path))
        writer.append(0)
        writer.append(1)
        await writer.until(lambda: bool(writer.lost))
        assert writer.lost == ["no right to put"]
        writer.log.close()

    asyncio.run(run())
