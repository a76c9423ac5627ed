"""How long a client may keep us waiting: to log in, to finish a frame, to read its answers.

Owned by a connection, which says what it waits for; asked once a second whether that takes too
long. A client that reads slowly is no offender, as long as it takes `read_rate_min` on average
over each window of `write_timeout_s`. A byte now and then is not enough: what waits to be sent may
be a copy in memory that others want. A window ends early when the transport has room again: by
then a piece of a large answer was taken.
"""

import asyncio
import socket
import struct
from fcntl import ioctl
from termios import TIOCOUTQ
from typing import Final

from borzoi.shards.admission.frames import ConnectionLimits

C_INT: Final = struct.Struct("=i")
NOTHING_LINGERS: Final = struct.pack("=ii", 1, 0)  # on, for no time at all


class Patience:
    """Since when a connection waits, and for what; None: it does not."""

    __slots__ = (
        "_anonymous_since", "_closing_since", "_limits", "_unsent_bytes", "_unwritten_since",
        "frame_since",
    )  # fmt: skip

    def __init__(self, limits: ConnectionLimits, now: float) -> None:
        self._limits = limits
        self._anonymous_since = now
        self._unwritten_since: float | None = None
        self._closing_since: float | None = None
        self._unsent_bytes = 0  # when the window began in which the client has to read
        self.frame_since: float | None = None

    def wait_for_frame(self, now: float) -> None:
        """Something of a frame is there, the rest is not."""
        if self.frame_since is None:
            self.frame_since = now

    def wait_for_reader(self, transport: asyncio.Transport, now: float) -> None:
        """The client does not take what is sent to it: a window begins."""
        self._unwritten_since = now
        self._unsent_bytes = unsent_bytes(transport)

    def reader_is_back(self) -> None:
        """The client has taken what was sent to it, but for a little."""
        self._unwritten_since = None

    def overdue(
        self, transport: asyncio.Transport, now: float, *, authenticated: bool, busy: bool
    ) -> str | None:
        """What the client did not do in time, None if there is nothing to complain about."""
        limits = self._limits
        if authenticated:
            self._anonymous_since = now
        if transport.is_closing():
            # It was closed, by us or by the peer's end of file, but something is still unsent.
            if self._closing_since is None:
                self._closing_since = now
            if now - self._closing_since > limits.write_timeout_s:
                return "does not read its last answers"
        elif self._unwritten_since is not None:
            return self._too_slow(transport, now - self._unwritten_since, now)
        elif self.frame_since is not None and now - self.frame_since > limits.frame_timeout_s:
            return "did not finish a frame"
        elif not busy and now - self._anonymous_since > limits.login_timeout_s:
            return "did not log in"
        return None

    def _too_slow(self, transport: asyncio.Transport, window_s: float, now: float) -> str | None:
        limits = self._limits
        if window_s <= limits.write_timeout_s:
            return None
        taken = self._unsent_bytes - unsent_bytes(transport)
        if taken < limits.read_rate_min * window_s:
            return (
                f"took {taken} bytes of its answers in {window_s:.0f} s, "
                f"less than {limits.read_rate_min} a second"
            )
        self.wait_for_reader(transport, now)
        return None


def give_up(transport: asyncio.Transport) -> None:
    """End the connection, and let the kernel throw away what the peer has not taken.

    Otherwise the kernel goes on offering it, megabytes for each peer, long after the connection
    has ended. A peer that does not read would never learn of the end.
    """
    if unsent_bytes(transport):
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.fileno() >= 0:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOTHING_LINGERS)
    transport.abort()


def unsent_bytes(transport: asyncio.Transport) -> int:
    """What the peer has not taken yet, here and in the kernel.

    The kernel asks for more only when a third of its buffer is free, which may be megabytes: the
    transport's own count would make a slow reader look like one that does not read.
    """
    unsent = transport.get_write_buffer_size()
    connected = transport.get_extra_info("socket")
    if connected is not None and (fd := connected.fileno()) >= 0:
        unsent += C_INT.unpack(ioctl(fd, TIOCOUTQ, bytes(C_INT.size)))[0]
    return unsent
