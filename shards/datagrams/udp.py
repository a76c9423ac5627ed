"""The UDP socket of the door: many datagrams in one call, each way, where the kernel can.

The kernel joins datagrams of one sender that arrive together (UDP_GRO), and cuts a long one into
datagrams of equal size (UDP_SEGMENT): a call costs more than the packets in it. On an address that
stands for all of this machine, answers leave from the address that was reached.

Always: what the kernel does not take now waits here, and nothing else is sent before it. Datagrams
that cannot be sent at all are dropped, as a network may do with any.
"""

import asyncio
import errno
import ipaddress
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
from borzoi.shards.settings.addresses import parse_address
from borzoi.shards.settings.schema import QuicSocket

IPV4: Final = socket.IPPROTO_IP
IPV6: Final = socket.IPPROTO_IPV6
PKTINFO4_KIND: Final = 8  # IP_PKTINFO
RECVPKTINFO6: Final = socket.IPV6_RECVPKTINFO
PKTINFO4: Final = struct.Struct("=I4s4s")
PKTINFO6: Final = struct.Struct("=16sI")
WOULD_BLOCK: Final = frozenset({errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS})
CANNOT_SEGMENT: Final = frozenset({errno.EIO, errno.EINVAL, errno.EOPNOTSUPP})

Peer = tuple[str, int]
Arrived = Callable[[list[bytes], Peer, str | None], None]


class Sent(NamedTuple):
    """Datagrams of one size for one peer; the last may be shorter."""

    datagrams: Sequence[bytes]
    peer: Peer
    local: str | None


def open_datagram_socket(address: str, options: QuicSocket, *, shares_port: bool) -> socket.socket:
    """A bound UDP socket. OSError if the port is taken, unless it may be shared.

    The official test harness binds the port before the server, and shares it.
    """
    host, port = parse_address(address)
    family, _, _, _, where = socket.getaddrinfo(
        host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE
    )[0]
    opened = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if shares_port:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        _set_buffers(opened, options)
        opened.bind(where)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def _set_buffers(opened: socket.socket, options: QuicSocket) -> None:
    received, sent = BUFFER_SIZE, BUFFER_SIZE
    if options.override_defaults:
        received, sent = options.recv_buffer_size, options.send_buffer_size
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(options.keepalive))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, sent)


class Datagrams:
    """Sends and receives. `arrived` gets what came of one peer, `drained` ends each turn."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        arrived: Arrived,
        drained: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = bound
        self._arrived = arrived
        self._drained = drained
        self._is_v6 = bound.family == socket.AF_INET6
        self._waiting: deque[Sent] = deque()
        try_option(bound, SOL_UDP, UDP_GRO)
        self._segments = try_option(bound, SOL_UDP, UDP_SEGMENT, 0)
        self._packet_info = (IPV6, socket.IPV6_PKTINFO) if self._is_v6 else (IPV4, PKTINFO4_KIND)
        self._tells_local = ipaddress.ip_address(bound.getsockname()[0]).is_unspecified
        if self._tells_local:
            try_option(bound, *((IPV6, RECVPKTINFO6) if self._is_v6 else (IPV4, PKTINFO4_KIND)))
        loop.add_reader(bound.fileno(), self._receive)

    @property
    def is_congested(self) -> bool:
        """Whether the kernel takes no more for now."""
        return bool(self._waiting)

    def close(self) -> None:
        """Receive no more; what waits is dropped."""
        self._loop.remove_reader(self._socket.fileno())
        if self._waiting:
            self._loop.remove_writer(self._socket.fileno())
        self._socket.close()

    def send(self, datagrams: Sequence[bytes], peer: Peer, local: str | None) -> None:
        """Send these in their order."""
        for run in runs_of(datagrams) if self._segments else [(one,) for one in datagrams]:
            self._send(Sent(run, peer, local))

    def _send(self, sent: Sent) -> None:
        if self._waiting:
            self._waiting.append(sent)
        elif not self._try_send(sent):
            self._waiting.append(sent)
            self._loop.add_writer(self._socket.fileno(), self._send_waiting)

    def _send_waiting(self) -> None:
        while self._waiting:
            if not self._try_send(self._waiting[0]):
                return
            self._waiting.popleft()
        self._loop.remove_writer(self._socket.fileno())
        self._drained()

    def _try_send(self, sent: Sent) -> bool:
        """False if the kernel has no room now."""
        ancillary = segmented(sent.datagrams)
        if self._tells_local and sent.local is not None:
            ancillary.append((*self._packet_info, self._pack_info(sent.local)))
        try:
            self._socket.sendmsg(sent.datagrams, ancillary, 0, sent.peer)
        except OSError as error:
            if error.errno in WOULD_BLOCK:
                return False
            if len(sent.datagrams) > 1 and error.errno in CANNOT_SEGMENT:
                # The device cannot; from now on each goes alone.
                self._segments = False
                self.send(sent.datagrams, sent.peer, sent.local)
        return True

    def _receive(self) -> None:
        receive = self._socket.recvmsg
        for _ in range(RECEIVES_PER_TURN_MAX):
            try:
                data, ancillary, _, peer = receive(RECEIVED_SIZE_MAX, ANCILLARY_SIZE)
            except OSError as error:
                if error.errno in WOULD_BLOCK:
                    break
                # What a peer that is gone has sent back; it names no datagram of ours.
                continue
            local = None
            for level, kind, value in ancillary:
                if (level, kind) == self._packet_info:
                    local = self._local_of(value)
            datagrams = cut(data, ancillary)
            if datagrams:
                self._arrived(datagrams, peer[:2], local)
        self._drained()

    def _pack_info(self, local: str) -> bytes:
        packed = ipaddress.ip_address(local).packed
        return PKTINFO6.pack(packed, 0) if self._is_v6 else PKTINFO4.pack(0, packed, bytes(4))

    def _local_of(self, value: bytes) -> str:
        if self._is_v6:
            return str(ipaddress.ip_address(PKTINFO6.unpack_from(value)[0]))
        return str(ipaddress.ip_address(PKTINFO4.unpack_from(value)[2]))
