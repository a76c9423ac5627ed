"""Shares: the rule by which scarce things are divided, and the line of what waits for them."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.shares import NAMED_INTERVAL_S, NAMED_MAX, Line, Shares, address_taker, user_taker

TAKERS = [user_taker(0), user_taker(1), address_taker("127.0.0.2")]


def filled(shares: Shares, taker: str) -> int:
    """Let a taker take one at a time, as long as it may."""
    count = 0
    while shares.take(taker, 1):
        count += 1
    return count


def test_one_taker_gets_half_two_get_a_third_and_the_next_always_finds_room() -> None:
    shares = Shares("things", 1200)
    assert filled(shares, "a") == 600
    assert filled(shares, "b") == 300
    shares.give_back("a", 600)
    assert filled(shares, "a") == 450  # they were not there at the same time: b holds 300 still
    assert shares.total - shares.taken == 450
    assert filled(shares, "c") == 225


@pytest.mark.parametrize("takers", [1, 2, 5, 20])
def test_however_many_are_greedy_the_next_one_finds_its_part(takers: int) -> None:
    shares = Shares("things", 10_000)
    hungry = [f"taker {number}" for number in range(takers)]
    while any([shares.take(taker, 1) for taker in hungry]):
        pass
    free = shares.total - shares.taken
    assert free >= 10_000 // (takers + 1)
    assert shares.allows("another", free), "who holds nothing gets whatever there is"


def test_a_weight_says_how_many_times_of_what_is_free_one_may_hold() -> None:
    shares = Shares("things", 1000, weight=3)
    assert filled(shares, "a") == 750


def test_who_holds_nothing_gets_a_single_thing_of_any_size_that_is_there() -> None:
    shares = Shares("bytes", 1000)
    assert shares.take("a", 1000)
    assert not shares.take("b", 1)
    shares.give_back("a", 1000)
    assert not shares.take("b", 1001)
    assert shares.taken == 0


@pytest.mark.parametrize(("total", "weight"), [(0, 1), (1, 0)])
def test_shares_of_nothing_are_refused(total: int, weight: int) -> None:
    with pytest.raises(ValueError, match="shares of things"):
        Shares("things", total, weight)


@given(
    st.lists(st.tuples(st.sampled_from(TAKERS), st.integers(1, 400), st.booleans()), max_size=200)
)
def test_what_is_taken_is_the_sum_of_what_is_held_and_never_more_than_all(
    steps: list[tuple[str, int, bool]],
) -> None:
    shares = Shares("things", 1000)
    held: dict[str, list[int]] = {taker: [] for taker in TAKERS}
    for taker, amount, gives in steps:
        if gives and held[taker]:
            shares.give_back(taker, held[taker].pop())
        elif shares.take(taker, amount):
            held[taker].append(amount)
        assert shares.taken == sum(map(sum, held.values())) <= shares.total
        assert all(shares.held(one) == sum(held[one]) for one in TAKERS)
    for one in TAKERS:
        for amount in held[one]:
            shares.give_back(one, amount)
    assert shares.figures()[1:4] == (0, 0, 0)


def test_giving_back_more_than_is_held_is_a_fault() -> None:
    shares = Shares("things", 10)
    shares.take_anyway("a", 2)
    with pytest.raises(AssertionError, match="a gives back more things"):
        shares.give_back("a", 3)


def test_a_wait_names_who_waits_and_who_holds_most(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    shares = Shares("bytes of the receive pool", 100, clock=lambda: now[0])
    shares.take_anyway("user 7", 90)
    shares.take_anyway("user 3", 5)
    with caplog.at_level(logging.WARNING):
        shares.note_wait("user 3", 20)
        shares.note_wait("user 3", 20)
        now[0] = NAMED_INTERVAL_S
        shares.note_refusal("user 3", 20)
    assert caplog.messages == [
        "user 3 waits for 20 bytes of the receive pool: it holds 5, user 7 holds 90 of 100, "
        "5 are free",
        "user 3 is refused 20 bytes of the receive pool: it holds 5, user 7 holds 90 of 100, "
        "5 are free",
    ]
    assert shares.figures() == (100, 95, 90, 2, 2, 1)


def test_only_so_many_takers_are_named_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    shares = Shares("things", 10, clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for number in range(10 * NAMED_MAX):
            shares.note_wait(f"address {number}", 1)
        assert len(caplog.messages) == NAMED_MAX
        now[0] += NAMED_INTERVAL_S
        shares.note_wait("address 5", 1)
    assert len(caplog.messages) == NAMED_MAX + 1
    assert shares.figures().waits == 10 * NAMED_MAX + 1


def test_the_line_begins_with_who_holds_least_and_keeps_the_order_of_each() -> None:
    shares = Shares("things", 100)
    line: Line[str] = Line(shares)
    shares.take_anyway("a", 10)
    shares.take_anyway("b", 5)
    for taker, item in (("a", "a1"), ("b", "b1"), ("b", "b2"), ("c", "c1")):
        line.add(taker, item)
    assert list(line.heads()) == [("c", "c1"), ("b", "b1"), ("a", "a1")]
    assert line.remove("b", "b1")
    assert line.remove("c", "c1")
    assert not line.remove("c", "c1")
    assert list(line.heads()) == [("b", "b2"), ("a", "a1")]
    assert (len(line), line.waits("c"), line.waits("b")) == (2, False, True)
