"""Memory of frames: who waits for it, and what gives it back."""

from dataclasses import replace
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    InvalidCommand,
)
from borzoi.protocol.framing import (
    OK,
    ClassicFraming,
    encode_request,
)
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.pool import KIB, MIB
from borzoi.router.receive import BLOCK_SIZE
from tests.shards.doors.hand_bench import (
    ARENA_SIZE,
    BLOCK,
    LIMITS,
    PING,
    REFUSED,
    WINDOW,
    Bench,
    new_memory,
)

SEND_HEAD_SIZE: Final = ClassicFraming.header_size + HEAD_SIZE_MAX


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
