"""Failed and successful logins of late: back-off in tables of bounded size.

A pair of user and address may have to wait. After `free` failures in a row there is a pause before
the next attempt, twice as long after each further failure. A success ends the waiting, and so does
time.

An address, whatever the names: each failure counts until time has worn it off. Time wears off
`free_per_address` of them in `forgotten_after_s`. An address with so many failures is slowed down
until it has none. Attempts under names that have not logged in from there lately are checked
`slowed_per_second` times a second, all of them together. The count stops at `free_per_address`, so
the slowing ends `forgotten_after_s` after the last failure.

Names and addresses are kept as digests. A row has the same size whatever a client calls itself, and
fits the words of a ring, which carries every failure to every shard.

Always: at most `rows_max` rows of each kind; the one that was used longest ago goes first. The
clock is monotonic and comes in as a parameter.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

from borzoi.shards.loop.pace import Pace, Paces

NOTES_PER_TERM: Final = 8
"""A pair that goes on logging in is noted to the other shards so often in `known_for_s`."""

T = TypeVar("T")


class FailureLimits(NamedTuple):
    """Seconds, and how many."""

    free: int = 5
    wait_min_s: float = 1.0
    wait_max_s: float = 60.0
    forgotten_after_s: float = 900.0
    rows_max: int = 10_000
    free_per_address: int = 100
    slowed_per_second: int = 5
    known_for_s: float = 86_400.0


class Attempt(NamedTuple):
    """One attempt to log in, as digests: user and address together, the address, the user."""

    pair: int
    host: int
    name: int


class Failed(NamedTuple):
    """The outcome of a failure: how many there were in a row, and how long to wait now."""

    in_a_row: int
    wait_s: float
    from_address: int  # lately, under whatever name; 0 if it took no hashing
    slowed_s: float  # how long the address will be slowed down


class Row(NamedTuple):
    """Failures in a row of a pair or a name, the time of the last, and the end of the waiting."""

    in_a_row: int
    last: float
    until: float


class AddressFailures(NamedTuple):
    """What was counted of an address, and what time has left of it at `last`."""

    failures: int
    level: float
    last: float
    is_slowed: bool


def attempt_of(kind: str, username: str, origin: str) -> Attempt:
    """The digests of an attempt. `kind` keeps apart what is counted apart."""
    return Attempt(
        _digest(f"{kind} {len(origin)} {origin} {username}"),
        _digest(origin),
        _digest(f"{kind} {username}"),
    )


class LoginFailures:
    """The tables of one shard."""

    def __init__(self, limits: FailureLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._pairs: OrderedDict[int, Row] = OrderedDict()
        self._names: OrderedDict[int, Row] = OrderedDict()
        self._addresses: OrderedDict[int, AddressFailures] = OrderedDict()
        self._known: OrderedDict[int, float] = OrderedDict()
        pace = Pace(limits.slowed_per_second, limits.slowed_per_second)
        self._slowed = Paces[int](pace, limits.rows_max, clock)
        self._worn_per_second = limits.free_per_address / limits.forgotten_after_s

    def wait_s(self, attempt: Attempt) -> float:
        """How long this attempt has to wait for its own failures; 0 if it may be made now."""
        row = self._pairs.get(attempt.pair)
        return 0.0 if row is None else max(0.0, row.until - self._clock())

    def is_known(self, attempt: Attempt) -> bool:
        """Whether this user has logged in from there lately."""
        succeeded = self._known.get(attempt.pair)
        return succeeded is not None and self._clock() - succeeded <= self._limits.known_for_s

    def is_slowed(self, attempt: Attempt) -> bool:
        """Whether the attempt is one of those that are looked at now and then only."""
        address = self._address(attempt.host, self._clock())
        return address.is_slowed and not self.is_known(attempt)

    def slowed_wait_s(self, attempt: Attempt) -> float:
        """How long until one of them may be looked at."""
        return self._slowed.wait_s(attempt.host)

    def look_at_slowed(self, attempt: Attempt) -> None:
        """One of them is looked at."""
        self._slowed.spend(attempt.host)

    def rank(self, attempt: Attempt) -> int:
        """Returns how late an attempt is served: 0 if its pair is known, 1 for most others.

        Each doubling of the failures from its address adds 1.
        """
        if self.is_known(attempt):
            return 0
        level = self._address(attempt.host, self._clock()).level
        return 1 + int(level / self._limits.free).bit_length()

    def of_name(self, attempt: Attempt) -> int:
        """Failures under that name lately, from wherever."""
        return self._count(self._names, attempt.name, self._clock())

    def failed(self, attempt: Attempt, *, took_work: bool = True) -> Failed:
        """Note a failure. One that took no work does not count against its address."""
        limits = self._limits
        now = self._clock()
        count = self._count(self._pairs, attempt.pair, now) + 1
        wait_s = 0.0
        if count >= limits.free:
            # The exponent is bounded before it is used: a float holds no 2 ** 10,000.
            doublings = min(count - limits.free, 64)
            wait_s = min(limits.wait_min_s * 2.0**doublings, limits.wait_max_s)
        self._put(self._pairs, attempt.pair, Row(count, now, now + wait_s))
        names = self._count(self._names, attempt.name, now) + 1
        self._put(self._names, attempt.name, Row(names, now, now))
        if not took_work:
            return Failed(count, wait_s, 0, 0.0)
        address = self._failed_from(attempt.host, now)
        slowed_s = address.level / self._worn_per_second if address.is_slowed else 0.0
        return Failed(count, wait_s, address.failures, slowed_s)

    def succeeded(self, attempt: Attempt) -> bool:
        """Forget the failures of the pair, and know it; whether that is news to others."""
        now = self._clock()
        had_failed = self._pairs.pop(attempt.pair, None) is not None
        last = self._known.get(attempt.pair)
        is_news = last is None or now - last > self._limits.known_for_s / NOTES_PER_TERM
        if is_news:
            self._put(self._known, attempt.pair, now)
        return had_failed or is_news

    def __len__(self) -> int:
        """How many rows there are, of all kinds."""
        return sum(
            len(rows)
            for rows in (self._pairs, self._names, self._addresses, self._known, self._slowed)
        )

    def _address(self, host: int, now: float) -> AddressFailures:
        found = self._addresses.get(host)
        if found is not None:
            level = found.level - (now - found.last) * self._worn_per_second
            if level > 0:
                return AddressFailures(found.failures, level, now, found.is_slowed)
        return AddressFailures(0, 0.0, now, is_slowed=False)

    def _failed_from(self, host: int, now: float) -> AddressFailures:
        before = self._address(host, now)
        level_max = self._limits.free_per_address
        level = min(before.level + 1, level_max)
        # A part of the first may have worn off since.
        is_slowed = before.is_slowed or level > level_max - 1
        address = AddressFailures(before.failures + 1, level, now, is_slowed)
        self._put(self._addresses, host, address)
        return address

    def _count(self, rows: OrderedDict[int, Row], key: int, now: float) -> int:
        row = rows.get(key)
        if row is None or now - row.last > self._limits.forgotten_after_s:
            return 0
        return row.in_a_row

    def _put(self, rows: OrderedDict[int, T], key: int, row: T) -> None:
        rows[key] = row
        rows.move_to_end(key)
        if len(rows) > self._limits.rows_max:
            rows.popitem(last=False)


def is_worth_a_line(count: int, free: int) -> bool:
    """Returns whether the failure is logged: the first ones are, then each doubling."""
    return count <= free or count & (count - 1) == 0


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
