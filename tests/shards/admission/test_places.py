"""Connections are shared: by address before the login, by user after it, and idle ones give way."""

import logging
from collections.abc import Callable
from itertools import count

import pytest

from borzoi.shards.admission.places import CONNECTIONS_WEIGHT, ConnectionPlaces
from borzoi.shares import address_taker, user_taker
from tests.shards.hand_clock import HandClock

TOTAL = 50
HERE, THERE = "10.0.0.1", "10.0.0.2"
MOST_OF_IT = TOTAL * CONNECTIONS_WEIGHT // (CONNECTIONS_WEIGHT + 1)


class Visitor:
    """A connection and its session in one."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.user_id: int | None = None
        self.is_idle = True

    def __repr__(self) -> str:
        return f"visitor {self.number}"


class Door:
    """Lets visitors in as the listener does."""

    def __init__(self, per_address_max: int = TOTAL, before_login_max: int = TOTAL) -> None:
        self.clock = HandClock()
        self.places = ConnectionPlaces[Visitor](
            TOTAL, per_address_max, before_login_max, clock=self.clock
        )
        self._numbers = count()

    def open(self, origin: str = HERE, user_id: int | None = None) -> Visitor | None:
        self.clock.now += 1
        if not self.places.admits(origin):
            return None
        leaving = self.places.giving_way()
        if leaving is not None:
            self.places.remove(leaving)
        visitor = Visitor(next(self._numbers))
        self.places.add(visitor, visitor, origin)
        visitor.user_id = user_id
        return visitor

    def open_all(self, origin: str = HERE, user_id: int | None = None) -> list[Visitor]:
        """As many as are let in."""
        visitors: list[Visitor] = []
        while len(visitors) <= TOTAL and (visitor := self.open(origin, user_id)) is not None:
            visitors.append(visitor)
        return visitors


def test_one_user_never_has_all_and_others_still_come() -> None:
    door = Door()
    greedy = door.open_all(HERE, user_id=7)
    assert len(greedy) == MOST_OF_IT
    assert door.open(HERE) is None
    # What it gives back it may have again.
    door.places.remove(greedy.pop())
    assert door.open(HERE, user_id=7) is not None
    assert door.open(THERE, user_id=8) is not None
    assert door.places.shares.figures().refusals >= 2


def test_one_user_from_several_addresses_never_has_all() -> None:
    door = Door()
    greedy = [*door.open_all(HERE, user_id=7), *door.open_all(THERE, user_id=7)]
    # The first from there could not be known to be the same user's.
    assert len(greedy) == MOST_OF_IT + 1
    assert door.open("10.0.0.3", user_id=8) is not None


def test_one_address_has_no_more_than_its_bound() -> None:
    door = Door(per_address_max=5)
    assert len(door.open_all(HERE, user_id=7)) == 5
    assert len(door.open_all(THERE)) == 5


def test_the_taker_changes_with_the_login_and_no_connection_is_refused_for_it() -> None:
    door = Door()
    visitors = [door.open(f"10.0.1.{number}") for number in range(TOTAL // 2)]
    for visitor in visitors:
        assert visitor is not None
        visitor.user_id = 7
    more = [door.open(f"10.0.2.{number}") for number in range(TOTAL // 2)]
    for visitor in more:
        assert visitor is not None
        visitor.user_id = 7
    door.places.settle()
    assert door.places.shares.held(user_taker(7)) == TOTAL
    assert door.places.is_full
    assert door.places.before_login.taken == 0
    first = visitors[0]
    assert first is not None
    first.user_id = None
    door.places.settle()
    assert door.places.shares.held(address_taker("10.0.1.0")) == 1
    assert door.places.before_login.taken == 1
    first.user_id = 8
    door.places.settle()
    assert door.places.shares.held(user_taker(8)) == 1
    for visitor in (*visitors, *more):
        assert visitor is not None
        door.places.remove(visitor)
    assert door.places.shares.taken == door.places.before_login.taken == 0
    assert not door.places._at
    assert not door.places._users_at
    assert not door.places._anonymous


def crowd(door: Door, addresses: dict[str, int]) -> dict[str, list[Visitor]]:
    found: dict[str, list[Visitor]] = {}
    for origin, visits in addresses.items():
        found[origin] = [one for _ in range(visits) if (one := door.open(origin)) is not None]
    return found


def test_the_oldest_of_the_address_that_has_most_gives_way() -> None:
    door = Door(before_login_max=6)
    found = crowd(door, {THERE: 2, HERE: 4})
    assert door.places.giving_way() is found[HERE][0]
    # There is room now, until the next comes.
    assert door.places.giving_way() is None
    assert door.open("10.0.0.3") is not None
    found[HERE][1].is_idle = False
    assert door.places.giving_way() is found[HERE][2]


def test_a_busy_one_gives_way_if_its_address_has_none_that_is_idle() -> None:
    door = Door(before_login_max=4)
    found = crowd(door, {THERE: 1, HERE: 3})
    for visitor in found[HERE]:
        visitor.is_idle = False
    assert door.places.giving_way() is found[HERE][0]


def test_who_has_just_logged_in_does_not_give_way() -> None:
    door = Door(before_login_max=4)
    found = crowd(door, {THERE: 1, HERE: 3})
    door.places.settle()
    found[HERE][0].user_id = 7
    # Found out just in time.
    assert door.places.giving_way() is None
    assert door.places.before_login.taken == 3
    assert door.places.shares.held(user_taker(7)) == 1


def test_a_flood_before_the_login_leaves_room_for_logins() -> None:
    door = Door()
    for number in range(1000):
        assert door.open(f"10.0.{number % 2}.{number % 7}") is not None
        assert door.places.before_login.taken <= TOTAL // 2
    assert door.open("10.9.9.9", user_id=7) is not None


def test_refusals_are_counted_but_hardly_logged(caplog: pytest.LogCaptureFixture) -> None:
    door = Door(per_address_max=5)
    with caplog.at_level(logging.WARNING):
        door.open_all()
        refuse: Callable[[], Visitor | None] = door.open
        assert [refuse() for _ in range(30)] == [None] * 30
    assert door.places.shares.figures().refusals == 31
    assert len(caplog.records) == 1
    assert "address 10.0.0.1 is refused 1 connections: it holds 5" in caplog.text
