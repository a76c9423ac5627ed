"""From bytes to requests, where they are not exactly one frame: several, a part, or a large one.

Owned by a connection, which carries out what is complete, one request at a time. Bytes whose turn
has not come are kept here while reading is paused. A frame that does not end in its receive block
is filled into a pool buffer of exactly its length.
"""

import asyncio
from typing import Final, Protocol

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import REQUEST_HEADER, Frame, Need, Refused
from borzoi.protocol.generations import CLASSIC, first_generation
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.buffer import Buffer
from borzoi.router.pool import NO_TAKER, MemoryPool
from borzoi.router.receive import ReceiveBlocks
from borzoi.shards.admission.deadlines import Patience
from borzoi.shards.admission.frames import ConnectionLimits
from borzoi.shards.doors.carried import Framed, SessionOfConnection
from borzoi.shards.doors.refused_frames import RefusedFrames
from borzoi.shards.doors.socket_flow import SocketFlow

# One turn of the loop carries out at most so many requests of a connection, and reads at most one
# full window. A ping takes 10 us: without this bound a flood of them kept others waiting 400 ms.
REQUESTS_PER_TURN_MAX: Final = 64
SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
LARGE_HEAD_SIZE: Final = 4096
"""Read at first of a client whose last frame did not fit into a window: what comes with the header
has to be copied, so that most of the frame goes where it belongs."""


class Carrier(Framed, Protocol):
    """The connection: what it does now, and what it is asked to do."""

    transport: asyncio.Transport | None
    is_busy: bool
    is_write_paused: bool
    is_at_eof: bool

    def begin(self, frame: Frame, buffer: Buffer | None, begin: int) -> None:
        """Carry out a request whose payload begins at `begin` of `buffer`; None: private memory."""

    def evict(self, eviction: bytes) -> None:
        """Close after these bytes: what the client sends is no request of any generation served."""


class Intake:
    """The bytes of one client that are no request yet."""

    __slots__ = (
        "_carrier", "_filled", "_limits", "_loop", "_patience", "_pool", "_session",
        "_taking", "expects_large", "filling", "kept", "reading", "refused",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: MemoryPool,
        limits: ConnectionLimits,
        patience: Patience,
        carrier: Carrier,
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._limits = limits
        self._patience = patience
        self._carrier = carrier
        self._session: SessionOfConnection
        self.reading = SocketFlow(loop, pool, self.go_on)
        self.refused = RefusedFrames(loop, limits, carrier, patience)
        self.kept = b""  # bytes that wait for their turn, or for the rest of a header
        self.filling: Buffer | None = None
        # Whether the last frame did not fit into a window; None before the first one.
        self.expects_large: bool | None = None
        self._filled = 0
        self._taking = False

    def opened(self, transport: asyncio.Transport, session: SessionOfConnection) -> None:
        """The connection is open."""
        self._session = session
        self.reading.transport = transport
        self.refused.begin(transport, session)

    def end(self) -> None:
        """The connection is gone, and with it what was not complete."""
        if self.filling is not None:
            self.filling.release()
            self.filling = None
        self.reading.end()
        self.kept = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing of a frame is here."""
        return not (self.kept or self.refused.left or self.filling is not None)

    @property
    def has_kept_requests(self) -> bool:
        """Whether complete requests wait for their turn."""
        return bool(self.kept and self.reading.is_paused)

    def room(self, receive: ReceiveBlocks) -> memoryview:
        """Where the next bytes go."""
        if self.filling is not None:
            return self.filling.view[self._filled :]
        window = receive.window()
        return window[:LARGE_HEAD_SIZE] if self.expects_large else window

    def fill(self, nbytes: int) -> None:
        """Bytes of the large frame have arrived in its buffer."""
        filling = self.filling
        assert filling is not None
        self._filled += nbytes
        if self._filled == filling.length:
            self.filling = None
            is_whole = self.take_whole(filling)
            assert is_whole, "a buffer is as long as its frame"
            self.go_on()
        elif self.reading.writes_in_pieces:
            self.reading.acknowledge()

    def take_whole(self, filled: Buffer) -> bool:
        """Begin the request that fills a buffer, which is ours now; False if it is no whole one."""
        framing = self._carrier.framing
        frame = framing.cut(filled.view, 0, filled.length)
        if isinstance(frame, Frame):
            self._carrier.begin(frame, filled, framing.header_size)
            return True
        filled.release()
        if isinstance(frame, Need):
            return False
        self.refused.drop(frame.answer, 0)
        self.refused.drain(0)
        return True

    def cut_off(self) -> None:
        """Forget what is there of a frame: no more of it comes, because its own stream ends."""
        if self.filling is not None:
            self.filling.release()
            self.filling = None
        self.kept = b""
        self.refused.left = 0
        self._patience.frame_since = None

    def take(self, block: Buffer, start: int, nbytes: int) -> None:
        """Bytes have arrived in a receive block."""
        if self.kept:
            joined = self.kept + block.view[start : start + nbytes]
            self.kept = b""
            self._take(None, memoryview(joined), 0, len(joined))
        else:
            self._take(block, block.view, start, start + nbytes)

    def _take(  # noqa: C901 - one case for each thing that can lie next in the stream
        self, block: Buffer | None, view: memoryview, start: int, end: int
    ) -> None:
        """Cut frames from bytes that lie in a shared block, or in private memory (None)."""
        self._taking = True
        requests_left = REQUESTS_PER_TURN_MAX
        carrier, refused = self._carrier, self.refused
        try:
            while start < end and self._is_open():
                if refused.left:
                    start += refused.drain(end - start)
                    continue
                if carrier.is_busy or carrier.is_write_paused:
                    self._keep(view[start:end])
                    return
                if requests_left == 0:
                    self._keep(view[start:end])
                    self.reading.wait_for_turn()
                    return
                cut = carrier.framing.cut(view, start, end)
                if self.expects_large is None and self._is_of_another_generation(view[start:end]):
                    continue
                if isinstance(cut, Refused):
                    self._refuse(cut)
                    requests_left -= 1
                    continue
                if cut.code is None:
                    self._wait_for_bytes(view[start:end])
                    return
                if not refused.admits(cut.code, cut.total):
                    continue
                if isinstance(cut, Need):
                    if self._begin_filling(view[start:end], cut.code, cut.total):
                        return
                    continue
                if not self._begin(cut, block, view, start):
                    self._keep(view[start:end])
                    self.wait_for_room(cut.total, self._session.taker)
                    return
                start += cut.total
                requests_left -= 1
        finally:
            self._taking = False

    def _is_of_another_generation(self, present: memoryview) -> bool:
        """Whether the first bytes of the connection frame otherwise; they are cut so from now on.

        Only these say so, and not those of a session that has moved here.
        """
        if present.nbytes < REQUEST_HEADER.size or self._session.status_without_login is None:
            return False
        generation = first_generation(present)
        if generation is CLASSIC:
            return False
        self.expects_large = False
        self._session.speak(generation)
        return True

    def _refuse(self, cut: Refused) -> None:
        """The framing has answered by itself."""
        self._patience.frame_since = None
        self.expects_large = bool(self.expects_large)
        if cut.close or cut.total > self._limits.frame_size_max:
            self._carrier.evict(cut.answer)
        else:
            self.refused.drop(cut.answer, cut.total)

    def _begin_filling(self, present: memoryview, code: int, total: int) -> bool:
        """Wait for the rest of a frame, in a buffer of its own; False if it was refused."""
        header_size = self._carrier.framing.header_size
        if code == SEND_MESSAGES and total > header_size + HEAD_SIZE_MAX:
            # Before memory is taken for a batch, its beginning says where it is to go.
            if present.nbytes < header_size + HEAD_SIZE_MAX:
                self._wait_for_bytes(present)
                return True
            if self.refused.refuses_send(present[header_size:], total):
                return False
        taker = self._session.taker
        buffer = self._pool.take(total, taker)
        if buffer is None:
            self._keep(present)
            self.wait_for_room(total, taker)
            return True
        buffer.view[: present.nbytes] = present
        self.filling = buffer
        self._filled = present.nbytes
        self.expects_large = True
        self._patience.wait_for_frame(self._loop.time())
        self._hurry(present.nbytes)
        return True

    def _begin(self, frame: Frame, block: Buffer | None, view: memoryview, start: int) -> bool:
        """Begin a request; False if the pool has no room for it."""
        self.expects_large = bool(self.expects_large)
        framing = self._carrier.framing
        header_size = framing.header_size
        if block is not None and block.position is not None:
            block.hold()
            self._carrier.begin(frame, block, start + header_size)
            return True
        if frame.code != SEND_MESSAGES:
            self._carrier.begin(frame, None, start + header_size)
            return True
        # A batch is stamped in place and may be lent: it lies in the arena.
        buffer = self._pool.take(frame.total, self._session.taker)
        if buffer is None:
            return False
        buffer.view[:] = view[start : start + frame.total]
        copied = framing.cut(buffer.view, 0, frame.total)
        assert isinstance(copied, Frame), "a copy of a frame is one"
        self._carrier.begin(copied, buffer, header_size)
        return True

    # Waiting.

    def _wait_for_bytes(self, present: memoryview) -> None:
        """Too little of a frame is there to say what becomes of it."""
        self._patience.wait_for_frame(self._loop.time())
        self.kept = bytes(present)
        self._hurry(present.nbytes)

    def _hurry(self, present_size: int) -> None:
        """Have the rest of a frame sent at once by a client that writes header and body apart."""
        if present_size <= self._carrier.framing.header_size:
            self.reading.writes_in_pieces = True
        if self.reading.writes_in_pieces:
            self.reading.acknowledge()

    def _keep(self, rest: memoryview) -> None:
        """Bytes whose turn has not come. At most one receive window: reading pauses with it."""
        if (
            rest.nbytes > self._limits.frame_size_max_before_login
            and self._session.status_without_login is not None
        ):
            # Before a login no more waits here than a login: many such would cost much memory.
            if self._carrier.transport is not None:
                self._carrier.transport.abort()
            return
        self.kept = bytes(rest)
        self.reading.pause()

    def wait_for_room(self, length: int, taker: str = NO_TAKER) -> None:
        """Pause reading until the pool may have `length` bytes."""
        # Now the broker keeps the frame waiting, not the client.
        self._patience.frame_since = None
        self.reading.wait_for_room(length, taker)

    def go_on(self) -> None:
        """Take up what was kept, then read again."""
        carrier, reading = self._carrier, self.reading
        if self._taking or self._must_wait():
            return
        if self.kept and reading.is_paused:
            kept = self.kept
            self.kept = b""
            self._take(None, memoryview(kept), 0, len(kept))
            if self._must_wait():
                return
        if carrier.is_at_eof and carrier.transport is not None:
            # Everything it has sent is answered; what is left is no whole request.
            carrier.transport.close()
        elif reading.is_paused:
            if self.refused.left:
                self._patience.wait_for_frame(self._loop.time())
            reading.resume()

    def _must_wait(self) -> bool:
        carrier = self._carrier
        return (
            carrier.is_busy
            or carrier.is_write_paused
            or self.reading.must_wait
            or not self._is_open()
        )

    def _is_open(self) -> bool:
        transport = self._carrier.transport
        return transport is not None and not transport.is_closing()
