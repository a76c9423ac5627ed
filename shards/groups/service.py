"""Groups as handlers and sessions use them, on every shard.

Members belong to shard 0 (coordinator.py): joins, leaves and ends of sessions go there, over the
rings or by a call if this is shard 0. What the own sessions hold is known here (local_members.py).
"""

from typing import Final

import msgspec

from borzoi.protocol.identifiers import U32_MAX
from borzoi.protocol.responses.consumers import ConsumerGroupMember
from borzoi.router.buffer import Buffer
from borzoi.router.placement import pack_namespace
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.groups.claim_owners import ClaimOwners
from borzoi.shards.groups.coordinator import Coordinator, group_of
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.share import Seat, Turns
from borzoi.shards.metadata.effects import Effects, GroupRef
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.lending import tell, told
from borzoi.shards.rings.peers import DeathRule, Peers
from borzoi.shards.rings.requests import Done, Request, RequestKind

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
        owners: ClaimOwners,
        coordinator: Coordinator | None,
    ) -> None:
        self._shard = shard
        self._peers = peers
        self._pool = pool
        self._coordinator = coordinator
        # Sessions that shard 0 may know, also while their first join is under way.
        self._known: set[int] = set()
        self.local = local
        self.owners = owners

    async def join(self, client_id: int, group: GroupRef, birth: int) -> None:
        """Become a member; when this returns the assignment has reached all members."""
        self._known.add(client_id)

        def start(done: Done) -> None:
            if self._coordinator is not None:
                self._coordinator.join(group, birth, client_id, self._shard, done)
            else:
                self._ask_about(RequestKind.GROUP_JOIN, group, birth, client_id, done)

        await asked(start)

    async def leave(self, client_id: int, group: GroupRef, birth: int) -> None:
        """Be no member any longer."""

        def start(done: Done) -> None:
            if self._coordinator is not None:
                self._coordinator.leave(group, birth, client_id, done)
            else:
                self._ask_about(RequestKind.GROUP_LEAVE, group, birth, client_id, done)

        await asked(start)

    def client_gone(self, client_id: int) -> None:
        """A session has ended, or does not count as one any more: it leaves all its groups."""
        self.local.forget_client(client_id)
        if client_id not in self._known:
            return
        self._known.discard(client_id)
        if self._coordinator is not None:
            self._coordinator.gone(client_id, self._shard)
        else:
            # If shard 0 dies meanwhile, its successor hears of those who are left.
            self._peers.ask(
                METADATA_SHARD, RequestKind.GROUP_GONE, _ignore, first=client_id,
                rule=DeathRule.COMPLETE,
            )  # fmt: skip

    async def members(self, group: GroupRef, birth: int) -> tuple[ConsumerGroupMember, ...]:
        """The members of a group, on whichever shards they are."""
        if self._coordinator is not None:
            await asked(self._adopted)
            return self._coordinator.members(group, birth)
        data = await self._report(group, birth)
        return tuple(ConsumerGroupMember(*one) for one in _members.decode(data))

    async def counts(self, stream_id: int, topic_id: int) -> dict[int, int]:
        """How many members the groups of a topic have; groups without any are missing."""
        if self._coordinator is not None:
            await asked(self._adopted)
            return self._coordinator.counts(stream_id, topic_id)
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
        if self._coordinator is not None:
            self._coordinator.moving(client_id, shard)
        else:
            self._peers.ask(
                METADATA_SHARD, RequestKind.GROUP_MOVING, _ignore, first=client_id, second=shard,
                rule=DeathRule.COMPLETE,
            )  # fmt: skip

    def arrived(self, client_id: int, seats: tuple[Seat, ...]) -> None:
        """A session has come from another shard; it is connected here by now."""
        if not seats:
            return
        self._known.add(client_id)
        self.local.put(seat.assignment for seat in seats)
        for assignment in [seat.assignment for seat in seats]:
            group, birth = assignment.group, assignment.birth
            if self._coordinator is not None:
                self._coordinator.arrived(group, birth, client_id, self._shard)
            else:
                self._ask_about(
                    RequestKind.GROUP_ARRIVED, group, birth, client_id, _ignore, DeathRule.COMPLETE
                )

    def lost(self, client_id: int, seats: tuple[Seat, ...]) -> None:
        """A session that was to come from another shard never will."""
        if seats:
            self._known.add(client_id)
            self.client_gone(client_id)

    # What others tell us.

    def released(self, target: Target, group_id: int, birth: int, ticket: int) -> None:
        """A partition of ours was closed to its holder: let shard 0 give it to the next."""
        if self._coordinator is not None:
            group = group_of(target.namespace, group_id)
            self._coordinator.released(group, birth, target.partition_id, ticket)
            return
        self._peers.ask(
            METADATA_SHARD, RequestKind.GROUP_RELEASED, _ignore, namespace=target.namespace,
            position=ticket, length=birth, second=group_id, rule=DeathRule.COMPLETE,
        )  # fmt: skip

    def take_effects(self, effects: Effects) -> None:
        """Deleted groups, topics of another size."""
        self.local.take_effects(effects)
        if self._coordinator is not None:
            self._coordinator.take_effects(effects)

    def shard_died(self, shard: int) -> None:
        """Another worker has died, with its members."""
        if self._coordinator is not None:
            self._coordinator.shard_died(shard)

    def serve(self, shard: int, request: Request, lent: memoryview, done: Done) -> None:
        """What a peer asks or tells."""
        match request.kind:
            case RequestKind.GROUP_ASSIGN:
                self.local.serve_assign(lent, done)
            case RequestKind.GROUP_REPORT:
                tell(lent, self.local.report(), done)
            case (
                RequestKind.GROUP_POLL
                | RequestKind.GROUP_STORE
                | RequestKind.GROUP_DELETE
                | RequestKind.GROUP_RELEASE
            ):
                self.owners.serve(request, done)
            case _:
                self._serve_as_coordinator(shard, request, lent, done)

    def _serve_as_coordinator(
        self, shard: int, request: Request, lent: memoryview, done: Done
    ) -> None:
        coordinator = self._coordinator
        assert coordinator is not None, "only shard 0 is asked about members"
        group = group_of(request.namespace, request.second)
        client_id, birth = request.first, request.length
        match request.kind:
            case RequestKind.GROUP_JOIN:
                coordinator.join(group, birth, client_id, shard, done)
            case RequestKind.GROUP_LEAVE:
                coordinator.leave(group, birth, client_id, done)
            case RequestKind.GROUP_MEMBERS:
                coordinator.when_adopted(lambda: self._tell_members(request, lent, done))
            case RequestKind.GROUP_ARRIVED:
                coordinator.arrived(group, birth, client_id, shard)
                done(0, 0, 0, 0)
            case RequestKind.GROUP_MOVING:
                coordinator.moving(client_id, request.second)
                done(0, 0, 0, 0)
            case RequestKind.GROUP_GONE:
                coordinator.gone(client_id, shard)
                done(0, 0, 0, 0)
            case RequestKind.GROUP_RELEASED:
                partition = Target(request.namespace, 0, 0).partition_id
                coordinator.released(group, birth, partition, request.position)
                done(0, 0, 0, 0)
            case _:
                raise AssertionError(f"request kind {request.kind} is not about groups")

    def _tell_members(self, request: Request, lent: memoryview, done: Done) -> None:
        assert self._coordinator is not None
        group = group_of(request.namespace, request.second)
        if group.group_id == ALL:
            counts = self._coordinator.counts(group.stream_id, group.topic_id)
            tell(lent, msgspec.msgpack.encode(counts), done)
        else:
            members = self._coordinator.members(group, request.first)
            pairs = [(member.id, member.partitions) for member in members]
            tell(lent, msgspec.msgpack.encode(pairs), done)

    # Asking shard 0.

    def _adopted(self, done: Done) -> None:
        assert self._coordinator is not None
        self._coordinator.when_adopted(lambda: done(0, 0, 0, 0))

    def _ask_about(
        self,
        kind: RequestKind,
        group: GroupRef,
        birth: int,
        client_id: int,
        done: Done,
        rule: DeathRule = DeathRule.RESUBMIT,
    ) -> None:
        self._peers.ask(
            METADATA_SHARD, kind, done, namespace=_namespace(group), length=birth,
            first=client_id, second=group.group_id, rule=rule,
        )  # fmt: skip

    async def _report(self, group: GroupRef, birth: int) -> bytes:
        def ask(done: Done, buffer: Buffer, position: int, length: int) -> None:
            self._peers.ask(
                METADATA_SHARD, RequestKind.GROUP_MEMBERS, done, buffer=buffer, position=position,
                length=length, namespace=_namespace(group), first=birth, second=group.group_id,
                rule=DeathRule.REREAD,
            )  # fmt: skip

        return await told(self._pool, ask)


def _namespace(group: GroupRef) -> int:
    return pack_namespace(group.stream_id, group.topic_id, 0)


def _ignore(_status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
    """The answer to a report without a waiting caller: there is nothing to do."""
