"""A pace: so many a second with a burst, for each of many keys, in a table of bounded size.

One number is kept for a key: when all it has spent is paid back, at one each 1/per_second. It may
run ahead of the clock by a burst. A key that has paid everything back is forgotten.

Always: at most `keys_max` keys; one more, and the one that spent longest ago is forgotten.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

ROUNDING_S: Final = 1e-6
"""A wait that is shorter is none: sums of fractions are wrong by less than this."""

Key = TypeVar("Key", bound=Hashable)


class Pace(NamedTuple):
    """How often something may happen, and how much of it at once."""

    per_second: float
    burst: int


class Paces(Generic[Key]):
    """Who has spent how much of one pace lately."""

    def __init__(self, pace: Pace, keys_max: int, clock: Callable[[], float]) -> None:
        if pace.per_second <= 0 or pace.burst < 1 or keys_max < 1:
            raise ValueError(f"{pace} for {keys_max} keys")
        self._interval_s = 1.0 / pace.per_second
        self._ahead_max_s = (pace.burst - 1) * self._interval_s + ROUNDING_S
        self._keys_max = keys_max
        self._clock = clock
        self._paid_at: OrderedDict[Key, float] = OrderedDict()

    def __len__(self) -> int:
        """How many keys are remembered."""
        return len(self._paid_at)

    def wait_s(self, key: Key) -> float:
        """How long until a key may spend one more; 0 if it may now."""
        paid_at = self._paid_at.get(key)
        if paid_at is None:
            return 0.0
        return max(0.0, paid_at - self._clock() - self._ahead_max_s)

    def spend(self, key: Key) -> None:
        """A key has done it once more."""
        now = self._clock()
        self._forget_paid(now)
        self._paid_at[key] = max(self._paid_at.get(key, now), now) + self._interval_s
        self._paid_at.move_to_end(key)
        if len(self._paid_at) > self._keys_max:
            self._paid_at.popitem(last=False)

    def _forget_paid(self, now: float) -> None:
        """The oldest ones, one or two for each that comes: the table shrinks by itself."""
        for _ in range(min(2, len(self._paid_at))):
            key = next(iter(self._paid_at))
            if self._paid_at[key] > now:
                return
            del self._paid_at[key]
