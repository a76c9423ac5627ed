"""The UDP socket below a QUIC connection: many datagrams in one call, each way.

Always: what the kernel does not take now is lost, as a network may lose anything. QUIC sends it
again.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final

from borzoi.segmented import (
    ANCILLARY_SIZE,
    BUFFER_SIZE,
    RECEIVED_SIZE_MAX,
    RECEIVES_PER_TURN_MAX,
    SOL_UDP,
    UDP_GRO,
    UDP_SEGMENT,
    cut,
    runs_of,
    segmented,
    try_option,
)

WOULD_BLOCK: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})
CANNOT_SEGMENT: Final = frozenset({errno.EIO, errno.EINVAL, errno.EOPNOTSUPP})


async def connected_datagrams(
    loop: asyncio.AbstractEventLoop, host: str, port: int
) -> socket.socket:
    """A UDP socket that sends to the first address of a host; OSError if there is none."""
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, _, _, _, where = found[0]
    opened = socket.socket(family, socket.SOCK_DGRAM)
    try:
        opened.setblocking(False)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_SIZE)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_SIZE)
        opened.connect(where)
    except OSError:
        opened.close()
        raise
    return opened


class Datagrams:
    """Sends and receives over a connected socket, which is closed here.

    `arrived` gets what came in one turn, `failed` that nothing listens at the other end.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        opened: socket.socket,
        arrived: Callable[[list[bytes]], None],
        failed: Callable[[OSError], None],
    ) -> None:
        self._loop = loop
        self._socket = opened
        self._arrived = arrived
        self._failed = failed
        self._segments = try_option(opened, SOL_UDP, UDP_SEGMENT, 0)
        try_option(opened, SOL_UDP, UDP_GRO)
        self.peer: tuple[str, int] = opened.getpeername()[:2]
        loop.add_reader(opened.fileno(), self._receive)

    def send(self, datagrams: Sequence[bytes]) -> None:
        """Send these in their order."""
        for run in runs_of(datagrams) if self._segments else [(one,) for one in datagrams]:
            try:
                self._socket.sendmsg(run, segmented(run))
            except OSError as error:
                if len(run) > 1 and error.errno in CANNOT_SEGMENT:
                    # The device cannot; from now on each goes alone.
                    self._segments = False
                    self.send(run)
                elif error.errno not in WOULD_BLOCK:
                    self._failed(error)
                    return

    def close(self) -> None:
        """Send and receive no more. May be repeated."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _receive(self) -> None:
        datagrams: list[bytes] = []
        for _ in range(RECEIVES_PER_TURN_MAX):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(RECEIVED_SIZE_MAX, ANCILLARY_SIZE)
            except OSError as error:
                if error.errno not in WOULD_BLOCK:
                    self._failed(error)
                    return
                break
            datagrams += cut(data, ancillary)
        if datagrams:
            self._arrived(datagrams)
