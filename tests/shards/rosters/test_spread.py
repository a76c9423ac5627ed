"""An even split with the fewest moves."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.rosters.spread import spread


@st.composite
def held_by_members(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    """Partitions in the hands of some members, of a topic that may have grown or shrunk since."""
    before = draw(st.integers(0, 40))
    members = draw(st.integers(1, 8))
    holdings: list[list[int]] = [[] for _ in range(members)]
    for partition in draw(st.permutations(range(before))):
        holder = draw(st.integers(-1, members - 1))
        if holder >= 0:
            holdings[holder].append(partition)
    return holdings, draw(st.integers(0, 40))


@given(held_by_members())
def test_every_partition_has_one_member_and_shares_are_even(
    case: tuple[list[list[int]], int],
) -> None:
    holdings, count = case
    shares = spread(holdings, count)
    assert sorted(one for share in shares for one in share) == list(range(count))
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert spread(holdings, count) == shares


@given(held_by_members())
def test_no_even_split_keeps_more(case: tuple[list[list[int]], int]) -> None:
    holdings, count = case
    shares = spread(holdings, count)
    kept = sum(
        len(set(before) & set(after)) for before, after in zip(holdings, shares, strict=True)
    )
    fair, remainder = divmod(count, len(holdings))
    valid = sorted((sum(one < count for one in held) for held in holdings), reverse=True)
    # The most an even split can leave alone: the larger shares go to those who have most.
    assert kept == sum(min(have, fair + (at < remainder)) for at, have in enumerate(valid))


@given(held_by_members())
def test_a_second_time_changes_nothing(case: tuple[list[list[int]], int]) -> None:
    holdings, count = case
    shares = spread(holdings, count)
    assert spread(shares, count) == shares


def test_what_is_given_up_is_taken_from_the_end() -> None:
    assert spread([[5, 4, 3, 2, 1, 0], []], 6) == [[5, 4, 3], [0, 1, 2]]


def test_free_partitions_are_dealt_in_turn() -> None:
    assert spread([[], [], []], 7) == [[0, 3, 6], [1, 4], [2, 5]]


def test_no_members_and_no_partitions() -> None:
    assert spread([], 3) == []
    assert spread([[2, 1], []], 0) == [[], []]
