"""QUIC below the reader of a connection: each request goes out on a stream of its own.

To the reader this is its transport. The library does packets, keys and losses and no input or
output; datagrams and timers are driven from here.

Always: `opened` is done before a request is sent. One request is on its way at most, so the bytes
that arrive are those of one stream.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final, cast

from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection
from qh3.quic.events import (
    ConnectionTerminated,
    HandshakeCompleted,
    QuicEvent,
    StreamDataReceived,
    StreamReset,
)

from borzoi.client.address import TlsOptions
from borzoi.client.datagrams import Datagrams
from borzoi.client.reply_reader import ReplyReader
from borzoi.protocol.errors import ConnectionClosed

IDLE_TIMEOUT_S: Final = 10.0
"""Without a sign of life for so long the connection is lost; the server sends one every 5 s."""

WINDOW_SIZE: Final = 4 << 20
"""How much of an answer may be on its way."""

DATAGRAM_SIZE: Final = 1252
LOOPBACK_DATAGRAM_SIZE: Final = 8192
"""On this machine nothing is in the way of long datagrams, and each costs the same."""

PACE_S: Final = 0.001
"""What the library wants to leave one by one within so long leaves together."""

# It warns of every connection that ends.
logging.getLogger("quic").setLevel(logging.CRITICAL)


def client_configuration(host: str, tls: TlsOptions) -> QuicConfiguration:
    """What a client asks of the server; OSError if a file cannot be used."""
    if tls.ca_file:
        with open(tls.ca_file, "rb") as file:
            trusted: bytes | None = file.read()
    else:
        trusted = None
    return QuicConfiguration(
        is_client=True,
        server_name=tls.domain or host,
        idle_timeout=IDLE_TIMEOUT_S,
        max_data=WINDOW_SIZE,
        max_stream_data=WINDOW_SIZE,
        max_datagram_size=LOOPBACK_DATAGRAM_SIZE if _is_loopback(host) else DATAGRAM_SIZE,
        cadata=trusted,
        verify_mode=ssl.CERT_REQUIRED if tls.validates else ssl.CERT_NONE,
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class QuicTransport:
    """One QUIC connection of a client."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        reader: ReplyReader,
        configuration: QuicConfiguration,
        udp: socket.socket,
    ) -> None:
        """Begins the handshake."""
        self._loop = loop
        self._reader = reader
        self._quic = QuicConnection(configuration=configuration)
        self._timer: asyncio.TimerHandle | None = None
        self._error: Exception | None = None
        self._is_gone = False
        self.opened: asyncio.Future[None] = loop.create_future()
        self._udp = Datagrams(loop, udp, self._arrived, self._lose)
        reader.connection_made(cast(asyncio.BaseTransport, self))
        self._quic.connect(self._udp.peer, loop.time())
        self._transmit()

    # What the socket calls.

    def _arrived(self, datagrams: list[bytes]) -> None:
        """Takes what the server has sent."""
        self._quic.receive_many_datagrams(datagrams, self._udp.peer, self._loop.time())
        self._settle()

    # What the reader calls.

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Sends a request on a stream of its own."""
        stream_id = self._quic.get_next_available_stream_id()
        for part in parts:
            self._quic.send_stream_data(stream_id, part)
        self._quic.send_stream_data(stream_id, b"", end_stream=True)
        self._transmit()

    def abort(self) -> None:
        """Ends the connection now."""
        if self._is_gone:
            return
        self._quic.close()
        self._send()
        self._end()

    # Between the two.

    def _settle(self) -> None:
        while not self._is_gone and (event := self._quic.next_event()) is not None:
            self._take(event)
        if not self._is_gone:
            self._transmit()

    def _take(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            self._pass_on(memoryview(event.data))
        elif isinstance(event, StreamReset):
            self._reader.end(ConnectionClosed("the server gave up the stream of a request"))
        elif isinstance(event, HandshakeCompleted) and not self.opened.done():
            self.opened.set_result(None)
        elif isinstance(event, ConnectionTerminated):
            reason = event.reason_phrase or "the server closed it, or was silent for too long"
            self._lose(ConnectionError(f"QUIC error {event.error_code}: {reason}"))

    def _pass_on(self, data: memoryview) -> None:
        while data and not self._is_gone:
            buffer = self._reader.get_buffer(-1)
            present = data[: len(buffer)]
            buffer[: len(present)] = present
            self._reader.buffer_updated(len(present))
            data = data[len(present) :]

    def _lose(self, error: Exception) -> None:
        """Nothing listens there any more, or the connection has ended."""
        self._error = self._error or error
        self._end()

    def _end(self) -> None:
        """Ends the waiting request with the reason, once what is under way here has returned."""
        if self._is_gone:
            return
        self._is_gone = True
        self._udp.close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.call_soon(self._ended)

    def _ended(self) -> None:
        if not self.opened.done():
            ended = ConnectionError("the server closed the connection before it was open")
            self.opened.set_exception(self._error or ended)
        self._reader.connection_lost(self._error)

    def _transmit(self) -> None:
        self._send()
        due = self._quic.get_timer()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is not None and not self._is_gone:
            earliest = self._loop.time() + PACE_S
            self._timer = self._loop.call_at(max(due, earliest), self._tick)

    def _send(self) -> None:
        made = self._quic.datagrams_to_send(self._loop.time())
        self._udp.send([datagram for datagram, _ in made])

    def _tick(self) -> None:
        self._timer = None
        self._quic.handle_timer(self._loop.time())
        self._settle()
