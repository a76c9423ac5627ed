"""Shard 0's members: news that comes late, out of order or not at all."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from msgspec.structs import replace

from borzoi.protocol.errors import ConsumerGroupIdNotFound, ConsumerGroupMemberNotFound
from borzoi.router.target import Target
from borzoi.shards.groups.coordinator import EPOCH_BITS, TRAVEL_TIME_MAX_S, Coordinator
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.requests import Assign, Release, Report
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.effects import Effects, TopicRef
from borzoi.shards.metadata.state import Topic
from borzoi.shards.partitions.group_cursor import Watch
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.lending import tell
from borzoi.shards.rings.requests import Done
from borzoi.shards.rosters.assignment import (
    NO_MEMBER,
    Assignment,
    decode_assignments,
    encode_assignments,
)
from borzoi.shards.rosters.roster import Holding
from tests.conditions import until
from tests.shards.groups.world import BIRTH, GROUP, PARTITIONS, StandingMetadata

CHECK_S = 0.01


class Lent:
    """A buffer that need not lie in an arena."""

    def __init__(self, size: int) -> None:
        self.view = memoryview(bytearray(size))
        self.position = 0

    def release(self) -> None:
        """Nothing to give back."""


class Pool:
    def __init__(self) -> None:
        self.refusals = 0

    def take(self, size: int) -> Lent | None:
        if self.refusals:
            self.refusals -= 1
            return None
        return Lent(size)


class Shards:
    """Shard 1, which takes orders."""

    def __init__(self) -> None:
        self.members: dict[int, Assignment] = {}
        self.report: list[Assignment] = []

    def shards(self) -> list[int]:
        return [1]

    def ask(self, shard: int, request: Assign | Report, done: Done, buffer: Lent) -> None:
        assert shard == 1
        if isinstance(request, Report):
            tell(buffer.view, encode_assignments(self.report), done)
            return
        for one in decode_assignments(bytes(buffer.view[: request.length])):
            if one.member_id == NO_MEMBER:
                self.members.pop(one.client_id, None)
            else:
                self.members[one.client_id] = one
        done(0)


class Owners:
    """Every partition is shard 1's; it lets go of everything or of nothing."""

    def __init__(self) -> None:
        self.shard = 0
        self.lets_go = True
        self.asked: list[tuple[int, Watch]] = []

    def owner(self, _target: Target) -> int:
        return 1

    def do(self, request: Release, done: Done) -> None:
        self.asked.append((request.target.partition_id, request.watch))
        done(0, self.lets_go or request.watch.forced)

    async def ask(self, request: Release) -> tuple[int, int, int]:
        return await asked(lambda done: self.do(request, done))


class Metadata(StandingMetadata):
    def target(self, _stream_id: int, topic: Topic, partition: int) -> Target:
        topic.partition(partition)
        return Target(partition, 0, 0)


class World:
    def __init__(self, timeout_s: float, travel_time_max_s: float) -> None:
        self.shards = Shards()
        self.owners = Owners()
        self.pool = Pool()
        self.metadata = metadata = Metadata()
        self.broken: list[BaseException] = []
        self.local = LocalMembers(metadata.as_service, lambda _client_id: True)
        self.coordinator = Coordinator(
            asyncio.get_running_loop(),
            3,
            metadata.as_service,
            cast(Any, self.owners),
            self.local,
            cast(Any, self.shards),
            cast(Any, self.pool),
            Tasks(self.broken.append),
            revocation_timeout_s=timeout_s,
            check_interval_s=CHECK_S,
            travel_time_max_s=travel_time_max_s,
        )

    async def join(self, client_id: int, shard: int) -> int:
        return await self._status_of(
            lambda done: self.coordinator.join(GROUP, BIRTH, client_id, shard, done)
        )

    async def leave(self, client_id: int) -> int:
        return await self._status_of(
            lambda done: self.coordinator.leave(GROUP, BIRTH, client_id, done)
        )

    def shares(self) -> list[list[int]]:
        return [list(one.partitions) for one in self.coordinator.members(GROUP, BIRTH)]

    @staticmethod
    async def _status_of(start: Callable[[Done], None]) -> int:
        ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        start(lambda status, *_: ended.set_result(status))
        return await ended


def run(
    check: Callable[[World], Awaitable[None]],
    *,
    timeout_s: float = 60.0,
    travel_time_max_s: float = TRAVEL_TIME_MAX_S,
) -> None:
    async def begin() -> None:
        world = World(timeout_s, travel_time_max_s)
        await check(world)
        assert world.broken == []

    asyncio.run(begin())


def test_orders_are_out_before_the_answer() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        assert await world.join(10, 0) == 0
        assert await world.join(11, 1) == 0
        assert [one.partition for one in world.shards.members[11].held] == [2, 3]
        mine = world.local.find(10, GROUP, BIRTH)
        assert mine is not None
        assert [one.partition for one in mine.turns] == [0, 1]
        assert mine.turns[0].epoch >> EPOCH_BITS == 3
        assert await world.leave(11) == 0
        assert world.shards.members == {}
        assert await world.leave(11) == ConsumerGroupMemberNotFound.status
        missing = GROUP._replace(group_id=5)
        assert (
            await world._status_of(lambda done: world.coordinator.join(missing, BIRTH, 10, 0, done))
            == ConsumerGroupIdNotFound.status
        )

    run(check)


def test_members_are_adopted_and_what_comes_meanwhile_waits_in_line() -> None:
    async def check(world: World) -> None:
        held = tuple(Holding(one, 4, 4) for one in range(PARTITIONS))
        world.shards.report = [Assignment(GROUP, BIRTH, 11, 7, 4, held, (3,))]
        joining = asyncio.ensure_future(world.join(10, 0))
        await asyncio.sleep(0)
        world.coordinator.gone(10, 0)
        assert world.shares() == []
        await world.coordinator.adopt()
        # The join came first, so its end does not leave a member behind.
        assert await joining == 0
        assert world.shares() == [[0, 1, 2, 3]]
        adopted = world.shards.members[11]
        assert (adopted.member_id, adopted.leaving) == (7, ())
        # New rights, because old revocations may still close the old ones; but the same holder.
        assert {(one.since, one.epoch >> EPOCH_BITS) for one in adopted.held} == {(4, 3)}

    run(check)


def test_an_address_that_comes_back_on_another_shard() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        await world.join(10, 1)
        await world.join(10, 0)
        # The end of the old session is reported after the new one has joined.
        world.coordinator.gone(10, 1)
        assert world.shares() == [[0, 1, 2, 3]]
        assert world.shards.members == {}
        world.coordinator.gone(10, 0)
        assert world.shares() == []

    run(check)


def test_a_member_on_its_way() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        await world.join(10, 0)
        world.coordinator.moving(10, 1)
        world.coordinator.arrived(GROUP, BIRTH, 10, 1)
        await until(lambda: 10 in world.shards.members)
        # The two shards tell it over two rings: this one comes last.
        world.coordinator.moving(10, 1)
        await world.join(11, 0)
        assert [len(share) for share in world.shares()] == [2, 2]
        world.coordinator.shard_died(1)
        assert world.shares() == [[2, 3, 0, 1]]
        # In no report when shard 0 died, but there.
        world.coordinator.arrived(GROUP, BIRTH, 12, 1)
        await until(lambda: 12 in world.shards.members)
        await until(lambda: [len(share) for share in world.shares()] == [2, 2])

    run(check)


def test_a_member_that_never_arrives() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        await world.join(10, 0)
        await world.join(11, 0)
        world.coordinator.moving(10, 1)
        await until(lambda: world.shares() == [[2, 3, 0, 1]])

    run(check, travel_time_max_s=0.0)


def test_partitions_are_deleted_between_a_join_and_its_questions() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        await world.join(10, 0)
        ended: list[int] = []
        world.coordinator.join(GROUP, BIRTH, 11, 1, lambda status, *_: ended.append(status))
        topic = world.metadata.state.topic(0, 0)
        topic.runs[:] = [replace(topic.runs[0], count=1)]
        world.coordinator.take_effects(Effects(9, topics_resized=[TopicRef(0, 0)]))
        await until(lambda: bool(ended or world.broken))
        assert ended == [0]
        assert world.shares() == [[0], []]

    run(check)


def test_what_waits_is_asked_for_again_and_at_last_taken() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        world.owners.lets_go = False
        await world.join(10, 0)
        await world.join(11, 1)
        assert world.shares() == [[0, 1, 2, 3], []]
        assert world.shards.members[11].held == ()
        world.owners.asked.clear()
        # Its owner has forgotten what it was asked when it died.
        world.coordinator.shard_died(2)
        await until(lambda: bool(world.owners.asked))
        await until(lambda: world.shares() == [[0, 1], [2, 3]])
        await until(lambda: len(world.shards.members[11].held) == 2)
        assert world.owners.asked[-1][1].forced

    run(check, timeout_s=0.05)


def test_a_shard_that_cannot_be_reached_now_is_sent_the_members_later() -> None:
    async def check(world: World) -> None:
        await world.coordinator.adopt()
        world.pool.refusals = 2
        assert await world.join(11, 1) == 0
        assert world.pool.refusals == 0
        assert len(world.shards.members[11].held) == PARTITIONS

    run(check)
