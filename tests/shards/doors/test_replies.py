"""Replies of every kind and size, as the peer reads them."""

import struct
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.edge_layouts import PIECE_SIZE_MAX
from borzoi.protocol.edges import CONSENSUS_FORM, OLD_FORM
from borzoi.protocol.errors import (
    CannotReadMessage,
)
from borzoi.protocol.framing import (
    OK,
    encode_request,
    encode_response,
)
from borzoi.protocol.message import Message, encode_messages
from borzoi.router.pool import MIB
from borzoi.shards.doors.large_answer import PIECE_SIZE, WHOLE_SIZE_MAX
from borzoi.shards.serving.reply import OK as SUCCESS
from borzoi.shards.serving.reply import Messages, Value
from tests.shards.doors.hand_bench import AS_IT_IS, LIMITS, PING, STEPS_MAX, Bench, new_memory


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


def consensus_answer(views: list[memoryview]) -> Messages:
    return Messages(0, 9, len(views), views, sum(map(len, views)))


def test_converted_messages_leave_as_they_are_made(bench: Bench) -> None:
    """All in one turn; the first of them are written before the last ones are converted."""
    views = [
        memoryview(encode_messages([Message(bytes(PIECE_SIZE_MAX), 7, b"", 1, offset, 2)]))
        for offset in range(4)
    ]
    bench.session.speak(replace(AS_IT_IS, shows=CONSENSUS_FORM))
    bench.session.answer = lambda _code: consensus_answer(views)
    sizes = []
    bench.transport.on_write = lambda data: sizes.append(len(data))
    bench.transport.deliver(encode_request(Code.POLL_MESSAGES))
    whole = CONSENSUS_FORM.whole(views, 0)
    head = struct.pack("<IIIQI", 0, 16 + len(whole), 0, 9, 4)
    assert bench.transport.sent == head + whole
    assert len(sizes) == len(views)
    assert max(sizes) < 2 * PIECE_SIZE_MAX


def test_messages_that_change_while_they_leave_end_the_connection(bench: Bench) -> None:
    """The length of the answer is said by then."""
    data = bytearray(encode_messages([Message(bytes(PIECE_SIZE_MAX), 7, b"", 1, 0, 2)]))
    views = [memoryview(data), memoryview(bytearray(data))]

    def damage(_data: bytes | memoryview) -> None:
        views[1][48:56] = b"\xff" * 8

    bench.transport.on_write = damage
    bench.session.speak(replace(AS_IT_IS, shows=CONSENSUS_FORM))
    bench.session.answer = lambda _code: consensus_answer(views)
    bench.transport.deliver(encode_request(Code.POLL_MESSAGES))
    assert bench.transport.aborted
    bench.loop.settle()
    assert bench.connection.is_idle


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
