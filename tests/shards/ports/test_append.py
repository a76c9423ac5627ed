"""Appending without a session and without a buffer: on the own shard, and over a ring."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from borzoi.protocol.batch import first_stamped_offset
from borzoi.protocol.errors import PartitionNotFound, ShardCommunicationError
from borzoi.router.placement import pack_namespace, shard_of
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports.append import Appends
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.ports.requests import Owned
from borzoi.shards.rings.requests import Append
from tests.shards.owner import Owner, Statuses, batch_of
from tests.shards.rings.test_peers import End, Pair

USER = 7
SHARDS = 2
BIRTH, SLOT = 3, 1


def target_of_shard(shard: int) -> Target:
    """A partition that the shard owns."""
    spaces = (pack_namespace(0, 0, number) for number in range(64))
    return Target(next(one for one in spaces if shard_of(one, SHARDS) == shard), BIRTH, SLOT)


class FakeMetadata:
    """Knows no partition but those that are open."""

    def refresh(self) -> None:
        """Nothing changes."""

    def target_of(self, namespace: int) -> Target:
        return Target(namespace, BIRTH, SLOT)


class Shards:
    """Two shards with their partitions."""

    def __init__(self, directory: Path) -> None:
        self.pair = Pair()
        self.owners = [Owner(directory / name, Durability.WRITTEN) for name in ("own", "other")]
        self.port, self._other = (
            self._new_port(shard, end) for shard, end in enumerate((self.pair.a, self.pair.b))
        )
        self.pool = self.pair.a.pool

    def _new_port(self, shard: int, end: End) -> Appends:
        owner, metadata = self.owners[shard], cast(MetadataService, FakeMetadata())
        owned = Owned(owner.partitions, owner.deleting, owner.repairing)
        owners = PartitionOwners(shard, SHARDS, owned, end.peers, end.pool, metadata)
        return Appends(owners, owner.appends, metadata, end.peers, end.pool)

    def settle(self) -> None:
        """Let both shards do all there is to do."""
        self.pair.loop.settle()
        for asked in self.pair.b.take():
            assert isinstance(asked.request, Append)
            self._other.serve(0, asked.request, asked.lent, asked.done)
        for owner in self.owners:
            owner.loop.settle()
        self.pair.loop.settle()

    async def offset_of(self, target: Target, *payloads: bytes) -> int | None:
        batch = batch_of(*payloads)
        appending = asyncio.ensure_future(self.port.offset_of(USER, target, batch, len(payloads)))
        await asyncio.sleep(0)
        self.settle()
        return await appending

    def close(self) -> None:
        for owner in self.owners:
            owner.close()
        self.pair.close()


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Shards]:
    made = Shards(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("shard", [0, 1])
def test_offsets_of_a_door_that_has_neither_session_nor_arena(shards: Shards, shard: int) -> None:
    target = target_of_shard(shard)

    async def append() -> None:
        assert await shards.offset_of(target, b"one", b"two") == 0
        assert await shards.offset_of(target, b"three") == 2

    asyncio.run(append())
    log = shards.owners[shard].partitions.find(target).log
    assert log.written.next_offset == 3
    assert shards.pool.in_use_bytes == 0


@pytest.mark.parametrize("shard", [0, 1])
def test_the_batch_is_stamped_where_it_lies(shards: Shards, shard: int) -> None:
    target, batch, statuses = target_of_shard(shard), batch_of(b"a", b"b"), Statuses()
    shards.port.append(USER, target, shard, batch, 2, None, 0, statuses.done)
    assert statuses == []
    shards.settle()
    assert statuses == [0]
    assert first_stamped_offset(batch) == 0


def test_nothing_is_copied_for_the_own_shard(shards: Shards) -> None:
    target, statuses = target_of_shard(0), Statuses()
    shards.port.append(USER, target, 0, batch_of(b"a"), 1, None, 0, statuses.done)
    assert shards.pool.in_use_bytes == 0
    shards.settle()
    assert statuses == [0]


def test_a_batch_in_the_arena_is_lent_as_it_lies(shards: Shards) -> None:
    batch, statuses = batch_of(b"a", b"b"), Statuses()
    buffer = shards.pool.take(batch.nbytes)
    assert buffer is not None
    assert buffer.position is not None
    buffer.view[:] = batch
    in_use = shards.pool.in_use_bytes
    shards.port.append(
        USER, target_of_shard(1), 1, buffer.view, 2, buffer, buffer.position, statuses.done
    )
    assert shards.pool.in_use_bytes == in_use
    shards.settle()
    assert statuses == [0]
    assert first_stamped_offset(buffer.view) == 0
    buffer.release()


def test_an_error_of_the_owner_is_raised(shards: Shards) -> None:
    target = target_of_shard(1)
    earlier = target._replace(birth=target.birth - 1)

    async def append() -> None:
        assert await shards.offset_of(target, b"here") == 0
        with pytest.raises(PartitionNotFound):
            await shards.offset_of(earlier, b"gone")

    asyncio.run(append())
    assert shards.pool.in_use_bytes == 0


def test_without_room_to_lend_from_nothing_is_appended(shards: Shards) -> None:
    hogged = []
    while (taken := shards.pool.take(4096)) is not None:
        hogged.append(taken)
    statuses = Statuses()
    batch = batch_of(bytes(5000))
    shards.port.append(USER, target_of_shard(1), 1, batch, 1, None, 0, statuses.done)
    assert statuses == [ShardCommunicationError.status]
    assert shards.pair.b.take() == []
    for taken in hogged:
        taken.release()
