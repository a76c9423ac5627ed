"""However bytes arrive, the same requests are begun."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import (
    OK,
    ClassicFraming,
    Frame,
    Refused,
    encode_request,
)
from borzoi.router.pool import KIB, MIB
from borzoi.router.receive import BLOCK_SIZE
from borzoi.shards.doors.intake import LARGE_HEAD_SIZE
from borzoi.shards.serving.reply import Value
from tests.shards.doors.arrivals import SENT, STEPS, Arrival, Sent
from tests.shards.doors.hand_bench import PING, REFUSED, STEPS_MAX, WINDOW, Begun, Bench, new_memory


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
