"""A socket whose peer the test plays, for connections that no kernel carries."""

import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from borzoi.router.pool import KIB
from borzoi.shards.doors.tcp import Connection
from tests.shards.hand_loop import HandLoop

HIGH_WATER: Final = 64 * KIB


class HandTransport:
    """A socket whose peer the test plays. Says loudly when reading is paused twice or so."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.peer: tuple[str, int] | None = ("127.0.0.1", 50_000)
        self.connection: Connection | None = None
        self.reading = True
        self.peer_reads = True
        self.sent = b""
        self.unsent = b""
        self.closing = False
        self.aborted = False
        self.wrote_eof = False
        self.acknowledged_count = 0
        self.on_write: Callable[[bytes | memoryview], None] = lambda _data: None
        self._paused = False
        self._lost = False
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4

    # What the connection calls.

    def get_extra_info(self, name: str) -> Any:
        return {"peername": self.peer, "socket": self}[name]

    def fileno(self) -> int:
        return -1

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option, value) == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self.acknowledged_count += 1

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed without a pause"
        self.reading = True

    def write(self, data: bytes | memoryview) -> None:
        assert not self.closing, "written to a transport that closes"
        assert not self.wrote_eof, "written behind the end of file"
        self.on_write(data)
        if self.peer_reads and not self.unsent:
            self.sent += data
            return
        self.unsent += data
        if len(self.unsent) > self._high and not self._paused:
            self._paused = True
            self._owner.pause_writing()

    def writelines(self, parts: Sequence[bytes | memoryview]) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def set_write_buffer_limits(self, high: int = HIGH_WATER, low: int | None = None) -> None:
        self._high = high
        self._low = high // 4 if low is None else low

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.wrote_eof = True

    def close(self) -> None:
        self.closing = True
        if not self.unsent:
            self._lose()

    def abort(self) -> None:
        self.closing = True
        self.aborted = True
        self.unsent = b""
        self._lose()

    # What the test calls.

    def deliver(self, data: bytes) -> bytes:
        """Let bytes arrive as far as they are read; the rest."""
        while data and self.reading and not self.closing:
            room = self._owner.get_buffer(-1)
            assert room, "an empty buffer kills a connection"
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._owner.buffer_updated(count)
            data = data[count:]
        return data

    def take(self, count: int) -> None:
        """The peer reads some of what waits."""
        self.sent += self.unsent[:count]
        self.unsent = self.unsent[count:]
        if self._paused and len(self.unsent) <= self._low:
            self._paused = False
            self._owner.resume_writing()
        if self.closing and not self.unsent:
            self._lose()

    def lose(self) -> None:
        """The peer is gone."""
        self.abort()

    @property
    def _owner(self) -> Connection:
        assert self.connection is not None
        return self.connection

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._owner.connection_lost, None)
