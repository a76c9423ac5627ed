"""Who has how many of a shard's connections: by address before the login, by user after it.

Connections are `Shares`: a taker has at most CONNECTIONS_WEIGHT times what is free, as far as the
settings leave it at that. So no address and no user ever has all of them. Whether one more is let
in is asked of its address and of all users who are logged in from there: the next one is most
likely theirs. Once a connection is in, it stays, also when a user logs in on it: it
only counts for another taker then.

Connections without a login have places of their own, `before_login`. No connection is refused for
want of one: if all are taken, the address that has most of them loses its oldest that has nothing
in work. A client that logs in at once has left that place long before it is the oldest.

Who is logged in is looked up once a second, and when another one comes: a login takes effect here
a little later, and costs nothing.

Owned by the listener. Always: each connection counts for one taker, and `before_login` counts
those whose taker is an address, except for the ones that were asked to leave.
"""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from borzoi.shares import Shares, address_taker, user_taker

CONNECTIONS_WEIGHT: Final = 4
"""One taker alone has four fifths, two have four ninths each: most brokers have one busy user."""

SETTLED_FOR_S: Final = 0.1
"""Connections come in floods: logins are looked up that often at most."""


class Guest(Protocol):
    """The session of a connection."""

    user_id: int | None


class Visit(Protocol):
    """A connection."""

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing in work."""


V = TypeVar("V", bound=Visit)


class _Place:
    __slots__ = ("guest", "origin", "user_id")

    def __init__(self, guest: Guest, origin: str) -> None:
        self.guest = guest
        self.origin = origin
        self.user_id: int | None = None

    @property
    def taker(self) -> str:
        return address_taker(self.origin) if self.user_id is None else user_taker(self.user_id)


class ConnectionPlaces(Generic[V]):
    """The connections of one shard, by taker."""

    def __init__(
        self,
        connections_max: int,
        per_address_max: int,
        before_login_max: int,
        share_weight: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        weight = CONNECTIONS_WEIGHT * share_weight
        self.shares = Shares("connections", connections_max, weight, clock)
        # Half of all at most, or who is not logged in would have all there are.
        before_login_max = min(before_login_max, max(1, connections_max // 2))
        self.before_login = Shares("connections before login", before_login_max, clock=clock)
        self._per_address_max = per_address_max
        self._clock = clock
        self._places: dict[V, _Place] = {}
        self._at: Counter[str] = Counter()
        self._users_at: dict[str, Counter[int]] = {}
        # By address, in the order in which they came.
        self._anonymous: dict[str, dict[V, None]] = {}
        self._settled = -SETTLED_FOR_S

    def admits(self, origin: str) -> bool:
        """Whether one more may come from there."""
        self._settle_logins()
        taker = self._refused_taker(origin)
        if taker is not None:
            self.shares.note_refusal(taker, 1)
        return taker is None

    @property
    def is_full(self) -> bool:
        """Whether there is no place for one either that was let in by another shard."""
        return self.shares.taken >= self.shares.total

    def add(self, visit: V, guest: Guest, origin: str) -> None:
        """One has come in."""
        place = self._places[visit] = _Place(guest, origin)
        self._at[origin] += 1
        self.shares.take_anyway(place.taker, 1)
        self._wait_for_login(visit, place)
        self._settle(visit, place)

    def remove(self, visit: V) -> None:
        """One has gone."""
        place = self._places.pop(visit)
        self._at[place.origin] -= 1
        if not self._at[place.origin]:
            del self._at[place.origin]
        self.shares.give_back(place.taker, 1)
        self._leave_taker(visit, place)

    def giving_way(self) -> V | None:
        """The one that has to go for the next to come, None if there is room before the login.

        It has no place before the login any more, and is to be closed.
        """
        if self.before_login.taken < self.before_login.total:
            return None
        while self.before_login.taken >= self.before_login.total:
            origin = max(self._anonymous, key=lambda one: len(self._anonymous[one]))
            visits = self._anonymous[origin]
            oldest = next((one for one in visits if one.is_idle), next(iter(visits)))
            place = self._places[oldest]
            self._settle(oldest, place)
            if place.user_id is None:
                self.before_login.note_giving_way(place.taker)
                self._leave_before_login(oldest, origin)
                return oldest
        return None

    def settle(self) -> None:
        """See who has logged in or out since."""
        for visit, place in self._places.items():
            if place.guest.user_id != place.user_id:
                self._settle(visit, place)

    def _settle_logins(self) -> None:
        """See who has logged in since, if that was not seen just now."""
        now = self._clock()
        if now - self._settled < SETTLED_FOR_S:
            return
        self._settled = now
        places = self._places
        for visits in list(self._anonymous.values()):
            for visit in [one for one in visits if places[one].guest.user_id is not None]:
                self._settle(visit, places[visit])

    def _refused_taker(self, origin: str) -> str | None:
        taker = address_taker(origin)
        if self._at[origin] >= self._per_address_max or not self.shares.allows(taker, 1):
            return taker
        for user_id in self._users_at.get(origin, ()):
            taker = user_taker(user_id)
            if not self.shares.allows(taker, 1):
                return taker
        return None

    def _settle(self, visit: V, place: _Place) -> None:
        user_id = place.guest.user_id
        if user_id == place.user_id:
            return
        self.shares.give_back(place.taker, 1)
        self._leave_taker(visit, place)
        place.user_id = user_id
        self.shares.take_anyway(place.taker, 1)
        if user_id is None:
            self._wait_for_login(visit, place)
        else:
            self._users_at.setdefault(place.origin, Counter())[user_id] += 1

    def _leave_taker(self, visit: V, place: _Place) -> None:
        if place.user_id is None:
            self._leave_before_login(visit, place.origin)
            return
        users = self._users_at[place.origin]
        users[place.user_id] -= 1
        if not users[place.user_id]:
            del users[place.user_id]
        if not users:
            del self._users_at[place.origin]

    def _wait_for_login(self, visit: V, place: _Place) -> None:
        self.before_login.take_anyway(address_taker(place.origin), 1)
        self._anonymous.setdefault(place.origin, {})[visit] = None

    def _leave_before_login(self, visit: V, origin: str) -> None:
        visits = self._anonymous.get(origin, {})
        if visit not in visits:
            # It was asked to leave.
            return
        del visits[visit]
        self.before_login.give_back(address_taker(origin), 1)
        if not visits:
            del self._anonymous[origin]
