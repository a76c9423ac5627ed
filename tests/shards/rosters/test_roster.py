"""What an event makes of a group: a random life of joins, leaves and commits, and single cases."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.rosters.roster import (
    Holding,
    Roster,
    complete,
    join,
    leave,
    place,
    renew,
    settle,
)

BIRTH = 7
EVENTS = st.lists(st.sampled_from(["join", "leave", "resize", "release", "renew"]), max_size=40)


def check(roster: Roster, partitions_count: int, epoch: int) -> None:
    """Everything the module says is always true."""
    held = [one.partition for member in roster.members for one in member.held]
    assert sorted(held) == (list(range(partitions_count)) if roster.members else [])
    ids = [member.id for member in roster.members]
    assert ids == sorted(set(ids))
    sizes = {member.id: len(member.held) for member in roster.members}
    for member in roster.members:
        for one in member.held:
            assert one.since <= one.epoch <= epoch
            if (revocation := roster.revocations.get(one.partition)) is not None:
                assert revocation.target != member.id
                sizes[member.id] -= 1
                sizes[revocation.target] += 1
                # The owner may have closed the right of the holder with this ticket.
                assert one.epoch < revocation.ticket
    assert not sizes or max(sizes.values()) - min(sizes.values()) <= 1
    assert set(roster.revocations) <= set(held)


def holdings(roster: Roster) -> set[tuple[int, int]]:
    return {(member.id, one.partition) for member in roster.members for one in member.held}


def check_rights(roster: Roster, closed: dict[int, int]) -> None:
    """No member is left with a right that the owner may have closed for good."""
    for member in roster.members:
        for one in member.held:
            if one.partition not in roster.revocations:
                assert one.epoch >= closed.get(one.partition, 0)


@given(EVENTS, st.integers(0, 20), st.randoms(use_true_random=False))
def test_a_life_of_a_group(events: list[str], partitions_count: int, choice: random.Random) -> None:
    roster = Roster(BIRTH)
    closed: dict[int, int] = {}  # The highest ticket an owner may have closed a partition with.
    for epoch, event in enumerate(events, 1):
        before = roster
        match event:
            case "join":
                roster = join(roster, 100 + epoch, epoch % 2, partitions_count, epoch, epoch)
                assert holdings(before) <= holdings(roster), "a join takes nothing away by itself"
            case "leave" if roster.members:
                gone = choice.choice(roster.members).client_id
                roster = leave(roster, [gone], partitions_count, epoch)
                assert roster.find(gone) is None
                assert not roster.revocations
            case "resize":
                partitions_count = choice.randrange(20)
                closed = {one: ticket for one, ticket in closed.items() if one < partitions_count}
                roster = settle(roster, partitions_count, epoch)
                assert not roster.revocations
            case "release":
                some = [one for one in roster.revocations if choice.random() < 0.5]
                tickets = {one: roster.revocations[one].ticket for one in some}
                roster = complete(roster, tickets, epoch)
                assert not set(some) & set(roster.revocations)
            case "renew":
                roster = renew(roster, epoch)
                closed = {}
                roster = settle(roster, partitions_count, epoch)
        for partition, revocation in roster.revocations.items():
            closed[partition] = max(closed.get(partition, 0), revocation.ticket)
        check(roster, partitions_count, epoch)
        check_rights(roster, closed)


def shares(roster: Roster) -> dict[int, list[int]]:
    return {member.client_id: [one.partition for one in member.held] for member in roster.members}


def test_the_first_member_gets_everything() -> None:
    roster = join(Roster(BIRTH), 1, 0, 3, 5, 0.0)
    assert [member.held for member in roster.members] == [
        (Holding(0, 5, 5), Holding(1, 5, 5), Holding(2, 5, 5))
    ]
    assert roster.revocations == {}


def test_a_join_moves_the_whole_fair_share_once_it_is_released() -> None:
    roster = join(join(Roster(BIRTH), 1, 0, 6, 1, 0.0), 2, 1, 6, 2, 0.0)
    assert shares(roster) == {1: [0, 1, 2, 3, 4, 5], 2: []}
    assert set(roster.revocations) == {3, 4, 5}
    roster = complete(roster, dict.fromkeys((3, 4, 5), 2), 3)
    assert shares(roster) == {1: [0, 1, 2], 2: [3, 4, 5]}
    assert [member.held[-1] for member in roster.members] == [Holding(2, 1, 1), Holding(5, 3, 3)]


def test_a_third_member_takes_over_what_the_second_still_waits_for() -> None:
    roster = join(join(Roster(BIRTH), 1, 0, 6, 1, 0.0), 2, 1, 6, 2, 10.0)
    roster = join(roster, 3, 1, 6, 3, 20.0)
    targets = {one: (by.target, by.created_at) for one, by in roster.revocations.items()}
    # One of the three that client 2 waits for is retargeted: its holder was asked at 10.
    assert targets == {3: (1, 10.0), 4: (1, 10.0), 5: (2, 10.0), 2: (2, 20.0)}
    assert roster.revocations[5].ticket == 2


def test_an_old_ticket_moves_nothing() -> None:
    roster = join(join(Roster(BIRTH), 1, 0, 2, 1, 0.0), 2, 1, 2, 2, 0.0)
    alone = leave(roster, [2], 2, 3)
    assert shares(alone) == {1: [0, 1]}
    # The owner may have closed epoch 1 of partition 1 meanwhile; the holder has a new right.
    assert alone.members[0].held == (Holding(0, 1, 1), Holding(1, 1, 3))
    again = join(alone, 3, 1, 2, 4, 0.0)
    assert complete(again, {1: 2}, 5) is again


def test_a_source_that_leaves_hands_over_at_once() -> None:
    roster = join(join(Roster(BIRTH), 1, 0, 3, 1, 0.0), 2, 1, 3, 2, 0.0)
    assert shares(leave(roster, [1], 3, 3)) == {2: [0, 1, 2]}


def test_no_partitions_are_left() -> None:
    roster = settle(join(Roster(BIRTH), 1, 0, 3, 1, 0.0), 0, 2)
    assert shares(roster) == {1: []}
    assert shares(settle(roster, 2, 3)) == {1: [0, 1]}


def test_a_member_id_is_one_more_than_the_highest() -> None:
    roster = Roster(BIRTH)
    for client_id in range(3):
        roster = join(roster, client_id, 0, 1, client_id + 1, 0.0)
    roster = join(leave(roster, [1], 1, 4), 9, 0, 1, 5, 0.0)
    assert [member.id for member in roster.members] == [0, 2, 3]


def test_no_client_joins_twice() -> None:
    roster = join(Roster(BIRTH), 1, 0, 1, 1, 0.0)
    with pytest.raises(AssertionError):
        join(roster, 1, 0, 1, 2, 0.0)


def test_a_member_that_moves_keeps_what_it_holds() -> None:
    roster = join(Roster(BIRTH), 1, 0, 2, 1, 0.0)
    moved = place(roster, 1, 1, 12.5)
    assert (moved.members[0].shard, moved.members[0].travelling_since) == (1, 12.5)
    assert shares(moved) == shares(roster)
