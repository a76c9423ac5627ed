"""What members hold, between shards, and after the death of shard 0."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.metadata.effects import GroupRef
from borzoi.shards.rosters.assignment import (
    Assignment,
    adopted,
    assignments_of,
    decode_assignments,
    encode_assignments,
)
from borzoi.shards.rosters.roster import Holding, Member, Roster, join, renew, settle
from tests.shards.groups.world import BIRTH, GROUP, PARTITIONS, world


def life(clients: int) -> Roster:
    roster = Roster(BIRTH)
    for client_id in range(clients):
        roster = join(roster, client_id, client_id % 2, PARTITIONS, client_id + 1, 0.0)
    return roster


@given(st.integers(0, 5))
def test_there_and_back(clients: int) -> None:
    sent = list(assignments_of(GROUP, life(clients)).values())
    assert decode_assignments(encode_assignments(sent)) == sent
    assert decode_assignments(b"") == []


def test_what_a_member_is_sent() -> None:
    sent = assignments_of(GROUP, life(2))
    assert sent[0] == Assignment(
        GROUP, BIRTH, 0, 0, 2, tuple(Holding(one, 1, 1) for one in range(4)), (2, 3)
    )
    assert sent[1] == Assignment(GROUP, BIRTH, 1, 1, 2)


@given(st.integers(1, 5))
def test_reports_make_the_same_members_again(clients: int) -> None:
    """Revocations apart, which the new coordinator settles."""
    roster = settle(life(clients), PARTITIONS, 100)
    reported = [
        (member.shard, assignment)
        for member in roster.members
        for assignment in [assignments_of(GROUP, roster)[member.client_id]]
    ]
    found = adopted(reported[::-1], world())
    assert found[GROUP].members == roster.members
    again = settle(renew(found[GROUP], 200), PARTITIONS, 201)
    shares = [[one.partition for one in member.held] for member in again.members]
    assert shares == [[one.partition for one in member.held] for member in roster.members]
    assert all(one.epoch == 200 for member in again.members for one in member.held)


def test_of_two_holders_the_newer_right_counts() -> None:
    old = Assignment(GROUP, BIRTH, 10, 0, 5, (Holding(0, 1, 1), Holding(1, 1, 1)))
    new = Assignment(GROUP, BIRTH, 11, 1, 6, (Holding(1, 6, 6),))
    found = adopted([(1, old), (2, new)], world())
    assert found[GROUP].members == (
        Member(0, 10, 1, (Holding(0, 1, 1),)),
        Member(1, 11, 2, (Holding(1, 6, 6),)),
    )


def test_groups_that_do_not_exist_are_not_adopted() -> None:
    dead = Assignment(GROUP, BIRTH - 1, 10, 0, 5, (Holding(0, 1, 1),))
    elsewhere = Assignment(GroupRef(7, 7, 7), BIRTH, 10, 0, 5, (Holding(0, 1, 1),))
    assert adopted([(1, dead), (1, elsewhere)], world()) == {}
