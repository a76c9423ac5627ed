"""Memory with nothing around it: a read or write one byte outside ends the process at once."""

import ctypes
import mmap
from typing import Final

PROT_NONE: Final = 0


class Fence:
    """A few writable pages between two that must not be touched."""

    def __init__(self, size: int) -> None:
        page = mmap.PAGESIZE
        self._size = -(-size // page) * page
        self._map = mmap.mmap(-1, self._size + 2 * page)
        self._start = page
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        libc = ctypes.CDLL(None, use_errno=True)
        for forbidden in (first, first + page + self._size):
            failed = libc.mprotect(ctypes.c_void_p(forbidden), ctypes.c_size_t(page), PROT_NONE)
            assert not failed, ctypes.get_errno()

    def at_the_end(self, content: bytes) -> memoryview:
        """The content up to the last byte before the forbidden page, so at any address."""
        end = self._start + self._size
        return self._placed(end - len(content), content)

    def at_the_start(self, content: bytes) -> memoryview:
        return self._placed(self._start, content)

    def _placed(self, start: int, content: bytes) -> memoryview:
        assert len(content) <= self._size
        view = memoryview(self._map)[start : start + len(content)]
        view[:] = content
        return view
