"""Memory of answers that are copies: decrypted messages, and blocks of compressed segments.

Slices of mapped files cost no memory however slowly a client reads them; a copy does, until the
last byte of it is sent. So all copies of a shard are counted here, against one bound: each of them
for as long as somebody holds a view of it, a socket for instance. Who reads reserves memory before
he makes a copy, and waits if there is none (shards/warm_reads.py).

Not of the pool that requests are received into: clients that read slowly must not stop others
from sending.

Owned by the loop of a shard; only the making and the dying of a copy may happen in another thread.
"""

import weakref
from collections.abc import Callable
from itertools import count
from typing import Final

COPIED_SIZE_MAX: Final = 64 * 1024 * 1024
"""What a reader has that shares its memory with nobody; `limits.copied_size_max` by default."""

READ_PART: Final = 4
"""One read gets a quarter of it at most, so that a few large ones do not stop all others."""


class Copy(bytearray):
    """Bytes that tell when the last view of them is gone."""

    __slots__ = ("__weakref__",)


class CopyMemory:
    """Counts the copies of a shard, and says whether there is room for more."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self.read_size_max = size_max // READ_PART
        """What one read may copy; a single message may be larger."""
        self.let_go_of_one: Callable[[], bool] = lambda: False
        """Asked when there is no room: let go of a copy that is only kept, False if none is."""
        self._serials = count()
        # By serial number. One dict call at a time: copies die in any thread.
        self._sizes: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Copy]] = {}
        self._reserved = 0

    @property
    def size(self) -> int:
        """How many bytes the copies have that somebody holds."""
        return sum(self._sizes.values())

    def reserve(self, size: int) -> bool:
        """Room for so many bytes until release(); False if there is none now.

        When nothing else is held there is room for anything: a message may be larger than all.
        """
        while self._does_not_fit(size) and self.let_go_of_one():
            pass
        if self._does_not_fit(size) and (self._reserved or self._sizes):
            return False
        self._reserved += size
        return True

    def release(self, size: int) -> None:
        self._reserved -= size

    def hold(self, copy: Copy, died: Callable[[], object] | None = None) -> Copy:
        """Count a copy for as long as it lives, then tell."""
        serial = next(self._serials)
        self._sizes[serial] = len(copy)

        def gone(_ref: weakref.ref[Copy]) -> None:
            del self._sizes[serial], self._alive[serial]
            if died is not None:
                died()

        self._alive[serial] = weakref.ref(copy, gone)
        return copy

    def take(self, size: int) -> memoryview | None:
        """So many bytes, None when there is no room."""
        if not self.reserve(size):
            return None
        self.release(size)
        return self.take_anyway(size)

    def take_anyway(self, size: int) -> memoryview:
        """So many bytes, for somebody who cannot wait; they are counted all the same."""
        return memoryview(self.hold(Copy(size)))

    def _does_not_fit(self, size: int) -> bool:
        return self.size + self._reserved + size > self._size_max
