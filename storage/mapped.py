"""Files seen through memory: read-only windows of a fixed size, mapped past the end of the file.

Python's own mmap refuses to map past the end and keeps a descriptor per map. It cannot be closed
while a slice of it waits in a socket. Here a growing file needs no new map until it outgrows the
window, and no descriptor stays open. A window is unmapped when its last slice is gone.

Touching a page behind the end of the file kills the process (SIGBUS). So the memory of a window is
not handed out. Callers get only its part `below` an end that the file is known to have, by a look
at the file, or because its owner has published it. Every byte of a mapped file is read
through such a part. A negative index into it wraps around inside; one that is too large is an
IndexError.

What that leaves open is a file that is made shorter after it was looked at. Its owner never does
that: it cuts only what was not published, and replaces an index by renaming another.
"""

import ctypes
import mmap
import os
import weakref
from collections import OrderedDict
from typing import Final

from borzoi.storage.files import FileIdentity
from borzoi.storage.residency import Residency

WINDOW_SIZE: Final = 64 * 1024 * 1024

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


class MappedWindow:
    """Bytes `start` to `start + size` of a file; mapped as long as a view of any part exists."""

    __slots__ = ("__weakref__", "_memory", "_start", "address")

    def __init__(self, fd: int, start: int, size: int) -> None:
        assert start % mmap.ALLOCATIONGRANULARITY == 0
        address = _libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, start)
        if address == _MAP_FAILED:
            number = ctypes.get_errno()
            raise OSError(number, f"mmap: {os.strerror(number)}")
        memory = (ctypes.c_char * size).from_address(address)
        # Every slice keeps `memory` alive. Not at exit: a thread may still read by then.
        weakref.finalize(memory, _libc.munmap, address, size).atexit = False
        self._memory = memoryview(memory).cast("B").toreadonly()
        self._start = start
        self.address = int(address)

    def release(self) -> None:
        """Take its pages out of the page tables; they come back when they are touched."""
        if _libc.madvise(self.address, len(self._memory), mmap.MADV_DONTNEED) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"madvise: {os.strerror(number)}")

    def below(self, end: int) -> memoryview:
        """What of the window lies below `end`, a position in the file that it is known to reach."""
        length = end - self._start
        # Not a negative one: that would count from the end of the window.
        return self._memory[: length if length > 0 else 0]

    def below_page_of(self, end: int) -> memoryview:
        """Returns the same, with the rest of the page in which `end` lies.

        What the file grows by appears there; until then it reads as zeros.
        """
        return self.below(-(-end // mmap.PAGESIZE) * mmap.PAGESIZE)


class WindowCache:
    """The windows used last, of all files. One thread of control uses it.

    Keyed by inode, not by name. A name can get another file. As long as a window is mapped its
    inode cannot be given to another file.
    """

    def __init__(
        self,
        windows_max: int,
        window_size: int = WINDOW_SIZE,
        residency: Residency | None = None,
    ) -> None:
        assert windows_max >= 1
        self.residency = residency or Residency()
        self._windows_max = windows_max
        self.window_size = window_size
        self._windows: OrderedDict[tuple[FileIdentity, int], MappedWindow] = OrderedDict()

    def __len__(self) -> int:
        return len(self._windows)

    def get(self, file: FileIdentity, number: int) -> MappedWindow | None:
        """The window of this number, if it is mapped."""
        window = self._windows.get((file, number))
        if window is None:
            return None
        self._windows.move_to_end((file, number))
        return window

    def is_cold(self, file: FileIdentity, number: int, start: int, end: int) -> bool:
        """Whether touching these bytes of a mapped window would wait for the disk."""
        window = self._windows.get((file, number))
        return window is not None and is_cold(window.address + start, end - start)

    def map(self, file: FileIdentity, number: int, fd: int) -> MappedWindow:
        """Map a window; the caller has made sure that `fd` is this file."""
        window = MappedWindow(fd, number * self.window_size, self.window_size)
        self._windows[file, number] = window
        self.residency.add(window)
        while len(self._windows) > self._windows_max:
            self._windows.popitem(last=False)
        return window

    def drop(self, file: FileIdentity) -> None:
        """Forget all windows of a file."""
        for key in [key for key in self._windows if key[0] == file]:
            del self._windows[key]

    def clear(self) -> None:
        """Drops all windows; those with views stay mapped until the views are gone."""
        self._windows.clear()


def is_cold(address: int, length: int) -> bool:
    """Whether a page of this mapped range is not in the page cache (mincore)."""
    first = address & -mmap.PAGESIZE
    pages = -(-(address + length - first) // mmap.PAGESIZE)
    present = ctypes.create_string_buffer(pages)
    if _libc.mincore(first, pages * mmap.PAGESIZE, present) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mincore: {os.strerror(number)}")
    return b"\0" in present.raw
