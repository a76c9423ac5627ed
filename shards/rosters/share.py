"""A session's side of its groups: what it holds, and which partition's turn it is."""

import msgspec

from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.partitions.group_cursor import Claim
from borzoi.shards.rosters.assignment import Assignment
from borzoi.shards.rosters.roster import Holding


class Share:
    """An assignment, prepared for polls. `turns` leaves out what the member has to give up."""

    __slots__ = ("_claims", "assignment", "held", "turns")

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.held = {one.partition: one for one in assignment.held}
        leaving = frozenset(assignment.leaving)
        self.turns = tuple(one for one in assignment.held if one.partition not in leaving)
        self._claims = {
            one: Claim(assignment.group.group_id, assignment.birth, one.epoch)
            for one in assignment.held
        }

    def claim(self, holding: Holding) -> Claim:
        """The right to poll one of the partitions."""
        return self._claims[holding]


class Round(msgspec.Struct):
    """Where a session is in going round a group's partitions.

    `polled` says for each partition by which holding it was polled last (its `since`).
    """

    birth: int
    number: int = 0
    partition: int | None = None
    polled: dict[int, int] = {}


class Seat(msgspec.Struct, frozen=True, array_like=True):
    """A membership that moves to another shard with its session."""

    assignment: Assignment
    round: Round


class Turns:
    """The rounds of a session, by group. Lives with the connection."""

    __slots__ = ("_rounds",)

    def __init__(self, seats: tuple[Seat, ...] = ()) -> None:
        self._rounds = {seat.assignment.group: seat.round for seat in seats}

    def of(self, assignment: Assignment) -> Round:
        """The round of a membership; a new one for a group that has the id of an older one."""
        round = self._rounds.get(assignment.group)
        if round is None or round.birth != assignment.birth:
            round = self._rounds[assignment.group] = Round(assignment.birth)
        return round

    def next(self, share: Share, partitions_count: int) -> Holding | None:
        """The partition to poll now; None if there is none. The counter moves in any case."""
        round = self.of(share.assignment)
        holding = _at(share, round.number, partitions_count)
        round.number += 1
        round.partition = None if holding is None else holding.partition
        return holding

    def current(self, share: Share, partitions_count: int) -> Holding | None:
        """The partition that was polled last, or else the next one. The counter stays."""
        round = self.of(share.assignment)
        if round.partition is not None and round.partition < partitions_count:
            held = share.held.get(round.partition)
            if held is not None:
                return held
        return _at(share, round.number, partitions_count)

    def note_poll(self, share: Share, holding: Holding) -> None:
        """A partition is being polled."""
        self.of(share.assignment).polled[holding.partition] = holding.since

    def may_commit(self, share: Share, holding: Holding) -> bool:
        """Returns False if another member held the partition since this session polled it.

        The other member may have polled and committed further; a commit of the older offset now
        would bring all of that back.
        """
        since = self.of(share.assignment).polled.get(holding.partition)
        return since is None or since == holding.since

    def forget(self, group: GroupRef) -> None:
        """The session has left."""
        self._rounds.pop(group, None)


def _at(share: Share, number: int, partitions_count: int) -> Holding | None:
    turns = share.turns
    for step in range(len(turns)):
        holding = turns[(number + step) % len(turns)]
        # A deleted partition: the news of the new assignment is on its way.
        if holding.partition < partitions_count:
            return holding
    return None
