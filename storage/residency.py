"""How much of mapped files this process has in its page tables, and a bound for it.

What is read through a map counts as memory of the process, although the kernel can take it back at
any time: it is its cache of the file. So after so many bytes the pages are taken out of the page
tables (madvise). They stay in the cache, and views stay valid: who touches one again gets it back,
at 10 to 60 us per MB.

Belongs to the windows of one shard. Every read is counted with the most that the kernel may have
mapped for it; only when these reach the bound it is looked up how much there is.

Always: no more than the bound is mapped, and one answer.
"""

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

MAPPED_MAX: Final = 512 * 1024 * 1024
AROUND: Final = 128 * 1024
"""What the kernel maps around a read at most, in the log and in the index (fault-around)."""

ROOM_PART: Final = 8
"""With less room than this part of the bound left, the pages go: a look costs some 20 us."""

STATUS: Final = Path("/proc/self/status")


class Releasable(Protocol):
    """A piece of mapped memory."""

    def release(self) -> None:
        """Take its pages out of the page tables."""


class Residency:
    """The pages of all windows of one shard."""

    __slots__ = ("_base", "_resident", "_size_max", "_windows", "left", "releases")

    def __init__(
        self, size_max: int = MAPPED_MAX, resident: Callable[[], int] | None = None
    ) -> None:
        self._size_max = size_max
        self._resident = resident_file_bytes if resident is None else resident
        self._windows: weakref.WeakSet[Releasable] = weakref.WeakSet()
        # Programs and libraries: what is there beside the windows.
        self._base = self._resident()
        self.left = size_max
        """So much may be read until a look; a read takes its bytes, and AROUND, off."""
        self.releases = 0

    def add(self, window: Releasable) -> None:
        """A window was mapped."""
        self._windows.add(window)

    def mapped(self) -> int:
        """How many bytes of files are in the page tables for the windows."""
        return max(0, self._resident() - self._base)

    def look(self) -> None:
        """So much was read that the bound may be reached: release the windows if it is near."""
        try:
            room = self._size_max - self.mapped()
            if room < self._size_max // ROOM_PART:
                self._release()
                self._base = self._resident()
                room = self._size_max
        except OSError:
            # Without a free descriptor the kernel does not tell: then as if it were too much.
            self._release()
            room = self._size_max
        self.left = room

    def _release(self) -> None:
        for window in list(self._windows):
            window.release()
        self.releases += 1


def resident_file_bytes() -> int:
    """RssFile of this process; 0 where the kernel does not tell."""
    for line in STATUS.read_bytes().splitlines():
        if line.startswith(b"RssFile:"):
            return int(line.split()[1]) * 1024
    return 0
