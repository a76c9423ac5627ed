"""Members of consumer groups that have no connection: a lease holds each of them.

A member lives on the shard where it joined, among the clients there, so the removal of its user
ends it like any session. Every request in its name renews its lease, whichever shard that reaches.
One whose lease ends leaves its group, and the others get its partitions.

Always: the user of a request is the user that joined. Nothing of a member survives its shard.
"""

import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from borzoi.protocol.errors import (
    BrokerError,
    ConsumerGroupMemberNotFound,
    NotResolvedConsumer,
)
from borzoi.protocol.identifiers import U32_MAX
from borzoi.shards.groups.service import Groups
from borzoi.shards.identity.clients import Clients
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.partitions.group_cursor import Claim
from borzoi.shards.rings.asking import Abandoned, asked
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Done
from borzoi.shards.rosters.share import Share
from borzoi.shards.web_groups.member_requests import (
    ANY_PARTITION,
    LeaseEnd,
    LeaseRenew,
    LeaseRight,
    LeaseTurn,
    OfLease,
)
from borzoi.shards.web_tokens.caller import HttpCaller

LOG: Final = logging.getLogger(__name__)

MEMBERS_PER_USER_MAX: Final = 256
"""Of one shard. A worker that forgets to leave is a member until its lease ends."""

ID_BITS: Final = 32
MEMBER_ID: Final = re.compile(r"([0-9]{1,5})-([0-9]{1,10})")
ALL_PARTITIONS: Final = U32_MAX
"""A poll of a partition that was deleted meanwhile finds nothing, so none is left out here."""

NEVER_SILENT: Final = float("inf")
"""The sign of life of a member: its lease says how long it may be silent, not the heartbeats."""


class TooManyMembers(Exception):
    """The user has as many leased members on this shard as are allowed."""


class MemberId(NamedTuple):
    """How a member is named: the shard that holds it, and its id among the clients there."""

    shard: int
    client_id: int

    @classmethod
    def parse(cls, text: str) -> "MemberId":
        """Raises ConsumerGroupMemberNotFound for what no member is called."""
        found = MEMBER_ID.fullmatch(text)
        if found is None:
            raise ConsumerGroupMemberNotFound(f"{text[:64]!r} is no member")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.shard}-{self.client_id}"


class Turn(NamedTuple):
    """What a member polls next, and how many partitions its round has."""

    partition: int | None
    claim: Claim
    round_size: int


class LeasedMember:
    """One member: who it acts for, of which group, and until when."""

    __slots__ = ("birth", "caller", "expires_at", "group", "has_joined", "lease_s", "user_id")

    def __init__(self, caller: HttpCaller, group: GroupRef, birth: int, lease_s: float) -> None:
        self.caller = caller
        self.user_id = caller.user
        self.group = group
        self.birth = birth
        self.lease_s = lease_s
        self.expires_at = 0.0
        self.has_joined = False


class LeasedMembers:
    """The leased members of one shard, by client id, and the way to those of the others."""

    def __init__(
        self,
        shard: int,
        clients: Clients,
        groups: Groups,
        peers: Peers,
        tasks: Tasks,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._shard = shard
        self._clients = clients
        self._groups = groups
        self._peers = peers
        self._tasks = tasks
        self._clock = clock
        self._members: dict[int, LeasedMember] = {}
        self._by_user: Counter[int] = Counter()

    def add(self, caller: HttpCaller, group: GroupRef, birth: int, lease_s: float) -> MemberId:
        """A client that may join: `caller` is one of this shard's clients from now on."""
        if self._by_user[caller.user] >= MEMBERS_PER_USER_MAX:
            raise TooManyMembers
        caller.client_id = self._new_id()
        caller.last_heartbeat = NEVER_SILENT
        member = LeasedMember(caller, group, birth, lease_s)
        self._members[caller.client_id] = member
        self._by_user[member.user_id] += 1
        self._clients.add(caller)
        self._renew(member)
        return MemberId(self._shard, caller.client_id)

    def joined(self, member: MemberId) -> tuple[int, ...]:
        """The member is in its group from now on; the partitions it begins with."""
        found = self._members[member.client_id]
        found.has_joined = True
        return tuple(one.partition for one in self._share(found).turns)

    def drop(self, client_id: int) -> None:
        """A member is one no longer, in no group."""
        member = self._members.pop(client_id, None)
        if member is None:
            return
        self._by_user[member.user_id] -= 1
        self._clients.remove(member.caller)
        self._groups.client_gone(client_id)

    def check_leases(self) -> None:
        """Once a second: members without a lease, a user or a group any more are gone."""
        now = self._clock()
        for client_id, member in list(self._members.items()):
            if member.expires_at <= now:
                LOG.info("the lease of member %d of %s has ended", client_id, member.group)
                self.drop(client_id)
            elif not self._clients.is_registered(member.caller) or self._has_lost(member):
                self.drop(client_id)

    # What requests ask for, of a member on any shard.

    async def turn(
        self, member: MemberId, user_id: int, group: GroupRef, birth: int, wanted: int | None
    ) -> Turn:
        """The partition that the member polls now: the wanted one, or the next of its round."""
        request = LeaseTurn(member.client_id, user_id, birth, _word(wanted))
        partition, epoch, round_size = await self._ask(member.shard, request)
        claim = Claim(group.group_id, birth, epoch)
        return Turn(None if partition == 0 else partition - 1, claim, round_size)

    async def right(
        self, member: MemberId, user_id: int, group: GroupRef, birth: int, wanted: int | None
    ) -> tuple[int, Claim]:
        """The partition in which the member may commit, and its right to."""
        request = LeaseRight(member.client_id, user_id, birth, _word(wanted))
        partition, epoch, _ = await self._ask(member.shard, request)
        return partition, Claim(group.group_id, birth, epoch)

    async def renew(self, member: MemberId, user_id: int, birth: int) -> None:
        """The lease begins again."""
        await self._ask(member.shard, LeaseRenew(member.client_id, user_id, birth))

    async def leave(self, member: MemberId, user_id: int, birth: int) -> None:
        """The member is gone, and its partitions are others'."""
        await self._ask(member.shard, LeaseEnd(member.client_id, user_id, birth))

    def serve(self, _shard: int, request: OfLease, _lent: memoryview, done: Done) -> None:
        """Carry out a request about a member of this shard."""
        try:
            member = self._found(request)
            if isinstance(request, LeaseTurn):
                done(0, *self._turn(member, request.wanted))
            elif isinstance(request, LeaseRight):
                done(0, *self._right(member, request.wanted))
            elif isinstance(request, LeaseEnd):
                self._tasks.start(self._leave(member, done))
            else:
                done(0)
        except (ConsumerGroupMemberNotFound, NotResolvedConsumer) as error:
            done(error.status)

    async def _ask(self, shard: int, request: OfLease) -> tuple[int, int, int]:
        if shard == self._shard:
            return await asked(lambda done: self.serve(shard, request, memoryview(b""), done))
        if shard not in self._peers.shards():
            raise ConsumerGroupMemberNotFound(f"there is no shard {shard}")
        try:
            return await asked(partial(self._peers.ask, shard, request))
        except Abandoned:
            # It died and is not back: whatever it held is free.
            raise ConsumerGroupMemberNotFound(f"shard {shard} has died") from None

    def _found(self, request: OfLease) -> LeasedMember:
        member = self._members.get(request.client_id)
        if (
            member is None
            or member.user_id != request.user_id
            or member.birth != request.birth
            or member.expires_at <= self._clock()
            or not self._clients.is_registered(member.caller)
        ):
            raise ConsumerGroupMemberNotFound(f"client {request.client_id} is no member")
        self._renew(member)
        return member

    def _has_lost(self, member: LeasedMember) -> bool:
        if not member.has_joined:
            return False
        client_id = member.caller.client_id
        return self._groups.local.find(client_id, member.group, member.birth) is None

    def _renew(self, member: LeasedMember) -> None:
        member.expires_at = self._clock() + member.lease_s

    def _turn(self, member: LeasedMember, wanted: int) -> tuple[int, int, int]:
        share = self._share(member)
        turns = member.caller.turns
        if wanted == ANY_PARTITION:
            holding = turns.next(share, ALL_PARTITIONS)
        else:
            holding = share.held.get(wanted - 1)
        if holding is None:
            return 0, 0, len(share.turns)
        turns.note_poll(share, holding)
        return holding.partition + 1, holding.epoch, len(share.turns)

    def _right(self, member: LeasedMember, wanted: int) -> tuple[int, int]:
        share = self._share(member)
        turns = member.caller.turns
        if wanted == ANY_PARTITION:
            holding = turns.current(share, ALL_PARTITIONS)
        else:
            holding = share.held.get(wanted - 1)
        if holding is None or not turns.may_commit(share, holding):
            raise NotResolvedConsumer(f"the member does not hold partition {wanted - 1}")
        return holding.partition, holding.epoch

    def _share(self, member: LeasedMember) -> Share:
        client_id = member.caller.client_id
        share = self._groups.local.find(client_id, member.group, member.birth)
        if share is None:
            raise ConsumerGroupMemberNotFound(f"client {client_id} is not in {member.group}")
        return share

    async def _leave(self, member: LeasedMember, done: Done) -> None:
        client_id = member.caller.client_id
        try:
            await self._groups.leave(client_id, member.group, member.birth)
        except (BrokerError, Abandoned) as error:
            # The group is gone, or shard 0 has died: the end of the member says the same.
            LOG.debug("member %d could not leave: %s", client_id, error)
        self.drop(client_id)
        done(0)

    def _new_id(self) -> int:
        while True:
            client_id = secrets.randbits(ID_BITS)
            if client_id and not self._clients.knows(client_id):
                return client_id


def _word(partition: int | None) -> int:
    return ANY_PARTITION if partition is None else partition + 1
