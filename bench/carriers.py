"""What lies between an actor and its socket: TLS, WebSocket, both, or nothing.

A carrier has the few methods of a socket that actors use, so an actor does not know of it. In
non-blocking mode it takes or gives as much as there is at once, and BlockingIOError says that there
is nothing.
"""

import base64
import os
import socket
from typing import Any, Final, Protocol

from borzoi.protocol.http_head import HEAD_END
from borzoi.protocol.tls_records import (
    NOTHING,
    PIECE_SIZE,
    TlsRecords,
    failure,
    ffi,
    lib,
)
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
COMING_SIZE: Final = 256 * 1024
"""Records that are read at once."""

SERVER: Final = b"localhost"
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


def dialled(
    host: str, port: int, transport: str, ca_file: str, timeout_s: float, *, nodelay: bool = True
) -> Carrier:
    """A connection, ready for requests."""
    if transport == "quic":
        # Its library is large, and asyncio with it.
        from borzoi.bench.quic_carrier import QuicCarrier

        return QuicCarrier(host, port, ca_file)
    connection = socket.create_connection((host, port), timeout=timeout_s)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
    below: Carrier = connection
    try:
        if transport in ("tls", "wss"):
            below = TlsCarrier(connection, ca_file)
        return WebSocketCarrier(below) if transport in ("ws", "wss") else below
    except BaseException:
        connection.close()
        raise


class TlsCarrier:
    """A TLS client. The certificate has to be for localhost; without a file none is verified.

    Its records go through the same OpenSSL as the broker's: otherwise the generator, on the slower
    one of `ssl`, would be what is measured.
    """

    def __init__(self, connection: socket.socket, ca_file: str) -> None:
        self._socket = connection
        self._records = TlsRecords(_client_context(ca_file), is_server=False)
        self._coming = memoryview(bytearray(COMING_SIZE))
        self._unsent = NOTHING
        self._unsent_of = 0  # so many bytes in clear
        self._waits = True
        self.fileno = connection.fileno
        self.getsockname = connection.getsockname
        self.close = connection.close
        self._shake()

    def setblocking(self, flag: bool, /) -> None:
        """Whether calls wait."""
        self._waits = flag
        self._socket.setblocking(flag)

    def send(self, data: bytes | bytearray | memoryview, /) -> int:
        """How many of these bytes were taken. The rest of a piece is sent by the next call."""
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            if not self._unsent:
                part = view[sent : sent + PIECE_SIZE]
                (self._unsent,) = self._records.encrypt((part,))
                self._unsent_of = len(part)
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except BlockingIOError:
                break
            if not self._unsent:
                sent += self._unsent_of
        return sent

    def sendall(self, data: bytes | bytearray | memoryview, /) -> None:
        """Sends all of it, in blocking mode."""
        for piece in self._records.encrypt((data,)):
            self._socket.sendall(piece)

    def recv_into(self, buffer: memoryview, /) -> int:
        """How many bytes came; 0 at the end."""
        records = self._records
        received = 0
        while received < len(buffer):
            size = records.read_into(buffer[received:])
            received += size
            if size:
                continue
            if records.is_ended or (received and self._waits):
                break
            try:
                came = self._socket.recv_into(self._coming)
            except BlockingIOError:
                if received:
                    break
                raise
            if not came:
                break
            records.receive(self._coming[:came])
        return received

    def _shake(self) -> None:
        records = self._records
        is_done = False
        while not is_done:
            is_done = records.shake()
            self._socket.sendall(records.unsent())
            if not is_done:
                came = self._socket.recv_into(self._coming)
                if not came:
                    raise ConnectionError("the server ended the handshake of TLS")
                records.receive(self._coming[:came])


def _client_context(ca_file: str) -> Any:
    context = ffi.gc(lib.SSL_CTX_new(lib.TLS_client_method()), lib.SSL_CTX_free)
    lib.SSL_CTX_set_min_proto_version(context, lib.TLS1_2_VERSION)
    if ca_file:
        if not lib.SSL_CTX_load_verify_locations(context, os.fsencode(ca_file), ffi.NULL):
            raise failure()
        lib.SSL_CTX_set_verify(context, lib.SSL_VERIFY_PEER, ffi.NULL)
        lib.X509_VERIFY_PARAM_set1_host(lib.SSL_CTX_get0_param(context), SERVER, len(SERVER))
    return context


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
