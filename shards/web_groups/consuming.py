"""The routes of a leased member: join, poll, commit, renew, leave.

A request comes to any shard. That one asks the shard of the member whose turn it is (members.py),
and polls or commits at the owner of the partition itself: the right that it shows there is the
same as that of a session, so a member that lost a partition is refused by its owner.
"""

import asyncio
from functools import partial
from typing import Final, NamedTuple

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.groups import JoinConsumerGroup
from borzoi.protocol.errors import NotResolvedConsumer, PartitionNotFound
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.quantities import parse_duration_us
from borzoi.router.target import Target
from borzoi.shards.groups.requests import GroupDelete, GroupStore
from borzoi.shards.handlers.groups import join_consumer_group
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import Stream, Topic
from borzoi.shards.ports.arrivals import Arrivals, Place
from borzoi.shards.rings.poll import Poll
from borzoi.shards.web_connections.connections import WebConnection
from borzoi.shards.web_connections.exchange import Exchange, Outcome
from borzoi.shards.web_forms.bodies import GroupPollQuery
from borzoi.shards.web_forms.failures import plain
from borzoi.shards.web_forms.objects import LeaseAnswer
from borzoi.shards.web_groups.members import (
    MEMBERS_PER_USER_MAX,
    LeasedMembers,
    MemberId,
    TooManyMembers,
    Turn,
)
from borzoi.shards.web_messages.messages import STRATEGIES, Polled, answer, found_by
from borzoi.shards.web_messages.streaming import wait_s
from borzoi.storage.outcome import NO_SLICES

LEASE_MIN_S: Final = 2
LEASE_MAX_S: Final = 3600
LOOK_INTERVAL_S: Final = 0.5
"""So often a poll that waits asks again for its turn, which renews the lease."""

NOTHING: Final = Polled(0, 0, NO_SLICES)
"""For a member that has nothing to poll, as on other doors."""


class GroupPlace(NamedTuple):
    """What the path of a request names, for a user that may do this to it."""

    stream: Stream
    topic: Topic
    group: GroupRef
    birth: int
    user: int


class Consuming:
    """Leased members as the routes of one shard use them."""

    def __init__(self, members: LeasedMembers, arrivals: Arrivals, closing: asyncio.Event) -> None:
        self._members = members
        self._arrivals = arrivals
        self._closing = closing

    async def join(self, one: Exchange) -> Outcome:
        """A new member. It is in the assignment when this answers."""
        lease_s = _lease_s(one.body.lease)
        found = _found(one, Code.JOIN_CONSUMER_GROUP)
        try:
            member = self._members.add(one.caller, found.group, found.birth, lease_s)
        except TooManyMembers:
            raise plain(
                429, f"more than {MEMBERS_PER_USER_MAX} members of this user", Retry_After="5"
            ) from None
        command = JoinConsumerGroup(one.stream, one.topic, one.id("group_id"))
        try:
            await join_consumer_group(one.services, one.caller, command)
            held = self._members.joined(member)
        except BaseException:
            self._members.drop(member.client_id)
            raise
        return LeaseAnswer(str(member), lease_s * 1_000_000, list(held))

    async def renew(self, one: Exchange) -> Outcome:
        """The lease begins again."""
        found = _found(one, Code.JOIN_CONSUMER_GROUP)
        await self._members.renew(_member(one), found.user, found.birth)

    async def leave(self, one: Exchange) -> Outcome:
        """The member gives its partitions back."""
        found = _found(one, Code.LEAVE_CONSUMER_GROUP)
        await self._members.leave(_member(one), found.user, found.birth)

    async def poll(self, one: Exchange) -> Outcome:
        """Messages of the partitions of the member, one partition at a time."""
        return await answer(one, await self._polled(one, one.query))

    async def store(self, one: Exchange) -> Outcome:
        """Commit for the group."""
        found = _found(one, Code.STORE_CONSUMER_OFFSET)
        wanted, member = one.body.partition_id, _member(one)
        partition, claim = await self._members.right(
            member, found.user, found.group, found.birth, wanted
        )
        target = one.services.metadata.target(found.stream.id, found.topic, partition)
        await one.services.groups.owners.ask(GroupStore(target, *claim, one.body.offset))

    async def delete(self, one: Exchange) -> Outcome:
        """Forget what the group has committed."""
        found = _found(one, Code.DELETE_CONSUMER_OFFSET)
        wanted, member = one.query.partition_id, _member(one)
        partition, claim = await self._members.right(
            member, found.user, found.group, found.birth, wanted
        )
        target = one.services.metadata.target(found.stream.id, found.topic, partition)
        await one.services.groups.owners.ask(GroupDelete(target, *claim))

    async def _polled(self, one: Exchange, query: GroupPollQuery) -> Polled:
        """The first partition of a round that has messages; if none has, wait as long as asked."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s(query.wait)
        member = _member(one)
        while True:
            places: dict[int, Place] = {}
            polled, round_size = NOTHING, 1
            for _ in range(self._rounds_max(one)):
                found = _found(one, Code.POLL_MESSAGES)
                turn = await self._members.turn(
                    member, found.user, found.group, found.birth, query.partition_id
                )
                polled = await self._take(one, found, turn, query, places)
                if polled.slices.message_count or query.count == 0:
                    return polled
                round_size = 1 if query.partition_id is not None else turn.round_size
                if len(places) >= round_size or turn.partition is None:
                    break
            left = deadline - loop.time()
            if left <= 0 or self._is_over(one):
                return polled
            await self._arrivals.wait(list(places.values()), min(left, LOOK_INTERVAL_S))

    def _rounds_max(self, one: Exchange) -> int:
        """A member has at most all partitions; its round may grow while it is gone round."""
        state = one.services.metadata.state
        return state.stream(one.stream).topic(one.topic).partitions_count + 1

    async def _take(
        self,
        one: Exchange,
        found: GroupPlace,
        turn: Turn,
        query: GroupPollQuery,
        places: dict[int, Place],
    ) -> Polled:
        partition = turn.partition
        if partition is None or partition >= found.topic.partitions_count:
            return NOTHING
        target = one.services.metadata.target(found.stream.id, found.topic, partition)
        places[partition] = Place(target, self._arrivals.end(target))
        poll = Poll(
            STRATEGIES[query.kind],
            query.value,
            query.count,
            ConsumerKind.GROUP,
            found.group.group_id,
            query.auto_commit,
            found.user,
        )
        try:
            return await _read(one, target, poll, turn)
        except (NotResolvedConsumer, PartitionNotFound):
            # It went to another member, or was purged or deleted, while this was asked for.
            return NOTHING

    def _is_over(self, one: Exchange) -> bool:
        connection = one.request.protocol
        return self._closing.is_set() or (
            isinstance(connection, WebConnection) and connection.ended
        )


async def _read(one: Exchange, target: Target, poll: Poll, turn: Turn) -> Polled:
    groups = one.services.groups
    owner = groups.owners.owner(target)
    return await found_by(
        target.partition_id, partial(groups.poll, target, owner, poll, turn.claim)
    )


def _found(one: Exchange, code: Code) -> GroupPlace:
    """Stream, topic, group, then the permission: in the order of other doors."""
    state = one.services.metadata.refresh()
    stream = state.stream(one.stream)
    topic = stream.topic(one.topic)
    group = topic.group(one.id("group_id"))
    user = one.caller.user
    require(state, user, code, stream.id, topic.id)
    return GroupPlace(stream, topic, GroupRef(stream.id, topic.id, group.id), group.birth, user)


def _member(one: Exchange) -> MemberId:
    return MemberId.parse(one.path["member_id"])


def _lease_s(text: str) -> int:
    try:
        lease_s = parse_duration_us(text) / 1_000_000
    except ValueError:
        raise plain(400, f'lease is {text[:64]!r}: needs a duration like "30s"') from None
    if not LEASE_MIN_S <= lease_s <= LEASE_MAX_S:
        raise plain(400, f"lease is {text[:64]!r}: needs {LEASE_MIN_S} to {LEASE_MAX_S} s")
    return round(lease_s)
