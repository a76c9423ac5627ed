"""Streams become requests: whole, refused or given up, however their bytes come."""

import struct
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.consensus.operations import QUERY
from borzoi.protocol.framing import encode_request
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.buffer import Buffer
from borzoi.shards.quic.streams import SMALL_SIZE_MAX, RequestStreams

WAITING_MAX = 10_000
NOW = 5.0
CONSENSUS_HEADER = bytearray(256)
struct.pack_into("<I8xB", CONSENSUS_HEADER, 48, 256, 5)
CONSENSUS_HEADER[176] = QUERY
CONSENSUS_HEADER[196] = Code.PING


class Asked(NamedTuple):
    code: int
    total: int


class Judge:
    """Admits everything, or nothing; gives memory, or none."""

    taker = "somewhere"

    def __init__(self) -> None:
        self.admitted = True
        self.memory_max = 1 << 30
        self.asked: list[Asked] = []
        self.taken: list[Buffer] = []
        self.released = 0

    def admits(self, code: int, total: int, header_size: int, head: memoryview) -> bool:
        assert len(head) >= header_size
        self.asked.append(Asked(code, total))
        return self.admitted

    def take_memory(self, length: int, taker: str) -> Buffer | None:
        assert taker == self.taker
        if length > self.memory_max:
            return None
        buffer = Buffer(self, None, 0, length, memoryview(bytearray(length)), 0)
        self.taken.append(buffer)
        return buffer

    def take_back(self, _buffer: Buffer) -> None:
        self.released += 1


def new(waiting_max: int = WAITING_MAX) -> tuple[Judge, RequestStreams]:
    judge = Judge()
    return judge, RequestStreams(judge, judge.take_memory, waiting_max)


def request(size: int, code: int = Code.PING) -> bytes:
    """A request of `size` bytes in all."""
    return encode_request(code, b"p" * (size - 8))


def content(streams: RequestStreams) -> tuple[int, bytes, bool]:
    taken = streams.begin_next()
    whole = taken.small if taken.filled is None else bytes(taken.filled.view)
    if taken.filled is not None:
        taken.filled.release()
    return taken.stream_id, whole, taken.is_whole


SMALL = request(100)
LARGE = request(SMALL_SIZE_MAX + 5000, Code.SEND_MESSAGES)
CONSENSUS = bytes(CONSENSUS_HEADER)


def test_one_event_is_one_request() -> None:
    judge, streams = new()
    streams.take(0, SMALL, True, NOW)
    assert content(streams) == (0, SMALL, True)
    assert judge.asked == []
    assert streams.private_bytes == 0
    assert streams.oldest_since() is None


@given(
    sent=st.lists(
        st.sampled_from([SMALL, LARGE, CONSENSUS, request(8), request(9000)]), max_size=5
    ),
    pieces=st.lists(st.integers(1, 20_000), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
    ends=st.sampled_from(["with the last", "later", "never"]),
)
def test_requests_do_not_depend_on_how_streams_came(sent, pieces, order, ends) -> None:  # type: ignore[no-untyped-def] # strategies
    judge, streams = new(1 << 30)
    left = {4 * number: whole for number, whole in enumerate(sent)}
    step = 0
    while left:
        stream_id = order.choice(sorted(left))
        size = pieces[step % len(pieces)]
        step += 1
        piece, left[stream_id] = left[stream_id][:size], left[stream_id][size:]
        is_last = not left[stream_id]
        streams.take(stream_id, piece, is_last and ends == "with the last", NOW)
        if is_last:
            del left[stream_id]
            if ends == "later":
                streams.take(stream_id, b"", True, NOW)
    assert streams.useless == []
    found = sorted(content(streams) for _ in range(len(streams.ready)))
    assert found == [(4 * number, whole, True) for number, whole in enumerate(sent)]
    assert streams.private_bytes == 0
    assert judge.released == len(judge.taken)


def test_a_large_one_lies_in_a_buffer_of_its_length() -> None:
    judge, streams = new()
    streams.take(0, LARGE[:2000], False, NOW)
    assert judge.asked == [Asked(Code.SEND_MESSAGES, len(LARGE))]
    assert [one.length for one in judge.taken] == [len(LARGE)]
    assert streams.private_bytes == 0
    streams.take(0, LARGE[2000:] + b"behind", True, NOW)
    assert content(streams) == (0, LARGE, True)


def test_a_batch_is_asked_about_when_its_place_is_there() -> None:
    judge, streams = new()
    streams.take(0, LARGE[: HEAD_SIZE_MAX + 7], False, NOW)
    assert judge.asked == []
    streams.take(0, LARGE[HEAD_SIZE_MAX + 7 : HEAD_SIZE_MAX + 8], False, NOW)
    assert len(judge.asked) == 1


def test_what_is_refused_keeps_its_first_bytes_alone() -> None:
    judge, streams = new()
    judge.admitted = False
    streams.take(0, LARGE[:2000], False, NOW)
    assert judge.taken == []
    assert content(streams) == (0, LARGE[:2000], False)
    for at in range(2000, len(LARGE), 3000):
        streams.take(0, LARGE[at : at + 3000], False, NOW)
    # All of it was drained; what lies behind it is not.
    assert streams.useless == []
    assert streams.private_bytes == 0
    streams.take(0, b"x", False, NOW)
    assert streams.useless == [0]
    streams.take(0, LARGE, False, NOW)
    assert streams.useless == [0]
    assert not streams.ready


def test_a_framing_that_refuses_answers_by_what_came() -> None:
    _, streams = new()
    streams.take(0, struct.pack("<II", 2, 1), True, NOW)
    assert content(streams) == (0, struct.pack("<II", 2, 1), False)


def test_a_stream_that_ends_early_leaves_nothing() -> None:
    judge, streams = new()
    for stream_id, piece in ((0, b""), (4, b"\1"), (8, SMALL[:50]), (12, LARGE[:20_000])):
        streams.take(stream_id, piece, True, NOW)
        assert streams.useless == [stream_id]
        streams.useless.clear()
    assert not streams.ready
    assert streams.private_bytes == 0
    assert judge.released == len(judge.taken) == 1
    assert streams.oldest_since() is None


def test_a_stream_that_is_taken_back_leaves_nothing() -> None:
    judge, streams = new()
    streams.take(0, SMALL[:50], False, NOW)
    streams.take(4, LARGE[:20_000], False, NOW + 1)
    assert streams.oldest_since() == NOW
    streams.reset(0)
    assert streams.oldest_since() == NOW + 1
    streams.reset(4)
    assert streams.useless == [0, 4]
    assert streams.private_bytes == 0
    assert judge.released == 1
    # A whole one is carried out all the same.
    streams.take(8, SMALL, False, NOW)
    streams.reset(8)
    assert content(streams) == (8, SMALL, True)


def test_a_second_request_on_a_stream_is_not_read() -> None:
    _, streams = new()
    streams.take(0, SMALL, False, NOW)
    streams.take(0, SMALL, False, NOW)
    assert content(streams) == (0, SMALL, True)
    assert not streams.ready
    assert streams.useless == [0]


def test_private_bytes_are_bounded() -> None:
    _, streams = new()
    number = 0
    while not streams.is_full:
        streams.take(4 * number, request(1000), True, NOW)
        number += 1
    assert WAITING_MAX < streams.private_bytes <= WAITING_MAX + 1000
    streams.begin_next()
    assert not streams.is_full


def test_streams_that_are_all_begun_go_on() -> None:
    """None of them is whole, together they are more than may lie here: each can still be ended."""
    judge, streams = new()
    size = WAITING_MAX // 5
    for stream_id in range(0, 80, 4):
        streams.take(stream_id, request(size)[: size - 100], False, NOW)
        assert not streams.is_full
        assert streams.private_bytes <= WAITING_MAX
    assert judge.taken
    for stream_id in range(0, 80, 4):
        streams.take(stream_id, request(size)[size - 100 :], True, NOW)
    assert [content(streams) for _ in streams.ready.copy()] == [
        (stream_id, request(size), True) for stream_id in range(0, 80, 4)
    ]
    assert (judge.released, streams.private_bytes) == (len(judge.taken), 0)


def test_a_stream_that_could_not_come_is_not_late() -> None:
    _, streams = new()
    streams.take(0, SMALL[:10], False, NOW)
    streams.postpone(NOW + 100)
    assert streams.oldest_since() == NOW + 100


def test_without_memory_a_stream_waits_and_nothing_else_comes() -> None:
    judge, streams = new()
    judge.memory_max = 0
    streams.take(0, LARGE[:5000], False, NOW)
    assert streams.is_full
    assert streams.wanted == len(LARGE)
    streams.go_on()
    assert streams.is_full
    judge.memory_max = 1 << 30
    streams.go_on()
    assert not streams.is_full
    streams.take(0, LARGE[5000:], True, NOW)
    assert content(streams) == (0, LARGE, True)


def test_the_end_of_a_waiting_stream_is_not_forgotten() -> None:
    judge, streams = new()
    judge.memory_max = 0
    streams.take(0, LARGE, True, NOW)
    judge.memory_max = 1 << 30
    streams.go_on()
    assert content(streams) == (0, LARGE, True)
    judge.memory_max = 0
    streams.take(8, LARGE[:5000], True, NOW)
    judge.memory_max = 1 << 30
    streams.go_on()
    assert streams.useless == [8]
    assert judge.released == len(judge.taken)


def test_a_client_that_is_gone_leaves_nothing() -> None:
    judge, streams = new()
    streams.take(0, LARGE, True, NOW)
    streams.take(4, LARGE[:20_000], False, NOW)
    streams.take(8, SMALL, True, NOW)
    judge.memory_max = 0
    streams.take(12, LARGE[:20_000], False, NOW)
    streams.end()
    assert judge.released == len(judge.taken) == 2
    assert (streams.private_bytes, streams.wanted, len(streams.ready)) == (0, 0, 0)
