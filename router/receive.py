"""Where the bytes of all connections of a shard land: one receive block after the other.

At a frame boundary a connection does not know how much will come. So it reads into the shard's
current block, which all connections share. Asking for the window and reading into it happen back to
back, so idle connections own no memory at all. Complete frames stay where they lie; the block lives
until the last of them is done.

    block   | frames of several connections, some still held | window (64 KiB) |     unused     |
                                                             ^ cursor

window() only looks. It is also called before a read that finds nothing. There its exceptions would
vanish in the event loop, and an empty answer would kill the connection. So everything that can fail
happens in received(), which prepares the next window.

When the pool has no further block the *reserve* is used: 4 KiB that were set aside at the start.
What arrives there is copied out at once, into a small pool buffer or, if there is none, into
private bytes. So the reserve is free again before the next read into it, and held frames are never
overwritten. `low` is True meanwhile: the connection that just received pauses reading, which bounds
the private bytes to one reserve window for each.

Always: window() is not empty, and never shows bytes that are held.
"""

from collections.abc import Callable
from typing import Final

from borzoi.router.buffer import Buffer
from borzoi.router.pool import KIB, MIB, MemoryPool, Waiter

BLOCK_SIZE: Final = 1 * MIB
WINDOW_SIZE: Final = 64 * KIB
RESERVE_WINDOW: Final = 4 * KIB


class ReceiveBlocks:
    """The receive blocks of one shard. Touched by its event loop only."""

    def __init__(
        self,
        pool: MemoryPool,
        block_size: int = BLOCK_SIZE,
        window_size: int = WINDOW_SIZE,
        on_refilled: Callable[[], object] | None = None,
    ) -> None:
        """`on_refilled` is called when `low` ends, to resume what was paused.

        It is called from inside received() or a release(), so it should only schedule.
        """
        if not 0 < window_size <= block_size:
            raise ValueError(f"a window of {window_size} bytes in a block of {block_size}")
        reserve = pool.take(RESERVE_WINDOW)
        if reserve is None:
            raise ValueError("the memory pool has no room for the reserve of the receive blocks")
        self._pool = pool
        self._block_size = block_size
        self._full_window_size = window_size
        self._on_refilled = on_refilled
        self._reserve = reserve
        self._block: Buffer | None = None
        self._cursor = 0
        # True while the pool cannot provide a block: pause reading after what just came.
        self.low = True
        self._window = reserve.view
        self.window_size = RESERVE_WINDOW
        self._waiter: Waiter | None = None
        self.private_bytes = 0
        self._next_block()

    def window(self) -> memoryview:
        """Where the next read of any connection goes. Never empty, never raises."""
        return self._window

    def received(self, nbytes: int) -> tuple[Buffer, int]:
        """`nbytes` were read into the window: the buffer they lie in and where they start.

        The buffer is held once for the caller, which releases it after cutting it up; frames that
        are kept longer hold it themselves.
        """
        assert 0 < nbytes <= self.window_size, f"{nbytes} bytes read into {self.window_size}"
        block = self._block
        if block is None:
            # The block first: a small copy must not take the room that a block would fit in.
            self._next_block()
            copied = self._copy_out(nbytes)
            if self._block is not None:
                self._tell_refilled()
            return copied, 0
        start = self._cursor
        self._cursor = end = start + nbytes
        if self._block_size - end < self._full_window_size:
            # Our hold goes to the caller.
            self._block = None
            self._next_block()
        else:
            # As Buffer.hold does; it runs for every read.
            block.holds += 1
            self._window = block.view[end : end + self._full_window_size]
        return block, start

    def close(self) -> None:
        """Give block and reserve back. window() must not be used any more."""
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None
        if self._block is not None:
            self._block.release()
            self._block = None
        self._window = memoryview(b"")
        self._reserve.release()

    def take_back(self, buffer: Buffer) -> None:
        """Counts a private buffer off. Called only by the buffer, at its last release."""
        self.private_bytes -= buffer.capacity

    def _next_block(self) -> None:
        """Prepare the next window: in a new block if there is one, else in the reserve."""
        block = self._pool.take(self._block_size)
        self.low = block is None
        if block is not None:
            self._block = block
            self._cursor = 0
            self._window = block.view[: self._full_window_size]
            self.window_size = self._full_window_size
            return
        self._window = self._reserve.view
        self.window_size = RESERVE_WINDOW
        if self._waiter is None:
            self._waiter = self._pool.when_available(self._refill, self._block_size)

    def _refill(self) -> None:
        """The pool called: there may be a block now."""
        self._waiter = None
        self._next_block()
        if self._block is not None:
            self._tell_refilled()

    def _tell_refilled(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.cancel()
        if self._on_refilled is not None:
            self._on_refilled()

    def _copy_out(self, nbytes: int) -> Buffer:
        """The first bytes of the reserve, in memory of their own."""
        buffer = self._pool.take(nbytes)
        if buffer is None:
            private = memoryview(bytearray(nbytes))
            self.private_bytes += nbytes
            buffer = Buffer(self, None, None, nbytes, private, self._pool.generation)
        buffer.view[:] = self._reserve.view[:nbytes]
        return buffer
