"""Which numbers are free: ids that are given out one by one, and ranges of board slots.

Both are part of the metadata state: all shards hand out the same number for the same log entry.
They are changed by `apply` alone and looked at by `decide`. Nothing here knows a limit; deciding
does.
"""

from bisect import bisect_left
from typing import Final

import msgspec

# Slot 0 of the board belongs to the metadata itself.
FIRST_SLOT: Final = 1


class IdPool(msgspec.Struct):
    """Ids 0, 1, 2 ...; a freed one is given out again, the most recently freed first.

    Always: every id below `next_id` is either in use or once in `freed`.
    """

    next_id: int = 0
    freed: list[int] = []

    def peek(self) -> int:
        """The id that take() will give out."""
        return self.freed[-1] if self.freed else self.next_id

    def take(self) -> int:
        """Give out an id."""
        if self.freed:
            return self.freed.pop()
        self.next_id += 1
        return self.next_id - 1

    def is_free(self, id: int) -> bool:
        """Whether take_this() may be called for an id."""
        return id >= self.next_id or id in self.freed

    def take_this(self, id: int) -> None:
        """Give out an id that is free. Those that it leaves out come next, in ascending order."""
        if id < self.next_id:
            self.freed.remove(id)
            return
        self.freed += range(id - 1, self.next_id - 1, -1)
        self.next_id = id + 1

    def release(self, id: int) -> None:
        """Take an id back."""
        self.freed.append(id)


class SlotRanges(msgspec.Struct):
    """Board slots, given out as contiguous ranges: the smallest free one that fits, lowest first.

    Free ranges that touch are one range, and one that touches the frontier is given back to it,
    so the lists are as short as they can be. Searching them is a bisection: neither taking nor
    releasing gets slower with the number of topics.

    Always: slots from `frontier` on were never given out or are free again; `starts` is sorted,
    `by_size` holds the same ranges sorted by (count, start), `counts` maps each start to its
    count.
    """

    frontier: int = FIRST_SLOT
    starts: list[int] = []
    counts: dict[int, int] = {}
    by_size: list[tuple[int, int]] = []

    def fits(self, count: int, slots_max: int) -> bool:
        """Whether take(count) stays below slot number `slots_max`."""
        if self.by_size and self.by_size[-1][0] >= count:
            return True
        return self.frontier + count <= slots_max

    def take(self, count: int) -> int:
        """The first slot of a range of `count` slots that were free."""
        found = bisect_left(self.by_size, (count, 0))
        if found == len(self.by_size):
            first = self.frontier
            self.frontier += count
            return first
        size, first = self.by_size[found]
        self._forget(first)
        if size > count:
            self._remember(first + count, size - count)
        return first

    def release(self, first: int, count: int) -> None:
        """Give a range back, or a part of one."""
        at = bisect_left(self.starts, first)
        if at < len(self.starts) and self.starts[at] == first + count:
            count += self._forget(first + count)
        if at > 0 and self.starts[at - 1] + self.counts[self.starts[at - 1]] == first:
            first = self.starts[at - 1]
            count += self._forget(first)
        if first + count == self.frontier:
            self.frontier = first
        else:
            self._remember(first, count)

    def _remember(self, first: int, count: int) -> None:
        self.starts.insert(bisect_left(self.starts, first), first)
        self.counts[first] = count
        self.by_size.insert(bisect_left(self.by_size, (count, first)), (count, first))

    def _forget(self, first: int) -> int:
        count = self.counts.pop(first)
        del self.starts[bisect_left(self.starts, first)]
        del self.by_size[bisect_left(self.by_size, (count, first))]
        return count
