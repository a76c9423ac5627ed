"""Shares: what is scarce is divided among its takers, so that the one that holds most waits first.

A *taker* is a user, or before the login an address, as a short text that logs can show. One
`Shares` exists for each scarce thing of a shard. These are bytes of the receive pool, bytes of
copies, connections, places in a queue, stored offsets of a partition. One rule holds for all of
them:

    A taker may hold at most `weight` times what is still free.

With weight 1 a single taker gets half of everything, two get a third each, and n of them always
leave 1/(n+1) free. That is the part that is guaranteed to the next one. Nothing has to be set aside
for takers that are not there, and nothing that is held is ever taken away. A taker that holds
nothing gets whatever it asks for, as long as it is there: the largest frame must fit.

A `Line` is the queue of one such thing: the taker that holds least is next, and among what it
wants the oldest.

Owned by one loop. Always: taken == sum of all held; a taker with nothing held is forgotten.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

LOG: Final = logging.getLogger(__name__)

NAMED_INTERVAL_S: Final = 60.0
"""A taker that waits, or is refused, is named in the log this often at most."""

NAMED_MAX: Final = 20
"""So many takers are named in that time: addresses are cheap, and the log is not for them."""

Item = TypeVar("Item")


def user_taker(user_id: int) -> str:
    """A user that is logged in, as a taker."""
    return f"user {user_id}"


def address_taker(host: str) -> str:
    """An address before the login, as a taker."""
    return f"address {host}"


class ShareFigures(NamedTuple):
    """How one share stands, for metrics."""

    total: int
    taken: int
    largest: int  # what the taker that holds most has
    takers: int
    waits: int  # since the start
    refusals: int


class Shares:
    """Which taker holds how much of one scarce thing."""

    def __init__(
        self,
        what: str,
        total: int,
        weight: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` is shared, as in "bytes of the receive pool"."""
        if total < 1 or weight < 1:
            raise ValueError(f"shares of {what}: {total} in all, weight {weight}")
        self.what = what
        self.total = total
        self._weight = weight
        self._clock = clock
        self.taken = 0
        self._held: dict[str, int] = {}
        self._named: set[str] = set()
        self._named_since = -NAMED_INTERVAL_S
        self._waits = 0
        self._refusals = 0

    def held(self, taker: str) -> int:
        """What a taker holds."""
        return self._held.get(taker, 0)

    def allows(self, taker: str, amount: int) -> bool:
        """Whether a taker may have so much more now."""
        left = self.total - self.taken - amount
        if left < 0:
            return False
        held = self._held.get(taker, 0)
        return held == 0 or held + amount <= self._weight * left

    def take(self, taker: str, amount: int) -> bool:
        """Give a taker so much more, if the rule allows it."""
        if not self.allows(taker, amount):
            return False
        self.take_anyway(taker, amount)
        return True

    def take_anyway(self, taker: str, amount: int) -> None:
        """Count what a taker has in any case: it was here before, or cannot wait."""
        self._held[taker] = self._held.get(taker, 0) + amount
        self.taken += amount

    def give_back(self, taker: str, amount: int) -> None:
        """A taker has so much less."""
        left = self._held[taker] - amount
        assert left >= 0, f"{taker} gives back more {self.what} than it holds"
        self.taken -= amount
        if left:
            self._held[taker] = left
        else:
            del self._held[taker]

    def note_wait(self, taker: str, amount: int, reason: str = "") -> None:
        """Count that a taker has to wait, and name it and the largest holder in the log, or why."""
        self._waits += 1
        self._tell("%s waits for %d %s", taker, amount, reason)

    def note_refusal(self, taker: str, amount: int) -> None:
        """Count that a taker is refused, and name it and the largest holder in the log."""
        self._refusals += 1
        self._tell("%s is refused %d %s", taker, amount)

    def figures(self) -> ShareFigures:
        """How things stand."""
        return ShareFigures(
            self.total,
            self.taken,
            max(self._held.values(), default=0),
            len(self._held),
            self._waits,
            self._refusals,
        )

    def note_giving_way(self, taker: str) -> None:
        """Count that a taker has lost one that it held, for another to have it."""
        self._refusals += 1
        self._tell("%s gives way with %d of the %s", taker, 1)

    def _tell(self, text: str, taker: str, amount: int, reason: str = "") -> None:
        now = self._clock()
        if now - self._named_since >= NAMED_INTERVAL_S:
            self._named_since = now
            self._named.clear()
        if taker in self._named or len(self._named) >= NAMED_MAX:
            return
        self._named.add(taker)
        if reason:
            LOG.warning(text + ": %s", taker, amount, self.what, reason)
            return
        most = max(self._held, key=self._held.__getitem__, default=taker)
        LOG.warning(
            text + ": it holds %d, %s holds %d of %d, %d are free",
            taker,
            amount,
            self.what,
            self.held(taker),
            most,
            self.held(most),
            self.total,
            max(0, self.total - self.taken),
        )


class Line(Generic[Item]):
    """What waits for one share, by taker."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        # Dicts keep the order of arrival, and lose an item in the middle at no cost.
        self._waiting: dict[str, dict[Item, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, taker: str, item: Item) -> None:
        """Wait, behind what the same taker wants already."""
        self._waiting.setdefault(taker, {})[item] = None
        self._count += 1

    def remove(self, taker: str, item: Item) -> bool:
        """Wait no more; False if the item did not wait."""
        items = self._waiting.get(taker)
        if items is None or item not in items:
            return False
        del items[item]
        self._count -= 1
        if not items:
            del self._waiting[taker]
        return True

    def waits(self, taker: str) -> bool:
        """Whether anything of a taker waits."""
        return taker in self._waiting

    def heads(self) -> Iterator[tuple[str, Item]]:
        """The oldest item of each taker, of the one that holds least first."""
        for taker in sorted(self._waiting, key=self._shares.held):
            yield taker, next(iter(self._waiting[taker]))
