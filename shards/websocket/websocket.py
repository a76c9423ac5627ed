"""A WebSocket below a connection: bytes come out of binary messages, answers go into them.

To the connection this is its transport, to the real transport it is the protocol. Both sides are
what they are for plain TCP, so deadlines, back-pressure, admission and receive memory are the same.
Bytes are received where the connection wants them and unmasked there (protocol/websocket.py):
nothing is kept for the length that a frame declares.

    transport ──> upgrade: at most HEAD_SIZE_MAX bytes are kept ──> open ──> closing ──> gone

Always: one pong waits at most, for the last ping. Nothing is written behind a close frame. Whatever
comes behind it is thrown away, for PARTING_TIME_S.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, cast

from borzoi.protocol.websocket import (
    NORMAL,
    Unframer,
    answer_to_close,
    binary_head,
    close_frame,
    pong_frame,
)
from borzoi.protocol.websocket_upgrade import read_upgrade
from borzoi.shards.doors.tcp import Connection
from borzoi.shards.websocket.rules import WebSocketRules

PARTING_TIME_S: Final = 1.0
"""So long a peer has to read why the connection ends, and to close it."""

# Where bytes go that are copied or thrown away at once; all connections share it.
SCRATCH: Final = memoryview(bytearray(16 * 1024))

Part = bytes | memoryview


class ConnectionState(Enum):
    """How far a connection is."""

    UPGRADE = "upgrade"
    OPEN = "open"
    CLOSING = "closing"


class WebSocket(asyncio.BufferedProtocol):
    """One WebSocket: a protocol to its transport, a transport to its connection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connection: Connection, rules: WebSocketRules
    ) -> None:
        self._loop = loop
        self._connection = connection
        self._origins = rules.origins
        self._unframer = Unframer(rules.takes, rules.frame_size_max, rules.message_size_max)
        self._transport: asyncio.Transport
        self._state = ConnectionState.UPGRADE
        self._head = bytearray()
        self._buffer = SCRATCH
        self._is_write_paused = False
        self._is_read_paused = False
        # What costs nothing here goes past.
        self.get_extra_info: Callable[..., Any]
        self.get_write_buffer_size: Callable[[], int]
        self.set_write_buffer_limits: Callable[..., None]

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, and has not asked for a WebSocket yet."""
        self._transport = transport = cast(asyncio.Transport, transport)
        self.get_extra_info = transport.get_extra_info
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.set_write_buffer_limits = transport.set_write_buffer_limits
        self._connection.connection_made(cast(asyncio.BaseTransport, self))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        is_open = self._state is ConnectionState.OPEN
        self._buffer = self._connection.get_buffer(sizehint) if is_open else SCRATCH
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived where `get_buffer` said."""
        if self._state is ConnectionState.OPEN:
            self._take(nbytes)
        elif self._state is ConnectionState.UPGRADE:
            self._head += SCRATCH[:nbytes]
            self._upgrade()

    def eof_received(self) -> bool:
        """The client sends no more; what it has sent is answered."""
        return self._state is ConnectionState.OPEN and self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_write_paused = True
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_write_paused = False
        self._answer_ping()
        self._connection.resume_writing()

    # Bytes of the client.

    def _upgrade(self) -> None:
        upgrade = read_upgrade(self._head, self._origins)
        if upgrade is None:
            return
        rest, self._head = memoryview(bytes(self._head))[upgrade.size :], bytearray()
        self._transport.write(upgrade.answer)
        if not upgrade.size:
            self._part()
            return
        self._state = ConnectionState.OPEN
        # A client in a hurry does not wait for the answer.
        while rest and self._state is ConnectionState.OPEN:
            buffer = self.get_buffer(-1)
            present = rest[: len(buffer)]
            buffer[: len(present)] = present
            self._take(len(present))
            rest = rest[len(present) :]

    def _take(self, nbytes: int) -> None:
        unframer, buffer = self._unframer, self._buffer
        size = unframer.take(buffer, nbytes)
        if size:
            self._connection.buffer_updated(size)
        if unframer.ping is not None:
            self._answer_ping()
        if unframer.failure:
            self._close_with(close_frame(unframer.failure))
        elif unframer.closing is not None:
            if self._state is ConnectionState.OPEN and not self._connection.eof_received():
                self.close()
        elif nbytes == len(buffer) and self._state is ConnectionState.OPEN:
            # The loop reads a socket many times in one turn as long as buffers come back full.
            self._connection.wait_for_turn()

    def _answer_ping(self) -> None:
        """Answer the last ping; one that is not read keeps no memory, its answer waits."""
        carried = self._unframer.ping
        if carried is None or self._is_write_paused or self._state is not ConnectionState.OPEN:
            return
        self._unframer.ping = None
        self._transport.write(pong_frame(carried))

    # What the connection calls.

    def write(self, data: bytes) -> None:
        """Send a binary message."""
        if self._state is ConnectionState.OPEN:
            self._transport.write(binary_head(len(data)) + data)

    def writelines(self, parts: Iterable[Part]) -> None:
        """Send a binary message of several parts, without copying them."""
        if self._state is ConnectionState.OPEN:
            whole: list[Part] = [b"", *parts]
            whole[0] = binary_head(sum(map(len, whole)))
            self._transport.writelines(whole)

    def close(self) -> None:
        """End the connection behind what was written."""
        carried = self._unframer.closing
        if self._state is ConnectionState.UPGRADE:
            self._transport.close()
        elif carried is None:
            self._close_with(close_frame(NORMAL))
        else:
            # Both sides have said it.
            self._close_with(answer_to_close(carried))
            self._transport.close()

    def abort(self) -> None:
        """End the connection now."""
        self._state = ConnectionState.CLOSING
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing is sent any more."""
        return self._state is ConnectionState.CLOSING or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Take no bytes for a while."""
        self._is_read_paused = True
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes again."""
        self._is_read_paused = False
        self._transport.resume_reading()

    def can_write_eof(self) -> bool:
        """A WebSocket has no half that can be closed."""
        return False

    def _close_with(self, frame: bytes) -> None:
        if self._state is ConnectionState.OPEN and not self._transport.is_closing():
            self._transport.write(frame)
            self._part()

    def _part(self) -> None:
        """Say no more, and listen for a while yet.

        A close while bytes are unread is a reset, which may overtake what was said last.
        """
        self._state = ConnectionState.CLOSING
        transport = self._transport
        if transport.can_write_eof():
            transport.write_eof()
            if self._is_read_paused:
                self.resume_reading()
            self._loop.call_later(PARTING_TIME_S, transport.close)
        else:
            transport.close()
