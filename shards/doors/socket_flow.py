"""Whether bytes are taken from a socket, and what they wait for: a turn, or room in the pool.

Owned by a connection. While reading is paused the kernel keeps what arrives, and the client
notices when its window is full: back-pressure costs nothing else.

The official clients write a frame in pieces and leave Nagle's algorithm on: their kernel keeps the
second piece until the first is acknowledged, which ours puts off by 40 ms. So what has come of an
incomplete frame is acknowledged at once, on connections that are seen to write so.
"""

import asyncio
import socket
from collections.abc import Callable

from borzoi.router.pool import NO_TAKER, MemoryPool, Waiter


class SocketFlow:
    """The reading side of one transport. `go_on` is called when what was waited for is there."""

    __slots__ = (
        "_go_on", "_loop", "_pool", "_pool_waiter", "_waits_for_turn", "is_paused", "transport",
        "writes_in_pieces",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pool: MemoryPool, go_on: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._go_on = go_on
        self._pool_waiter: Waiter | None = None
        self._waits_for_turn = False
        self.is_paused = False
        self.transport: asyncio.Transport | None = None  # None: not open yet, or not any more
        self.writes_in_pieces = False  # the client: its headers come without what follows

    @property
    def must_wait(self) -> bool:
        """Whether a turn or the pool is waited for."""
        return self._waits_for_turn or self._pool_waiter is not None

    def pause(self) -> None:
        """Take no more bytes. May be repeated."""
        if not self.is_paused and self.transport is not None:
            self.transport.pause_reading()
            self.is_paused = True

    def resume(self) -> None:
        """Take bytes again."""
        assert self.transport is not None, "only an open transport is read from"
        self.is_paused = False
        self.transport.resume_reading()

    def acknowledge(self) -> None:
        """Let the client's kernel send the rest of a frame now. The option does not last."""
        if self.transport is not None:
            connected = self.transport.get_extra_info("socket")
            # A stream of a QUIC connection has no socket of its own.
            if connected is not None:
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)

    def end(self) -> None:
        """The transport is gone: nothing is waited for any more."""
        self.transport = None
        if self._pool_waiter is not None:
            self._pool_waiter.cancel()
            self._pool_waiter = None

    def wait_for_turn(self) -> None:
        """Pause until the next turn of the loop, so that other connections get theirs."""
        self.pause()
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        self._go_on()

    def wait_for_room(self, length: int, taker: str = NO_TAKER) -> None:
        """Pause until the pool may have `length` bytes for `taker`."""
        self.pause()
        if self._pool_waiter is None:
            self._pool_waiter = self._pool.when_available(self._pool_has_room, length, taker)

    def _pool_has_room(self) -> None:
        # The pool calls from inside a release: take up the bytes in a turn of its own.
        self._loop.call_soon(self._take_up_after_wait)

    def _take_up_after_wait(self) -> None:
        waiter, self._pool_waiter = self._pool_waiter, None
        self._go_on()
        if waiter is not None and self._pool_waiter is None:
            # What was set aside here and is not used goes to the next.
            waiter.cancel()
        # Otherwise it waits again, because the room was not in one piece. To wake others now would
        # come back here and so on for ever: the next release wakes.
