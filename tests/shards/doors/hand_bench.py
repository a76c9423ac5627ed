"""A connection with a transport, a session and a loop that the test turns by hand."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, cast

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    CannotReadMessage,
    Disconnected,
    InvalidCommand,
    Unauthenticated,
)
from borzoi.protocol.framing import (
    encode_request,
    encode_response,
)
from borzoi.protocol.generations import Generation
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.arena import Arena, create_arena
from borzoi.router.buffer import Buffer
from borzoi.router.pool import KIB, MIB, MemoryPool
from borzoi.router.receive import ReceiveBlocks
from borzoi.shards.admission.frames import ConnectionLimits
from borzoi.shards.doors.carried import SessionOfConnection
from borzoi.shards.doors.tcp import Connection
from borzoi.shards.faults.in_work import HEAD_SIZE_MAX as WORK_HEAD_MAX
from borzoi.shards.faults.in_work import REQUEST, WHERE_MASK, InWork, RequestInWork, read_in_work
from borzoi.shards.faults.poison import Guard
from borzoi.shards.serving.reply import OK as SUCCESS
from borzoi.shards.serving.reply import Reply, Status
from borzoi.shards.tallies.meters import Meters
from tests.shards.doors.hand_transport import HandTransport
from tests.shards.hand_loop import HandLoop

WINDOW: Final = 4 * KIB
BLOCK: Final = 64 * KIB
ARENA_SIZE: Final = 4 * MIB
LIMITS: Final = ConnectionLimits(
    frame_size_max=32 * KIB,
    control_frame_size_max=16 * KIB,
    frame_size_max_before_login=1 * KIB,
    login_timeout_s=10.0,
    frame_timeout_s=20.0,
    write_timeout_s=30.0,
    read_rate_min=100,
)
PING: Final = encode_request(Code.PING)
REFUSED: Final = encode_response(InvalidCommand.status)
PARTING: Final = encode_response(Disconnected.status)
STEPS_MAX: Final = 10_000
AS_IT_IS: Final = Generation("as it is", {}, defaultdict(lambda: bytes))
"""The payload of a reply is its value."""


class Begun(NamedTuple):
    code: int
    payload: bytes


class ScriptedSession:
    """Notes what it is asked to do, and answers at once or when the test says so."""

    def __init__(self, connection: Connection, in_work: InWork) -> None:
        self._connection = connection
        self._in_work = in_work
        self.is_authenticated = True
        self.user_id: int | None = None
        self.taker = "user 1"
        self.refused_status = 0
        self.heads: list[bytes] = []
        self.later: Callable[[], bool] = lambda: False
        self.generation = AS_IT_IS
        self.answer: Callable[[int], Reply] = lambda _code: SUCCESS
        self.close_after = False
        self.begun: list[Begun] = []
        self.waiting: tuple[int, memoryview, bytes] | None = None
        self.was_closed = False
        self.carry_out = self.begin

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        assert self.waiting is None, "one request at a time"
        assert not self.was_closed, "a request after the end"
        copied = bytes(payload)
        words = self._in_work.words
        if buffer is not None:
            assert buffer.position is not None, "only the arena can be lent"
            assert words[REQUEST] & WHERE_MASK == buffer.position + start
            assert buffer.view[start : start + len(copied)] == copied
        else:
            assert code != Code.SEND_MESSAGES, "a batch must lie in the arena"
            request = read_in_work(words, -1, 0)
            assert request == RequestInWork(code, len(copied), copied[:WORK_HEAD_MAX], None)
        self.begun.append(Begun(code, copied))
        self.waiting = code, payload, copied
        if not self.later():
            self.finish()

    def speak(self, generation: Generation) -> None:
        self.generation = generation
        self._connection.speak(generation)

    @property
    def status_without_login(self) -> int | None:
        return None if self.is_authenticated else Unauthenticated.status

    def refusal_of_send(self, head: memoryview) -> int:
        assert len(head) >= HEAD_SIZE_MAX, "enough to tell where it is to go"
        self.heads.append(bytes(head[:HEAD_SIZE_MAX]))
        return self.refused_status

    def finish(self) -> None:
        """Answer what is in work."""
        assert self.waiting is not None
        code, payload, copied = self.waiting
        if code == Code.SEND_MESSAGES:
            assert payload == copied, "the bytes of a batch changed while it was in work"
        self.waiting = None
        payload.release()
        reply = self.answer(code)
        self._connection.reply(Status(0, close=True) if self.close_after else reply)

    def closed(self) -> None:
        self.was_closed = True


class Bench:
    """Everything around one connection. Implements Connections."""

    def __init__(
        self, pool: MemoryPool, receive: ReceiveBlocks, limits: ConnectionLimits = LIMITS
    ) -> None:
        self.loop = HandLoop()
        self.pool = pool
        self.receive = receive
        self.transport = HandTransport(self.loop)
        self.refuses = False
        self.lost_count = 0
        self.evicted_count = 0
        self.damage: list[CannotReadMessage] = []
        self.guard: Guard | None = None
        self.in_work = InWork()
        self.meters = Meters()
        self.connection = Connection(self.loop.as_loop, self, receive, pool, limits, self.in_work)
        self.session = ScriptedSession(self.connection, self.in_work)
        self.transport.connection = self.connection

    def connect(self) -> "Bench":
        self.connection.connection_made(cast(asyncio.BaseTransport, self.transport))
        return self

    def opened(self, connection: Connection, address: str) -> SessionOfConnection | None:
        assert connection is self.connection
        assert address == "127.0.0.1:50000"
        return None if self.refuses else self.session

    def evicted(self, connection: Connection) -> None:
        assert connection is self.connection
        self.evicted_count += 1

    def damaged(self, connection: Connection, damage: CannotReadMessage) -> None:
        assert connection is self.connection
        self.damage.append(damage)

    def lost(self, connection: Connection) -> None:
        assert connection is self.connection
        self.lost_count += 1

    def deliver(self, data: bytes) -> None:
        """Deliver all of it, turn by turn."""
        for _ in range(STEPS_MAX):
            data = self.transport.deliver(data)
            self.loop.settle()
            if not data or self.transport.closing:
                return
        raise AssertionError(f"{len(data)} bytes are never read")

    def overdue_after(self, seconds: float) -> str | None:
        self.loop.advance(seconds)
        return self.connection.check_deadlines(self.loop.time())


class Memory(NamedTuple):
    pool: MemoryPool
    receive: ReceiveBlocks


@contextmanager
def new_memory(budget: int, window: int = WINDOW) -> Iterator[Memory]:
    """A pool and its receive blocks; at the end everything must have come back."""
    fd = create_arena(0, ARENA_SIZE)
    arena = Arena(fd, ARENA_SIZE, 0)
    os.close(fd)
    pool = MemoryPool(arena, budget)
    receive = ReceiveBlocks(pool, BLOCK, window)
    in_use_at_start = pool.in_use_bytes
    yield Memory(pool, receive)
    assert pool.in_use_bytes == in_use_at_start
    assert receive.private_bytes == 0
    assert pool.stats().waiting == 0
    receive.close()
