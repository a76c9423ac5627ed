"""TLS below a connection: records come in and go out, bytes in clear are what it sees.

To the connection this is its transport, to the real transport it is the protocol, as a WebSocket is
(websocket/websocket.py), which may be the connection. The records themselves are made and read in
protocol/tls_records.py. Records land in memory that all connections share, and are decrypted where
the connection wants its bytes.

    transport ──> handshake: no connection yet ──> open ──> our side is shut ──> gone

An answer is encrypted as the client takes it: what waits lies in clear where it lay, as a view of a
file mostly. So a client that does not read holds AHEAD_SIZE of records, and not all its answer.

Always: between two turns of the loop a connection has decrypted at most what one read has brought,
and keeps as much at most while it is paused. A peer that does not read gets no further answers to
what it asks of TLS itself.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from borzoi.protocol.tls_records import PIECE_SIZE, TlsFailure, TlsRecords
from borzoi.shards.tls.context import ServerContext

READ_SIZE: Final = 256 * 1024
"""Read of one connection in one turn of the loop, and kept while it is paused."""

AHEAD_SIZE: Final = 256 * 1024
"""Encrypted ahead of what the socket takes, at most; then the rest of an answer waits in clear."""

USUAL_HIGH: Final = 64 * 1024
USUAL_LOW: Final = 16 * 1024
"""From so much on a connection waits for its client, to so much: as with transports of asyncio."""

# Where records land, and where bytes land that are copied at once; all connections share them.
COMING: Final = memoryview(bytearray(READ_SIZE))
CLEAR: Final = memoryview(bytearray(READ_SIZE))

GONE: Final = asyncio.Protocol()
"""Stands for a connection that has ended."""


class Encrypted(asyncio.BufferedProtocol):
    """One connection of TLS: a protocol to its transport, a transport to its connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: ServerContext,
        protocol: asyncio.BaseProtocol,
    ) -> None:
        self._loop = loop
        self._context = context
        self._records: TlsRecords = context.records()
        self._protocol: Any = protocol
        self._takes_buffers = isinstance(protocol, asyncio.BufferedProtocol)
        self._transport: asyncio.Transport
        self.opened: asyncio.Future[None] = loop.create_future()
        """Done when the handshake is, and the connection made."""

        self._is_open = False
        self._is_shut = False  # nothing is written any more
        self._is_at_end = False  # of what the peer sends
        self._stays = False  # the connection has answers to give behind that
        self._is_paused = False  # by the connection
        self._is_deaf = False  # the transport: it is paused
        self._has_rest = False  # bytes came, and the connection was paused before it had them
        self._has_turn_coming = False
        self._is_write_paused = False  # the transport
        self._waits_for_reader = False
        self._waiting: deque[bytes | memoryview] = deque()  # to be encrypted
        self._waiting_size = 0
        self._has_to_wait = False  # the connection, for its client to read
        self._ends: Callable[[], None] | None = None  # what follows when nothing waits
        self._high, self._low = USUAL_HIGH, USUAL_LOW

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, and has not shaken hands yet."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next records go."""
        return COMING

    def buffer_updated(self, nbytes: int) -> None:
        """Records have come."""
        self._records.receive(COMING[:nbytes])
        if nbytes == READ_SIZE:
            # The loop reads a socket many times in one turn as long as buffers come back full.
            self._wait_for_turn()
        self._take()
        if self._has_rest:
            self._records.keep_rest()

    def eof_received(self) -> bool:
        """The client sends no more; what it has sent is answered."""
        return self._is_open and self._end_of_peer()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        protocol, self._protocol = self._protocol, GONE
        self._is_shut = True
        self._forget()
        del self._records
        if self._is_open:
            self._is_open = False
            protocol.connection_lost(error)
        elif not self.opened.done():
            self.opened.set_exception(error or TlsFailure("the peer is gone"))

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_write_paused = True
        self._weigh()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_write_paused = self._waits_for_reader = False
        if self._is_open:
            self._encrypt()
            self._weigh()
            self._listen()

    # Records of the client.

    def _take(self) -> None:
        """Take what has come as far as the connection wants it."""
        try:
            if self._is_open or self._shake():
                self._decrypt()
            self._answer()
        except TlsFailure as failure:
            self._fail(failure)

    def _shake(self) -> bool:
        if not self._records.shake():
            return False
        self._answer()
        self._is_open = True
        self._protocol.connection_made(self)
        if not self.opened.done():
            self.opened.set_result(None)
        return self._is_open

    def _decrypt(self) -> None:
        protocol, records = self._protocol, self._records
        self._has_rest = True
        # The connection may end with any bytes that it is given.
        while not (self._is_paused or self._transport.is_closing()):
            buffer = protocol.get_buffer(-1) if self._takes_buffers else CLEAR
            size = records.read_into(buffer)
            if not size:
                self._has_rest = False
                if records.is_ended and not self._end_of_peer():
                    self.close()
                return
            if self._takes_buffers:
                protocol.buffer_updated(size)
            else:
                protocol.data_received(bytes(buffer[:size]))

    def _answer(self) -> None:
        """Send what TLS itself has to say."""
        if self._protocol is GONE:
            return
        said = self._records.unsent()
        if said:
            self._transport.write(said)
            if self._is_write_paused:
                self._waits_for_reader = True
                self._be_deaf()

    def _fail(self, failure: TlsFailure) -> None:
        said = self._records.unsent()
        self._is_shut = True
        self._has_rest = False
        self._forget()
        if said:
            self._transport.write(said)
        if not self.opened.done():
            self.opened.set_exception(failure)
        self._transport.close()

    def _end_of_peer(self) -> bool:
        """Whether the connection stays for what it has to answer yet."""
        if not self._is_at_end:
            self._is_at_end = True
            self._stays = bool(self._protocol.eof_received())
        return self._stays

    # Turns.

    def _be_deaf(self) -> None:
        if not self._is_deaf:
            self._is_deaf = True
            self._transport.pause_reading()

    def _wait_for_turn(self) -> None:
        self._be_deaf()
        if not self._has_turn_coming:
            self._has_turn_coming = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._has_turn_coming = False
        if self._has_rest and not (self._is_paused or self._is_shut):
            self._take()
        self._listen()

    def _listen(self) -> None:
        """Take records again, unless something speaks against it."""
        if self._has_turn_coming or not self._is_deaf or self._transport.is_closing():
            return
        if not (self._is_paused or self._has_rest or self._waits_for_reader):
            self._is_deaf = False
            self._transport.resume_reading()

    # What the connection calls.

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection below, and what tells it from a plain one."""
        if name == "sslcontext":
            return self._context
        if name == "ssl_object":
            return None if self._protocol is GONE else self._records
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Bytes that are not sent yet, encrypted or not."""
        return self._transport.get_write_buffer_size() + self._waiting_size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When the connection has to wait, and goes on: not below what the transport tells of."""
        self._high = max(USUAL_HIGH, high or 0)
        self._low = max(USUAL_LOW, self._high // 4 if low is None else low)
        if not self._has_to_wait:
            # One that waits goes on when its client has read, never from inside of this call.
            self._weigh()

    def write(self, data: bytes | memoryview) -> None:
        """Encrypt and send."""
        self.writelines((data,))

    def writelines(self, parts: Iterable[bytes | memoryview]) -> None:
        """Encrypt and send several parts."""
        if self._is_shut or self._ends is not None or self._transport.is_closing():
            return
        parts = list(parts)
        size = sum(map(len, parts))
        if self._waiting or size > PIECE_SIZE:
            self._waiting += parts
            self._waiting_size += size
            self._encrypt()
        else:
            self._send(parts)
        self._weigh()

    def can_write_eof(self) -> bool:
        """Each side ends by itself."""
        return True

    def write_eof(self) -> None:
        """Say that no more comes, behind what was written."""
        self._end_with(self._end_our_side)

    def close(self) -> None:
        """End the connection behind what was written."""
        self._end_with(self._close)

    def abort(self) -> None:
        """End the connection now."""
        self._is_shut = True
        self._forget()
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is about to end."""
        return self._ends == self._close or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no bytes for a while."""
        self._is_paused = True
        self._be_deaf()

    def resume_reading(self) -> None:
        """Take bytes again: first, in a turn to come, those that have come before."""
        self._is_paused = False
        if self._has_rest:
            self._wait_for_turn()
        else:
            self._listen()

    # Bytes for the client.

    def _encrypt(self) -> None:
        """Encrypt and send as much of what waits as the socket is about to take."""
        transport, waiting = self._transport, self._waiting
        while waiting and transport.get_write_buffer_size() < AHEAD_SIZE:
            taken: list[bytes | memoryview] = []
            room = AHEAD_SIZE
            while waiting and room:
                part = memoryview(waiting.popleft())
                if len(part) > room:
                    waiting.appendleft(part[room:])
                    part = part[:room]
                taken.append(part)
                room -= len(part)
            self._waiting_size -= AHEAD_SIZE - room
            self._send(taken)
        if not waiting:
            if not self._is_shut:
                self._records.let_go()
            if self._ends is not None:
                self._ends()

    def _send(self, parts: Iterable[bytes | memoryview]) -> None:
        try:
            pieces = self._records.encrypt(parts)
        except TlsFailure as failure:
            self._fail(failure)
            return
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    def _weigh(self) -> None:
        """Have the connection wait for its client, or go on."""
        size = self.get_write_buffer_size()
        if not self._has_to_wait:
            if size > self._high and self._is_open:
                self._has_to_wait = True
                self._protocol.pause_writing()
        elif size <= self._low and self._is_open:
            self._has_to_wait = False
            self._protocol.resume_writing()

    def _forget(self) -> None:
        self._waiting.clear()
        self._waiting_size = 0
        self._ends = None

    def _end_with(self, end: Callable[[], None]) -> None:
        if self._waiting:
            self._ends = end
        else:
            end()

    def _end_our_side(self) -> None:
        self._ends = None
        self._shut()
        if not self._transport.is_closing():
            self._transport.write_eof()

    def _close(self) -> None:
        self._ends = None
        self._shut()
        self._transport.close()

    def _shut(self) -> None:
        if not self._is_shut:
            self._is_shut = True
            self._records.end()
            said = self._records.unsent()
            if said and not self._transport.is_closing():
                self._transport.write(said)
