"""One TCP connection: bytes from the socket to frames, answers back to the socket.

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
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, cast

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import InvalidCommand
from borzoi.protocol.frame import CODE_SIZE, LENGTH_SIZE, REQUEST_HEADER, encode_response
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.buffer import Buffer
from borzoi.router.pool import NO_TAKER, MemoryPool, Waiter
from borzoi.router.receive import BLOCK_SIZE, WINDOW_SIZE, ReceiveBlocks
from borzoi.shards.doors.admission import ConnectionLimits, refusal
from borzoi.shards.doors.deadlines import Patience, give_up
from borzoi.shards.faults.in_work import NOTHING, REQUEST, InWork, user_bits
from borzoi.shards.serving.pieces import PIECE_SIZE, WHOLE_SIZE_MAX, pieces_of

# One turn of the loop carries out at most so many requests of a connection, and reads at most one
# full window. A ping takes 10 us: without this bound a flood of them kept others waiting 400 ms.
REQUESTS_PER_TURN_MAX: Final = 64
SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
SEND_HEAD_SIZE: Final = REQUEST_HEADER.size + HEAD_SIZE_MAX
"""What is waited for of a batch that did not come in one piece, before memory is taken for it."""
LARGE_HEAD_SIZE: Final = 4096
"""Read at first of a client whose last frame did not fit into a window: what comes with the header
has to be copied, so that most of the frame goes where it belongs."""


class SessionOfConnection(Protocol):
    """What a connection needs of the session it carries."""

    @property
    def is_authenticated(self) -> bool:
        """Whether larger frames are welcome."""

    @property
    def status_without_login(self) -> int | None:
        """What larger frames are refused with; None if they are welcome."""

    @property
    def user_id(self) -> int | None:
        """Who is logged in."""

    @property
    def taker(self) -> str:
        """In whose name memory is taken for what the client sends."""

    def refusal_of_send(self, head: memoryview) -> int:
        """The status with which a SEND_MESSAGES will be refused that begins so; 0: not by this.

        `head` is the first HEAD_SIZE_MAX bytes of the payload, or more.
        """

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Carry out one request; it ends with `answer`, `finish` or `abandon` of `Connection`.

        `payload` begins at `start` of `buffer`, or lies in private memory if that is None. It is
        valid until this returns; that of SEND_MESSAGES until the answer.
        """

    def closed(self) -> None:
        """The peer is gone."""


class Connections(Protocol):
    """Who makes sessions and counts connections."""

    def opened(self, connection: "Connection", address: str) -> SessionOfConnection | None:
        """A session for a new connection, or None when there are too many."""

    def lost(self, connection: "Connection") -> None:
        """A connection has ended."""


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
    ) -> None:
        self._loop = loop
        self._in_work = in_work
        self._work = in_work.words
        self._user_bits = 0
        self._connections = connections
        self._receive = receive
        self._pool = pool
        self._limits = limits
        # Frames up to here are admitted whatever they are and whoever sends them.
        self._admitted_size = min(
            limits.frame_size_max_before_login,
            limits.control_frame_size_max,
            limits.frame_size_max,
            WINDOW_SIZE - 1,
        )
        self._transport: asyncio.Transport | None = None
        self._session: SessionOfConnection | None = None
        self._kept = b""  # bytes that wait for their turn, or for the rest of a header
        self._filling: Buffer | None = None
        self._filled = 0
        self._expects_large = False
        self._drain_left = 0
        self._parting = False
        self._busy = False
        self._request_buffer: Buffer | None = None
        self._taking = False
        self._reading_paused = False
        self._pool_waiter: Waiter | None = None
        self._waits_for_turn = False
        self._patience = Patience(limits, loop.time())
        self._write_paused = False
        self._pieces: Iterator[list[bytes | memoryview]] | None = None
        self._piece_scheduled = False
        self._eof = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        # uvloop's transports do what asyncio's do without being of its classes.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if peer is None:
            # It was reset between the kernel's accept and ours.
            transport.abort()
            return
        host, port = peer[0], peer[1]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._session = self._connections.opened(self, address)
        if self._session is None:
            transport.abort()
            return
        self.note_user(self._session.user_id)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes go. Only looks: the loop calls it before EAGAIN and EOF too."""
        filling = self._filling
        if filling is not None:
            return filling.view[self._filled :]
        if self._expects_large:
            return self._receive.window()[:LARGE_HEAD_SIZE]
        return self._receive.window()

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have arrived where `get_buffer` said."""
        filling = self._filling
        if filling is not None:
            self._filled += nbytes
            if self._filled == filling.length:
                self._filling = None
                self._begin(filling, filling.view, 0, filling.length)
                self._go_on()
            return
        receive = self._receive
        window_was_filled = nbytes == receive.window_size
        block, start = receive.received(nbytes)
        if (
            REQUEST_HEADER.size <= nbytes <= self._admitted_size
            and not (self._busy or self._kept or self._drain_left)
            and not self._write_paused
            and block.position is not None
        ):
            length, code = REQUEST_HEADER.unpack_from(block.view, start)
            if length == nbytes - LENGTH_SIZE:
                # Exactly one frame with nothing in its way: what nearly every request is. Written
                # out here, because it runs for each of them. Our hold becomes the request's.
                self._patience.frame_since = None
                self._busy = True
                self._expects_large = False
                self._request_buffer = block
                assert self._session is not None
                begin = start + REQUEST_HEADER.size
                self._work[REQUEST] = block.position + begin + self._user_bits
                payload = block.view[begin : start + nbytes]
                self._session.begin(code, payload, block, begin)
                if self._busy and code != SEND_MESSAGES:
                    self._let_go_of_block(code, payload)
                if receive.low:
                    self._pause_until_pool_has_room(BLOCK_SIZE)
                return
        if self._kept:
            joined = self._kept + block.view[start : start + nbytes]
            self._kept = b""
            self._take(None, memoryview(joined), 0, len(joined))
        else:
            self._take(block, block.view, start, start + nbytes)
        block.release()
        if self._receive.low:
            self._pause_until_pool_has_room(BLOCK_SIZE)
        elif window_was_filled and self._filling is None:
            # The loop reads a socket many times in one turn as long as windows come back full.
            self._pause_until_next_turn()

    def eof_received(self) -> bool:
        """The client sends no more: close, after the answers to what it has sent."""
        self._eof = True
        return self._busy or bool(self._kept and self._reading_paused)

    def connection_lost(self, _error: Exception | None) -> None:
        """The connection has ended; a request in work ends by itself and answers nobody."""
        if self._filling is not None:
            self._filling.release()
            self._filling = None
        if self._pool_waiter is not None:
            self._pool_waiter.cancel()
            self._pool_waiter = None
        self._kept = b""
        self._transport = None
        if self._pieces is not None:
            self._pieces = None
            self._release_request()
        if self._session is not None:
            self._session.closed()
            self._connections.lost(self)

    def pause_writing(self) -> None:
        """The client does not read: no further request until it does."""
        assert self._transport is not None, "only an open transport pauses"
        self._write_paused = True
        self._patience.wait_for_reader(self._transport, self._loop.time())

    def resume_writing(self) -> None:
        """The client reads again."""
        self._write_paused = False
        self._patience.reader_is_back()
        if self._pieces is not None:
            self._send_piece()
        else:
            self._go_on()

    # What the session calls.

    def answer(self, frame: bytes, *, close: bool = False) -> None:
        """Answer the request in work with one small frame and turn to the next."""
        self._release_request()
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.write(frame)
        if close:
            transport.close()
        elif (self._kept or self._reading_paused or self._eof) and not self._taking:
            self._go_on()

    def finish(self, parts: Sequence[bytes | memoryview], size: int) -> None:
        """Answer the request in work with slices of files, `size` bytes, and turn to the next."""
        transport = self._transport
        if transport is None or transport.is_closing():
            self._release_request()
            return
        if size > WHOLE_SIZE_MAX:
            # The request stays in work until its last piece is with the transport; its bytes are
            # not needed any more, and a client that reads slowly must not keep a receive block.
            self._release_request_buffer()
            self._pieces = pieces_of(parts)
            # The next piece is at hand while the kernel still works on the last.
            transport.set_write_buffer_limits(high=2 * PIECE_SIZE, low=PIECE_SIZE)
            self._send_piece()
            return
        self._release_request()
        transport.writelines(parts)
        if (self._kept or self._reading_paused or self._eof) and not self._taking:
            self._go_on()

    def abandon(self) -> None:
        """The outcome of the request in work is unknown: close without a status."""
        self._release_request()
        if self._transport is not None:
            self._transport.abort()

    def note_user(self, user_id: int | None) -> None:
        """Who the client is by now, for when this worker dies of one of its requests."""
        self._user_bits = user_bits(user_id)

    def carry(self, session: SessionOfConnection) -> None:
        """From the next request on, go by another session than the one it was opened with."""
        self._session = session

    def let_go(self) -> socket.socket | None:
        """The socket, for another shard to serve; None unless the connection is quite idle."""
        transport = self._transport
        if (
            transport is None
            or transport.is_closing()
            or self._busy
            or self._kept
            or self._drain_left
            or self._filling is not None
            or transport.get_write_buffer_size()
        ):
            return None
        transport.pause_reading()
        moving = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        # Closes our descriptor only: the connection lives on in the copy.
        transport.abort()
        return moving

    # What the worker calls.

    @property
    def is_idle(self) -> bool:
        """Whether no request is in work."""
        return not self._busy

    def check_deadlines(self, now: float) -> str | None:
        """Close the connection if it keeps us waiting too long; the reason, if so."""
        transport = self._transport
        if transport is None or self._session is None:
            return None
        reason = self._patience.overdue(
            transport, now, authenticated=self._session.is_authenticated, busy=self._busy
        )
        if reason is not None:
            give_up(transport)
        return reason

    def close(self, parting: bytes) -> None:
        """End the connection from our side, with a last frame."""
        if self._transport is not None and not self._transport.is_closing():
            if not (self._busy or self._parting):
                self._transport.write(parting)
            self._transport.close()

    # Large answers.

    def _send_piece(self) -> None:
        """Hand over the next piece of an answer: one each turn, none while the client lags."""
        self._piece_scheduled = False
        if self._pieces is None or self._write_paused:
            return
        transport = self._transport
        if transport is None or transport.is_closing():
            self._pieces = None
            self._release_request()
            return
        piece = next(self._pieces, None)
        if piece is None:
            self._pieces = None
            self._release_request()
            transport.set_write_buffer_limits()
            self._go_on()
            return
        transport.writelines(piece)
        if not self._piece_scheduled:
            self._piece_scheduled = True
            self._loop.call_soon(self._send_piece)

    # Cutting frames.

    def _take(self, block: Buffer | None, view: memoryview, start: int, end: int) -> None:
        """Cut frames from bytes that lie in a shared block, or in private memory (None)."""
        self._taking = True
        requests_left = REQUESTS_PER_TURN_MAX
        try:
            while start < end and self._is_open():
                if self._drain_left:
                    start = self._drain(start, end)
                    continue
                if self._busy or self._write_paused:
                    self._keep(view[start:end])
                    return
                if requests_left == 0:
                    self._keep(view[start:end])
                    self._pause_until_next_turn()
                    return
                if end - start < REQUEST_HEADER.size:
                    self._wait_for_frame()
                    self._kept = bytes(view[start:end])
                    return
                length, code = REQUEST_HEADER.unpack_from(view, start)
                if length < CODE_SIZE:
                    self._patience.frame_since = None
                    self._answer(encode_response(InvalidCommand.status))
                    start += REQUEST_HEADER.size
                    requests_left -= 1
                    continue
                total = LENGTH_SIZE + length
                if not self._admit(code, total):
                    continue
                if end - start < total:
                    if code == SEND_MESSAGES and total > SEND_HEAD_SIZE:
                        if end - start < SEND_HEAD_SIZE:
                            self._wait_for_frame()
                            self._kept = bytes(view[start:end])
                            return
                        if self._refuse_send(view[start + REQUEST_HEADER.size : end], total):
                            continue
                    if not self._begin_filling(view[start:end], total):
                        self._keep(view[start:end])
                        self._pause_until_pool_has_room(total, self._taker())
                    return
                if not self._begin_complete(block, view, start, total, code):
                    self._keep(view[start:end])
                    self._pause_until_pool_has_room(total, self._taker())
                    return
                start += total
                requests_left -= 1
        finally:
            self._taking = False

    def _is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def _admit(self, code: int, total: int) -> bool:
        """Whether a frame of this length is taken in; otherwise it is being drained or closed."""
        limits = self._limits
        assert self._session is not None
        without_login = self._session.status_without_login
        status = refusal(limits, code, total, without_login=without_login)
        if status is None:
            return True
        self._begin_drain(min(total, limits.frame_size_max), encode_response(status))
        if total > limits.frame_size_max:
            # Too much even to throw away: the byte stream cannot be cut any more.
            self._part()
        return False

    def _refuse_send(self, head: memoryview, total: int) -> bool:
        """Whether a batch is not kept, because its beginning says that it cannot be appended."""
        assert self._session is not None
        status = self._session.refusal_of_send(head)
        if status:
            self._begin_drain(total, encode_response(status))
        return status != 0

    def _begin_drain(self, size: int, answer: bytes) -> None:
        self._answer(answer)
        self._drain_left = size
        self._wait_for_frame()

    def _part(self) -> None:
        """Say no more, and listen for a while yet.

        A close while bytes are unread is a reset, which may overtake the answer.
        """
        assert self._transport is not None, "only an open connection refuses"
        if self._transport.can_write_eof():
            self._parting = True
            self._transport.write_eof()
        else:
            self._transport.close()

    def _drain(self, start: int, end: int) -> int:
        thrown = min(self._drain_left, end - start)
        self._drain_left -= thrown
        if self._drain_left == 0:
            self._patience.frame_since = None
            if self._parting and self._transport is not None:
                self._transport.abort()
        return start + thrown

    def _begin_filling(self, head: memoryview, total: int) -> bool:
        buffer = self._pool.take(total, self._taker())
        if buffer is None:
            return False
        buffer.view[: head.nbytes] = head
        self._filling = buffer
        self._filled = head.nbytes
        self._expects_large = True
        self._wait_for_frame()
        return True

    def _begin_complete(
        self, block: Buffer | None, view: memoryview, start: int, total: int, code: int
    ) -> bool:
        if block is not None and block.position is not None:
            block.hold()
            self._begin(block, view, start, total)
            return True
        if code != SEND_MESSAGES:
            self._begin(None, view, start, total)
            return True
        # Only what lies in the arena can be lent to the owner of a partition.
        buffer = self._pool.take(total, self._taker())
        if buffer is None:
            return False
        buffer.view[:] = view[start : start + total]
        self._begin(buffer, buffer.view, 0, total)
        return True

    def _begin(self, buffer: Buffer | None, view: memoryview, start: int, total: int) -> None:
        _, code = REQUEST_HEADER.unpack_from(view, start)
        begin = start + REQUEST_HEADER.size
        self._patience.frame_since = None
        self._busy = True
        self._request_buffer = buffer
        assert self._session is not None
        payload = view[begin : start + total]
        if buffer is not None and buffer.position is not None:
            self._work[REQUEST] = buffer.position + begin + self._user_bits
        else:
            self._in_work.copy(code, payload, self._user_bits)
        self._session.begin(code, payload, buffer, begin)
        if self._busy and code != SEND_MESSAGES:
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
        assert self._busy, "a request ends once"
        self._busy = False
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

    def _answer(self, frame: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    # Waiting.

    def _keep(self, rest: memoryview) -> None:
        """Bytes whose turn has not come. At most one receive window: reading pauses with it."""
        if rest.nbytes > self._limits.frame_size_max_before_login and not self._is_authenticated():
            # Nobody we know waits here with more than a login: many such would cost much memory.
            if self._transport is not None:
                self._transport.abort()
            return
        self._kept = bytes(rest)
        self._pause()

    def _is_authenticated(self) -> bool:
        return self._session is not None and self._session.is_authenticated

    def _pause(self) -> None:
        if not self._reading_paused and self._transport is not None:
            self._transport.pause_reading()
            self._reading_paused = True

    def _taker(self) -> str:
        assert self._session is not None
        return self._session.taker

    def _pause_until_pool_has_room(self, length: int, taker: str = NO_TAKER) -> None:
        self._pause()
        # Now it is us who keep the frame waiting.
        self._patience.frame_since = None
        if self._pool_waiter is None:
            self._pool_waiter = self._pool.when_available(self._pool_has_room, length, taker)

    def _pool_has_room(self) -> None:
        # The pool calls from inside somebody's release: take up the bytes in a turn of our own.
        self._loop.call_soon(self._take_up_after_wait)

    def _take_up_after_wait(self) -> None:
        waiter, self._pool_waiter = self._pool_waiter, None
        self._go_on()
        if waiter is not None and self._pool_waiter is None:
            # What was set aside for us and is not used goes to the next.
            waiter.cancel()
        # Otherwise we wait anew, because the room was not in one piece. To wake others now would
        # come back to us and so on for ever: the next release wakes.

    def _pause_until_next_turn(self) -> None:
        self._pause()
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        self._go_on()

    def _go_on(self) -> None:
        """Take up what was kept, then read again."""
        if self._taking or self._must_wait():
            return
        if self._kept and self._reading_paused:
            kept = self._kept
            self._kept = b""
            self._take(None, memoryview(kept), 0, len(kept))
            if self._must_wait():
                return
        if self._eof and self._transport is not None:
            # Everything it has sent is answered; what is left is no whole request.
            self._transport.close()
        elif self._reading_paused and self._transport is not None:
            self._reading_paused = False
            if self._drain_left:
                self._wait_for_frame()
            self._transport.resume_reading()

    def _must_wait(self) -> bool:
        return (
            self._busy
            or self._waits_for_turn
            or self._pool_waiter is not None
            or self._write_paused
            or not self._is_open()
        )

    def _wait_for_frame(self) -> None:
        self._patience.wait_for_frame(self._loop.time())
