"""A WebSocket below the reader of a connection: requests go into binary messages, answers come out.

To the reader this is its transport, to the real transport it is the protocol. Bytes are received
where the reader wants them (protocol/websocket.py).

Always: `opened` is done before a byte of the protocol passes, one way or the other.
"""

import asyncio
import base64
import os
from collections.abc import Iterable
from typing import Final, cast

from borzoi.client.reply_reader import ReplyReader
from borzoi.protocol.errors import ConnectionClosed
from borzoi.protocol.http_head import HEAD_END, HEAD_SIZE_MAX
from borzoi.protocol.websocket import (
    FROM_SERVER,
    LENGTH_MAX,
    Unframer,
    masked,
    masked_binary_head,
    masked_pong_frame,
)
from borzoi.protocol.websocket_upgrade import VERSION, accept_of

KEY_SIZE: Final = 16
MASK_SIZE: Final = 4
SWITCHED: Final = b"HTTP/1.1 101 "
SCRATCH_SIZE: Final = 4096


class WebSocket(asyncio.BufferedProtocol):
    """One WebSocket of a client."""

    def __init__(self, loop: asyncio.AbstractEventLoop, reader: ReplyReader, host: str) -> None:
        self._reader = reader
        self._host = host
        self._transport: asyncio.Transport
        self._unframer = Unframer(FROM_SERVER, LENGTH_MAX, LENGTH_MAX)
        self._key = base64.b64encode(os.urandom(KEY_SIZE)).decode("ascii")
        self._head = bytearray()
        self._buffer = self._scratch = memoryview(bytearray(SCRATCH_SIZE))
        self.opened: asyncio.Future[None] = loop.create_future()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Asks for a WebSocket."""
        self._transport = cast(asyncio.Transport, transport)
        self._reader.connection_made(cast(asyncio.BaseTransport, self))
        request = (
            f"GET / HTTP/1.1\r\nHost: {self._host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {self._key}\r\nSec-WebSocket-Version: {VERSION}\r\n\r\n"
        )
        self._transport.write(request.encode("ascii"))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Returns where the next bytes go."""
        self._buffer = self._reader.get_buffer(sizehint) if self.opened.done() else self._scratch
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        """Bytes have arrived where `get_buffer` said."""
        if self.opened.done():
            self._take(size)
        else:
            self._head += self._scratch[:size]
            self._open()

    def eof_received(self) -> None:
        """The server is gone: the transport closes."""

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the waiting request with the reason."""
        if not self.opened.done():
            cause = ConnectionError("the server closed the connection before it was a WebSocket")
            self.opened.set_exception(error or cause)
        self._reader.connection_lost(error)

    def _open(self) -> None:
        head, end, rest = self._head.partition(HEAD_END)
        if not end and len(self._head) < HEAD_SIZE_MAX:
            return
        accept = f"sec-websocket-accept: {accept_of(self._key)}".lower().encode("ascii")
        if not (head.startswith(SWITCHED) and accept in bytes(head).lower()):
            said = bytes(head.partition(b"\r\n")[0][:100]).decode("ascii", "replace")
            self.opened.set_exception(ConnectionError(f"the server opens no WebSocket: {said!r}"))
            self._transport.abort()
            return
        self.opened.set_result(None)
        assert not rest, "a server says nothing before it is asked"

    def _take(self, size: int) -> None:
        unframer = self._unframer
        payload_size = unframer.take(self._buffer, size)
        if payload_size:
            self._reader.buffer_updated(payload_size)
        if unframer.ping is not None:
            carried, unframer.ping = unframer.ping, None
            self._transport.write(masked_pong_frame(carried, os.urandom(MASK_SIZE)))
        if unframer.failure or unframer.closing is not None:
            self._reader.end(ConnectionClosed("the server closed the WebSocket"))

    # What the reader calls.

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Sends a binary message."""
        payload, mask = b"".join(parts), os.urandom(MASK_SIZE)
        head = masked_binary_head(len(payload), mask)
        self._transport.writelines([head, masked(payload, mask)])

    def abort(self) -> None:
        """Ends the connection now."""
        self._transport.abort()
