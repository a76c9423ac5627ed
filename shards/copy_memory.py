"""Memory of the pool for answers that are copies, such as decrypted messages.

Slices of mapped files cost no memory however slowly a client reads them; a copy does, until the
last byte of it is sent. So it is taken from the shard's pool, within the pool's budget, and goes
home by itself when nobody has a view of it any more. When the pool has no room, reads wait for it
in the order they came, like sockets do.
"""

import asyncio
import ctypes
import threading
import weakref
from collections.abc import Callable

from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool


class CopyMemory:
    """Hands out memory that nobody has to give back. Used by the loop of one worker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: MemoryPool) -> None:
        self._loop = loop
        self._pool = pool
        self._loop_thread = threading.get_ident()

    def take(self, size: int) -> memoryview | None:
        """So many bytes, None when the pool has no room."""
        buffer = self._pool.take(max(1, size))
        if buffer is None:
            return None
        owner = (ctypes.c_char * buffer.length).from_buffer(buffer.view)
        # Every slice of it keeps the owner alive. Not at exit: the pool may be gone by then.
        weakref.finalize(owner, self._give_back, buffer).atexit = False
        return memoryview(owner).cast("B")[:size]

    def give(self, size: int, ready: Callable[[memoryview], None]) -> None:
        """Hand so many bytes to `ready`, at once or when the pool has room."""
        memory = self.take(size)
        if memory is not None:
            ready(memory)
            return

        def called() -> None:
            # If the room is not in one piece we wait anew; others are woken by the next release.
            self.give(size, ready)

        # The pool calls from inside somebody's release.
        self._pool.when_available(lambda: self._loop.call_soon(called), max(1, size))

    def _give_back(self, buffer: Buffer) -> None:
        if threading.get_ident() == self._loop_thread:
            buffer.release()
        else:
            self._loop.call_soon_threadsafe(buffer.release)
