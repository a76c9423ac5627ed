"""Memory of answers that are copies: decrypted messages, and blocks of compressed segments.

Slices of mapped files cost no memory however slowly a client reads them; a copy does, until the
last byte of it is sent. So all copies of a shard are counted here, against one bound: each of them
for as long as a view of it is held, by a socket for instance. A read reserves memory before it
makes a copy, and waits if there is none (shards/reading/warm_reads.py).

Copies are made in the name of a taker (`reading_for`), and shared by the rule of shares.py: a user
that reads slowly, on however many connections, leaves room to the others.

Not of the pool that requests are received into: clients that read slowly must not stop others
from sending.

Owned by the loop of a shard; only the making and the dying of a copy may happen in another thread.
"""

import weakref
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Final

from borzoi.shares import Shares

COPIED_SIZE_MAX: Final = 64 * 1024 * 1024
"""The copies of a reader with no shared account; a worker has `limits.copied_size_max`."""

READ_PART: Final = 4
"""One read gets a quarter of it at most, so that a few large ones do not stop all others."""

BROKER: Final = "the broker"
"""In whose name copies are made for no user."""


class Copy(bytearray):
    """Bytes that tell when the last view of them is gone."""

    __slots__ = ("__weakref__",)


class CopyMemory:
    """Counts the copies of a shard, and says whether there is room for more."""

    def __init__(self, size_max: int, share_weight: int = 1) -> None:
        self.read_size_max = size_max // READ_PART
        """What one read may copy; a single message may be larger."""
        self.let_go_of_one: Callable[[], bool] = lambda: False
        """Asked when there is no room: let go of a copy that is only kept, False if none is."""
        self.shares = Shares("bytes of copied messages", size_max, share_weight)
        self.reading_for = BROKER
        """In whose name copies are made until this is set again, before the next read."""
        self._serials = count()
        # By serial number; one dict call at a time, because copies die in any thread.
        self._alive: dict[int, weakref.ref[Copy]] = {}
        # What has died since the loop looked last: taker and size.
        self._dead: deque[tuple[str, int]] = deque()
        self._reserved = 0

    @property
    def size(self) -> int:
        """How many bytes the copies have that are held."""
        self._count_the_dead()
        return self.shares.taken - self._reserved

    def reserve(self, size: int) -> bool:
        """Room for so many bytes until release(); False if there is none now.

        When nothing else is held there is room for anything: a message may be larger than all.
        """
        taker = self.reading_for
        while not self._has_room(taker, size):
            if not self.let_go_of_one():
                return False
        self.shares.take_anyway(taker, size)
        self._reserved += size
        return True

    def release(self, size: int, taker: str) -> None:
        """Give back what was reserved in the name of a taker."""
        self._reserved -= size
        self.shares.give_back(taker, size)

    def is_full(self, size: int) -> bool:
        """Whether there is no room for so many bytes, for any taker."""
        return self.shares.taken > 0 and self.shares.taken + size > self.shares.total

    def hold(self, copy: Copy, died: Callable[[], object] | None = None) -> Copy:
        """Count a copy for as long as it lives, then call `died`."""
        serial = next(self._serials)
        taker, size = self.reading_for, len(copy)
        self.shares.take_anyway(taker, size)

        def gone(_ref: weakref.ref[Copy]) -> None:
            self._dead.append((taker, size))
            del self._alive[serial]
            if died is not None:
                died()

        self._alive[serial] = weakref.ref(copy, gone)
        return copy

    def take(self, size: int) -> memoryview | None:
        """So many bytes, None when there is no room."""
        if not self.reserve(size):
            return None
        self.release(size, self.reading_for)
        return self.take_anyway(size)

    def take_anyway(self, size: int) -> memoryview:
        """So many bytes, for a read that cannot wait; they are counted all the same."""
        return memoryview(self.hold(Copy(size)))

    def _has_room(self, taker: str, size: int) -> bool:
        self._count_the_dead()
        return self.shares.allows(taker, size) or self.shares.taken == 0

    def _count_the_dead(self) -> None:
        while self._dead:
            taker, size = self._dead.popleft()
            self.shares.give_back(taker, size)
