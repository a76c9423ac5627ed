"""A WebSocket between a transport and a connection, turned by hand: nothing is lost or kept."""

import asyncio
import struct
from collections.abc import Iterator
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.framing import encode_request, encode_response
from borzoi.protocol.http_head import HEAD_SIZE_MAX
from borzoi.protocol.websocket import FROM_CLIENT, FROM_EITHER, LENGTH_MAX
from borzoi.router.pool import KIB, MIB
from borzoi.router.receive import BLOCK_SIZE
from borzoi.shards.doors.large_answer import PIECE_SIZE
from borzoi.shards.doors.tcp import Connection
from borzoi.shards.doors.websocket import (
    PARTING_TIME_S,
    WebSocket,
    WebSocketRules,
    websocket_rules,
)
from borzoi.shards.serving.reply import Value
from borzoi.shards.settings.schema import Cors, Websocket
from tests.shards.doors.arrivals import SENT, STEPS, Arrival, Sent
from tests.shards.doors.hand_bench import (
    LIMITS,
    PARTING,
    PING,
    STEPS_MAX,
    WINDOW,
    Bench,
    Memory,
    new_memory,
)
from tests.shards.doors.hand_transport import HIGH_WATER
from tests.websocket_frames import BINARY, CLOSE, PONG, Frame, frame, request
from tests.websocket_frames import PING as PING_FRAME

OK = encode_response(0)
TEXT = 1


class WebSocketBench(Bench):
    """A connection with a WebSocket below it."""

    def __init__(self, memory: Memory, rules: WebSocketRules | None = None) -> None:
        super().__init__(memory.pool, memory.receive)
        self.websocket = WebSocket(
            self.loop.as_loop, self.connection, rules or WebSocketRules(FROM_CLIENT)
        )
        # To the transport it is what a connection is.
        self.transport.connection = cast(Connection, self.websocket)

    def connect(self) -> "WebSocketBench":
        self.websocket.connection_made(cast(asyncio.BaseTransport, self.transport))
        return self

    def upgrade(self) -> "WebSocketBench":
        self.deliver(request())
        assert self.transport.sent.startswith(b"HTTP/1.1 101 ")
        self.transport.sent = b""
        return self

    def frames(self) -> list[Frame]:
        """Everything that was sent, and what the peer has not read of it."""
        return frames_in(self.transport.sent + self.transport.unsent)

    def stream(self) -> bytes:
        """The bytes in the binary messages that were sent."""
        return b"".join(one.payload for one in self.frames() if one.opcode == BINARY)

    def end(self) -> None:
        self.transport.lose()
        self.loop.settle()


def frames_in(wire: bytes) -> list[Frame]:
    found = []
    while wire:
        size, at = wire[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(wire[2:at], "big")
        found.append(Frame(wire[0] & 0x0F, wire[at : at + size]))
        wire = wire[at + size :]
    return found


@pytest.fixture
def bench() -> Iterator[WebSocketBench]:
    """An open one; it ends with the test."""
    with new_memory(2 * MIB) as memory:
        made = WebSocketBench(memory).connect().upgrade()
        yield made
        made.end()
        if made.session.waiting is not None:
            made.session.finish()


@pytest.mark.no_cover
@pytest.mark.slow
@settings(max_examples=150)
@given(
    sent=st.lists(SENT, min_size=1, max_size=8),
    messages=st.lists(st.integers(0, 40) | st.integers(1, 3 * WINDOW), min_size=1, max_size=6),
    between=st.lists(st.sampled_from([b"", frame(PONG), frame(TEXT, b"t" * 300)]), min_size=1),
    chunks=st.lists(st.integers(1, 9) | st.integers(1, 3 * WINDOW), min_size=1, max_size=8),
    later=st.lists(st.booleans(), min_size=1, max_size=5),
    steps=STEPS,
    peer_reads=st.booleans(),
)
def test_how_bytes_arrive_makes_no_difference(
    sent: list[Sent],
    messages: list[int],
    between: list[bytes],
    chunks: list[int],
    later: list[bool],
    steps: list[str],
    peer_reads: bool,
) -> None:
    """Requests are cut by messages, messages by chunks, and the session sees none of it."""
    stream = b"".join(one.data for one in sent)
    with new_memory(BLOCK_SIZE + 256 * KIB) as memory:
        bench = WebSocketBench(memory).connect().upgrade()
        transport, session = bench.transport, bench.session
        session.later = lambda: later[len(session.begun) % len(later)]
        session.answer = lambda code: Value(code, struct.pack("<I", code))
        transport.peer_reads = peer_reads
        arrival = Arrival(bench, in_messages(stream, messages, between), chunks)
        for number in range(STEPS_MAX):
            arrival.act(steps[number % len(steps)])
            if number > 4 * len(steps):
                arrival.hurry = 100
                for step in ("unhog", "answer", "turn", "peer reads", "deliver"):
                    arrival.act(step)
                if arrival.is_over:
                    break
        bench.loop.settle()

        assert arrival.at == len(arrival.data)
        assert session.begun == [one.begun for one in sent if one.begun is not None]
        assert bench.stream() == b"".join(one.answer for one in sent)
        assert transport.reading
        assert not transport.closing
        assert bench.connection.check_deadlines(bench.loop.time() + 1000) is None
        bench.end()


def in_messages(stream: bytes, sizes: list[int], between: list[bytes]) -> bytes:
    """The stream in binary messages of these sizes, with other frames between them."""
    wire, at, number = b"", 0, 0
    # A message may be empty, but not all of them.
    sizes = [*sizes, 50]
    while at < len(stream):
        size = sizes[number % len(sizes)]
        wire += frame(BINARY, stream[at : at + size]) + between[number % len(between)]
        at += size
        number += 1
    return wire


# The upgrade.


def test_the_request_cut_anywhere() -> None:
    wire = request() + frame(BINARY, PING)
    with new_memory(2 * MIB) as memory:
        for cut in range(1, len(wire)):
            bench = WebSocketBench(memory).connect()
            bench.deliver(wire[:cut])
            bench.deliver(wire[cut:])
            head, _, rest = bench.transport.sent.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 ")
            assert rest == frame(BINARY, OK, mask=None)
            bench.end()


def test_a_refused_request_is_answered_and_closed() -> None:
    with new_memory(2 * MIB) as memory:
        bench = WebSocketBench(memory).connect()
        bench.transport.deliver(b"x" * (HEAD_SIZE_MAX + 20_000))
        assert bench.transport.sent.startswith(b"HTTP/1.1 431 ")
        assert bench.transport.wrote_eof
        assert bench.session.begun == []
        # What comes is thrown away until the peer goes, or its time is over.
        assert bench.transport.deliver(b"x" * 100_000) == b""
        bench.loop.advance(PARTING_TIME_S)
        assert bench.transport.closing
        assert bench.session.was_closed


def test_an_upgrade_that_takes_too_long_ends_like_a_login() -> None:
    with new_memory(2 * MIB) as memory:
        bench = WebSocketBench(memory).connect()
        bench.session.is_authenticated = False
        bench.deliver(request()[:30])
        assert bench.overdue_after(LIMITS.login_timeout_s + 1) == "did not log in"
        bench.loop.settle()
        assert bench.transport.aborted


def test_one_that_is_not_admitted_is_gone_at_once() -> None:
    with new_memory(2 * MIB) as memory:
        bench = WebSocketBench(memory)
        bench.refuses = True
        bench.connect()
        assert bench.transport.aborted


# Control frames.


def test_a_ping_is_answered_even_while_a_request_is_in_work(bench: WebSocketBench) -> None:
    bench.session.later = lambda: True
    bench.deliver(frame(BINARY, PING) + frame(PING_FRAME, b"1"))
    assert bench.frames() == [Frame(PONG, b"1")]
    bench.session.finish()
    assert bench.stream() == OK


def test_pings_that_are_not_read_cost_one_pong(bench: WebSocketBench) -> None:
    bench.transport.peer_reads = False
    bench.session.answer = lambda code: Value(code, bytes(2 * HIGH_WATER))
    bench.deliver(frame(BINARY, PING))
    waiting = bench.transport.get_write_buffer_size()
    for number in range(1000):
        bench.transport.deliver(frame(PING_FRAME, b"%d" % number))
    assert bench.transport.get_write_buffer_size() == waiting
    bench.transport.take(4 * HIGH_WATER)
    bench.transport.take(4 * HIGH_WATER)
    assert bench.frames()[1:] == [Frame(PONG, b"999")]


def test_a_close_of_the_client_is_answered(bench: WebSocketBench) -> None:
    bench.deliver(frame(BINARY, PING) + frame(CLOSE, b"\x03\xe8") + frame(BINARY, PING))
    assert bench.frames() == [Frame(BINARY, OK), Frame(CLOSE, b"\x03\xe8")]
    assert bench.transport.closing
    assert len(bench.session.begun) == 1


def test_a_close_waits_for_the_answer(bench: WebSocketBench) -> None:
    bench.session.later = lambda: True
    bench.deliver(frame(BINARY, PING) + frame(CLOSE, b"\x0f\xa0"))
    assert bench.frames() == []
    bench.session.finish()
    bench.loop.settle()
    assert bench.frames() == [Frame(BINARY, OK), Frame(CLOSE, b"\x0f\xa0")]
    assert bench.transport.closing


def test_a_close_of_ours_says_so(bench: WebSocketBench) -> None:
    bench.connection.close(8)
    assert bench.frames() == [Frame(BINARY, PARTING), Frame(CLOSE, b"\x03\xe8")]
    assert bench.websocket.is_closing()
    # Nothing is said any more.
    bench.websocket.write(b"late")
    bench.websocket.writelines([b"late"])
    bench.connection.close(8)
    bench.transport.deliver(frame(BINARY, PING) + frame(CLOSE, b"\x03\xe8"))
    assert len(bench.frames()) == 2
    assert bench.session.begun == []
    bench.loop.advance(PARTING_TIME_S)
    assert bench.transport.closing


def test_an_error_ends_it_and_says_why(bench: WebSocketBench) -> None:
    bench.deliver(frame(BINARY, PING) + frame(BINARY, PING, mask=None) + frame(BINARY, PING))
    assert bench.frames() == [Frame(BINARY, OK), Frame(CLOSE, b"\x03\xea")]
    assert bench.transport.wrote_eof


def test_an_error_while_reading_is_paused(bench: WebSocketBench) -> None:
    """What the connection paused goes on: the end of the peer has to be seen."""
    bench.session.later = lambda: True
    bench.transport.deliver(frame(BINARY, PING * 3))
    assert not bench.transport.reading
    bench.connection.close(8)
    assert bench.transport.reading
    bench.session.finish()


def test_the_end_of_file_is_that_of_the_connection(bench: WebSocketBench) -> None:
    bench.session.later = lambda: True
    bench.deliver(frame(BINARY, PING))
    assert bench.websocket.eof_received()
    bench.session.finish()
    bench.loop.settle()
    assert bench.frames() == [Frame(BINARY, OK), Frame(CLOSE, b"\x03\xe8")]


# Answers.


@pytest.mark.parametrize("size", [0, 100, 125 - 8, 70_000, 3 * PIECE_SIZE])
def test_answers_of_every_size(bench: WebSocketBench, size: int) -> None:
    bench.session.answer = lambda code: Value(code, bytes(size))
    bench.deliver(frame(BINARY, PING))
    assert bench.stream() == encode_response(0, bytes(size))
    assert all(len(one.payload) <= 2 * PIECE_SIZE for one in bench.frames())


def test_a_flood_lets_others_have_their_turn(bench: WebSocketBench) -> None:
    one = frame(BINARY, encode_request(77, bytes(WINDOW // 2 - 16)))
    assert len(one) == WINDOW // 2
    wire = one * 20
    rest = bench.transport.deliver(wire)
    assert len(wire) - len(rest) == WINDOW
    bench.deliver(rest)
    assert len(bench.session.begun) == 20


def test_a_connection_that_is_more_than_its_socket_stays(bench: WebSocketBench) -> None:
    assert not bench.websocket.can_write_eof()
    bench.connection.can_move = False
    assert bench.connection.let_go() is None


# Settings.


@pytest.mark.parametrize(
    ("settings", "cors", "rules"),
    [
        (Websocket(), Cors(), WebSocketRules(FROM_CLIENT, LENGTH_MAX, LENGTH_MAX, None)),
        (
            Websocket(accept_unmasked_frames=True, max_frame_size=10, max_message_size=20),
            Cors(allowed_origins=("https://A.example",)),
            WebSocketRules(FROM_EITHER, 10, 20, frozenset({"https://a.example"})),
        ),
        (Websocket(), Cors(allowed_origins=()), WebSocketRules(origins=frozenset())),
        (Websocket(), Cors(enabled=False, allowed_origins=()), WebSocketRules(origins=None)),
    ],
)
def test_rules_as_configured(settings: Websocket, cors: Cors, rules: WebSocketRules) -> None:
    assert websocket_rules(settings, cors) == rules
