"""Who has failed to log in lately: back-off per user and address, in a table of bounded size.

After `free` failures in a row a pair of user and address has to wait before it may try again,
twice as long after each further failure. A success ends it, and so does time. Names and
addresses are kept as digests, so a row has the same size whatever a client calls itself, and
fits the words of a ring: every shard is told about every failure.

Always: at most `rows_max` rows of each kind; the one that was used longest ago goes first. The
clock is monotonic and comes in as a parameter.
"""

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple


class FailureLimits(NamedTuple):
    """Seconds, and how many."""

    free: int = 5
    wait_min_s: float = 1.0
    wait_max_s: float = 60.0
    forgotten_after_s: float = 900.0
    rows_max: int = 10_000


class Attempt(NamedTuple):
    """Who tries to be whom from where, as digests."""

    pair: int
    host: int
    name: int


class Failed(NamedTuple):
    """The outcome of a failure: how many there were in a row, and how long to wait now."""

    in_a_row: int
    wait_s: float


class Row(NamedTuple):
    in_a_row: int
    last: float
    until: float


def attempt_of(kind: str, username: str, host: str) -> Attempt:
    """The digests of an attempt. `kind` keeps apart what is counted apart."""
    return Attempt(
        _digest(f"{kind} {len(host)} {host} {username}"),
        _digest(host),
        _digest(f"{kind} {username}"),
    )


class LoginFailures:
    """The table of one shard."""

    def __init__(self, limits: FailureLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._pairs: OrderedDict[int, Row] = OrderedDict()
        self._hosts: OrderedDict[int, Row] = OrderedDict()
        self._names: OrderedDict[int, Row] = OrderedDict()

    def wait_s(self, attempt: Attempt) -> float:
        """How long this attempt has to wait; 0 if it may be made now."""
        row = self._pairs.get(attempt.pair)
        return 0.0 if row is None else max(0.0, row.until - self._clock())

    def rank(self, attempt: Attempt) -> int:
        """Failures from that address or under that name lately: who has fewer is served first."""
        now = self._clock()
        return max(
            self._count(self._hosts, attempt.host, now),
            self._count(self._names, attempt.name, now),
        )

    def failed(self, attempt: Attempt) -> Failed:
        """Note a failure."""
        limits = self._limits
        now = self._clock()
        count = self._count(self._pairs, attempt.pair, now) + 1
        wait_s = 0.0
        if count >= limits.free:
            # The exponent is bounded before it is used: a float holds no 2 ** 10,000.
            doublings = min(count - limits.free, 64)
            wait_s = min(limits.wait_min_s * 2.0**doublings, limits.wait_max_s)
        self._put(self._pairs, attempt.pair, Row(count, now, now + wait_s))
        for rows, key in ((self._hosts, attempt.host), (self._names, attempt.name)):
            self._put(rows, key, Row(self._count(rows, key, now) + 1, now, now))
        return Failed(count, wait_s)

    def succeeded(self, attempt: Attempt) -> bool:
        """Forget the failures of the pair; whether there were any."""
        return self._pairs.pop(attempt.pair, None) is not None

    def __len__(self) -> int:
        """How many rows there are, of all kinds."""
        return len(self._pairs) + len(self._hosts) + len(self._names)

    def _count(self, rows: OrderedDict[int, Row], key: int, now: float) -> int:
        row = rows.get(key)
        if row is None or now - row.last > self._limits.forgotten_after_s:
            return 0
        return row.in_a_row

    def _put(self, rows: OrderedDict[int, Row], key: int, row: Row) -> None:
        rows[key] = row
        rows.move_to_end(key)
        if len(rows) > self._limits.rows_max:
            rows.popitem(last=False)


def is_worth_a_line(count: int, free: int) -> bool:
    """Whether the failure is told in the log: the first ones, then each doubling."""
    return count <= free or count & (count - 1) == 0


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
