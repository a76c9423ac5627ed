"""A session's side of its groups: what it holds, and whose turn it is."""

from typing import NamedTuple

import msgspec

from borzoi.shards.groups.assignment import Assignment
from borzoi.shards.groups.cursor import Claim
from borzoi.shards.groups.roster import Holding
from borzoi.shards.metadata.effects import GroupRef


class Share:
    """An assignment, prepared for polls. `turns` leaves out what is promised to somebody else."""

    __slots__ = ("assignment", "held", "turns")

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.held = {one.partition: one for one in assignment.held}
        leaving = frozenset(assignment.leaving)
        self.turns = tuple(one for one in assignment.held if one.partition not in leaving)

    def claim(self, holding: Holding) -> Claim:
        """The right to poll one of the partitions."""
        assignment = self.assignment
        return Claim(assignment.group.group_id, assignment.birth, holding.epoch)


class Turn(NamedTuple):
    """How often a session has polled without a partition, and where it was last."""

    number: int = 0
    partition: int | None = None


class Seat(msgspec.Struct, frozen=True, array_like=True):
    """A membership that moves to another shard with its session."""

    assignment: Assignment
    turn: Turn


class Turns:
    """Lives with the connection: where it is in going round its partitions, by group."""

    __slots__ = ("_turns",)

    def __init__(self, seats: tuple[Seat, ...] = ()) -> None:
        self._turns = {seat.assignment.group: seat.turn for seat in seats}

    def of(self, group: GroupRef) -> Turn:
        """For a move."""
        return self._turns.get(group, Turn())

    def next(self, share: Share, partitions_count: int) -> Holding | None:
        """The partition to poll now; None if there is none. The counter moves in any case."""
        group = share.assignment.group
        number = self._turns.get(group, Turn()).number
        holding = _at(share, number, partitions_count)
        self._turns[group] = Turn(number + 1, None if holding is None else holding.partition)
        return holding

    def current(self, share: Share, partitions_count: int) -> Holding | None:
        """The partition that was polled last, or else the next one. The counter stays."""
        turn = self._turns.get(share.assignment.group, Turn())
        if turn.partition is not None and turn.partition < partitions_count:
            held = share.held.get(turn.partition)
            if held is not None:
                return held
        return _at(share, turn.number, partitions_count)

    def forget(self, group: GroupRef) -> None:
        """The session has left."""
        self._turns.pop(group, None)


def _at(share: Share, number: int, partitions_count: int) -> Holding | None:
    turns = share.turns
    for step in range(len(turns)):
        holding = turns[(number + step) % len(turns)]
        # A deleted partition: the news of the new assignment is on its way.
        if holding.partition < partitions_count:
            return holding
    return None
