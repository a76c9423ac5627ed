"""Frames as TCP may deliver them: cut anywhere, glued together, or never finished."""

import struct
from collections.abc import Iterator
from typing import Final

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import GetClients, GetStreams
from borzoi.protocol.errors import InvalidCommand, StreamIdNotFound, Unauthenticated
from borzoi.protocol.framing import encode_request
from borzoi.protocol.responses.polled import decode_polled_messages
from tests.broker import BrokerProcess, wait_for
from tests.hostile.neighbour import good_neighbour
from tests.topics import make_topic
from tests.wire import PING, Answer, Wire, frame_of, poll_frame, send_frame

OK: Final = Answer(0, b"")
PIECES: Final = 1000


@pytest.fixture
def wire(shared_broker: BrokerProcess, request: pytest.FixtureRequest) -> Iterator[Wire]:
    """Logged in, with a topic of its own in a stream that is called like the test."""
    with Wire(shared_broker, login=False) as opened:
        opened.log_in()
        make_topic(opened, request.node.name, "t")
        yield opened


def test_byte_by_byte(wire: Wire, request: pytest.FixtureRequest) -> None:
    stream = request.node.name
    for frame in (PING, send_frame(stream, "t", [b"one", b"two"]), frame_of(GetStreams())):
        for byte in frame:
            wire.put(bytes([byte]))
        assert wire.answer().status == 0
    wire.put(poll_frame(stream, "t", 0, 10))
    polled = decode_polled_messages(memoryview(wire.answer().payload))
    assert [message.payload for message in polled.messages] == [b"one", b"two"]


def test_cut_at_each_byte_of_the_header(wire: Wire, request: pytest.FixtureRequest) -> None:
    frame = send_frame(request.node.name, "t", [b"x"])
    for cut in range(1, 12):
        wire.put(frame[:cut])
        wire.put(frame[cut:] + PING[:cut] + PING[cut:])
        assert wire.answers(2) == [OK, OK], cut


def test_glued_together_they_are_answered_in_order(
    wire: Wire, request: pytest.FixtureRequest
) -> None:
    """Requests with handlers, with tasks, with another shard, and with errors, in one write."""
    stream = request.node.name
    missing = send_frame("missing", "t", [b"x"])
    send = send_frame(stream, "t", [b"x"])
    short = struct.pack("<II", 3, Code.PING)
    unknown = encode_request(9999, b"what")
    expected = [0, 0, StreamIdNotFound.status, 0, InvalidCommand.status, InvalidCommand.status, 0]
    wire.put(b"".join((PING, send, missing, send, short, unknown, frame_of(GetStreams()))))
    answers = wire.answers(len(expected))
    assert [answer.status for answer in answers] == expected
    assert [bool(answer.payload) for answer in answers] == [False] * 6 + [True]
    # Far more than one turn or one receive window takes in.
    count = 3000
    wire.put((PING + send) * count + poll_frame(stream, "t", 2 * count + 2, 1))
    assert wire.answers(2 * count) == [OK] * (2 * count)
    polled = decode_polled_messages(memoryview(wire.answer().payload))
    assert (polled.current_offset, polled.messages) == (count + 1, ())


def test_a_large_send_in_a_thousand_pieces(wire: Wire, request: pytest.FixtureRequest) -> None:
    stream = request.node.name
    payload = bytes(range(256)) * 12_000  # 3 MB
    frame = send_frame(stream, "t", [payload, b"end"])
    size = len(frame) // PIECES + 1
    for start in range(0, len(frame), size):
        wire.put(frame[start : start + size])
    assert wire.answer() == OK
    wire.put(poll_frame(stream, "t", 0, 2))
    polled = decode_polled_messages(memoryview(wire.answer().payload))
    assert [message.payload for message in polled.messages] == [payload, b"end"]


def test_a_send_that_fails_early_is_read_to_its_end(shared_broker: BrokerProcess) -> None:
    """Before the login, far beyond what is taken in: the next frame is where it should be."""
    frame = send_frame("s", "t", [bytes(1_000_000)])
    with Wire(shared_broker, login=False) as wire:
        for _ in range(3):
            wire.put(frame + PING)
            assert wire.answers(2) == [Answer(Unauthenticated.status, b""), OK]
        size = len(frame) // PIECES + 1
        for start in range(0, len(frame), size):
            wire.put(frame[start : start + size])
        assert wire.answer() == Answer(Unauthenticated.status, b"")
        wire.log_in()
        wire.put(send_frame("missing", "t", [bytes(1_000_000)]) + PING)
        assert wire.answers(2) == [Answer(StreamIdNotFound.status, b""), OK]


@pytest.mark.slow
def test_the_end_may_come_at_any_byte(shared_broker: BrokerProcess) -> None:
    """By an end of file or by a reset; nothing that was cut is carried out."""
    broker = shared_broker
    with Wire(broker, login=False) as good:
        good.log_in()
        make_topic(good, "cut", "t")
        frame = send_frame("cut", "t", [bytes(100)])
        with good_neighbour(broker):
            for number, cut in enumerate([*range(1, len(frame), 7), *range(1, 10)]):
                wire = Wire(broker)
                wire.put(PING + frame[:cut])
                assert wire.answer() == OK
                if number % 2:
                    wire.reset()
                else:
                    wire.close()
            for _ in range(100):
                Wire(broker, login=False).reset()  # perhaps before it was even accepted
        wait_for(lambda: len(good.ask(GetClients())) == 1)
        good.put(poll_frame("cut", "t", 0, 10))
        assert decode_polled_messages(memoryview(good.answer().payload)).messages == ()
