"""What a member holds, as shards tell it each other: in orders, in reports, and on a move."""

from collections.abc import Iterable
from typing import Final

import msgspec

from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.metadata.state import State
from borzoi.shards.rosters.roster import Holding, Member, Roster

NO_MEMBER: Final = -1
"""Member id of a session that is no member any more."""


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    """One member of one group. `leaving` are partitions it holds but has to give up."""

    group: GroupRef
    birth: int
    client_id: int
    member_id: int
    generation: int
    held: tuple[Holding, ...] = ()
    leaving: tuple[int, ...] = ()


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(list[Assignment])


def encode_assignments(assignments: list[Assignment]) -> bytes:
    """The bytes that travel between shards."""
    return _encoder.encode(assignments)


def decode_assignments(data: bytes | memoryview) -> list[Assignment]:
    """What they mean; no bytes mean none."""
    return _decoder.decode(data) if len(data) else []


def assignments_of(group: GroupRef, roster: Roster) -> dict[int, Assignment]:
    """Returns the assignment of every member, by client."""
    return {
        member.client_id: Assignment(
            group,
            roster.birth,
            member.client_id,
            member.id,
            roster.generation,
            member.held,
            tuple(one.partition for one in member.held if one.partition in roster.revocations),
        )
        for member in roster.members
    }


def adopted(reported: Iterable[tuple[int, Assignment]], state: State) -> dict[GroupRef, Roster]:
    """Returns the groups that shards report, as (shard, assignment), after the death of shard 0.

    Its last orders may not have reached all shards: of two members that hold a partition the newer
    right counts. Revocations are not reported, because the new shard 0 settles every group.
    """
    by_group: dict[GroupRef, list[tuple[int, Assignment]]] = {}
    for shard, assignment in reported:
        topic = state.find_topic(assignment.group.stream_id, assignment.group.topic_id)
        group = None if topic is None else topic.groups.get(assignment.group.group_id)
        if group is not None and group.birth == assignment.birth:
            by_group.setdefault(assignment.group, []).append((shard, assignment))
    return {group: _roster(said) for group, said in by_group.items()}


def _roster(said: list[tuple[int, Assignment]]) -> Roster:
    newest: dict[int, Holding] = {}
    for _, assignment in said:
        for one in assignment.held:
            if one.partition not in newest or newest[one.partition].epoch < one.epoch:
                newest[one.partition] = one
    members: dict[int, Member] = {}
    for shard, assignment in sorted(said, key=lambda it: it[1].member_id):
        held = tuple(one for one in assignment.held if newest.get(one.partition) == one)
        for one in held:
            del newest[one.partition]
        member = Member(assignment.member_id, assignment.client_id, shard, held)
        members.setdefault(assignment.client_id, member)
    return Roster(said[0][1].birth, 0, tuple(members.values()), {})
