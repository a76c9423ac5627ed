"""Groups as handlers and sessions use them, on every shard.

Members belong to shard 0 (coordinator.py). Joins, leaves and ends of sessions go there, over the
rings or by a call if this is shard 0. What the own sessions hold is known here (local_members.py).
"""

from functools import partial
from typing import Final

import msgspec

from borzoi.protocol.identifiers import U32_MAX
from borzoi.protocol.responses.consumers import ConsumerGroupMember
from borzoi.router.placement import unpack_namespace
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.groups.claims import Claims
from borzoi.shards.groups.coordinator import Coordinator
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.member_requests import (
    Arrived,
    Gone,
    Join,
    Leave,
    Moving,
    OfMember,
    Released,
    TellMembers,
)
from borzoi.shards.groups.requests import GroupPoll
from borzoi.shards.metadata.effects import Effects, GroupRef
from borzoi.shards.partitions.group_cursor import Claim
from borzoi.shards.ports.owners import Owners
from borzoi.shards.ports.reads import Ended, Reads
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.lending import report_of, tell
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.poll import Poll
from borzoi.shards.rings.requests import Done, ignore
from borzoi.shards.rosters.share import Seat, Turns
from borzoi.storage.outcome import Slices

ALL: Final = U32_MAX
"""Instead of a group: how many members each group of the topic has."""

MOVED_MAX: Final = 512
"""A session with more groups and partitions stays where it is: one message has to hold them."""

_members: Final = msgspec.msgpack.Decoder(list[tuple[int, tuple[int, ...]]])
_counts: Final = msgspec.msgpack.Decoder(dict[int, int])


class Groups:
    """What this shard knows and asks about groups."""

    def __init__(
        self,
        shard: int,
        peers: Peers,
        pool: MemoryPool,
        local: LocalMembers,
        reads: Reads,
        claims: Claims,
        owners: Owners[Claims],
        coordinator: Coordinator | None,
    ) -> None:
        self._shard = shard
        self._peers = peers
        self._pool = pool
        self._reads = reads
        self._claims = claims
        self.coordinator = coordinator
        # Sessions that shard 0 may know, also while their first join is under way.
        self._known: set[int] = set()
        self.local = local
        self.owners = owners

    def poll(
        self, target: Target, owner: int, poll: Poll, claim: Claim, ended: Ended[Slices]
    ) -> None:
        """The messages that a member's poll returns, decided and committed by the owner."""
        if owner == self._shard:
            self._claims.poll(target, poll, claim, ended)
        else:
            after_owner = self._reads.after_owner(target, poll, ended)
            self._peers.ask(owner, GroupPoll(target, poll, claim), after_owner)

    async def join(self, client_id: int, group: GroupRef, birth: int) -> None:
        """Become a member; when this returns the assignment has reached all members."""
        self._known.add(client_id)
        await asked(partial(self._do, Join(*group, birth, client_id)))

    async def leave(self, client_id: int, group: GroupRef, birth: int) -> None:
        """Be no member any longer."""
        await asked(partial(self._do, Leave(*group, birth, client_id)))

    def client_gone(self, client_id: int) -> None:
        """A session has ended, or does not count as one any more: it leaves all its groups."""
        self.local.forget_client(client_id)
        if client_id not in self._known:
            return
        self._known.discard(client_id)
        self._do(Gone(client_id), ignore)

    async def members(self, group: GroupRef, birth: int) -> tuple[ConsumerGroupMember, ...]:
        """The members of a group, on whichever shards they are."""
        if self.coordinator is not None:
            await asked(self._adopted)
            return self.coordinator.members(group, birth)
        data = await self._report(group, birth)
        return tuple(ConsumerGroupMember(*one) for one in _members.decode(data))

    async def counts(self, stream_id: int, topic_id: int) -> dict[int, int]:
        """How many members the groups of a topic have; groups without any are missing."""
        if self.coordinator is not None:
            await asked(self._adopted)
            return self.coordinator.counts(stream_id, topic_id)
        return _counts.decode(await self._report(GroupRef(stream_id, topic_id, ALL), 0))

    # Moving to another shard.

    def seats(self, client_id: int, turns: Turns) -> tuple[Seat, ...] | None:
        """What a session takes along; None if it is too much to move."""
        held = self.local.of_client(client_id)
        seats = tuple(Seat(one, turns.of(one)) for one in held)
        if sum(1 + len(one.assignment.held) + len(one.round.polled) for one in seats) > MOVED_MAX:
            return None
        return seats

    def moving(self, client_id: int, shard: int) -> None:
        """A session has left for another shard, with its seats."""
        self.local.forget_client(client_id)
        if client_id not in self._known:
            return
        self._known.discard(client_id)
        self._do(Moving(client_id, shard), ignore)

    def arrived(self, client_id: int, seats: tuple[Seat, ...]) -> None:
        """A session has come from another shard; it is connected here by now."""
        if not seats:
            return
        self._known.add(client_id)
        self.local.put(seat.assignment for seat in seats)
        for assignment in [seat.assignment for seat in seats]:
            self._do(Arrived(*assignment.group, assignment.birth, client_id), ignore)

    def lost(self, client_id: int, seats: tuple[Seat, ...]) -> None:
        """A session that was to come from another shard never will."""
        if seats:
            self._known.add(client_id)
            self.client_gone(client_id)

    # What others tell us.

    def released(self, target: Target, group_id: int, birth: int, ticket: int) -> None:
        """A partition of ours was closed to its holder: let shard 0 give it to the next."""
        place = unpack_namespace(target.namespace)
        self._do(Released(*place, group_id, birth, ticket), ignore)

    def take_effects(self, effects: Effects) -> None:
        """Deleted groups, topics of another size."""
        self.local.take_effects(effects)
        if self.coordinator is not None:
            self.coordinator.take_effects(effects)

    def shard_died(self, shard: int) -> None:
        """Another worker has died, with its members."""
        if self.coordinator is not None:
            self.coordinator.shard_died(shard)

    # What peers ask of shard 0.

    def serve(self, shard: int, request: OfMember, _lent: memoryview, done: Done) -> None:
        """Carry out what a peer asks or tells about its sessions."""
        assert self.coordinator is not None, "only shard 0 is asked about members"
        request.carry_out(self.coordinator, shard, done)

    def serve_members(
        self, _shard: int, request: TellMembers, lent: memoryview, done: Done
    ) -> None:
        """Write the members of a group, or how many each group has, into a peer's buffer."""
        coordinator = self.coordinator
        assert coordinator is not None, "only shard 0 is asked about members"
        group = GroupRef(request.stream_id, request.topic_id, request.group_id)

        def found() -> dict[int, int] | list[tuple[int, tuple[int, ...]]]:
            if group.group_id == ALL:
                return coordinator.counts(group.stream_id, group.topic_id)
            members = coordinator.members(group, request.birth)
            return [(member.id, member.partitions) for member in members]

        coordinator.when_adopted(lambda: tell(lent, msgspec.msgpack.encode(found()), done))

    # Asking shard 0.

    def _do(self, request: OfMember, done: Done) -> None:
        """Have shard 0 carry a request out."""
        if self.coordinator is not None:
            request.carry_out(self.coordinator, self._shard, done)
        else:
            self._peers.ask(METADATA_SHARD, request, done)

    def _adopted(self, done: Done) -> None:
        assert self.coordinator is not None
        self.coordinator.when_adopted(lambda: done(0))

    async def _report(self, group: GroupRef, birth: int) -> bytes:
        kind = partial(TellMembers, *group, birth)
        return await report_of(self._peers, self._pool, METADATA_SHARD, kind)
