"""Memory that several processes share: anonymous files (memfd) and maps of them.

A memfd has no name that could be left behind or guessed: only a descriptor leads to the memory. Its
size is sealed, so that no process can make another one die of a bus error by shortening it. Pages
appear when they are first touched: sizes here are address space.

What every shared word obeys, everywhere in this package:

    8 bytes, aligned to 8       it never straddles two cache lines, so it is never seen torn
    exactly one writer          no process needs a read-modify-write
    accessed as words[i]        one machine load or store; slice assignment would be a memcpy

MappedMemory owns one map. Slices may still be in use when it is closed: a batch that is being
written from it, a response that waits for its socket. Then the pages are left to the garbage
collector, and go when the last slice goes.
"""

import fcntl
import mmap
import os
from typing import Final

WORD_SIZE: Final = 8
LINE_SIZE: Final = 64
LINE_WORDS: Final = LINE_SIZE // WORD_SIZE
PAGE_SIZE: Final = mmap.PAGESIZE

_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class SharedMemoryError(Exception):
    """Shared memory is not what its descriptor was announced to be."""


def create_memory(name: str, size: int) -> int:
    """A descriptor of `size` bytes of zeros that can neither grow nor shrink.

    `name` is only a label in /proc. The descriptor is not inherited unless passed on.
    """
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except OSError:
        os.close(fd)
        raise
    return fd


class MappedMemory:
    """A map of a memfd, as bytes and as words.

    The map keeps its own duplicate of the descriptor, so the caller may close his.
    """

    __slots__ = ("_map", "bytes", "size", "words")

    def __init__(self, fd: int, size: int, writable: bool) -> None:
        if size <= 0 or size % WORD_SIZE:
            raise SharedMemoryError(f"{size} bytes are not a whole number of words")
        actual = os.fstat(fd).st_size
        if actual < size:
            raise SharedMemoryError(f"the memory has {actual} bytes, {size} were announced")
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._map = mmap.mmap(fd, size, flags=mmap.MAP_SHARED, prot=access)
        self.size = size
        self.bytes = memoryview(self._map)
        self.words = self.bytes.cast("Q")

    def give_back(self, position: int, length: int) -> None:
        """Returns whole pages to the system; afterwards they read as zeros in every process."""
        self._map.madvise(mmap.MADV_REMOVE, position, length)

    def close(self) -> bool:
        """Let go of the map; True if it is gone at once, False if slices keep it for now."""
        self.words.release()
        self.bytes.release()
        try:
            self._map.close()
        except BufferError:
            return False
        return True


def map_memory(fd: int, size: int, writable: bool) -> MappedMemory:
    """Map the first `size` bytes of a memfd."""
    return MappedMemory(fd, size, writable)
