"""Closing a partition to its holder: what is admitted, what is waited for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.errors import NotResolvedConsumer
from borzoi.shards.partitions.group_cursor import MARKS_MAX, Claim, Cursor, Mark, Watch

BIRTH = 9


def claim(epoch: int, birth: int = BIRTH) -> Claim:
    return Claim(0, birth, epoch)


def polled(cursor: Cursor, epoch: int, last_offset: int | None) -> None:
    cursor.begin_poll(claim(epoch))
    cursor.end_poll(epoch, last_offset)


def test_nothing_was_polled() -> None:
    cursor = Cursor(BIRTH)
    polled(cursor, 5, None)
    cursor.revoke(Watch(5, 7, forced=False))
    assert cursor.close_if_settled(None) == 7
    with pytest.raises(NotResolvedConsumer):
        cursor.admit(claim(5))
    cursor.admit(claim(8))
    assert cursor.close_if_settled(None) is None


def test_a_commit_is_waited_for() -> None:
    cursor = Cursor(BIRTH)
    polled(cursor, 5, 19)
    polled(cursor, 5, 3)
    cursor.revoke(Watch(5, 7, forced=False))
    assert cursor.close_if_settled(None) is None
    assert cursor.close_if_settled(18) is None
    cursor.admit(claim(5))
    assert cursor.close_if_settled(19) == 7


def test_the_holder_keeps_its_marks_when_its_right_is_renewed() -> None:
    cursor = Cursor(BIRTH)
    polled(cursor, 5, 19)
    polled(cursor, 12, 2)
    cursor.revoke(Watch(5, 14, forced=False))
    assert cursor.close_if_settled(2) is None
    assert cursor.close_if_settled(19) == 14


def test_what_an_earlier_holder_polled_counts_no_more() -> None:
    cursor = Cursor(BIRTH)
    polled(cursor, 5, 19)
    polled(cursor, 12, 2)
    cursor.revoke(Watch(12, 14, forced=False))
    assert cursor.close_if_settled(2) == 14


def test_a_poll_that_is_being_answered_is_waited_for_whatever_happens() -> None:
    cursor = Cursor(BIRTH)
    cursor.begin_poll(claim(5))
    cursor.revoke(Watch(5, 7, forced=True))
    assert cursor.close_if_settled(None) is None
    cursor.end_poll(5, 19)
    assert cursor.close_if_settled(None) == 7


def test_a_newer_right_ends_a_revocation_that_was_called_off() -> None:
    cursor = Cursor(BIRTH)
    polled(cursor, 5, 19)
    cursor.revoke(Watch(5, 7, forced=False))
    cursor.admit(claim(8))
    assert cursor.watch is None
    cursor.revoke(Watch(5, 7, forced=True))
    assert cursor.close_if_settled(19) is None
    cursor.admit(claim(8))


def test_another_group_of_the_same_id() -> None:
    with pytest.raises(NotResolvedConsumer):
        Cursor(BIRTH).admit(claim(1 << 50, BIRTH + 1))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 50)), min_size=1, max_size=30))
def test_marks_are_bounded_and_forget_nothing_that_matters(
    polls: list[tuple[int, int]],
) -> None:
    """Joined marks may make a member wait for too much, never for too little."""
    cursor = Cursor(BIRTH)
    epoch = 0
    seen: list[Mark] = []
    for step, last_offset in polls:
        epoch += step
        polled(cursor, epoch, last_offset)
        seen.append(Mark(epoch, last_offset))
        assert len(cursor.marks) <= MARKS_MAX
    for since in range(epoch + 1):
        needed = max((one.offset for one in seen if one.epoch >= since), default=-1)
        for committed in (needed - 1, needed):
            watched = Cursor(BIRTH, fence=epoch, marks=list(cursor.marks))
            watched.revoke(Watch(since, epoch + 1, forced=False))
            closed = watched.close_if_settled(committed) is not None
            assert not (closed and committed < needed)
    watched = Cursor(BIRTH, fence=epoch, marks=list(cursor.marks))
    watched.revoke(Watch(0, epoch + 1, forced=False))
    assert watched.close_if_settled(max(one.offset for one in seen)) == epoch + 1


def test_commits_forget_old_marks() -> None:
    cursor = Cursor(BIRTH)
    for epoch, offset in ((1, 5), (2, 9), (3, 7)):
        polled(cursor, epoch, offset)
    cursor.committed(7)
    assert cursor.marks == [Mark(2, 9), Mark(3, 7)]
