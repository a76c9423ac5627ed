"""Free address space, as a sorted list of gaps.

Neighbouring gaps are joined as soon as they touch, so when everything has been given back there is
one gap again, whatever happened before. The space cannot be worn out. Large pieces are cut from the
lowest gap that fits and small ones from the highest. So a small piece that stays does not sit in
the middle of the room for large ones.

Owns two parallel lists. Cutting looks at gaps one after the other; it is not on the hot path,
where buffers are reused without coming here.

Always: gaps are sorted, do not overlap and do not touch.
"""

from bisect import bisect_left


class Extents:
    """The gaps in the range from 0 to `size`. At first it is one gap."""

    __slots__ = ("_lengths", "_starts")

    def __init__(self, size: int) -> None:
        self._starts = [0]
        self._lengths = [size]

    def cut_lowest(self, length: int) -> int | None:
        """The start of `length` bytes from the lowest gap that has them, or None."""
        for index, available in enumerate(self._lengths):
            if available >= length:
                start = self._starts[index]
                if available == length:
                    self._remove(index)
                else:
                    self._starts[index] = start + length
                    self._lengths[index] = available - length
                return start
        return None

    def cut_highest(self, length: int) -> int | None:
        """The start of `length` bytes from the end of the highest gap that has them, or None."""
        for index in range(len(self._lengths) - 1, -1, -1):
            available = self._lengths[index]
            if available >= length:
                start = self._starts[index] + available - length
                if available == length:
                    self._remove(index)
                else:
                    self._lengths[index] = available - length
                return start
        return None

    def add(self, start: int, length: int) -> None:
        """Give a piece back; it joins the gaps it touches."""
        starts, lengths = self._starts, self._lengths
        index = bisect_left(starts, start)
        after_previous = index > 0 and starts[index - 1] + lengths[index - 1] == start
        before_next = index < len(starts) and start + length == starts[index]
        assert index == 0 or starts[index - 1] + lengths[index - 1] <= start, "given back twice"
        assert index == len(starts) or start + length <= starts[index], "given back twice"
        if after_previous and before_next:
            lengths[index - 1] += length + lengths[index]
            self._remove(index)
        elif after_previous:
            lengths[index - 1] += length
        elif before_next:
            starts[index] = start
            lengths[index] += length
        else:
            starts.insert(index, start)
            lengths.insert(index, length)

    def gaps(self) -> list[tuple[int, int]]:
        """All gaps as (start, length), lowest first."""
        return list(zip(self._starts, self._lengths, strict=True))

    def _remove(self, index: int) -> None:
        del self._starts[index]
        del self._lengths[index]
