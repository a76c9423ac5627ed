"""A session goes round what it holds."""

import msgspec

from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.rosters.assignment import Assignment
from borzoi.shards.rosters.roster import Holding
from borzoi.shards.rosters.share import Round, Seat, Share, Turns

GROUP = GroupRef(1, 2, 3)


def share(*held: int, leaving: tuple[int, ...] = (), birth: int = 7, since: int = 4) -> Share:
    holdings = tuple(Holding(one, since, 20) for one in held)
    return Share(Assignment(GROUP, birth, 1000, 0, 20, holdings, leaving))


def partitions(turns: Turns, what: Share, count: int, rounds: int) -> list[int | None]:
    found = [turns.next(what, count) for _ in range(rounds)]
    return [None if one is None else one.partition for one in found]


def test_one_after_the_other() -> None:
    assert partitions(Turns(), share(2, 0, 1), 3, 5) == [2, 0, 1, 2, 0]


def test_what_is_promised_is_left_out_but_may_be_meant() -> None:
    what = share(0, 1, 2, leaving=(1,))
    assert partitions(Turns(), what, 3, 4) == [0, 2, 0, 2]
    assert what.held[1].partition == 1


def test_the_counter_goes_on_through_changes() -> None:
    turns = Turns()
    assert partitions(turns, share(0, 1, 2), 3, 2) == [0, 1]
    assert partitions(turns, share(0, 1), 3, 2) == [0, 1]
    assert partitions(turns, share(), 3, 1) == [None]
    assert partitions(turns, share(4, 5), 6, 1) == [5]


def test_deleted_partitions_are_stepped_over() -> None:
    assert partitions(Turns(), share(0, 5, 1), 2, 4) == [0, 1, 1, 0]
    assert partitions(Turns(), share(5), 2, 1) == [None]


def test_current_is_the_one_polled_last() -> None:
    turns = Turns()
    what = share(0, 1, 2)

    def current(of: Share) -> int | None:
        holding = turns.current(of, 3)
        return None if holding is None else holding.partition

    assert current(what) == 0
    assert partitions(turns, what, 3, 2) == [0, 1]
    assert current(what) == 1
    assert current(share(0, 1, 2, leaving=(1,))) == 1
    # Another member's by now: the next one in turn.
    assert current(share(0, 2)) == 0
    assert current(share()) is None
    assert partitions(turns, what, 3, 1) == [2]


def test_a_session_takes_its_round_along() -> None:
    turns = Turns()
    what = share(0, 1, 2)
    partitions(turns, what, 3, 2)
    turns.note_poll(what, what.held[1])
    seat = Seat(what.assignment, turns.of(what.assignment))
    assert seat.round == Round(7, 2, 1, {1: 4})
    moved = msgspec.json.decode(msgspec.json.encode(seat), type=Seat)
    assert moved == seat
    assert partitions(Turns((moved,)), what, 3, 1) == [2]
    turns.forget(GROUP)
    assert turns.of(what.assignment) == Round(7)


def test_another_group_of_the_same_id_begins_at_its_first_turn() -> None:
    turns = Turns()
    partitions(turns, share(0, 1, 2), 3, 2)
    assert partitions(turns, share(0, 1, 2, birth=8), 3, 1) == [0]


def test_what_was_polled_before_the_partition_was_lost_is_not_committed() -> None:
    turns = Turns()
    before, after = share(0, 1), share(0, 1, since=9)
    assert turns.may_commit(before, before.held[0])
    turns.note_poll(before, before.held[0])
    assert turns.may_commit(before, before.held[0])
    # Lost and held again. What was never polled may be committed to.
    assert not turns.may_commit(after, after.held[0])
    assert turns.may_commit(after, after.held[1])
    turns.note_poll(after, after.held[0])
    assert turns.may_commit(after, after.held[0])
