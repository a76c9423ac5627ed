"""Leases by a clock of the test: when they end, whose they are, how many there may be."""

import asyncio
from typing import Any

import pytest

from borzoi.protocol.errors import ConsumerGroupMemberNotFound, NotResolvedConsumer
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.identity.clients import Clients
from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.rosters.assignment import Assignment
from borzoi.shards.rosters.roster import Holding
from borzoi.shards.rosters.share import Share, Turns
from borzoi.shards.web_groups.members import (
    MEMBERS_PER_USER_MAX,
    LeasedMembers,
    MemberId,
    TooManyMembers,
)

GROUP = GroupRef(1, 2, 3)
BIRTH = 9
LEASE_S = 10.0


class Asking:
    """As much of a caller as a member has."""

    def __init__(self, user: int) -> None:
        self.user = self.user_id = user
        self.client_id = 0
        self.transport = Transport.HTTP
        self.address = "127.0.0.1:1"
        self.was_removed = False
        self.suspended_user = None
        self.last_heartbeat = 0.0
        self.turns = Turns()


class FakeGroups:
    """Gives every client partitions 4 and 5 of the group, until it is gone."""

    def __init__(self) -> None:
        self.local = self
        self.gone: list[int] = []

    def find(self, client_id: int, group: GroupRef, birth: int) -> Share | None:
        if client_id in self.gone or (group, birth) != (GROUP, BIRTH):
            return None
        held = (Holding(4, 1, 70), Holding(5, 1, 71))
        return Share(Assignment(group, birth, client_id, 0, 1, held))

    def client_gone(self, client_id: int) -> None:
        self.gone.append(client_id)


class Bench:
    """Members of shard 0, and a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.groups = FakeGroups()
        self.clients = Clients(None, lambda _: ())  # type: ignore[arg-type]  # asks no other shard
        make: Any = LeasedMembers
        fakes = self.clients, self.groups, NoPeers(), None
        self.members: LeasedMembers = make(0, *fakes, lambda: self.now)

    def join(self, user: int = 1) -> MemberId:
        member = self.members.add(Asking(user), GROUP, BIRTH, LEASE_S)  # type: ignore[arg-type]  # a fake
        assert self.members.joined(member) == (4, 5)
        return member

    def turn(self, member: MemberId, user: int = 1, wanted: int | None = None) -> Any:
        return asyncio.run(self.members.turn(member, user, GROUP, BIRTH, wanted))


class NoPeers:
    """There is one shard."""

    def shards(self) -> list[int]:
        return []


def test_a_member_goes_round_its_partitions() -> None:
    bench = Bench()
    member = bench.join()
    turns = [bench.turn(member) for _ in range(3)]
    assert [(one.partition, one.claim.epoch, one.round_size) for one in turns] == [
        (4, 70, 2),
        (5, 71, 2),
        (4, 70, 2),
    ]
    assert bench.turn(member, wanted=5).partition == 5
    assert bench.turn(member, wanted=6).partition is None


def test_commits_need_a_partition_that_is_held() -> None:
    bench = Bench()
    member = bench.join()
    members = bench.members
    assert asyncio.run(members.right(member, 1, GROUP, BIRTH, 5))[0] == 5
    with pytest.raises(NotResolvedConsumer):
        asyncio.run(members.right(member, 1, GROUP, BIRTH, 6))


def test_a_lease_ends_unless_it_is_renewed() -> None:
    bench = Bench()
    silent, heard = bench.join(), bench.join()
    bench.now += LEASE_S - 1
    bench.turn(heard)
    bench.now += 2
    with pytest.raises(ConsumerGroupMemberNotFound):
        bench.turn(silent)
    bench.members.check_leases()
    assert bench.groups.gone == [silent.client_id]
    assert bench.clients.here_count == 1
    bench.turn(heard)


@pytest.mark.parametrize(
    ("member", "user"),
    [(MemberId(0, 1), 1), (MemberId(1, 1), 1), (None, 2)],
    ids=["unknown", "no such shard", "another user's"],
)
def test_who_is_no_member(member: MemberId | None, user: int) -> None:
    bench = Bench()
    joined = bench.join()
    with pytest.raises(ConsumerGroupMemberNotFound):
        bench.turn(member or joined, user)


def test_a_user_has_so_many_members_and_no_more() -> None:
    bench = Bench()
    members = [bench.join() for _ in range(MEMBERS_PER_USER_MAX)]
    with pytest.raises(TooManyMembers):
        bench.join()
    bench.join(user=2)
    bench.members.drop(members[0].client_id)
    bench.join()


def test_members_whose_group_is_gone_are_dropped() -> None:
    bench = Bench()
    member = bench.join()
    bench.groups.gone.append(member.client_id)
    bench.members.check_leases()
    assert bench.clients.here_count == 0


@pytest.mark.parametrize("text", ["", "0", "0-", "-1", "0-1-2", "a-1", "0-12345678901", "٣-1"])
def test_ids_that_are_none(text: str) -> None:
    with pytest.raises(ConsumerGroupMemberNotFound):
        MemberId.parse(text)


def test_ids_are_read_as_they_are_written() -> None:
    assert MemberId.parse(str(MemberId(3, 2**32 - 1))) == MemberId(3, 2**32 - 1)
