"""Stored bytes that lie in several views, taken one behind the other: so many, then so many. Pure.

The log is mapped in windows, whose ends cut messages. Only a portion that is cut is copied, never a
whole message, which may be large and have many readers at a time.
"""

from collections.abc import Iterable

from borzoi.protocol.errors import CannotReadMessage


class StoredBytes:
    """The views of a read, and how far they were taken."""

    __slots__ = ("_at", "_left", "_view")

    def __init__(self, views: Iterable[memoryview]) -> None:
        self._left = iter(views)
        self._view = memoryview(b"")
        self._at = 0

    def is_over(self) -> bool:
        """Whether all bytes were taken."""
        while self._at == len(self._view):
            following = next(self._left, None)
            if following is None:
                return True
            self._view, self._at = following, 0
        return False

    def take(self, size: int) -> memoryview:
        """The next `size` bytes. CannotReadMessage if there are not as many."""
        if self._at == len(self._view):
            self.is_over()
        at, end = self._at, self._at + size
        if end <= len(self._view):
            self._at = end
            return self._view[at:end]
        return memoryview(b"".join(self._cut(size)))

    def _cut(self, size: int) -> Iterable[memoryview]:
        wanted = size
        while size:
            if self.is_over():
                raise CannotReadMessage(f"{wanted - size} bytes where {wanted} are needed")
            piece = self._view[self._at : self._at + size]
            self._at += len(piece)
            size -= len(piece)
            yield piece
