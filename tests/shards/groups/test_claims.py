"""Polls and commits of groups at the owner of a partition: real files, a loop moved by hand."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    ConsumerOffsetNotFound,
    InvalidOffset,
    NotResolvedConsumer,
)
from borzoi.protocol.identifiers import ConsumerKind, StrategyKind
from borzoi.router.target import Target
from borzoi.shards.groups.claims import Claims
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_cursor import Claim, Watch
from borzoi.shards.rings.poll import Poll
from tests.shards.groups.world import BIRTH, GROUP, StandingMetadata
from tests.shards.owner import TARGET, Owner

FIVE = [b"0", b"1", b"2", b"3", b"4"]
A, B = Claim(0, BIRTH, 5), Claim(0, BIRTH, 9)


class Answers:
    """A `done` that remembers everything."""

    def __init__(self) -> None:
        self.given: list[tuple[int, int, int, int]] = []

    def done(self, status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
        self.given.append((status, first, second, third))


class Group:
    """A group at one partition."""

    def __init__(self, root: Path) -> None:
        self.owner = Owner(root, Durability.WRITTEN)
        self.metadata = StandingMetadata()
        self.released: list[tuple[Target, int, int, int]] = []
        self.claims = Claims(
            self.owner.reads,
            self.owner.partitions,
            self.metadata.as_service,
            lambda *what: self.released.append(what),
        )
        self.owner.send(*FIVE)
        self.owner.loop.settle()

    def poll(
        self, claim: Claim, count: int = 10, *, commit: bool = False
    ) -> tuple[int, int, int, int]:
        """Status, first offset, message count, current offset."""
        answers = Answers()
        poll = Poll(StrategyKind.NEXT, 0, count, ConsumerKind.GROUP, claim.group_id, commit, 0)
        self.claims.measure(TARGET, poll, claim, answers.done)
        self.owner.loop.settle()
        (answer,) = answers.given
        return answer

    def store(self, claim: Claim, offset: int) -> int:
        answers = Answers()
        self.claims.store_offset(TARGET, claim, offset, answers.done)
        self.owner.loop.settle()
        return answers.given[0][0]

    def delete(self, claim: Claim) -> int:
        answers = Answers()
        self.claims.delete_offset(TARGET, claim, answers.done)
        return answers.given[0][0]

    def release(self, watch: Watch) -> int:
        answers = Answers()
        self.claims.release(TARGET, 0, BIRTH, watch, answers.done)
        status, closed, _, _ = answers.given[0]
        assert status == 0
        return closed

    @property
    def file(self) -> Path:
        return Path(self.owner.directory, "offsets", "groups", "0")


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path)
    yield made
    made.owner.close()


def test_a_poll_that_commits_is_on_file_before_it_is_answered(group: Group) -> None:
    assert group.poll(A, 2, commit=True) == (0, 0, 2, 4)
    assert group.file.read_bytes() == (1).to_bytes(8, "little")
    assert group.poll(A, 2) == group.poll(A, 2) == (0, 2, 2, 4)
    assert group.store(A, 4) == 0
    assert group.poll(A) == (0, 0, 0, 4)
    assert group.store(A, 5) == InvalidOffset.status
    assert group.delete(A) == 0
    assert group.delete(A) == ConsumerOffsetNotFound.status
    assert not group.file.exists()


def test_a_partition_moves_when_it_is_committed(group: Group) -> None:
    group.poll(A, 3)
    assert group.release(Watch(5, 8, forced=False)) == 0
    assert group.store(A, 1) == 0
    assert group.released == []
    assert group.store(A, 2) == 0
    assert group.released == [(TARGET, 0, BIRTH, 8)]
    # From one request to the next, wherever the news is.
    refused = NotResolvedConsumer.status
    assert (group.poll(A)[0], group.store(A, 4), group.delete(A)) == (refused,) * 3
    assert group.poll(B) == (0, 3, 2, 4)
    # Asked again, because the news of it was lost.
    assert group.release(Watch(5, 8, forced=False)) == 1


def test_a_committing_poll_lets_go_as_well(group: Group) -> None:
    group.poll(A, 1)
    assert group.release(Watch(5, 8, forced=False)) == 0
    assert group.poll(A, 5, commit=True) == (0, 0, 5, 4)
    assert [ticket for _, _, _, ticket in group.released] == [8]


def test_nothing_is_waited_for_when_the_time_is_over(group: Group) -> None:
    group.poll(A, 3)
    assert group.release(Watch(5, 8, forced=False)) == 0
    assert group.release(Watch(5, 8, forced=True)) == 1
    assert group.poll(A)[0] == NotResolvedConsumer.status
    assert group.poll(B) == (0, 0, 5, 4)


def test_a_poll_with_a_newer_right_shuts_the_older_out(group: Group) -> None:
    group.poll(A, 3)
    assert group.poll(B, 3) == (0, 0, 3, 4)
    assert group.store(A, 4) == NotResolvedConsumer.status
    assert group.store(B, 2) == 0


def test_a_deleted_group_gets_and_leaves_nothing(group: Group) -> None:
    group.poll(A, 3, commit=True)
    answers = Answers()
    poll = Poll(StrategyKind.NEXT, 0, 1, ConsumerKind.GROUP, 0, True, 0)
    group.claims.measure(TARGET, poll, A, answers.done)
    group.metadata.delete_group()
    group.owner.partitions.apply_effects(Effects(7, groups_removed=[GROUP]))
    group.owner.loop.settle()
    assert not group.file.exists()
    assert group.poll(A)[0] == ConsumerGroupIdNotFound.status
    assert group.store(A, 0) == ConsumerGroupIdNotFound.status
    # There is nothing to wait for either.
    assert group.release(Watch(5, 8, forced=False)) == 1
