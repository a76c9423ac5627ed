"""One QUIC connection: to the library its driver, to a connection its transport.

Events of the library become requests (streams.py), which the connection carries out one at a time;
what it writes goes to the stream of the request in work, which ends with the answer. Answers wait
here as views, and only `send_window` bytes of them lie in the library, which copies.

    door ── datagrams ──> library ── events ──> streams ── requests ──> connection
    door <── datagrams ── library <── send_window ── queue <── answers ── connection

Always: a stream is answered once, or reset. While more than its share is waiting, the library is
held and the client gets no credit.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Protocol, cast

from qh3.quic.connection import QuicConnectionError
from qh3.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    QuicEvent,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)

from borzoi.router.pool import MemoryPool, Waiter
from borzoi.shards.datagrams.udp import Peer
from borzoi.shards.doors.streamed import StreamedConnection
from borzoi.shards.quic.answers import Answers, Outlet
from borzoi.shards.quic.library import HeldQuic
from borzoi.shards.quic.rules import QuicRules
from borzoi.shards.quic.streams import RequestStreams, StreamRequest

PARTING_TIME_S: Final = 1.0
"""So long a client has to read a last answer before the connection ends."""

NO_REQUEST: Final = 0x100
"""The code with which a stream ends that brought no whole request."""

BIDIRECTIONAL_MASK: Final = 0x2
LOW_SHARE: Final = 4
"""An answer of which a fourth of the window is left lets the next piece come."""


class LinkDoor(Protocol):
    """The door that a link belongs to."""

    @property
    def is_congested(self) -> bool:
        """Whether the kernel takes no more for now."""

    def send(self, datagrams: list[bytes], peer: Peer, local: str | None) -> None:
        """Send datagrams."""

    def send_later(self, link: "QuicLink") -> None:
        """Settle a link when the kernel takes datagrams again."""

    def known_as(self, connection_id: bytes, link: "QuicLink") -> None:
        """The client may use this id from now on."""

    def not_known_as(self, connection_id: bytes) -> None:
        """The client does not use this id any more."""

    def failed(self, link: "QuicLink", peer: Peer) -> None:
        """The library objects to what it was asked or sent: the connection cannot go on."""

    def gone(self, link: "QuicLink") -> None:
        """A connection has ended."""


class QuicLink:
    """One client's QUIC connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        door: LinkDoor,
        quic: HeldQuic,
        connection: StreamedConnection,
        pool: MemoryPool,
        rules: QuicRules,
        peer: Peer,
        local: str | None,
    ) -> None:
        self._loop = loop
        self._door = door
        self._quic = quic
        self._connection = connection
        self._pool = pool
        self._rules = rules
        self._peer = peer
        self.local = local
        self._streams = RequestStreams(connection, pool.take, rules.receive_window)
        self._waiter: Waiter | None = None
        # The request in work: its stream, what is not handed over of it yet, and whether anything
        # was written for it.
        self._current: int | None = None
        self._is_whole = True
        self._rest = memoryview(b"")
        self._has_written = False
        self._answers = Answers(rules.send_window)
        self._is_write_paused = False
        self._is_read_paused = False
        self._is_closing = False
        self._is_gone = False
        self._is_feeding = False
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._last_sent = loop.time()
        self._pings = 0

    def begin(self) -> bool:
        """Take a place for it; False if there is none."""
        self._connection.connection_made(cast(asyncio.BaseTransport, self))
        return not self._is_gone

    # What the door calls.

    def receive(self, datagrams: list[bytes], peer: Peer) -> None:
        """Datagrams of the client; what becomes of them is seen in `settle`."""
        if self._is_gone:
            return
        self._quic.receive_many_datagrams(datagrams, peer, self._loop.time())

    def settle(self) -> None:
        """Take events, carry out what is whole, and send what is to be sent."""
        try:
            self._settle()
        except QuicConnectionError:
            self._door.failed(self, self._peer)

    def _settle(self) -> None:
        if self._is_gone:
            return
        # What is answered at once is sent below, not in a turn of its own.
        self._is_scheduled = True
        self._take_events()
        self._is_scheduled = False
        if not self._is_gone:
            self._transmit()

    def fail(self) -> None:
        """The library gives up on this connection: end it without a word."""
        if not self._is_gone:
            self._lose()

    # Events.

    def _take_events(self) -> None:
        quic, streams = self._quic, self._streams
        while not self._is_gone:
            while not streams.is_full and (event := quic.next_event()) is not None:
                self._take_event(event)
            self._give_up_useless()
            self._feed()
            if streams.wanted and self._waiter is None:
                self._wait_for_memory(streams.wanted)
            if streams.is_full:
                quic.is_held = True
                break
            if not quic.is_held:
                break
            quic.let_go()
        if quic.has_ended and not self._is_gone:
            self._lose()

    def _take_event(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            if self._is_closing:
                return
            if event.stream_id & BIDIRECTIONAL_MASK:
                # Nothing is answered on a stream of one direction.
                self._end_stream(event.stream_id, self._quic.stop_stream)
                return
            self._streams.take(event.stream_id, event.data, event.end_stream, self._loop.time())
        elif isinstance(event, StreamReset):
            self._streams.reset(event.stream_id)
        elif isinstance(event, StopSendingReceived):
            self._drop_answer(event.stream_id)
        elif isinstance(event, ConnectionIdIssued):
            self._door.known_as(event.connection_id, self)
        elif isinstance(event, ConnectionIdRetired):
            self._door.not_known_as(event.connection_id)
        elif isinstance(event, ConnectionTerminated):
            self._lose()

    def _give_up_useless(self) -> None:
        streams = self._streams
        while streams.useless:
            stream_id = streams.useless.pop()
            self._end_stream(stream_id, self._quic.stop_stream)
            if stream_id != self._current and not self._is_answering(stream_id):
                self._end_stream(stream_id, self._quic.reset_stream)

    def _is_answering(self, stream_id: int) -> bool:
        """Whether a stream has an answer, or will have one."""
        return self._answers.has(stream_id) or any(
            one.stream_id == stream_id for one in self._streams.ready
        )

    def _end_stream(self, stream_id: int, end: Callable[[int, int], None]) -> None:
        try:
            end(stream_id, NO_REQUEST)
        except QuicConnectionError:
            # The client was faster: both of its directions have ended.
            return

    def _wait_for_memory(self, length: int) -> None:
        taker = self._connection.taker
        self._waiter = self._pool.when_available(self._has_memory, length, taker)

    def _has_memory(self) -> None:
        # The pool calls from inside a release.
        self._loop.call_soon(self._take_memory)

    def _take_memory(self) -> None:
        waiter, self._waiter = self._waiter, None
        if not self._is_gone:
            self._streams.go_on()
            self.settle()
        if waiter is not None and self._waiter is None:
            # What was set aside here and is not used goes to the next.
            waiter.cancel()

    # Requests.

    def _feed(self) -> None:
        """Hand requests to the connection, one after the other, as far as it takes them."""
        if self._is_feeding:
            return
        self._is_feeding = True
        try:
            while not (self._is_gone or self._is_closing or self._is_read_paused):
                if self._current is None:
                    if self._connection.is_write_paused or not self._streams.ready:
                        return
                    self._begin(self._streams.begin_next())
                elif self._rest:
                    self._hand_over()
                else:
                    return
        finally:
            self._is_feeding = False

    def _begin(self, request: StreamRequest) -> None:
        self._current = request.stream_id
        self._has_written = False
        self._is_whole = request.is_whole
        if request.filled is not None:
            self._connection.take_filled(request.filled)
            self._handed_over()
        else:
            self._rest = memoryview(request.small)
            self._hand_over()

    def _hand_over(self) -> None:
        """As much of a small request as there is room for: all of it, if memory is not scarce."""
        connection = self._connection
        buffer = connection.get_buffer(-1)
        present = self._rest[: len(buffer)]
        buffer[: len(present)] = present
        self._rest = self._rest[len(present) :]
        connection.buffer_updated(len(present))
        if not self._rest:
            self._handed_over()

    def _handed_over(self) -> None:
        """The connection has all there is; unless it works on that, the request has ended."""
        if self._current is not None and not self._connection.is_waiting:
            self._connection.cut_off()
            self.answered()

    def answered(self) -> None:
        """The request in work has its whole answer, or will have none."""
        stream_id, self._current = self._current, None
        if stream_id is None or self._is_gone:
            return
        self._rest = memoryview(b"")
        if self._has_written:
            self._answers.end(stream_id)
        else:
            self._end_stream(stream_id, self._quic.reset_stream)
        self._soon()

    # What the connection calls: a transport.

    def write(self, data: bytes) -> None:
        """Send an answer on the stream of the request in work."""
        self.writelines((data,))

    def writelines(self, parts: Iterable[bytes | memoryview]) -> None:
        """Send a part of an answer; the last part is followed by `answered`."""
        stream_id = self._current
        if stream_id is None or self._is_gone:
            # Nothing is said to a client that did not ask.
            return
        self._has_written = True
        self._answers.add(stream_id, parts)
        self._pause_if_full()
        self._soon()

    def close(self) -> None:
        """End the connection behind what was written."""
        if self._is_closing or self._is_gone:
            return
        self._is_closing = True
        if self._has_written or self._answers:
            self._loop.call_later(PARTING_TIME_S, self.abort)
        else:
            self.abort()

    def abort(self) -> None:
        """End the connection now."""
        if self._is_gone:
            return
        self._is_closing = True
        with suppress(QuicConnectionError):
            # It says farewell if it can.
            self._quic.close()
            self._send_datagrams()
        self._lose()

    def is_closing(self) -> bool:
        """Whether nothing is sent any more."""
        return self._is_closing or self._is_gone

    def pause_reading(self) -> None:
        """Hand over nothing for a while."""
        self._is_read_paused = True

    def resume_reading(self) -> None:
        """Hand over again."""
        self._is_read_paused = False
        self._soon()

    def can_write_eof(self) -> bool:
        """The connection has no half that can be closed; its streams have."""
        return False

    def get_write_buffer_size(self) -> int:
        """What the client has not been sent yet."""
        return self._answers.size + self._quic.get_send_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The window of this door says it."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Addresses; there is no socket of its own."""
        if name == "peername":
            return self._peer
        if name == "sockname" and self.local is not None:
            return self.local, 0
        return default

    # Sending.

    def _soon(self) -> None:
        """Settle in this turn, or in the next if none is under way."""
        if not self._is_scheduled and not self._is_gone:
            self._is_scheduled = True
            self._loop.call_soon(self.settle)

    def _transmit(self) -> None:
        """Send until the client, the network or the kernel takes no more."""
        while not self._door.is_congested:
            self._answers.pour(cast(Outlet, self._quic))
            if not self._send_datagrams() or not self._answers:
                break
        else:
            self._door.send_later(self)
        self._resume_if_empty()
        self._set_timer()

    def _send_datagrams(self) -> bool:
        """Whether there was anything to send."""
        made = self._quic.datagrams_to_send(self._loop.time())
        if not made:
            return False
        self._last_sent = self._loop.time()
        start = 0
        for end in range(1, len(made) + 1):
            # A client that moves is sent to at both of its addresses for a moment.
            if end == len(made) or made[end][1] != made[start][1]:
                datagrams = [one[0] for one in made[start:end]]
                self._door.send(datagrams, made[start][1], self.local)
                start = end
        return True

    def _drop_answer(self, stream_id: int) -> None:
        self._answers.drop(stream_id)
        self._end_stream(stream_id, self._quic.reset_stream)

    def _pause_if_full(self) -> None:
        if not self._is_write_paused and self._answers.size > self._rules.send_window:
            self._is_write_paused = True
            self._connection.pause_writing()

    def _resume_if_empty(self) -> None:
        low = self._rules.send_window // LOW_SHARE
        if self._is_write_paused and self._answers.size <= low:
            self._is_write_paused = False
            self._connection.resume_writing()
            self._soon()

    # Time.

    def check_deadlines(self, now: float) -> str | None:
        """What the client did not do in time; asked once a second."""
        if self._quic.is_held:
            self._streams.postpone(now)
        since = self._streams.oldest_since()
        if since is not None and now - since > self._connection.frame_timeout_s:
            return "did not finish a frame"
        keep_alive_s = self._rules.keep_alive_s
        if keep_alive_s and now - self._last_sent >= keep_alive_s and self._quic.is_open:
            self._pings += 1
            self._quic.send_ping(self._pings)
            self._soon()
        return None

    def _set_timer(self) -> None:
        """An earlier timer stays: it finds nothing to do, and that is rarer than moving it."""
        due = self._quic.due_at(self._loop.time())
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self._is_gone:
            return
        now = self._loop.time()
        due = self._quic.get_timer()
        try:
            if due is not None and due <= now:
                self._quic.handle_timer(now)
        except QuicConnectionError:
            self._door.failed(self, self._peer)
        self.settle()

    def _lose(self) -> None:
        """The end, on whichever side it began."""
        self._is_gone = self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._waiter is not None:
            self._waiter.cancel()
        self._streams.end()
        self._answers.clear()
        self._current = None
        self._door.gone(self)
        self._connection.connection_lost(None)
