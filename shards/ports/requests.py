"""Requests to the owner of a partition: what each carries, and how the owner carries it out."""

from typing import Final, NamedTuple, Protocol, Self

from borzoi.router.target import Target
from borzoi.shards.lifecycle.deleting import Deleting
from borzoi.shards.lifecycle.repairing import Repairing
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.rings.poll import Poll, poll_of
from borzoi.shards.rings.requests import (
    NO_SLOT,
    AtOwner,
    DeathRule,
    Done,
    OfPartition,
    PollAtOwner,
    Request,
)
from borzoi.storage.retention import Cut


class Owned(NamedTuple):
    """What the owner of a partition carries requests out with."""

    partitions: Partitions
    deleting: Deleting
    repairing: Repairing


class Decides(Protocol):
    """What the owner of a partition decides polls with."""

    def resolve(self, target: Target, poll: Poll, done: Done) -> None:
        """Decide, and with auto-commit commit, what a poll returns."""


class ResolvePoll(PollAtOwner[Decides]):
    """Decide, and with auto-commit commit, what a poll returns; it carries no bytes.

    Results: first offset, message count, current offset.
    """

    KIND = 2

    def words(self, head: int, request_id: int) -> tuple[int, ...]:
        """What is pushed; `head` is word 0 without the kind."""
        (namespace, birth, _), poll = self.target, self.poll
        head |= self.KIND | poll.option << 8
        return (head, request_id, namespace, birth, poll.value, poll.reach, poll.user)

    @classmethod
    def of_words(cls, words: tuple[int, ...]) -> Self:
        """The request that eight words mean; its target has no slot yet."""
        head, _, namespace, birth, value, reach, user, _ = words
        poll = poll_of(head >> 8 & 0xFFFFFF, value, reach, user)
        return cls(Target(namespace, birth, NO_SLOT), poll)

    def carry_out(self, at: Decides, done: Done) -> None:
        """Decide the poll."""
        at.resolve(self.target, self.poll, done)


class StoreOffset(AtOwner[Owned]):
    """Commit an offset of a consumer, in the name of a user."""

    KIND = 3

    consumer_kind: int
    consumer: int
    offset: int
    user: int

    def carry_out(self, at: Owned, done: Done) -> None:
        """Commit."""
        at.partitions.store_offset(
            self.target, self.consumer_kind, self.consumer, self.offset, self.user, done
        )


class GetOffset(AtOwner[Owned]):
    """Results: whether an offset is committed, which, and the partition's current offset."""

    KIND = 4
    RULE = DeathRule.REREAD

    consumer_kind: int
    consumer: int

    def carry_out(self, at: Owned, done: Done) -> None:
        """Look it up."""
        at.partitions.get_offset(self.target, self.consumer_kind, self.consumer, done)


class DeleteOffset(AtOwner[Owned]):
    """Forget the committed offset of a consumer."""

    KIND = 5
    RULE = DeathRule.FAIL  # repeated, it would say that there was nothing to delete

    consumer_kind: int
    consumer: int

    def carry_out(self, at: Owned, done: Done) -> None:
        """Forget it."""
        at.partitions.delete_offset(self.target, self.consumer_kind, self.consumer, done)


class Flush(AtOwner[Owned]):
    """Write, and with `fsync` sync, what the owner has in memory."""

    KIND = 6

    fsync: bool

    def carry_out(self, at: Owned, done: Done) -> None:
        """Write it."""
        at.partitions.flush(self.target, bool(self.fsync), done)


class DeleteOldest(AtOwner[Owned]):
    """Delete up to `count` of the oldest segments, if all consumers have read them."""

    KIND = 32
    RULE = DeathRule.FAIL  # repeated, it would delete as many again

    count: int

    def carry_out(self, at: Owned, done: Done) -> None:
        """Delete them."""
        at.deleting.delete_count(self.target, self.count, done)


class DeleteUpTo(AtOwner[Owned]):
    """Delete the segments that end at an offset or before."""

    KIND = 33

    end_offset: int
    even_unread: bool

    def carry_out(self, at: Owned, done: Done) -> None:
        """Delete them."""
        at.deleting.delete_up_to(self.target, Cut(self.end_offset, bool(self.even_unread)), done)


class CheckIndex(AtOwner[Owned]):
    """Look at the index of a segment, and repair it if it is not what its log says."""

    KIND = 35

    first_offset: int

    def carry_out(self, at: Owned, done: Done) -> None:
        """Look, and repair."""
        at.repairing.check_index(self.target, self.first_offset, done)


AT_OWNER: Final[tuple[type[AtOwner[Owned]], ...]] = (
    StoreOffset,
    GetOffset,
    DeleteOffset,
    Flush,
    DeleteOldest,
    DeleteUpTo,
    CheckIndex,
)


class TellSegments(OfPartition):
    """Write the oldest sealed segments into the lent buffer."""

    KIND = 34
    LENDS = True

    position: int
    length: int


class FlushJournals(Request):
    """Durability "buffered": let the board show everything that is acknowledged."""

    KIND = 10
    RULE = DeathRule.COMPLETE
