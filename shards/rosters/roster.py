"""The members of one group and what they hold: values, and how each event changes them. Pure.

Shard 0 keeps one Roster per group that has members and replaces it at every event. A partition has
one *holder*. A join does not take partitions away. It notes *revocations*, and a partition moves
when its owner says that the holder has committed what it polled (claims.py). Everything else
settles at once.

Epochs are numbers of shard 0 that only grow, one per event. A holding carries two. `since` is the
event that gave the partition to its holder. `epoch` is the right to poll. It is renewed when a
revocation is called off: the owner of the partition may have closed the old one already.

Always, while there are members: every partition of the topic has one holder. A revocation leads
from its holder to another member. With all revocations done the split is even.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from borzoi.shards.rosters.spread import spread


class Holding(NamedTuple):
    """One partition in the hands of a member."""

    partition: int
    since: int
    epoch: int


class Member(msgspec.Struct, frozen=True):
    """A session in a group. `travelling_since` while its socket is between two shards."""

    id: int
    client_id: int
    shard: int
    held: tuple[Holding, ...] = ()
    travelling_since: float | None = None


class Revocation(NamedTuple):
    """A partition on its way to another member. The owner answers with the same ticket."""

    target: int
    ticket: int
    created_at: float


class Roster(msgspec.Struct, frozen=True):
    """All of a group: members in the order in which they joined, revocations by partition."""

    birth: int
    generation: int = 0
    members: tuple[Member, ...] = ()
    revocations: Mapping[int, Revocation] = {}

    def find(self, client_id: int) -> Member | None:
        """The member that a session is, None if it is none."""
        for member in self.members:
            if member.client_id == client_id:
                return member
        return None


def join(
    roster: Roster, client_id: int, shard: int, partitions_count: int, epoch: int, now: float
) -> Roster:
    """One more member. Free partitions are given out, the others wait for their holders."""
    assert roster.find(client_id) is None, f"client {client_id} is a member already"
    new_id = max((member.id for member in roster.members), default=-1) + 1
    members = (*roster.members, Member(new_id, client_id, shard))
    wanted = _owners(members, spread(_projected(members, roster.revocations), partitions_count))
    revocations: dict[int, Revocation] = {}
    given: dict[int, list[int]] = {member.id: [] for member in members}
    holders = _holders(members)
    for partition, target in wanted.items():
        holder = holders.get(partition)
        if holder is None:
            given[target].append(partition)
        elif holder != target:
            old = roster.revocations.get(partition)
            # The holder has been asked before: only the member that waits for it is another now.
            revocations[partition] = (
                Revocation(target, epoch, now) if old is None else old._replace(target=target)
            )
    called_off = roster.revocations.keys() - revocations.keys()
    return replace(
        roster,
        generation=epoch,
        members=tuple(
            replace(
                member,
                held=_renewed(member.held, called_off, partitions_count, epoch)
                + tuple(Holding(partition, epoch, epoch) for partition in given[member.id]),
            )
            for member in members
        ),
        revocations=revocations,
    )


def leave(roster: Roster, client_ids: Iterable[int], partitions_count: int, epoch: int) -> Roster:
    """Without these members; the rest is settled at once."""
    gone = set(client_ids)
    stay = tuple(member for member in roster.members if member.client_id not in gone)
    return settle(replace(roster, members=stay), partitions_count, epoch)


def settle(roster: Roster, partitions_count: int, epoch: int) -> Roster:
    """Returns an even split that holds at once, without waiting for commits."""
    members = roster.members
    shares = spread(
        [[one.partition for one in member.held] for member in members], partitions_count
    )
    settled = []
    for member, share in zip(members, shares, strict=True):
        had = {
            one.partition: one
            for one in _renewed(member.held, roster.revocations.keys(), partitions_count, epoch)
        }
        held = tuple(had.get(number, Holding(number, epoch, epoch)) for number in share)
        settled.append(replace(member, held=held))
    return replace(roster, generation=epoch, members=tuple(settled), revocations={})


def complete(roster: Roster, released: Mapping[int, int], epoch: int) -> Roster:
    """Returns the roster after the owners released partitions, which they report by ticket.

    A ticket that is not the current one belongs to a revocation that was called off.
    """
    done = {
        partition: revocation
        for partition, revocation in roster.revocations.items()
        if released.get(partition) == revocation.ticket
    }
    if not done:
        return roster
    members = []
    for member in roster.members:
        kept = tuple(one for one in member.held if one.partition not in done)
        got = tuple(
            Holding(partition, epoch, epoch)
            for partition, revocation in sorted(done.items())
            if revocation.target == member.id
        )
        members.append(replace(member, held=kept + got))
    left = {one: by for one, by in roster.revocations.items() if one not in done}
    return replace(roster, generation=epoch, members=tuple(members), revocations=left)


def renew(roster: Roster, epoch: int) -> Roster:
    """Returns the same with new rights for all members: shard 0 is another process now."""
    members = tuple(
        replace(member, held=tuple(one._replace(epoch=epoch) for one in member.held))
        for member in roster.members
    )
    return replace(roster, generation=epoch, members=members)


def place(roster: Roster, client_id: int, shard: int, travelling_since: float | None) -> Roster:
    """A member lives on another shard now, or is on its way there."""
    members = tuple(
        replace(member, shard=shard, travelling_since=travelling_since)
        if member.client_id == client_id
        else member
        for member in roster.members
    )
    return replace(roster, members=members)


def _projected(
    members: tuple[Member, ...], revocations: Mapping[int, Revocation]
) -> list[list[int]]:
    """What each member has when all revocations are done; what is still to come stands last."""
    coming: dict[int, list[int]] = {member.id: [] for member in members}
    for partition, revocation in revocations.items():
        coming[revocation.target].append(partition)
    return [
        [one.partition for one in member.held if one.partition not in revocations]
        + coming[member.id]
        for member in members
    ]


def _owners(members: tuple[Member, ...], shares: list[list[int]]) -> dict[int, int]:
    return {
        partition: member.id
        for member, share in zip(members, shares, strict=True)
        for partition in share
    }


def _holders(members: tuple[Member, ...]) -> dict[int, int]:
    return {one.partition: member.id for member in members for one in member.held}


def _renewed(
    held: tuple[Holding, ...], called_off: Iterable[int], partitions_count: int, epoch: int
) -> tuple[Holding, ...]:
    """What a member keeps, with a new right to what it was about to lose."""
    again = frozenset(called_off)
    return tuple(
        one._replace(epoch=epoch) if one.partition in again else one
        for one in held
        if one.partition < partitions_count
    )
