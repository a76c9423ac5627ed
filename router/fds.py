"""Handing descriptors from one process to another over a Unix socket pair.

The supervisor sends each worker new control memories, arenas and eventfds this way. Workers send
each other the sockets of clients that move to the shard that owns their partition.

SOCK_SEQPACKET keeps messages whole. One send is one receive, so there is no half message, no length
prefix and no way to pair a payload with another one's descriptors.

Closing: a sender keeps its descriptors and may close them as soon as send returns. A receiver owns
those that it receives, and they are close-on-exec. A message that cannot be accepted (truncated,
too many descriptors) has its descriptors closed before the error is raised.

Bounds: PAYLOAD_MAX bytes and FDS_MAX descriptors a message, QUEUE_MAX messages that wait for the
socket, TURN_MAX messages handled before the loop gets its turn.
"""

import array
import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

PAYLOAD_MAX: Final = 64 * 1024
# What the kernel takes in one message.
FDS_MAX: Final = 253
QUEUE_MAX: Final = 1024
TURN_MAX: Final = 16

_ANCILLARY_SIZE: Final = socket.CMSG_SPACE(FDS_MAX * array.array("i").itemsize)


class BadMessage(Exception):
    """A message on the socket pair breaks the bounds of this module."""


class ChannelClosed(Exception):
    """The process at the other end is gone."""


class ChannelFull(Exception):
    """The process at the other end has not read for QUEUE_MAX messages."""


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends, not inherited unless passed on."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send_message(sock: socket.socket, payload: bytes, fds: Sequence[int] = ()) -> None:
    """Send one message, whole. BlockingIOError if the socket is non-blocking and full.

    The payload may not be empty: an empty message is what the end of the connection looks like.
    """
    _check_bounds(payload, fds)
    ancillary = []
    if fds:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    try:
        sent = sock.sendmsg([payload], ancillary, socket.MSG_NOSIGNAL)
    except (BrokenPipeError, ConnectionResetError) as gone:
        raise ChannelClosed("the other end is closed") from gone
    assert sent == len(payload), "a sequenced packet is sent whole"


def receive_message(sock: socket.socket) -> tuple[bytes, list[int]]:
    """Receive one message and the descriptors that came with it, which are the caller's now.

    ChannelClosed at the end of the connection, BlockingIOError if nothing is there yet.
    """
    try:
        payload, ancillary, flags, _ = sock.recvmsg(
            PAYLOAD_MAX, _ANCILLARY_SIZE, socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError as gone:
        raise ChannelClosed("the other end is closed") from gone
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        _close_all(fds)
        raise BadMessage(f"a message of more than {PAYLOAD_MAX} bytes or {FDS_MAX} descriptors")
    if not payload:
        if fds:
            _close_all(fds)
            raise BadMessage("descriptors without a payload")
        raise ChannelClosed("the other end is closed")
    return payload, fds.tolist()


class FdChannel:
    """One end of a socket pair in an event loop.

    `on_message(payload, fds)` owns the descriptors from the moment it is called.
    `on_closed(reason)` is called once, from the loop, when the other end is gone (ChannelClosed) or
    sent what it must not (BadMessage). The channel is closed by then.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_message: Callable[[bytes, list[int]], object],
        on_closed: Callable[[ChannelClosed | BadMessage], object],
    ) -> None:
        sock.setblocking(False)
        self._loop = loop
        self._sock = sock
        self._on_message = on_message
        self._on_closed = on_closed
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        self.closed = False
        loop.add_reader(sock.fileno(), self._readable)

    @property
    def queued(self) -> int:
        """Messages that wait for the socket."""
        return len(self._queue)

    def send(self, payload: bytes, fds: Sequence[int] = ()) -> None:
        """Send now, or as soon as the socket takes it, in order.

        The caller may close the descriptors when this returns: those of a message that waits
        are duplicated.
        """
        if self.closed:
            raise ChannelClosed("sent on a closed channel")
        _check_bounds(payload, fds)
        if not self._queue:
            try:
                send_message(self._sock, payload, fds)
            except BlockingIOError:
                self._loop.add_writer(self._sock.fileno(), self._writable)
            else:
                return
        if len(self._queue) >= QUEUE_MAX:
            raise ChannelFull(f"{QUEUE_MAX} messages wait already")
        self._queue.append((payload, _duplicate_all(fds)))

    def close(self) -> None:
        """Stop; messages that still wait are lost. Does not call on_closed. May be repeated."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        while self._queue:
            _close_all(self._queue.popleft()[1])
        self._sock.close()

    def _readable(self) -> None:
        for _ in range(TURN_MAX):
            try:
                payload, fds = receive_message(self._sock)
            except BlockingIOError:
                return
            except (ChannelClosed, BadMessage) as reason:
                self._end(reason)
                return
            self._on_message(payload, fds)
            if self.closed:
                return

    def _writable(self) -> None:
        while self._queue:
            payload, fds = self._queue[0]
            try:
                send_message(self._sock, payload, fds)
            except BlockingIOError:
                return
            except ChannelClosed as reason:
                self._end(reason)
                return
            self._queue.popleft()
            _close_all(fds)
        self._loop.remove_writer(self._sock.fileno())

    def _end(self, reason: ChannelClosed | BadMessage) -> None:
        self.close()
        self._on_closed(reason)


def _check_bounds(payload: bytes, fds: Sequence[int]) -> None:
    if not 0 < len(payload) <= PAYLOAD_MAX:
        raise BadMessage(f"a payload of {len(payload)} bytes: 1 to {PAYLOAD_MAX} can be sent")
    if len(fds) > FDS_MAX:
        raise BadMessage(f"{len(fds)} descriptors: at most {FDS_MAX} can be sent")


def _duplicate_all(fds: Sequence[int]) -> list[int]:
    copies: list[int] = []
    try:
        for fd in fds:
            copies.append(os.dup(fd))
    except OSError:
        _close_all(copies)
        raise
    return copies


def _close_all(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
