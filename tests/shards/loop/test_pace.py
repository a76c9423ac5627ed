"""Paces: a burst, then so many a second, for each key, in a table of bounded size."""

import pytest

from borzoi.shards.loop.pace import Pace, Paces
from tests.shards.hand_clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def test_a_burst_then_one_at_a_time(clock: HandClock) -> None:
    paces = Paces[str](Pace(2.0, 3), 10, clock)
    for _ in range(3):
        assert paces.wait_s("a") == 0.0
        paces.spend("a")
    assert paces.wait_s("a") == pytest.approx(0.5, abs=1e-5)
    assert paces.wait_s("b") == 0.0
    clock.now += 0.5
    assert paces.wait_s("a") == 0.0
    paces.spend("a")
    assert paces.wait_s("a") == pytest.approx(0.5, abs=1e-5)
    # After a pause there is a burst again, and no more than one.
    clock.now += 100
    for _ in range(3):
        assert paces.wait_s("a") == 0.0
        paces.spend("a")
    assert paces.wait_s("a") == pytest.approx(0.5, abs=1e-5)


def test_the_table_is_bounded_and_forgets_what_is_paid(clock: HandClock) -> None:
    paces = Paces[int](Pace(1.0, 1), 4, clock)
    for key in range(100):
        paces.spend(key)
        assert len(paces) <= 4
    assert paces.wait_s(95) == 0.0
    assert paces.wait_s(99) == pytest.approx(1.0, abs=1e-5)
    clock.now += 2
    for key in (200, 201):
        paces.spend(key)
    assert len(paces) == 2


def test_what_makes_no_sense() -> None:
    for pace, keys_max in ((Pace(0.0, 1), 1), (Pace(1.0, 0), 1), (Pace(1.0, 1), 0)):
        with pytest.raises(ValueError, match="keys"):
            Paces[str](pace, keys_max, lambda: 0.0)
