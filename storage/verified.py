"""Which offsets a reader has verified already, as a few ranges."""

from bisect import bisect_left, bisect_right
from typing import Final

RANGES_MAX: Final = 1024


class VerifiedOffsets:
    """Disjoint ranges [start, end), ascending. Forgetting is always safe: it costs a check."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def covers(self, start: int, end: int) -> bool:
        """Returns whether one verified range has all of [start, end)."""
        number = bisect_right(self._starts, start) - 1
        return number >= 0 and end <= self._ends[number]

    def add(self, start: int, end: int) -> None:
        """Adds a range; those that it touches become one. Too many ranges: all others go."""
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        elif len(self._starts) >= RANGES_MAX:
            self.clear()
            first = last = 0
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def clear(self) -> None:
        """Forgets all ranges."""
        self._starts.clear()
        self._ends.clear()
