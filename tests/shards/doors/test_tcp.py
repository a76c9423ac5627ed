"""A connection with a transport, a session and a loop that the test turns by hand."""

import asyncio
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, pairwise
from typing import Any, Final, NamedTuple, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.edges import OLD_FORM
from borzoi.protocol.errors import (
    CannotReadMessage,
    Disconnected,
    FeatureUnavailable,
    InvalidCommand,
    Unauthenticated,
)
from borzoi.protocol.framing import (
    OK,
    ClassicFraming,
    Frame,
    Refused,
    encode_request,
    encode_response,
)
from borzoi.protocol.generations import Generation
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.arena import Arena, create_arena
from borzoi.router.buffer import Buffer
from borzoi.router.pool import KIB, MIB, MemoryPool
from borzoi.router.receive import BLOCK_SIZE, ReceiveBlocks
from borzoi.shards.admission.frames import ConnectionLimits
from borzoi.shards.doors.carried import SessionOfConnection
from borzoi.shards.doors.intake import LARGE_HEAD_SIZE, REQUESTS_PER_TURN_MAX
from borzoi.shards.doors.large_answer import PIECE_SIZE, WHOLE_SIZE_MAX
from borzoi.shards.doors.tcp import Connection
from borzoi.shards.faults.in_work import HEAD_SIZE_MAX as WORK_HEAD_MAX
from borzoi.shards.faults.in_work import REQUEST, WHERE_MASK, InWork, read_in_work, user_bits
from borzoi.shards.faults.in_work import Request as RequestInWork
from borzoi.shards.faults.poison import Guard, Refusal, digest_of
from borzoi.shards.serving.reply import OK as SUCCESS
from borzoi.shards.serving.reply import UNKNOWN_OUTCOME, Messages, Reply, Status, Value
from tests.shards.hand_loop import HandLoop

WINDOW: Final = 4 * KIB
BLOCK: Final = 64 * KIB
ARENA_SIZE: Final = 4 * MIB
HIGH_WATER: Final = 64 * KIB
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
SEND_HEAD_SIZE: Final = ClassicFraming.header_size + HEAD_SIZE_MAX
STEPS_MAX: Final = 10_000
AS_IT_IS: Final = Generation("as it is", {}, defaultdict(lambda: bytes))
"""The payload of a reply is its value."""


class HandTransport:
    """A socket whose peer the test plays. Says loudly when reading is paused twice or so."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.peer: tuple[str, int] | None = ("127.0.0.1", 50_000)
        self.connection: Connection | None = None
        self.reading = True
        self.peer_reads = True
        self.sent = b""
        self.unsent = b""
        self.closing = False
        self.aborted = False
        self.wrote_eof = False
        self.acknowledged_count = 0
        self._paused = False
        self._lost = False
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4

    # What the connection calls.

    def get_extra_info(self, name: str) -> Any:
        return {"peername": self.peer, "socket": self}[name]

    def fileno(self) -> int:
        return -1

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option, value) == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self.acknowledged_count += 1

    def pause_reading(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading, "resumed without a pause"
        self.reading = True

    def write(self, data: bytes | memoryview) -> None:
        assert not self.closing, "written to a transport that closes"
        assert not self.wrote_eof, "written behind the end of file"
        if self.peer_reads and not self.unsent:
            self.sent += data
            return
        self.unsent += data
        if len(self.unsent) > self._high and not self._paused:
            self._paused = True
            self._owner.pause_writing()

    def writelines(self, parts: Sequence[bytes | memoryview]) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def set_write_buffer_limits(self, high: int = HIGH_WATER, low: int | None = None) -> None:
        self._high = high
        self._low = high // 4 if low is None else low

    def is_closing(self) -> bool:
        return self.closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.wrote_eof = True

    def close(self) -> None:
        self.closing = True
        if not self.unsent:
            self._lose()

    def abort(self) -> None:
        self.closing = True
        self.aborted = True
        self.unsent = b""
        self._lose()

    # What the test calls.

    def deliver(self, data: bytes) -> bytes:
        """Let bytes arrive as far as they are read; the rest."""
        while data and self.reading and not self.closing:
            room = self._owner.get_buffer(-1)
            assert room, "an empty buffer kills a connection"
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._owner.buffer_updated(count)
            data = data[count:]
        return data

    def take(self, count: int) -> None:
        """The peer reads some of what waits."""
        self.sent += self.unsent[:count]
        self.unsent = self.unsent[count:]
        if self._paused and len(self.unsent) <= self._low:
            self._paused = False
            self._owner.resume_writing()
        if self.closing and not self.unsent:
            self._lose()

    def lose(self) -> None:
        """The peer is gone."""
        self.abort()

    @property
    def _owner(self) -> Connection:
        assert self.connection is not None
        return self.connection

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._loop.call_soon(self._owner.connection_lost, None)


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


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A connected one; it ends with the test."""
    with new_memory(2 * MIB) as memory:
        made = Bench(memory.pool, memory.receive).connect()
        yield made
        made.transport.lose()
        made.loop.settle()
        if made.session.waiting is not None:
            made.session.finish()


# Frames of any kind, cut anywhere.


class Sent(NamedTuple):
    """One frame: what is wrong with it, if anything, its code and the size of its payload."""

    kind: str
    code: int
    size: int

    @property
    def payload(self) -> bytes:
        return bytes((self.code + number) % 251 for number in range(self.size))

    @property
    def data(self) -> bytes:
        if self.kind == "too short":
            return struct.pack("<II", self.size, self.code)
        return encode_request(self.code, self.payload)

    @property
    def begun(self) -> Begun | None:
        """What the session is to see of it."""
        return Begun(self.code, self.payload) if self.kind == "good" else None

    @property
    def answer(self) -> bytes:
        return answer_to(self.code) if self.kind == "good" else REFUSED


def answer_to(code: int) -> bytes:
    return encode_response(0, struct.pack("<I", code))


CODES = st.sampled_from([Code.PING, Code.SEND_MESSAGES, Code.POLL_MESSAGES, 77])
SIZES = (
    st.integers(0, 40)
    | st.integers(WINDOW - 20, WINDOW + 20)
    | st.integers(0, LIMITS.control_frame_size_max)
)
SENT = (
    st.builds(Sent, st.just("good"), CODES, SIZES)
    | st.builds(
        Sent,
        st.just("too large"),
        st.just(77),
        st.integers(LIMITS.control_frame_size_max + 1, LIMITS.frame_size_max - 8),
    )
    | st.builds(Sent, st.just("too short"), CODES, st.integers(0, 3))
)
STEPS = st.lists(
    st.sampled_from(["deliver", "deliver", "answer", "turn", "hog", "unhog", "peer reads"]),
    min_size=1,
    max_size=12,
)


class Arrival:
    """Bytes on their way to a bench, chunk by chunk, and what happens meanwhile."""

    def __init__(self, bench: Bench, data: bytes, chunks: list[int]) -> None:
        self._bench = bench
        self._chunks = cycle(chunks)
        self._hogged: list[Buffer] = []
        self.data = data
        self.at = 0
        self.hurry = 1

    def act(self, step: str) -> None:
        session = self._bench.session
        if step == "deliver":
            chunk = self.data[self.at : self.at + next(self._chunks) * self.hurry]
            self.at += len(chunk) - len(self._bench.transport.deliver(chunk))
        elif step == "answer" and session.waiting is not None:
            session.finish()
        elif step == "turn":
            self._bench.loop.turn()
        elif step == "hog":
            # Another user takes all there is, so that buffers and receive blocks run out.
            while (taken := self._bench.pool.take(64 * KIB)) is not None:
                self._hogged.append(taken)
        elif step == "unhog":
            while self._hogged:
                self._hogged.pop().release()
        elif step == "peer reads":
            self._bench.transport.take(HIGH_WATER)

    @property
    def is_over(self) -> bool:
        """Whether all has arrived, is answered, and was read by the peer."""
        is_answered = self._bench.session.waiting is None and not self._bench.transport.unsent
        return is_answered and self.at == len(self.data)


@pytest.mark.no_cover
@pytest.mark.slow
@settings(max_examples=150)
@given(
    frames=st.lists(SENT, min_size=1, max_size=8),
    chunks=st.lists(st.integers(1, 9) | st.integers(1, 3 * WINDOW), min_size=1, max_size=8),
    later=st.lists(st.booleans(), min_size=1, max_size=5),
    steps=STEPS,
    peer_reads=st.booleans(),
)
def test_how_bytes_arrive_makes_no_difference(
    frames: list[Sent], chunks: list[int], later: list[bool], steps: list[str], peer_reads: bool
) -> None:
    with new_memory(BLOCK_SIZE + 256 * KIB) as memory:
        bench = Bench(memory.pool, memory.receive).connect()
        transport, session = bench.transport, bench.session
        session.later = lambda: later[len(session.begun) % len(later)]
        session.answer = lambda code: Value(code, struct.pack("<I", code))
        transport.peer_reads = peer_reads
        arrival = Arrival(bench, b"".join(frame.data for frame in frames), chunks)
        for number in range(STEPS_MAX):
            arrival.act(steps[number % len(steps)])
            if number > 4 * len(steps):
                # From here on nothing is held back, and it must come to an end.
                arrival.hurry = 100
                for step in ("unhog", "answer", "turn", "peer reads", "deliver"):
                    arrival.act(step)
                if arrival.is_over:
                    break
        bench.loop.settle()

        assert arrival.at == len(arrival.data)
        assert session.begun == [frame.begun for frame in frames if frame.begun is not None]
        assert transport.sent == b"".join(frame.answer for frame in frames)
        assert transport.reading
        assert not transport.closing
        assert bench.connection.check_deadlines(bench.loop.time() + 1000) is None


def cut_by_the_machine(data: bytes) -> Iterator[Begun | bytes]:
    """What the framing says of a stream: requests, and the answers to what is none."""
    framing, view, start = ClassicFraming(), memoryview(data), 0
    while start < len(data):
        cut = framing.cut(view, start, len(data))
        assert isinstance(cut, Frame | Refused), "the stream ends with a whole frame"
        if isinstance(cut, Frame):
            yield Begun(cut.code, bytes(cut.payload))
        else:
            yield cut.answer
        start += cut.total


@settings(max_examples=100)
@given(
    frames=st.lists(SENT.filter(lambda frame: frame.kind != "too large"), min_size=1, max_size=6),
    chunks=st.lists(st.integers(1, 40) | st.integers(1, 3 * WINDOW), min_size=1, max_size=8),
)
def test_the_connection_begins_what_the_machine_cuts(frames: list[Sent], chunks: list[int]) -> None:
    data = b"".join(frame.data for frame in frames)
    cut = list(cut_by_the_machine(data))
    with new_memory(2 * MIB) as memory:
        bench = Bench(memory.pool, memory.receive).connect()
        bench.session.answer = lambda code: Value(code, b"")
        at = 0
        for number in range(len(data)):
            if at == len(data):
                break
            chunk = data[at : at + chunks[number % len(chunks)]]
            bench.deliver(chunk)
            at += len(chunk)
        assert at == len(data)
        assert bench.session.begun == [one for one in cut if isinstance(one, Begun)]
        assert bench.transport.sent == b"".join(
            OK if isinstance(one, Begun) else one for one in cut
        )
        bench.transport.lose()
        bench.loop.settle()


# Replies.


@given(
    head=st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.integers(0, 99)),
    parts=st.lists(st.binary(max_size=50), max_size=4),
)
def test_messages_are_written_behind_their_header(
    head: tuple[int, int, int], parts: list[bytes]
) -> None:
    messages = b"".join(parts)
    with new_memory(2 * MIB) as memory:
        bench = Bench(memory.pool, memory.receive).connect()
        views = [memoryview(part) for part in parts]
        bench.session.answer = lambda _code: Messages(*head, views, len(messages))
        bench.deliver(encode_request(Code.POLL_MESSAGES))
        assert bench.transport.sent == encode_response(0, struct.pack("<IQI", *head) + messages)
        bench.transport.lose()
        bench.loop.settle()


def test_a_value_that_cannot_be_encoded_leaves_the_request_in_work(bench: Bench) -> None:
    """The session answers with an error of its own then."""
    bench.session.later = lambda: True
    bench.transport.deliver(PING)
    with pytest.raises(TypeError):
        bench.connection.reply(Value(Code.PING, object()))
    assert not bench.connection.is_idle
    assert bench.transport.sent == b""


@pytest.mark.parametrize("size", [100, WHOLE_SIZE_MAX + 1])
def test_damaged_messages_that_are_to_be_converted_are_an_error(bench: Bench, size: int) -> None:
    # Their lengths, which are zero, leave no message whole.
    views = (memoryview(bytes(60)),)
    bench.session.speak(replace(AS_IT_IS, shows=OLD_FORM))
    bench.session.answer = lambda _code: Messages(0, 0, 1, views, size)
    bench.deliver(encode_request(Code.POLL_MESSAGES))
    assert bench.transport.sent == encode_response(CannotReadMessage.status)
    assert len(bench.damage) == 1
    bench.session.answer = lambda _code: SUCCESS
    bench.deliver(encode_request(Code.PING))
    assert len(bench.session.begun) == 2


PIECES = [
    # What the official clients write of a classic frame: its length, its code, its body.
    ([4, 4, 300], 2),
    # Header and body.
    ([8, 300], 1),
    ([8, 3 * WINDOW], 1),
    # Length and code; the kernel sends full packets of a long body at once, and keeps its end.
    ([4, 1000, 2 * WINDOW - 1000, 10], 3),
    # One write, however it is received.
    ([308], 0),
    ([4096, WINDOW, WINDOW], 0),
]


@pytest.mark.parametrize(("pieces", "acknowledged"), PIECES)
def test_pieces_of_a_frame_are_acknowledged_at_once(
    bench: Bench, pieces: list[int], acknowledged: int
) -> None:
    size = sum(pieces) - ClassicFraming.header_size
    data = Sent("good", Code.PING, size).data
    start = 0
    for piece in pieces:
        bench.deliver(data[start : start + piece])
        start += piece
    assert len(bench.session.begun) == 1
    assert bench.transport.acknowledged_count == acknowledged


def test_what_kills_workers_is_refused_and_the_rest_carried_out(bench: Bench) -> None:
    guard = Guard(lambda: 100.0)
    guard.refuse([Refusal(digest_of(Code.POLL_MESSAGES, 6, b"poison"), 160.0)])
    refused = encode_response(FeatureUnavailable.status)
    poison = encode_request(Code.POLL_MESSAGES, b"poison")
    bench.connection.guard(guard)
    bench.deliver(poison + PING + poison)
    bench.deliver(poison)
    assert bench.transport.sent == refused + OK + refused * 2
    assert [begun.code for begun in bench.session.begun] == [Code.PING]
    bench.connection.guard(None)
    bench.deliver(poison)
    assert bench.session.begun[-1] == Begun(Code.POLL_MESSAGES, b"poison")


def test_a_connection_is_guarded_from_its_first_request_on(bench: Bench) -> None:
    other = Bench(bench.pool, bench.receive)
    other.guard = Guard(lambda: 100.0)
    other.guard.refuse([Refusal(digest_of(Code.PING, 0, b""), 160.0)])
    other.connect().deliver(PING)
    assert other.transport.sent == encode_response(FeatureUnavailable.status)
    assert other.session.begun == []
    other.transport.lose()
    other.loop.settle()


@pytest.mark.no_cover
@pytest.mark.slow
@settings(max_examples=60)
@given(
    frames=st.lists(SENT, min_size=1, max_size=6),
    end=st.floats(0, 1),
    chunk=st.integers(1, 3 * WINDOW),
    later=st.booleans(),
    hog=st.booleans(),
)
def test_the_peer_may_vanish_at_any_byte(
    frames: list[Sent], end: float, chunk: int, later: bool, hog: bool
) -> None:
    with new_memory(BLOCK_SIZE + 256 * KIB) as memory:
        bench = Bench(memory.pool, memory.receive).connect()
        bench.session.later = lambda: later
        hogged = []
        while hog and (taken := memory.pool.take(16 * KIB)) is not None:
            hogged.append(taken)
        data = b"".join(frame.data for frame in frames)
        data = data[: int(len(data) * end)]
        for start in range(0, len(data), chunk):
            bench.transport.deliver(data[start : start + chunk])
            bench.loop.turn()
        bench.transport.lose()
        bench.loop.settle()
        begun = list(bench.session.begun)
        if bench.session.waiting is not None:
            bench.session.finish()
        for taken in hogged:
            taken.release()
        bench.loop.settle()
        assert bench.session.begun == begun, "a request was begun after the end"
        assert bench.session.was_closed
        assert bench.lost_count == 1


# Opening and closing.


def test_a_peer_that_was_reset_before_the_accept_is_forgotten(bench: Bench) -> None:
    other = Bench(bench.pool, bench.receive)
    other.transport.peer = None
    other.connect()
    other.loop.settle()
    assert other.transport.aborted
    assert other.lost_count == 0


def test_one_too_many_is_closed_at_once(bench: Bench) -> None:
    other = Bench(bench.pool, bench.receive)
    other.refuses = True
    other.connect()
    other.loop.settle()
    assert other.transport.aborted
    assert not other.session.was_closed
    assert other.lost_count == 0
    assert other.connection.check_deadlines(other.loop.time() + 1000) is None


def test_nothing_is_carried_out_behind_a_closing_answer(bench: Bench) -> None:
    bench.session.close_after = True
    bench.transport.deliver(PING * 3)
    bench.loop.settle()
    assert bench.session.begun == [Begun(Code.PING, b"")]
    assert bench.transport.sent == OK
    assert bench.session.was_closed


def test_nothing_is_carried_out_behind_an_abandoned_request(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING * 3)
    assert bench.session.waiting is not None
    bench.session.waiting = None
    bench.connection.reply(UNKNOWN_OUTCOME)
    bench.loop.settle()
    assert len(bench.session.begun) == 1
    assert bench.transport.sent == b""
    assert bench.transport.aborted


def test_an_answer_to_a_closed_connection(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING * 2)
    bench.transport.lose()
    bench.loop.settle()
    bench.session.finish()
    bench.loop.settle()
    assert len(bench.session.begun) == 1
    assert bench.transport.sent == b""


def test_a_parting_frame_only_between_answers(bench: Bench) -> None:
    bench.connection.close(Disconnected.status)
    assert bench.transport.sent == PARTING
    bench.connection.close(InvalidCommand.status)
    assert bench.transport.sent == PARTING


def test_no_parting_frame_while_a_request_is_in_work(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING)
    bench.connection.close(Disconnected.status)
    assert bench.transport.sent == b""
    assert bench.transport.closing


def test_an_end_of_file_closes(bench: Bench) -> None:
    assert bench.connection.eof_received() is False


def test_of_the_frame_after_a_large_one_only_a_head_is_read_at_first() -> None:
    """What comes with the header of a large frame is copied: let that be little."""
    window = 2 * LARGE_HEAD_SIZE
    with new_memory(2 * MIB, window) as memory:
        bench = Bench(memory.pool, memory.receive).connect()
        bench.session.is_authenticated = True
        room = bench.connection.get_buffer
        large = encode_request(Code.SEND_MESSAGES, bytes(3 * window))
        assert len(room(-1)) == window
        for _ in range(2):
            bench.deliver(large)
            assert len(room(-1)) == LARGE_HEAD_SIZE
        # Frames of any size are still read right, and a small one ends the suspicion.
        bench.deliver(large + PING + large)
        bench.deliver(PING)
        assert len(room(-1)) == window
        assert bench.transport.sent == OK * 6
        bench.transport.lose()
        bench.loop.settle()


# Lengths.


@pytest.mark.parametrize("authenticated", [False, True])
def test_the_largest_frame_and_one_byte_more(bench: Bench, authenticated: bool) -> None:
    bench.session.is_authenticated = authenticated
    bounds = {
        Code.PING: LIMITS.control_frame_size_max + 8,  # which counts the payload only
        Code.SEND_MESSAGES: LIMITS.frame_size_max,
    }
    refused = REFUSED
    if not authenticated:
        bounds = dict.fromkeys(bounds, LIMITS.frame_size_max_before_login)
        refused = encode_response(Unauthenticated.status)
    for code, bound in bounds.items():
        bench.transport.sent = b""
        bench.deliver(encode_request(code, bytes(bound - 8)) + PING)
        assert bench.transport.sent == OK * 2
        if bound < LIMITS.frame_size_max:
            bench.deliver(encode_request(code, bytes(bound - 7)) + PING)
            assert bench.transport.sent == OK * 2 + refused + OK
    assert not bench.transport.closing


@pytest.mark.parametrize("length", [LIMITS.frame_size_max - 3, 2**31 - 1, 2**31, 2**32 - 1])
@pytest.mark.parametrize("code", [Code.PING, Code.SEND_MESSAGES, 12345])
def test_too_much_to_throw_away(bench: Bench, length: int, code: int) -> None:
    in_use = bench.pool.in_use_bytes
    bench.transport.deliver(PING + struct.pack("<II", length, code) + PING)
    assert bench.pool.in_use_bytes == in_use
    assert bench.transport.sent == OK + REFUSED
    assert bench.transport.wrote_eof
    # Not closed while bytes may be on their way: a reset would take the answer along.
    assert not bench.transport.closing
    bench.connection.close(Disconnected.status)
    bench.loop.settle()
    assert bench.transport.sent == OK + REFUSED
    assert bench.lost_count == 1
    assert len(bench.session.begun) == 1


def test_of_too_much_only_so_much_is_thrown_away(bench: Bench) -> None:
    bench.transport.deliver(struct.pack("<II", 2**32 - 1, Code.PING))
    bench.deliver(bytes(LIMITS.frame_size_max - 9))
    assert not bench.transport.closing
    bench.deliver(PING)
    assert bench.transport.aborted
    assert bench.transport.sent == REFUSED
    assert bench.session.begun == []


def test_of_too_much_nothing_more_is_waited_for_than_for_a_frame(bench: Bench) -> None:
    bench.transport.deliver(struct.pack("<II", 2**32 - 1, Code.PING))
    assert bench.overdue_after(LIMITS.frame_timeout_s + 0.5) == "did not finish a frame"


def test_a_drained_frame_takes_no_memory(bench: Bench) -> None:
    bench.session.is_authenticated = False
    in_use = bench.pool.in_use_bytes
    frame = encode_request(Code.SEND_MESSAGES, bytes(LIMITS.frame_size_max - 8))
    for start in range(0, len(frame), 1000):
        bench.deliver(frame[start : start + 1000])
        # As soon as the header is there, and once.
        assert bench.transport.sent == encode_response(Unauthenticated.status)
        assert bench.pool.in_use_bytes == in_use
    assert bench.session.begun == []


# Turns and pauses.


def test_a_flood_of_requests_leaves_the_others_their_turn(bench: Bench) -> None:
    count = WINDOW // len(PING)
    assert count > REQUESTS_PER_TURN_MAX
    bench.transport.deliver(PING * count)
    turns = 0
    while len(bench.session.begun) < count:
        turns += 1
        assert len(bench.session.begun) == turns * REQUESTS_PER_TURN_MAX
        assert not bench.transport.reading
        bench.loop.turn()
    bench.loop.settle()
    assert bench.transport.reading


def test_a_full_window_is_one_turn(bench: Bench) -> None:
    frame = encode_request(Code.PING, bytes(WINDOW // 2 - 8))
    rest = bench.transport.deliver(frame * 6)
    assert len(bench.session.begun) == 2
    assert len(rest) == 4 * len(frame)
    bench.loop.turn()
    assert bench.transport.reading


def test_no_request_is_taken_while_the_peer_does_not_read(bench: Bench) -> None:
    bench.transport.peer_reads = False
    bench.session.answer = lambda code: Value(code, bytes(HIGH_WATER // 2 - 8))
    rest = bench.transport.deliver(PING * 20)
    bench.loop.settle()
    assert len(bench.session.begun) == 3, "just above the high water mark"
    assert rest == b""
    assert not bench.transport.reading
    assert bench.overdue_after(LIMITS.write_timeout_s - 1) is None
    bench.transport.take(2 * HIGH_WATER)
    bench.loop.settle()
    assert len(bench.session.begun) == 6
    assert bench.overdue_after(LIMITS.write_timeout_s) is None


def test_a_client_that_shuts_its_end_still_gets_its_answers(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING + PING)
    assert bench.connection.eof_received(), "stay open, there is something to answer"
    bench.session.finish()
    bench.loop.settle()
    assert not bench.transport.closing
    bench.session.finish()
    bench.loop.settle()
    assert bench.transport.sent == OK + OK
    assert bench.transport.closing


def test_a_client_that_shuts_its_end_idle_is_closed(bench: Bench) -> None:
    assert not bench.connection.eof_received()


def test_before_login_no_more_waits_than_a_login_needs(bench: Bench) -> None:
    bench.session.is_authenticated = False
    bench.session.later = lambda: True
    bench.transport.deliver(PING + bytes(LIMITS.frame_size_max_before_login))
    assert not bench.transport.aborted
    bench.transport.deliver(b"")
    bench.session.finish()


def test_before_login_more_than_that_ends_the_connection(bench: Bench) -> None:
    bench.session.is_authenticated = False
    bench.session.later = lambda: True
    bench.transport.deliver(PING + bytes(LIMITS.frame_size_max_before_login + 1))
    assert bench.transport.aborted
    bench.session.finish()


def test_a_large_answer_leaves_a_piece_each_turn(bench: Bench) -> None:
    body = bytes(range(256)) * (5 * PIECE_SIZE // 512)
    bench.session.answer = lambda code: Value(code, body) if code == Code.GET_ME else SUCCESS
    bench.transport.deliver(encode_request(Code.GET_ME) + PING)
    sizes = [len(bench.transport.sent)]
    while bench.loop.turn():
        sizes.append(len(bench.transport.sent))
    assert sizes[0] == PIECE_SIZE
    assert all(later - sooner <= PIECE_SIZE + len(OK) for sooner, later in pairwise(sizes))
    # The next request was not begun before the answer was out.
    assert bench.transport.sent == encode_response(0, body) + OK
    assert [begun.code for begun in bench.session.begun] == [Code.GET_ME, Code.PING]


def test_a_large_answer_waits_for_a_peer_that_does_not_read(bench: Bench) -> None:
    body = bytes(8 * PIECE_SIZE)
    bench.session.answer = lambda code: Value(code, body)
    bench.transport.peer_reads = False
    bench.transport.deliver(PING)
    bench.loop.settle()
    assert len(bench.transport.unsent) <= 3 * PIECE_SIZE, "no more than the limit and a piece"
    assert bench.overdue_after(LIMITS.write_timeout_s - 1) is None
    while bench.transport.unsent:
        bench.transport.take(PIECE_SIZE)
        bench.loop.settle()
    assert bench.transport.sent == encode_response(0, body)


@pytest.mark.parametrize("size", [10, LIMITS.control_frame_size_max - 8])
def test_a_request_that_waits_keeps_no_memory_unless_it_is_a_batch(bench: Bench, size: int) -> None:
    """Else as many of them as there are receive blocks would stop the shard."""
    bench.session.later = lambda: True
    in_use = bench.pool.in_use_bytes
    blocks = ARENA_SIZE // BLOCK
    others = []
    for number in range(2 * blocks):
        other = Bench(bench.pool, bench.receive).connect()
        other.session.later = lambda: True
        others.append(other)
        other.deliver(encode_request(Code.GET_ME, bytes(size)))
        # The rest of the block goes by, so that the next one lands in another.
        bench.deliver(encode_request(Code.PING, bytes(WINDOW - 100)))
        bench.session.finish()
        bench.loop.settle()
        assert not bench.receive.low, number
    assert bench.pool.in_use_bytes <= in_use + BLOCK
    for other in others:
        other.session.finish()
        assert other.transport.sent == OK
        other.transport.lose()
        other.loop.settle()


def test_a_large_answer_ends_once_whenever_its_peer_reads_again(bench: Bench) -> None:
    """Paused and resumed between two turns: the piece of the next turn is on its way already."""
    answers = [bytes([number]) * (6 * PIECE_SIZE) for number in range(2)]
    bodies = iter(answers)
    bench.session.answer = lambda code: Value(code, next(bodies))
    bench.transport.peer_reads = False
    bench.transport.deliver(PING + PING)
    for _ in range(STEPS_MAX):
        more = bench.loop.turn()
        if bench.connection.is_write_paused or not more:
            bench.transport.take(len(bench.transport.unsent))
        if not (more or bench.transport.unsent):
            break
    assert bench.transport.sent == b"".join(encode_response(0, body) for body in answers)
    assert len(bench.session.begun) == len(answers)


def test_a_large_answer_keeps_no_receive_block(bench: Bench) -> None:
    """Else a thousand clients that read slowly would keep a thousand of them."""
    bench.session.answer = lambda code: Value(code, bytes(8 * PIECE_SIZE))
    bench.transport.peer_reads = False
    in_use = bench.pool.in_use_bytes
    request = encode_request(Code.GET_ME, bytes(LIMITS.control_frame_size_max - 8))
    bench.deliver(request)
    assert bench.transport.unsent
    assert bench.pool.in_use_bytes == in_use
    bench.transport.lose()
    bench.loop.settle()


def test_a_peer_that_leaves_in_the_middle_of_a_large_answer(bench: Bench) -> None:
    bench.session.answer = lambda code: Value(code, bytes(8 * PIECE_SIZE))
    bench.transport.peer_reads = False
    in_use = bench.pool.in_use_bytes
    bench.transport.deliver(PING)
    bench.loop.turn()
    bench.transport.lose()
    bench.loop.settle()
    assert bench.session.was_closed
    assert bench.pool.in_use_bytes == in_use


def test_a_frame_waits_until_the_pool_has_room(bench: Bench) -> None:
    hogged = []
    while (taken := bench.pool.take(16 * KIB)) is not None:
        hogged.append(taken)
    frame = encode_request(Code.SEND_MESSAGES, bytes(20 * KIB))
    rest = bench.transport.deliver(frame)
    bench.loop.settle()
    assert rest, "it is not read further than one window"
    assert not bench.transport.reading
    # It is not the peer who is slow.
    assert bench.overdue_after(LIMITS.frame_timeout_s * 10) is None
    for taken in hogged:
        taken.release()
    bench.deliver(rest)
    assert [begun.payload for begun in bench.session.begun] == [bytes(20 * KIB)]
    assert bench.transport.sent == OK


def test_a_batch_that_cannot_be_appended_is_not_kept(bench: Bench) -> None:
    bench.session.refused_status = InvalidCommand.status
    payload = bytes(range(256)) * 80
    in_use = bench.pool.in_use_bytes
    frame = encode_request(Code.SEND_MESSAGES, payload)
    rest = bench.transport.deliver(frame + PING)
    assert rest
    assert bench.pool.in_use_bytes == in_use
    assert bench.transport.sent == REFUSED
    bench.deliver(rest)
    assert bench.session.heads == [payload[:HEAD_SIZE_MAX]]
    assert bench.transport.sent == REFUSED + OK
    assert [begun.code for begun in bench.session.begun] == [Code.PING]


def test_the_beginning_of_a_batch_is_waited_for_before_memory_is_taken(bench: Bench) -> None:
    payload = bytes(range(256)) * 80
    frame = encode_request(Code.SEND_MESSAGES, payload)
    in_use = bench.pool.in_use_bytes
    for byte in frame[: SEND_HEAD_SIZE - 1]:
        bench.transport.deliver(bytes((byte,)))
        assert bench.pool.in_use_bytes == in_use
    assert bench.session.heads == []
    bench.transport.deliver(frame[SEND_HEAD_SIZE - 1 : SEND_HEAD_SIZE])
    assert bench.session.heads == [payload[:HEAD_SIZE_MAX]]
    assert bench.pool.shares.held("user 1") == 32 * KIB
    bench.deliver(frame[SEND_HEAD_SIZE:])
    assert [begun.payload for begun in bench.session.begun] == [payload]
    assert bench.pool.shares.held("user 1") == 0


def test_a_user_that_holds_most_waits_while_others_send() -> None:
    """All connections of the greedy one have begun a frame; the other one's goes through."""
    with new_memory(BLOCK_SIZE + 512 * KIB) as memory:
        frame = encode_request(Code.SEND_MESSAGES, bytes(30 * KIB))
        greedy = [Bench(memory.pool, memory.receive).connect() for _ in range(64)]
        for bench in greedy:
            bench.transport.deliver(frame[: 8 * KIB])
        waiting = [bench for bench in greedy if not bench.transport.reading]
        assert waiting
        other = Bench(memory.pool, memory.receive)
        other.session.taker = "user 2"
        other.connect().deliver(frame)
        assert other.transport.sent == OK
        for bench in greedy:
            if bench.transport.reading:
                bench.deliver(frame[8 * KIB :])
        for bench in waiting:
            bench.loop.settle()
        assert any(bench.transport.reading for bench in waiting), "the room goes to the next"
        for bench in greedy:
            bench.transport.lose()
            bench.loop.settle()
        assert memory.pool.shares.taken == 0


def test_room_in_pieces_does_not_make_the_loop_spin() -> None:
    """There is budget for the frame, but no gap of its size: wait for the next release."""
    with new_memory(ARENA_SIZE) as memory:
        limits = replace(LIMITS, frame_size_max=2 * MIB)
        bench = Bench(memory.pool, memory.receive, limits).connect()
        hogged = []
        while (taken := memory.pool.take(256 * KIB)) is not None:
            hogged.append(taken)
        bench.transport.deliver(encode_request(Code.SEND_MESSAGES, bytes(MIB))[:1000])
        for taken in hogged[::2]:
            taken.release()
        bench.loop.settle()
        assert not bench.transport.reading
        for taken in hogged[1::2]:
            taken.release()
        bench.loop.settle()
        assert bench.transport.reading
        bench.transport.lose()
        bench.loop.settle()


# Deadlines: at the bound nothing, behind it the end.


def test_a_peer_must_log_in(bench: Bench) -> None:
    bench.session.is_authenticated = False
    assert bench.overdue_after(LIMITS.login_timeout_s) is None
    bench.deliver(PING)
    assert bench.overdue_after(0.5) == "did not log in"
    assert bench.transport.aborted


def test_a_login_in_work_is_waited_for(bench: Bench) -> None:
    bench.session.is_authenticated = False
    bench.session.later = lambda: True
    bench.deliver(PING)
    assert bench.overdue_after(LIMITS.login_timeout_s * 2) is None


def test_after_a_logout_the_time_begins_again(bench: Bench) -> None:
    assert bench.overdue_after(LIMITS.login_timeout_s * 5) is None
    bench.session.is_authenticated = False
    assert bench.overdue_after(LIMITS.login_timeout_s) is None
    assert bench.overdue_after(0.5) == "did not log in"


@pytest.mark.parametrize("begun", [1, 7, 8, 20])
def test_a_frame_must_be_finished(bench: Bench, begun: int) -> None:
    frame = encode_request(Code.PING, bytes(100))
    bench.deliver(frame[:begun])
    assert bench.overdue_after(LIMITS.frame_timeout_s) is None
    bench.deliver(frame[begun : begun + 5])
    assert bench.overdue_after(0.5) == "did not finish a frame"
    assert bench.transport.aborted


def test_a_drained_frame_must_be_finished_too(bench: Bench) -> None:
    frame = encode_request(Code.PING, bytes(LIMITS.control_frame_size_max + 1))
    bench.deliver(frame[:-1])
    assert bench.overdue_after(LIMITS.frame_timeout_s + 0.5) == "did not finish a frame"


def test_each_frame_has_a_time_of_its_own(bench: Bench) -> None:
    """Every delivery ends inside a header, so there is always one that has begun."""
    bench.deliver(PING[:5])
    for _ in range(5):
        assert bench.overdue_after(LIMITS.frame_timeout_s * 0.9) is None
        bench.deliver(PING[5:] + PING + PING[:5])
    bench.deliver(PING[5:])
    assert bench.overdue_after(LIMITS.frame_timeout_s * 5) is None


def test_a_request_in_work_is_no_unfinished_frame(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.deliver(PING[:5])
    bench.transport.deliver(PING[5:] + PING[:3])
    assert bench.session.waiting is not None
    assert bench.overdue_after(LIMITS.frame_timeout_s * 2) is None


def test_a_peer_may_be_slow_down_to_a_rate(bench: Bench) -> None:
    """A byte now and then is not enough; the least rate is, window after window."""
    window = LIMITS.write_timeout_s + 1
    enough = round(LIMITS.read_rate_min * window)
    bench.transport.peer_reads = False
    bench.session.answer = lambda code: Value(code, bytes(4 * HIGH_WATER - 8))
    bench.transport.deliver(PING)
    for _ in range(5):
        assert bench.overdue_after(window / 2) is None
        bench.transport.take(enough)
        assert bench.overdue_after(window / 2) is None
    bench.transport.take(enough - 1)
    assert bench.overdue_after(window) == (
        f"took {enough - 1} bytes of its answers in {window:.0f} s, "
        f"less than {LIMITS.read_rate_min} a second"
    )
    assert bench.transport.aborted


def test_a_last_answer_that_is_not_read(bench: Bench) -> None:
    """Below the high water mark, so that writing is never paused."""
    bench.transport.peer_reads = False
    bench.session.close_after = True
    bench.transport.deliver(PING)
    bench.loop.settle()
    assert bench.transport.closing
    assert bench.lost_count == 0
    assert bench.overdue_after(0) is None
    assert bench.overdue_after(LIMITS.write_timeout_s) is None
    assert bench.overdue_after(0.5) == "does not read its last answers"
    bench.loop.settle()
    assert bench.lost_count == 1


def test_what_is_in_work_is_known_until_it_ends(bench: Bench) -> None:
    words = bench.in_work.words
    bench.session.later = lambda: True
    bench.deliver(encode_request(Code.POLL_MESSAGES, b"held"))
    assert words[REQUEST] != 0
    bench.session.finish()
    assert words[REQUEST] == 0
    bench.session.later = lambda: False
    bench.deliver(encode_request(Code.PING))
    assert words[REQUEST] == 0


def test_what_is_in_work_says_who_it_is_for(bench: Bench) -> None:
    bench.session.answer = lambda code: Value(code, b"")
    for user_id in (0, 5, None):
        bench.session.later = lambda: False
        bench.session.user_id = user_id
        bench.deliver(encode_request(Code.LOGIN_USER))
        bench.session.later = lambda: True
        bench.deliver(encode_request(Code.POLL_MESSAGES, b"held"))
        assert bench.in_work.words[REQUEST] >> 40 == user_bits(user_id) >> 40
        bench.session.finish()


# The first bytes of a connection.


def test_zeros_of_a_session_that_has_moved_here_are_no_newer_client(bench: Bench) -> None:
    bench.deliver(bytes(8))
    assert bench.transport.sent == REFUSED
    assert bench.evicted_count == 0


def test_half_a_header_of_a_newer_client_is_not_waited_for_without_an_end(bench: Bench) -> None:
    bench.session.is_authenticated = False
    bench.deliver(bytes(50))
    assert (bench.transport.sent, bench.evicted_count) == (b"", 0)
    assert bench.overdue_after(3600.0) is not None
    assert bench.transport.closing
