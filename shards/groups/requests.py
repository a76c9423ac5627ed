"""Requests about consumer groups: to the owners of partitions, and from shard 0."""

from typing import Final, Self

from borzoi.router.target import Target
from borzoi.shards.groups.claims import Claims
from borzoi.shards.partitions.group_cursor import Claim, Watch
from borzoi.shards.rings.poll import UNKNOWN_USER, poll_of
from borzoi.shards.rings.requests import (
    NO_SLOT,
    AtOwner,
    DeathRule,
    Done,
    PollAtOwner,
    Telling,
)


class GroupPoll(PollAtOwner[Claims]):
    """Decide what a member's poll returns. Results: first offset, message count, current offset.

    The consumer of the poll is the group.
    """

    KIND = 11

    claim: Claim

    def words(self, head: int, request_id: int) -> tuple[int, ...]:
        """What is pushed; `head` is word 0 without the kind."""
        (namespace, birth, _), poll, claim = self.target, self.poll, self.claim
        head |= self.KIND | poll.option << 8
        words = (namespace, birth, poll.value, poll.reach, claim.birth, claim.epoch)
        return (head, request_id, *words)

    @classmethod
    def of_words(cls, words: tuple[int, ...]) -> Self:
        """The request that eight words mean; its target has no slot yet."""
        head, _, namespace, birth, value, reach, group_birth, epoch = words
        poll = poll_of(head >> 8 & 0xFFFFFF, value, reach, UNKNOWN_USER)
        claim = Claim(poll.consumer, group_birth, epoch)
        return cls(Target(namespace, birth, NO_SLOT), poll, claim)

    def carry_out(self, at: Claims, done: Done) -> None:
        """Decide the poll."""
        at.measure(self.target, self.poll, self.claim, done)


class GroupStore(AtOwner[Claims]):
    """Commit an offset of a group."""

    KIND = 12

    group_id: int
    birth: int
    epoch: int
    offset: int

    def carry_out(self, at: Claims, done: Done) -> None:
        """Commit."""
        claim = Claim(self.group_id, self.birth, self.epoch)
        at.store_offset(self.target, claim, self.offset, done)


class GroupDelete(AtOwner[Claims]):
    """Forget the committed offset of a group."""

    KIND = 13
    RULE = DeathRule.FAIL  # repeated, it would say that there was nothing to delete

    group_id: int
    birth: int
    epoch: int

    def carry_out(self, at: Claims, done: Done) -> None:
        """Forget it."""
        at.delete_offset(self.target, Claim(self.group_id, self.birth, self.epoch), done)


class Release(AtOwner[Claims]):
    """From shard 0: close a holder's right as soon as the rules allow. Result: 1 if closed."""

    KIND = 14

    group_id: int
    birth: int
    watch: Watch

    def words(self, head: int, request_id: int) -> tuple[int, ...]:
        """What is pushed; `head` is word 0 without the kind."""
        (namespace, birth, _), (since, ticket, forced) = self.target, self.watch
        head |= self.KIND | forced << 8
        return (head, request_id, namespace, birth, self.group_id, self.birth, since, ticket)

    @classmethod
    def of_words(cls, words: tuple[int, ...]) -> Self:
        """The request that eight words mean; its target has no slot yet."""
        head, _, namespace, birth, group_id, group_birth, since, ticket = words
        watch = Watch(since, ticket, bool(head >> 8 & 1))
        return cls(Target(namespace, birth, NO_SLOT), group_id, group_birth, watch)

    def carry_out(self, at: Claims, done: Done) -> None:
        """Close the right, or watch for the commit that allows it."""
        at.release(self.target, self.group_id, self.birth, self.watch, done)


AT_OWNER_OF_CLAIMS: Final[tuple[type[AtOwner[Claims]], ...]] = (
    GroupPoll,
    GroupStore,
    GroupDelete,
    Release,
)


class Assign(Telling):
    """From shard 0: what members hold from now on is what is lent."""

    KIND = 22


class Report(Telling):
    """From shard 0: write what the members of the asked shard hold into the lent buffer."""

    KIND = 23
