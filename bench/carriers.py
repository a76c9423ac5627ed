"""What lies between an actor and its socket: TLS, WebSocket, both, or nothing.

A carrier has the few methods of a socket that actors use, so an actor does not know of it. In
non-blocking mode it takes or gives as much as there is at once, and BlockingIOError says that there
is nothing.
"""

import base64
import os
import socket
import ssl
from typing import Final, Protocol

from borzoi.protocol.http_head import HEAD_END
from borzoi.protocol.websocket import (
    FROM_SERVER,
    LENGTH_MAX,
    Unframer,
    masked,
    masked_binary_head,
)
from borzoi.protocol.websocket_upgrade import VERSION, accept_of

MASK_SIZE: Final = 4
KEY_SIZE: Final = 16
SCRATCH_SIZE: Final = 64 * 1024
HEADS_SIZE: Final = 64
"""More than the heads of the frames of one short answer take."""


class Carrier(Protocol):
    """As much of a socket as actors use."""

    def fileno(self) -> int:
        """The descriptor to wait for."""

    def getsockname(self) -> tuple[str, int]:
        """The own address."""

    def setblocking(self, flag: bool, /) -> None:
        """Whether calls wait."""

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """How many of these bytes were taken."""

    def sendall(self, data: bytes | bytearray | memoryview, /) -> None:
        """Sends all of it, in blocking mode."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes came; 0 at the end."""

    def close(self) -> None:
        """Closes the socket."""


def carried(connection: socket.socket, transport: str, ca_file: str) -> Carrier:
    """The carrier of a connection that was just made, ready for requests."""
    below: Carrier = connection
    if transport in ("tls", "wss"):
        below = TlsCarrier(connection, ca_file)
    return WebSocketCarrier(below) if transport in ("ws", "wss") else below


class TlsCarrier:
    """A TLS client. The certificate has to be for localhost; without a file none is verified."""

    def __init__(self, connection: socket.socket, ca_file: str) -> None:
        context = ssl.create_default_context(cafile=ca_file or None)
        if not ca_file:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._tls = context.wrap_socket(connection, server_hostname="localhost")
        self._waits = True
        self.fileno = self._tls.fileno
        self.getsockname = self._tls.getsockname
        self.sendall = self._tls.sendall
        self.close = self._tls.close

    def setblocking(self, flag: bool, /) -> None:
        """Whether calls wait."""
        self._waits = flag
        self._tls.setblocking(flag)

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """How many of these bytes were taken; a record is at most 16 KiB of them."""
        view = memoryview(data)
        sent = 0
        try:
            while sent < len(view):
                sent += self._tls.send(view[sent:])
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass  # The rest goes when the socket takes bytes again.
        return sent

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes came; 0 at the end."""
        received = 0
        try:
            while received < len(buffer):
                size = self._tls.recv_into(buffer[received:])
                received += size
                if size == 0 or self._waits:
                    break
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not received:
                raise BlockingIOError from None
        return received


class WebSocketCarrier:
    """A WebSocket client: every send is one binary message, masked as it has to be."""

    def __init__(self, below: Carrier) -> None:
        self._below = below
        self._unframer = Unframer(FROM_SERVER, LENGTH_MAX, LENGTH_MAX)
        self._scratch = memoryview(bytearray(SCRATCH_SIZE))
        self._came = self._unsent = memoryview(b"")
        self._waits = True
        self.fileno = below.fileno
        self.getsockname = below.getsockname
        self.close = below.close
        self._open()

    def setblocking(self, flag: bool, /) -> None:
        """Whether calls wait."""
        self._waits = flag
        self._below.setblocking(flag)

    def sendall(self, data: bytes | bytearray | memoryview, /) -> None:
        """Sends all of it, in blocking mode."""
        self._below.sendall(_message(data))

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """All of these bytes, or none: then the rest of the message is sent by the next call."""
        if not self._unsent:
            self._unsent = memoryview(_message(data))
        try:
            sent = self._below.send(self._unsent)
        except BlockingIOError:
            sent = 0
        self._unsent = self._unsent[sent:]
        return 0 if self._unsent else len(data)

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes came; 0 at the end."""
        if not self._came:
            if len(buffer) + HEADS_SIZE > SCRATCH_SIZE:
                return self._fill(buffer)
            size = self._receive(self._scratch[: len(buffer) + HEADS_SIZE])
            self._came = self._scratch[:size]
        size = min(len(buffer), len(self._came))
        buffer[:size] = self._came[:size]
        self._came = self._came[size:]
        return size

    def _fill(self, buffer: memoryview) -> int:
        """Bytes are moved within the buffer, over the heads of frames.

        What is free again is filled at once: TLS may hold decrypted bytes, of which no event tells.
        """
        filled = 0
        while filled < len(buffer):
            try:
                size = self._receive(buffer[filled:])
            except BlockingIOError:
                if filled:
                    break
                raise
            filled += size
            if size == 0 or self._waits:
                break
        return filled

    def _receive(self, target: memoryview) -> int:
        while True:
            size = self._below.recv_into(target)
            if size == 0:
                return 0
            size = self._unframer.take(target, size)
            if size:
                return size
            if not self._waits:
                raise BlockingIOError

    def _open(self) -> None:
        key = base64.b64encode(os.urandom(KEY_SIZE)).decode("ascii")
        request = (
            "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: {VERSION}\r\n\r\n"
        )
        self._below.sendall(request.encode("ascii"))
        head = bytearray()
        while not head.endswith(HEAD_END):
            size = self._below.recv_into(self._scratch)
            head += self._scratch[:size]
            if not size:
                break
        if accept_of(key).encode("ascii") not in head:
            raise ConnectionError(f"the server opens no WebSocket: {bytes(head[:100])!r}")


def _message(data: bytes | bytearray | memoryview) -> bytes:
    mask = os.urandom(MASK_SIZE)
    return masked_binary_head(len(data), mask) + masked(memoryview(data), mask)
