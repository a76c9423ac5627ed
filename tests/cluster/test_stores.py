"""The stores themselves, and the lane machine on them."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from borzoi.cluster.driver import Driver
from borzoi.cluster.keys import Checkpoint, pack_key, slot_key
from borzoi.cluster.lane import LaneWriter, Outcome, opening
from borzoi.cluster.operations import Operation, PutResult
from borzoi.cluster.slots import DataSlot
from borzoi.cluster.stores import (
    TEMPORARY,
    BucketPlace,
    BucketSlots,
    DirectorySlots,
    SlotStore,
    StoreRefused,
    StoreUnreachable,
)
from tests.cluster.copies import Copy, batch, messages_in
from tests.cluster.history import History
from tests.s3_server import BUCKET, S3Server

MakeStore: TypeAlias = Callable[[], SlotStore]


@pytest.fixture(params=["directory", "bucket"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path, credentials: None) -> MakeStore:
    if request.param == "directory":
        return lambda: DirectorySlots(str(tmp_path))
    server: S3Server = request.getfixturevalue("bucket")
    return lambda: BucketSlots(BucketPlace(BUCKET, tmp_path.name, server.url))


def test_an_object_is_put_once(new_store: MakeStore) -> None:
    async def use(store: SlotStore) -> None:
        assert await store.get("a/b/1") is None
        assert await store.list("a/b") == []
        assert await store.put_if_absent("a/b/1", b"first") is PutResult.OK
        assert await store.put_if_absent("a/b/1", b"second") is PutResult.EXISTS
        assert await store.get("a/b/1") == b"first"
        assert await store.put("a/b/1", b"third") is PutResult.OK
        assert await store.put("a/bc", b"no part of it") is PutResult.OK
        assert await store.put_if_absent("a/b/0", b"") is PutResult.OK
        assert [one[:2] for one in await store.list("a/b")] == [("a/b/0", 0), ("a/b/1", 5)]
        await store.delete("a/b/1")
        await store.delete("a/b/1")
        assert await store.get("a/b/1") is None

    asyncio.run(use(new_store()))


def test_racing_puts_have_one_winner(new_store: MakeStore) -> None:
    async def use(store: SlotStore) -> None:
        bodies = [bytes([number]) * 1000 for number in range(8)]
        results = await asyncio.gather(*[store.put_if_absent("key", body) for body in bodies])
        assert sorted(one.value for one in results) == ["exists"] * 7 + ["ok"]
        assert await store.get("key") == bodies[results.index(PutResult.OK)]

    asyncio.run(use(new_store()))


class Node:
    """A writer on a real store: the machine, a driver, a copy."""

    def __init__(self, store: SlotStore, history: History) -> None:
        self.driver = Driver(store)
        self.history = history
        self.copy = Copy(history)
        self.outcomes: dict[int, Outcome] = {}

    async def open(self) -> None:
        steps = opening(0, 4, os.urandom(16), self.copy)
        self.writer = LaneWriter(await self.driver.run(steps))

    async def append(self, messages: list[int]) -> Outcome:
        """One group; its outcome."""
        for offset, message in enumerate(messages, self.copy.length):
            self.history.submitted(message, offset)
        entries = [batch(self.copy.length, messages)]
        slot, put = self.writer.append(entries)
        waiting: list[Operation] = [put]
        outcomes: dict[int, Outcome] = {}
        while waiting:
            operation = waiting.pop()
            step = self.writer.take(operation, await self.driver.carry_out(operation))
            waiting += step.operations
            outcomes |= dict(step.outcomes)
        if outcomes[slot] is Outcome.STORED:
            for message in messages:
                self.history.stored(message)
            self.copy.take(entries)
        return outcomes[slot]

    async def checkpoint(self) -> None:
        name = self.writer.next_checkpoint()
        assert name is not None
        body, pack, packs = self.copy.checkpoint(name)
        await self.driver.run(self.writer.checkpointing(name, body, pack, packs))


def test_a_lane_goes_from_writer_to_writer(new_store: MakeStore) -> None:
    async def use() -> None:
        history = History()
        first, second, third = (Node(new_store(), history) for _ in range(3))
        await first.open()
        for number in range(10):
            assert await first.append([number]) is Outcome.STORED
        await first.checkpoint()
        assert await first.append([10, 11]) is Outcome.STORED
        await second.open()
        assert await first.append([12]) is Outcome.REFUSED
        assert first.writer.is_lost
        assert await second.append([13]) is Outcome.STORED
        await second.checkpoint()
        assert await second.append([14]) is Outcome.STORED
        assert await second.driver.run(second.writer.sweeping(lambda one: True)) == 0
        await third.open()
        packs = {piece.pack for piece in third.copy.pieces}
        bodies = {pack: await new_store().get(pack_key(0, pack)) for pack in packs}
        log = third.copy.whole(bodies.get)
        assert [log[offset] for offset in sorted(log)] == [*range(12), 13, 14]
        history.ends_with(log, 0, third.copy.length)
        assert history.problems == []

    asyncio.run(use())


def test_a_directory_keeps_no_temporary_and_lists_none(tmp_path: Path) -> None:
    async def use(store: SlotStore) -> None:
        await store.put_if_absent("a/1", b"one")
        await store.put_if_absent("a/1", b"two")
        await store.put("a/2", b"two")
        (tmp_path / "a" / f"{TEMPORARY}cut-off").write_bytes(b"half")
        assert [one.key for one in await store.list("a")] == ["a/1", "a/2"]
        assert len(list((tmp_path / "a").iterdir())) == 3

    asyncio.run(use(DirectorySlots(str(tmp_path))))


@pytest.mark.parametrize("key", ["", "/etc/x", "a/../../x", "a//b", "."])
def test_a_directory_is_not_left(tmp_path: Path, key: str) -> None:
    with pytest.raises(StoreRefused, match="is no key"):
        asyncio.run(DirectorySlots(str(tmp_path)).put(key, b"x"))


def test_a_put_that_may_have_happened_is_unknown(tmp_path: Path, credentials: None) -> None:
    async def use() -> None:
        gone = BucketSlots(BucketPlace(BUCKET, "", "http://127.0.0.1:1"))
        assert await gone.put_if_absent("key", b"x") is PutResult.UNKNOWN
        assert await gone.put("key", b"x") is PutResult.UNKNOWN
        with pytest.raises(StoreUnreachable):
            await gone.get("key")
        with pytest.raises(StoreUnreachable):
            await gone.list("key")

    asyncio.run(use())


def test_a_bucket_that_is_not_there_is_refused(bucket: S3Server, credentials: None) -> None:
    async def use() -> None:
        store = BucketSlots(BucketPlace("no-such-bucket", "", bucket.url))
        with pytest.raises(StoreRefused, match="NoSuchBucket"):
            await store.put_if_absent("key", b"x")
        with pytest.raises(StoreRefused, match="NoSuchBucket"):
            await store.get("key")

    asyncio.run(use())


def test_readings_are_repeated_and_puts_are_left_to_the_machine(tmp_path: Path) -> None:
    class Shaky(DirectorySlots):
        failures = 2

        async def get(self, key: str) -> bytes | None:
            self.failures -= 1
            if self.failures >= 0:
                raise StoreUnreachable(key)
            return await super().get(key)

    async def use() -> None:
        store = Shaky(str(tmp_path))
        history = History()
        node = Node(store, history)
        await node.open()
        assert await node.append([1]) is Outcome.STORED
        assert await store.get(slot_key(0, 1)) is not None
        assert store.failures < 0

    asyncio.run(use())


def test_a_refusal_comes_as_itself_out_of_many_requests(tmp_path: Path) -> None:
    class Closed(DirectorySlots):
        async def get(self, key: str) -> bytes | None:
            raise StoreRefused(f"{key} is not for everybody")

    node = Node(Closed(str(tmp_path)), History())
    with pytest.raises(StoreRefused, match="is not for everybody"):
        asyncio.run(node.open())


def test_a_copy_takes_nothing_that_does_not_follow() -> None:
    history = History()
    copy = Copy(history)
    copy.begin(None, b"")
    assert copy.apply(DataSlot(0, 2, 1, b"w" * 16, (batch(0, [1, 2]),)))
    assert not copy.apply(DataSlot(0, 4, 1, b"w" * 16, (batch(3, [4]),)))
    assert copy.length == 2
    body, pack, packs = copy.checkpoint(Checkpoint(3, 1))
    assert messages_in(pack) == [1, 2]
    assert packs == {Checkpoint(3, 1)}
    assert b"[2,0," in body
