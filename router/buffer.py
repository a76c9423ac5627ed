"""A piece of memory with a count of its holds.

Made by a pool (or by a receiver that found the pool empty) with one hold, which belongs to the
caller. Code that keeps the bytes beyond the current call holds the buffer and releases it exactly
once. At zero the memory goes home and may be given out again at once. Lives in one process and one
thread: a peer that the bytes are lent to does not count, the lender holds for it.

Always: while holds > 0 these bytes are not given out again. After the last release `view` is empty,
so a late reader finds nothing instead of the message of another client.
"""

from typing import Any, Final, Protocol

_GONE: Final = memoryview(b"")


class Home(Protocol):
    """Where a buffer goes after its last release."""

    def take_back(self, buffer: "Buffer") -> None:
        """Accept the memory of `buffer`, whose last hold is gone."""


class Buffer:
    """Bytes of an arena, or private bytes when `position` is None."""

    __slots__ = (
        "capacity", "generation", "holds", "home", "length", "place", "position", "taker", "view",
    )  # fmt: skip

    def __init__(
        self,
        home: Home,
        place: Any,
        position: int | None,
        capacity: int,
        view: memoryview,
        generation: int,
    ) -> None:
        """`place` is the home's note of where the memory belongs; only the home reads it."""
        self.home = home
        self.place = place
        # Offset in the arena; None: private memory that cannot be lent to a peer.
        self.position = position
        self.capacity = capacity
        self.length = len(view)
        self.view = view
        # Of the arena's life. A descriptor that lends this buffer carries it.
        self.generation = generation
        self.holds = 1
        # The taker in whose name a pool has given it out; empty: the broker itself.
        self.taker = ""

    def hold(self) -> "Buffer":
        """Adds a hold; returns the buffer itself."""
        assert self.holds > 0, "held a buffer that was already given back"
        self.holds += 1
        return self

    def release(self) -> None:
        """One fewer. At zero the memory goes home."""
        holds = self.holds
        assert holds > 0, "released a buffer more often than it was held"
        self.holds = holds - 1
        if holds == 1:
            self.view = _GONE
            self.home.take_back(self)
