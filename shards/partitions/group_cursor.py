"""Who may poll a partition for a group, and whether what was polled is committed. Pure state.

Lives with the partition at its owner, one per group that ever polled there. The owner is the one
place that all polls and commits of a partition pass, so it is here that a partition changes hands:
*closing* refuses every claim older than the ticket, from one request to the next, wherever the
news of the new assignment is at that moment.

Always: a claim older than the fence is refused; while a poll is being answered nothing is closed.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from borzoi.protocol.errors import NotResolvedConsumer

MARKS_MAX: Final = 4
"""Rights under which something is polled and not committed; more are joined, the cautious way."""


class Claim(NamedTuple):
    """In whose name a member polls and commits, and by what right."""

    group_id: int
    birth: int
    epoch: int


class Mark(NamedTuple):
    """The highest offset polled under one right."""

    epoch: int
    offset: int


class Watch(NamedTuple):
    """A revocation that waits for a commit. `forced`: its time is over, it waits for none."""

    since: int
    ticket: int
    forced: bool


@dataclass(slots=True)
class Cursor:
    """One group at one partition."""

    birth: int
    fence: int = 0
    polls: int = 0
    marks: list[Mark] = field(default_factory=list)
    watch: Watch | None = None

    def admit(self, claim: Claim) -> None:
        """NotResolvedConsumer for a right that is no longer good."""
        if claim.birth != self.birth or claim.epoch < self.fence:
            raise NotResolvedConsumer(f"{claim} is closed since {self.fence}")
        self.fence = claim.epoch
        if self.watch is not None and claim.epoch >= self.watch.ticket:
            # That revocation was called off, or is over: a member has a newer right.
            self.watch = None

    def begin_poll(self, claim: Claim) -> None:
        """A poll is on its way to be answered."""
        self.admit(claim)
        self.polls += 1

    def end_poll(self, epoch: int, last_offset: int | None) -> None:
        """It was answered, with messages up to `last_offset` or with none."""
        self.polls -= 1
        if last_offset is None:
            return
        if self.marks and self.marks[-1].epoch >= epoch:
            epoch, highest = self.marks.pop()
            last_offset = max(last_offset, highest)
        self.marks.append(Mark(epoch, last_offset))
        if len(self.marks) > MARKS_MAX:
            older, newer = self.marks[0], self.marks[1]
            self.marks[:2] = [Mark(newer.epoch, max(older.offset, newer.offset))]

    def committed(self, offset: int) -> None:
        """Forget marks that no revocation waits for any more, but the newest."""
        if len(self.marks) > 1:
            self.marks = [one for one in self.marks[:-1] if one.offset > offset] + self.marks[-1:]

    def revoke(self, watch: Watch) -> None:
        """A member is to give the partition up."""
        if watch.ticket > self.fence:
            self.watch = watch

    def close_if_settled(self, committed: int | None) -> int | None:
        """Close the partition to its holder if it may move now; the ticket of that, if so."""
        watch = self.watch
        if watch is None or self.polls or not (watch.forced or self._settled(watch, committed)):
            return None
        self.watch = None
        self.fence = watch.ticket
        return watch.ticket

    def _settled(self, watch: Watch, committed: int | None) -> bool:
        done = -1 if committed is None else committed
        return all(mark.offset <= done for mark in self.marks if mark.epoch >= watch.since)
