"""One TCP connection: bytes from the socket to requests, replies back to the socket.

Owned by the worker's loop. Bytes are received straight into the arena: at a frame boundary into
the receive block that all connections share, a frame that does not end there into a pool buffer
of exactly its length. So an idle connection owns no buffer, and a frame is never copied, except
for the part of a large one that came with its header: a window of the first, 4 KiB of those that
follow, because who sends large frames goes on doing so.

One request of a connection is in work at a time. What arrives meanwhile waits here and reading
is paused, which gives the order of answers and back-pressure for nothing. A connection that has
more to say than fits in its turn goes on in the next one, so that its neighbours get theirs.

Always: nothing is reserved for a length that has not been admitted. A refused frame is answered as
soon as it is refused, not when its last byte has come, and then drained, so that the next one is
found where it begins. At most frame_size_max bytes of it are drained, for at most frame_timeout; of
a longer one no end is waited for: our side of the connection is shut at once and closed after that.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Final, cast

from borzoi.protocol.codes import Code, code_name
from borzoi.protocol.errors import CannotReadMessage, FeatureUnavailable
from borzoi.protocol.framing import NOT_WHOLE, Bound, Frame, encode_response
from borzoi.protocol.generations import CLASSIC, Generation
from borzoi.protocol.responses.clients import Transport
from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool
from borzoi.router.receive import BLOCK_SIZE, WINDOW_SIZE, ReceiveBlocks
from borzoi.shards.admission.deadlines import Patience, give_up
from borzoi.shards.admission.frames import ConnectionLimits
from borzoi.shards.doors.carried import Connections, SessionOfConnection
from borzoi.shards.doors.converted import converted, write_converted
from borzoi.shards.doors.guarded import guarded, watched
from borzoi.shards.doors.intake import Intake
from borzoi.shards.doors.large_answer import WHOLE_SIZE_MAX, LargeAnswer
from borzoi.shards.faults.in_work import NOTHING, REQUEST, InWork, user_bits
from borzoi.shards.faults.poison import Guard
from borzoi.shards.loop.slow_requests import Course, SlowRequests
from borzoi.shards.serving.numbered import CarryOut
from borzoi.shards.serving.reply import OK, Messages, Payload, Reply, Status, Value
from borzoi.shards.tallies.meters import RequestTimer

SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
SMALL_SIZE_MAX: Final = 1024
"""A payload up to here is sent at once, without a look at how it is to be cut."""

JOINED_SIZE_MAX: Final = 4096
"""Up to here a converted answer is copied once more, to be written in one piece."""

REFUSED: Final = Status(FeatureUnavailable.status)


class Connection(asyncio.BufferedProtocol):
    """The transport side of one client."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        receive: ReceiveBlocks,
        pool: MemoryPool,
        limits: ConnectionLimits,
        in_work: InWork,
        kind: Transport = Transport.TCP,
        *,
        can_move: bool = True,
        slow: SlowRequests | None = None,
    ) -> None:
        """`can_move`: whether the socket is all there is of it, so that another shard can have it.

        What TLS and WebSocket know of a connection stays in this process. `slow`: watches where
        the time of requests goes, if that is wanted.
        """
        self._loop = loop
        self._limits = limits
        self.kind = kind
        self.can_move = can_move
        self._in_work = in_work
        self._work = in_work.words
        self._user_bits = 0
        self._connections = connections
        self._timer = RequestTimer(connections.meters.door(kind))
        self._receive = receive
        self.speak(CLASSIC)
        self._admitted_size = limits.admitted_at_any_time(WINDOW_SIZE - 1)
        self.transport: asyncio.Transport | None = None
        self._session: SessionOfConnection
        self._carry_out: CarryOut  # that of the session, or a guard before it
        self.is_busy = False  # a request is in work
        self._request_buffer: Buffer | None = None
        self._patience = Patience(limits, loop.time())
        self._intake = Intake(loop, pool, limits, self._patience, self)
        self.is_write_paused = False
        self._large: LargeAnswer | None = None
        self.is_at_eof = False
        self._is_carried = False  # by a session
        self._slow = slow
        self._course: Course | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports do what asyncio's do without being of its classes.
        transport = cast(asyncio.Transport, transport)
        self.transport = transport
        peer = transport.get_extra_info("peername")
        if peer is None:
            # It was reset between the kernel's accept and ours.
            transport.abort()
            return
        host, port = peer[0], peer[1]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        session = self._connections.opened(self, address)
        if session is None:
            transport.abort()
            return
        self._session = session
        self._is_carried = True
        if self._slow is not None:
            self._course = self._slow.course(address)
        self._intake.opened(transport, session)
        self._user_bits = user_bits(session.user_id)
        self.guard(self._connections.guard)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes go. Only looks: the loop calls it before EAGAIN and EOF too."""
        intake = self._intake
        if intake.filling is not None or intake.expects_large:
            return intake.room(self._receive)
        return self._receive.window()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived where `get_buffer` said."""
        intake = self._intake
        if intake.filling is not None:
            intake.fill(nbytes)
            return
        receive = self._receive
        window_was_filled = nbytes == receive.window_size
        block, start = receive.received(nbytes)
        if (
            nbytes <= self._admitted_size
            and not (self.is_busy or intake.kept or intake.refused.left)
            and not self.is_write_paused
            and block.position is not None
        ):
            code = self._whole(block.view, start, start + nbytes)
            if code != NOT_WHOLE:
                # Exactly one frame with nothing in its way: what nearly every request is. Written
                # out here, because it runs for each of them. Our hold becomes the request's.
                self._patience.frame_since = None
                self.is_busy = True
                intake.expects_large = False
                self._request_buffer = block
                self._timer.begin(code, nbytes)
                begin = start + self._header_size
                self._work[REQUEST] = block.position + begin + self._user_bits
                payload = block.view[begin : start + nbytes]
                self._carry_out(code, payload, block, begin)
                if self.is_busy and code != SEND_MESSAGES:
                    self._let_go_of_block(code, payload)
                if receive.low:
                    intake.wait_for_room(BLOCK_SIZE)
                return
        intake.take(block, start, nbytes)
        block.release()
        if receive.low:
            intake.wait_for_room(BLOCK_SIZE)
        elif window_was_filled and intake.filling is None:
            # The loop reads a socket many times in one turn as long as windows come back full.
            intake.reading.wait_for_turn()

    def eof_received(self) -> bool:
        """The client sends no more: close, after the answers to what it has sent."""
        self.is_at_eof = True
        return self.is_busy or self._intake.has_kept_requests

    def connection_lost(self, _error: Exception | None) -> None:
        """The connection has ended; a request in work ends by itself, without an answer."""
        self._intake.end()
        self.transport = None
        if self._large is not None:
            self._large = None
            self._release_request()
        if self._is_carried:
            self._session.closed()
            self._connections.lost(self)

    def pause_writing(self) -> None:
        """The client does not read: no further request until it does."""
        assert self.transport is not None, "only an open transport pauses"
        self.is_write_paused = True
        if self._large is not None:
            self._large.is_paused = True
        self._patience.wait_for_reader(self.transport, self._loop.time())

    def resume_writing(self) -> None:
        """The client reads again."""
        self.is_write_paused = False
        self._patience.reader_is_back()
        if self._large is not None:
            self._large.is_paused = False
            self._large.go_on()
        else:
            self._intake.go_on()

    # What the session calls.

    def reply(self, reply: Reply) -> None:  # noqa: C901, PLR0912 - one case each
        """Answer the request in work and turn to the next."""
        # It runs for every request: what it does is written out here.
        transport = self.transport
        if reply is OK:
            self._release_request()
            if transport is None or transport.is_closing():
                return
            transport.write(self.framing.status(0))
        elif type(reply) is Messages and self._shows is None and reply.size <= WHOLE_SIZE_MAX:
            count, size = reply.message_count, reply.size
            self._timer.polled(count, size)
            self._release_request()
            if transport is None or transport.is_closing():
                return
            head = self._polled(reply.partition_id, reply.current_offset, count, size)
            transport.writelines((head, *reply.views))
        elif type(reply) is Status:
            self._release_request()
            if not self._says(reply):
                return
        elif type(reply) is Payload and len(reply.payload) <= SMALL_SIZE_MAX:
            self._release_request()
            if transport is None or transport.is_closing():
                return
            transport.write(self.framing.answer(reply.payload))
        else:
            parts: Iterable[bytes | memoryview]
            if type(reply) is Messages:
                self._timer.polled(reply.message_count, reply.size)
            if type(reply) is Messages and self._shows is None:
                size = reply.size
                head = self._polled(
                    reply.partition_id, reply.current_offset, reply.message_count, size
                )
                parts = [head, *reply.views]
            else:
                size, parts = self._converted(reply)
            if transport is None or transport.is_closing():
                self._release_request()
                return
            if size > WHOLE_SIZE_MAX:
                self._begin_large(transport, parts)
                return
            if type(parts) is chain:
                write_converted(transport, parts)
                self._release_request()
            else:
                self._release_request()
                transport.writelines(parts)
        intake = self._intake
        if intake.kept or intake.reading.is_paused or self.is_at_eof:
            intake.go_on()

    def _says(self, reply: Status) -> bool:
        """Answer with a status; False if the connection is gone, or ends with it."""
        transport = self.transport
        if reply.status:
            self._connections.meters.errors[self.kind.name.lower(), reply.status] += 1
        if transport is None:
            return False
        if reply.status is None:
            transport.abort()
            return False
        if transport.is_closing():
            return False
        if reply.text:
            transport.write(encode_response(reply.status, reply.text.encode()))
        else:
            transport.write(self.framing.status(reply.status))
        if reply.close:
            transport.close()
        return not reply.close

    def _converted(self, reply: Reply) -> tuple[int, Iterable[bytes | memoryview]]:
        """A payload as the client reads it; messages are converted as they are taken."""
        if type(reply) is Value:
            payload = self._session.generation.replies[reply.code](reply.value)
            # The request may have been a login.
            self._user_bits = user_bits(self._session.user_id)
            # As a view: the pieces it is sent in are no copies then.
            return len(payload), (self.framing.success(len(payload)), memoryview(payload))
        if type(reply) is Payload:
            return len(reply.payload), (self.framing.success(len(reply.payload)), reply.payload)
        assert type(reply) is Messages, "there are four kinds of replies"
        shows = self._shows
        assert shows is not None, "messages that leave as stored are not converted"
        try:
            size, messages = converted(shows, reply)
        except CannotReadMessage as damage:
            self._connections.damaged(self, damage)
            return 0, (self.framing.status(damage.status),)
        shown_id = reply.partition_id + shows.partition_base
        head = self._polled(shown_id, reply.current_offset, reply.message_count, size)
        if size <= JOINED_SIZE_MAX:
            return size, (b"".join((head, *messages)),)
        return size, chain((head,), messages)

    def _begin_large(
        self, transport: asyncio.Transport, parts: Iterable[bytes | memoryview]
    ) -> None:
        """The request stays in work until its last piece is with the transport.

        Its bytes are not needed any more: a client that reads slowly keeps no receive block.
        """
        self._release_request_buffer()
        if self._course is not None:
            self._course.answer_begins()
        self._large = LargeAnswer(
            self._loop, transport, parts, self._large_sent, is_paused=self.is_write_paused
        )
        self._large.go_on()

    def _large_sent(self) -> None:
        self._large = None
        self._release_request()
        self._intake.go_on()

    def speak(self, generation: Generation) -> None:
        """Cut and answer the requests of a client of this generation from now on."""
        self.framing = framing = generation.framing()
        # What runs for every request, by names of its own.
        self._whole, self._polled = framing.whole, framing.polled
        self._header_size = framing.header_size
        self._shows = generation.shows

    def bind(self, session: int) -> None:
        """The request in work begins this session, where requests carry one; 0: it ends one."""
        self.framing.bind(session)

    def bound(self) -> Bound:
        """The session that requests have to be of."""
        return self.framing.bound()

    def adopt(self, bound: Bound) -> None:
        """Go on with the session of a connection that has moved here."""
        self.framing.adopt(bound)

    def local_host(self) -> str | None:
        """The address of this machine that the client has reached; None if that is unknown."""
        name = None if self.transport is None else self.transport.get_extra_info("sockname")
        return None if name is None else str(name[0])

    def numbers(self) -> Callable[[], int]:
        """What says the number of the request that was cut last, 0 if it has none."""
        return self.framing.number

    def take_carry_out(self) -> None:
        """Have the next request carried out as the session says now."""
        self.guard(self._connections.guard)

    def let_go(self) -> socket.socket | None:
        """The socket, for another shard to serve; None unless the connection is quite idle."""
        transport = self.transport
        if (
            transport is None
            or not self.can_move
            or transport.is_closing()
            or self.is_busy
            or not self._intake.is_empty
            or transport.get_write_buffer_size()
        ):
            return None
        transport.pause_reading()
        moving = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        # Closes our descriptor only: the connection lives on in the copy.
        transport.abort()
        return moving

    # What the listener calls.

    @property
    def is_idle(self) -> bool:
        """Whether no request is in work."""
        return not self.is_busy

    def guard(self, guard: Guard | None) -> None:
        """From the next request on, refuse what `guard` refuses; None: carry out everything."""
        begin = self._session.carry_out
        if guard is not None:
            begin = guarded(begin, guard, partial(self.reply, REFUSED))
        course = self._course
        self._carry_out = begin if course is None else watched(begin, course)

    def wait_for_turn(self) -> None:
        """Read no more in this turn of the loop: a layer below has read all that it could."""
        if self._intake.filling is None:
            self._intake.reading.wait_for_turn()

    def check_deadlines(self, now: float) -> str | None:
        """Close the connection if it keeps us waiting too long; the reason, if so."""
        transport = self.transport
        if transport is None or not self._is_carried:
            return None
        reason = self._patience.overdue(
            transport,
            now,
            authenticated=self._session.status_without_login is None,
            busy=self.is_busy,
        )
        if reason is not None:
            give_up(transport)
        return reason

    def unreadable(self) -> None:
        """What the client sends is no request of any generation served."""
        self._connections.evicted(self)

    def evict(self, eviction: bytes) -> None:
        """Close after these bytes: what the client sends is no request of any generation served."""
        assert self.transport is not None, "bytes come from an open connection"
        self.unreadable()
        self.transport.write(eviction)
        self.transport.close()

    def close(self, parting_status: int) -> None:
        """End the connection from our side, with a last status between two answers."""
        if self.transport is not None and not self.transport.is_closing():
            if not (self.is_busy or self._intake.refused.is_last):
                self.transport.write(self.framing.parting(parting_status))
            self.transport.close()

    # A request in work.

    def begin(self, frame: Frame, buffer: Buffer | None, begin: int) -> None:
        """Carry out a request whose payload begins at `begin` of `buffer`; None: private memory."""
        code, payload, _ = frame
        if self._course is not None:
            self._course.first_byte = self._patience.frame_since
        self._patience.frame_since = None
        self.is_busy = True
        self._request_buffer = buffer
        self._timer.begin(code, self._header_size + payload.nbytes)
        if buffer is not None and buffer.position is not None:
            self._work[REQUEST] = buffer.position + begin + self._user_bits
        else:
            self._in_work.copy(code, payload, self._user_bits)
        self._carry_out(code, payload, buffer, begin)
        if self.is_busy and code != SEND_MESSAGES:
            self._let_go_of_block(code, payload)

    def _let_go_of_block(self, code: int, payload: memoryview) -> None:
        """A request waits, and is decoded: only a batch needs its bytes until it is answered.

        Its few bytes would keep a whole receive block, which no share counts: as many waiting
        requests as there are blocks would stop the shard.
        """
        if self._request_buffer is not None:
            self._in_work.copy(code, payload, self._user_bits)
            buffer, self._request_buffer = self._request_buffer, None
            buffer.release()

    def _release_request(self) -> None:
        assert self.is_busy, "a request ends once"
        self.is_busy = False
        if self._course is not None:
            self._course.end(code_name(self._course.code))
        self._timer.end()
        self._work[REQUEST] = NOTHING
        # As _release_request_buffer does; it runs for every request.
        buffer = self._request_buffer
        if buffer is not None:
            self._request_buffer = None
            buffer.release()

    def _release_request_buffer(self) -> None:
        self._work[REQUEST] = NOTHING
        buffer = self._request_buffer
        if buffer is not None:
            self._request_buffer = None
            buffer.release()
