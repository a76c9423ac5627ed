"""Shard 0's part in groups: the members, what each of them holds, and the orders to their shards.

Owns one Roster per group with members; nothing of it is logged, a member lives no longer than its
connection. Events (joins, leaves, deaths, commits that were waited for) change a roster at once and
in the order in which they come. What follows from it goes out afterwards. These are orders to the
shards of the members, and questions to the owners of partitions that are to move. A join or a leave
is answered when every shard concerned has its orders. Nothing depends on when they arrive: owners
refuse closed rights (partitions/group_cursor.py).

After a death of shard 0 its successor asks all shards what their members hold, adopts that and
settles it. Events that come meanwhile wait in line.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

from borzoi.protocol.errors import (
    BrokerError,
    ConsumerGroupIdNotFound,
    ConsumerGroupMemberNotFound,
)
from borzoi.protocol.responses.consumers import ConsumerGroupMember
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.groups.claims import Claims
from borzoi.shards.groups.dispatch import Dispatch
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.requests import Release, Report
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.effects import Effects, GroupRef
from borzoi.shards.metadata.state import Topic
from borzoi.shards.partitions.group_cursor import Watch
from borzoi.shards.ports.owners import Owners
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.rings.gather import Gather
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done, ignore
from borzoi.shards.rosters.assignment import (
    NO_MEMBER,
    Assignment,
    adopted,
    assignments_of,
    decode_assignments,
)
from borzoi.shards.rosters.roster import (
    Member,
    Roster,
    complete,
    join,
    leave,
    place,
    renew,
    settle,
)

LOG: Final = logging.getLogger(__name__)

EPOCH_BITS: Final = 40
"""Events of one life of shard 0; its generation stands above them, so epochs only grow."""

TRAVEL_TIME_MAX_S: Final = 10.0
"""A socket that has not arrived on its new shard by then is lost."""


class Coordinator:
    """All groups of the broker that have members."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        generation: int,
        metadata: MetadataService,
        owners: Owners[Claims],
        local: LocalMembers,
        peers: Peers,
        pool: MemoryPool,
        tasks: Tasks,
        *,
        revocation_timeout_s: float,
        check_interval_s: float,
        travel_time_max_s: float = TRAVEL_TIME_MAX_S,
    ) -> None:
        self._loop = loop
        self._epoch = generation << EPOCH_BITS
        self._metadata = metadata
        self._owners = owners
        self._gather = Gather(peers, pool)
        self._tasks = tasks
        self._revocation_timeout_s = revocation_timeout_s
        self._checks = Periodic(loop, check_interval_s, self._check)
        self._travel_time_max_s = travel_time_max_s
        self._rosters: dict[GroupRef, Roster] = {}
        self._of_client: dict[int, set[GroupRef]] = {}
        self._adopting = True
        self._in_line: deque[Callable[[], None]] = deque()
        self._dispatch = Dispatch(owners.shard, local, peers, pool)

    # The beginning.

    async def adopt(self) -> None:
        """Take over the members that the other shards have, and begin to work."""
        reported: list[tuple[int, Assignment]] = []
        for shard, data in (await self._gather.reports(Report)).items():
            reported.extend((shard, one) for one in decode_assignments(data))
        for group, roster in adopted(reported, self._metadata.refresh()).items():
            count = self._metadata.state.topic(group.stream_id, group.topic_id).partitions_count
            self._put(group, settle(renew(roster, self._next_epoch()), count, self._next_epoch()))
        if self._rosters:
            LOG.info("adopted %d members of %d groups", len(reported), len(self._rosters))
        await self._dispatch.send()
        self._adopting = False
        while self._in_line:
            self._in_line.popleft()()
        self._checks.start()

    def when_adopted(self, event: Callable[[], None]) -> None:
        """Events keep their order, also those that come before we know the members."""
        if self._adopting:
            self._in_line.append(event)
        else:
            event()

    # Events. Those with a `done` are answered when all shards know.

    def join(self, group: GroupRef, birth: int, client_id: int, shard: int, done: Done) -> None:
        """A session wants to be a member; once more changes nothing."""
        self.when_adopted(lambda: self._join(group, birth, client_id, shard, done))

    def leave(self, group: GroupRef, birth: int, client_id: int, done: Done) -> None:
        """A session does not want to be a member any longer."""
        self.when_adopted(lambda: self._leave(group, birth, client_id, done))

    def gone(self, client_id: int, shard: int) -> None:
        """A session has ended on that shard: it leaves all its groups."""
        self.when_adopted(lambda: self._gone(client_id, shard))

    def moving(self, client_id: int, shard: int) -> None:
        """The socket of a session is on its way to that shard."""
        self.when_adopted(lambda: self._place(client_id, shard, self._loop.time()))

    def arrived(self, group: GroupRef, birth: int, client_id: int, shard: int) -> None:
        """A member's socket has arrived there, and has to hear what it missed on its way."""
        self.when_adopted(lambda: self._arrived(group, birth, client_id, shard))

    def released(self, group: GroupRef, birth: int, partition: int, ticket: int) -> None:
        """The owner of a partition has closed it to its holder."""

        def event() -> None:
            roster = self._rosters.get(group)
            if roster is not None and roster.birth == birth:
                self._put(group, complete(roster, {partition: ticket}, self._next_epoch()))
                self._send_soon()

        self.when_adopted(event)

    def shard_died(self, shard: int) -> None:
        """All members there are gone with it, and so is what its partitions' owner remembered."""

        def event() -> None:
            for group, roster in list(self._rosters.items()):
                there = [one.client_id for one in roster.members if one.shard == shard]
                if there:
                    self._depart(group, roster, there)
                else:
                    self._ask_again(group, roster, shard)
            self._send_soon()

        self.when_adopted(event)

    def take_effects(self, effects: Effects) -> None:
        """Groups that are deleted are forgotten, topics with another size settled at once."""
        for ref in effects.groups_removed:
            roster = self._rosters.pop(ref, None)
            if roster is not None:
                self._index(ref, roster, None)
        if not effects.topics_resized:
            return
        resized = set(effects.topics_resized)
        for group, roster in list(self._rosters.items()):
            if group[:2] in resized and (topic := self._topic(group)) is not None:
                count = topic.partitions_count
                self._put(group, settle(roster, count, self._next_epoch()))
        self._send_soon()

    # Questions.

    def members(self, group: GroupRef, birth: int) -> tuple[ConsumerGroupMember, ...]:
        """The members of a group and what they hold."""
        roster = self._rosters.get(group)
        if roster is None or roster.birth != birth:
            return ()
        return tuple(
            ConsumerGroupMember(member.id, tuple(one.partition for one in member.held))
            for member in roster.members
        )

    def counts(self, stream_id: int, topic_id: int) -> dict[int, int]:
        """How many members the groups of a topic have; groups without any are missing."""
        topic = self._metadata.state.find_topic(stream_id, topic_id)
        found = {}
        for group_id in () if topic is None else topic.groups:
            roster = self._rosters.get(GroupRef(stream_id, topic_id, group_id))
            if roster is not None:
                found[group_id] = len(roster.members)
        return found

    # What events do.

    def _join(self, group: GroupRef, birth: int, client_id: int, shard: int, done: Done) -> None:
        topic = self._topic(group, birth)
        if topic is None:
            done(ConsumerGroupIdNotFound.status)
            return
        roster = self._rosters.get(group) or Roster(birth)
        known = roster.find(client_id)
        if known is not None and known.shard != shard:
            # Its address has come back on another shard before the end of the old session.
            roster = leave(roster, [client_id], topic.partitions_count, self._next_epoch())
            self._put(group, roster)
            known = None
        if known is not None:
            self._finish(self._dispatch.send(), done)
            return
        epoch = self._next_epoch()
        now = self._loop.time()
        roster = join(roster, client_id, shard, topic.partitions_count, epoch, now)
        self._put(group, roster)
        # Found now: by the time they are asked these partitions may be deleted.
        new = {
            one: self._metadata.target(group.stream_id, topic, one)
            for one, by in roster.revocations.items()
            if by.ticket == epoch
        }
        self._finish(self._revoke(group, roster, new), done)

    def _leave(self, group: GroupRef, birth: int, client_id: int, done: Done) -> None:
        roster = self._rosters.get(group)
        if roster is None or roster.birth != birth or roster.find(client_id) is None:
            done(ConsumerGroupMemberNotFound.status)
            return
        self._depart(group, roster, [client_id])
        self._finish(self._dispatch.send(), done)

    def _gone(self, client_id: int, shard: int) -> None:
        for group in list(self._of_client.get(client_id, ())):
            roster = self._rosters[group]
            member = roster.find(client_id)
            # Another shard's: a session of the same address that was faster than this news.
            if member is not None and member.shard == shard:
                self._depart(group, roster, [client_id])
        self._send_soon()

    def _place(self, client_id: int, shard: int, travelling_since: float | None) -> None:
        for group in self._of_client.get(client_id, ()):
            roster = self._rosters[group]
            member = roster.find(client_id)
            # Arrived already: the two shards do not talk to us over the same ring.
            if member is not None and member.shard != shard:
                self._rosters[group] = place(roster, client_id, shard, travelling_since)

    def _arrived(self, group: GroupRef, birth: int, client_id: int, shard: int) -> None:
        roster = self._rosters.get(group)
        if roster is None or roster.birth != birth or roster.find(client_id) is None:
            # It was on its way when the last shard 0 died, and in the report of no shard.
            self._join(group, birth, client_id, shard, ignore)
            return
        roster = self._rosters[group] = place(roster, client_id, shard, None)
        self._dispatch.note(shard, assignments_of(group, roster)[client_id])
        self._send_soon()

    def _depart(self, group: GroupRef, roster: Roster, client_ids: Iterable[int]) -> None:
        topic = self._topic(group)
        assert topic is not None, f"{group} has members but does not exist"
        self._put(group, leave(roster, client_ids, topic.partitions_count, self._next_epoch()))

    def _put(self, group: GroupRef, roster: Roster) -> None:
        """Replaces a roster and notes the orders that follow from the change."""
        before = self._rosters.get(group)
        if roster.members:
            self._rosters[group] = roster
        else:
            self._rosters.pop(group, None)
        self._index(group, before, roster)
        previous = {} if before is None else assignments_of(group, before)
        for client_id, assignment in assignments_of(group, roster).items():
            known = previous.pop(client_id, None)
            if known is None or (known.held, known.leaving) != (
                assignment.held,
                assignment.leaving,
            ):
                member = roster.find(client_id)
                assert member is not None
                self._dispatch.note(member.shard, assignment)
        for client_id in previous:
            assert before is not None
            member = before.find(client_id)
            assert member is not None
            nothing = Assignment(group, roster.birth, client_id, NO_MEMBER, roster.generation)
            self._dispatch.note(member.shard, nothing)

    def _index(self, group: GroupRef, before: Roster | None, after: Roster | None) -> None:
        for member in _members(before):
            self._of_client[member.client_id].discard(group)
        for member in _members(after):
            self._of_client.setdefault(member.client_id, set()).add(group)
        for member in _members(before):
            if not self._of_client[member.client_id]:
                del self._of_client[member.client_id]

    def _topic(self, group: GroupRef, birth: int | None = None) -> Topic | None:
        """The topic of a group that exists, in that life if one is given."""
        topic = self._metadata.refresh().find_topic(group.stream_id, group.topic_id)
        known = None if topic is None else topic.groups.get(group.group_id)
        if known is None or (birth is not None and known.birth != birth):
            return None
        return topic

    def _next_epoch(self) -> int:
        self._epoch += 1
        return self._epoch

    # Revocations.

    async def _revoke(
        self, group: GroupRef, roster: Roster, partitions: Mapping[int, Target]
    ) -> None:
        """Asks the owners to release; what they release at once moves before any order is sent."""
        since = {one.partition: one.since for member in roster.members for one in member.held}
        asking = {}
        for partition, target in partitions.items():
            watch = Watch(since[partition], roster.revocations[partition].ticket, False)
            release = Release(target, group.group_id, roster.birth, watch)
            asking[partition] = self._owners.ask(release)
        answers = await asyncio.gather(*asking.values(), return_exceptions=True)
        released = {}
        for partition, answer in zip(asking, answers, strict=True):
            if isinstance(answer, BrokerError | Abandoned):
                # Its owner is away; it is asked again when it is back, and at every check.
                LOG.info("partition %d of %s stays where it is: %r", partition, group, answer)
            elif isinstance(answer, BaseException):
                raise answer
            elif answer[0]:
                released[partition] = roster.revocations[partition].ticket
        now = self._rosters.get(group)
        if released and now is not None and now.birth == roster.birth:
            self._put(group, complete(now, released, self._next_epoch()))
        await self._dispatch.send()

    def _ask_again(self, group: GroupRef, roster: Roster, shard: int | None = None) -> None:
        """Repeat the question about what waits, with force where the time is over."""
        topic = self._topic(group)
        if topic is None:
            return
        now = self._loop.time()
        since = {one.partition: one.since for member in roster.members for one in member.held}
        for partition, revocation in roster.revocations.items():
            target = self._metadata.target(group.stream_id, topic, partition)
            if shard is not None and self._owners.owner(target) != shard:
                continue
            forced = now - revocation.created_at >= self._revocation_timeout_s
            watch = Watch(since[partition], revocation.ticket, forced)

            def answered(
                status: int,
                released: int = 0,
                _second: int = 0,
                _third: int = 0,
                partition: int = partition,
                ticket: int = revocation.ticket,
            ) -> None:
                if status == 0 and released:
                    self.released(group, roster.birth, partition, ticket)

            self._owners.do(Release(target, group.group_id, roster.birth, watch), answered)

    def _check(self) -> None:
        """The periodic look at what has been waiting for too long."""
        now = self._loop.time()
        for group, roster in list(self._rosters.items()):
            lost = [
                one.client_id
                for one in roster.members
                if one.travelling_since is not None
                and now - one.travelling_since > self._travel_time_max_s
            ]
            if lost:
                self._depart(group, roster, lost)
                self._send_soon()
            else:
                self._ask_again(group, roster)

    def _send_soon(self) -> None:
        if self._dispatch.is_due:
            self._tasks.start(self._dispatch.send())

    def _finish(self, work: Coroutine[Any, Any, None], done: Done) -> None:
        async def run() -> None:
            await work
            done(0)

        self._tasks.start(run())


def _members(roster: Roster | None) -> tuple[Member, ...]:
    return () if roster is None else roster.members
