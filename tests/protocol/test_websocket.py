"""The frames of a WebSocket: against a model, cut anywhere, hostile ones, both twins alike."""

import struct
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.protocol import plain_websocket
from borzoi.protocol.plain_websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FINAL,
    FROM_CLIENT,
    FROM_EITHER,
    FROM_SERVER,
    LENGTH_MAX,
    PING,
    PONG,
    PROTOCOL_ERROR,
    TEXT,
    TOO_BIG,
)
from borzoi.protocol.websocket import (
    answer_to_close,
    binary_head,
    close_frame,
    masked_binary_head,
    ping_frame,
    pong_frame,
)
from tests.protocol.fenced import Fence
from tests.websocket_frames import MASK, frame

compiled = pytest.importorskip("borzoi.protocol._websocket")

SIZE_MAX = 80 * 1024
PLAIN_FENCE, COMPILED_FENCE = Fence(SIZE_MAX), Fence(SIZE_MAX)


@pytest.fixture(scope="module", params=["plain", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    return plain_websocket if request.param == "plain" else compiled


class Taken(NamedTuple):
    payload: bytes
    ping: bytes | None
    closing: bytes | None
    failure: int
    is_between: bool


def take(unframer: Any, wire: bytes, sizes: list[int], fence: Fence = PLAIN_FENCE) -> Taken:
    """What came of the bytes, taken in pieces of these sizes, again and again."""
    payload = b""
    at = number = 0
    while at < len(wire):
        piece = wire[at : at + sizes[number % len(sizes)]]
        view = fence.at_the_end(piece)
        payload += bytes(view[: unframer.take(view, len(piece))])
        at += len(piece)
        number += 1
    return Taken(payload, unframer.ping, unframer.closing, unframer.failure, unframer.is_between)


def new(twin: Any, takes: int = FROM_CLIENT, size_max: int = LENGTH_MAX) -> Any:
    return twin.Unframer(takes, size_max, size_max)


# What is sound.

masks = st.binary(min_size=4, max_size=4)
payloads = st.binary(max_size=40) | st.sampled_from([bytes(125), bytes(126), b"x" * 300])
controls = st.tuples(st.sampled_from([PING, PONG]), st.binary(max_size=125))
messages = st.tuples(
    st.sampled_from([BINARY, BINARY, TEXT]), st.lists(payloads, min_size=1, max_size=4)
)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[bytes, bytes, bytes | None]:
    """Sound frames on the wire, the bytes in their binary messages, and what the last ping held."""
    wire, stream = b"", b""
    ping: bytes | None = None
    for opcode, fragments in draw(st.lists(messages, max_size=5)):
        for number, payload in enumerate(fragments):
            for control, carried in draw(st.lists(controls, max_size=1)):
                wire += frame(control, carried, mask=draw(masks))
                ping = carried if control == PING else ping
            is_last = number == len(fragments) - 1
            shown = opcode if number == 0 else CONTINUATION
            wire += frame(shown, payload, final=is_last, mask=draw(masks))
        stream += b"".join(fragments) if opcode == BINARY else b""
    return wire, stream, ping


@settings(max_examples=200)
@given(conversations(), st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_the_stream_does_not_depend_on_how_it_was_cut(
    conversation: tuple[bytes, bytes, bytes | None], sizes: list[int]
) -> None:
    wire, stream, ping = conversation
    for twin, fence in ((plain_websocket, PLAIN_FENCE), (compiled, COMPILED_FENCE)):
        for cut in ([1], sizes, [SIZE_MAX]):
            assert take(new(twin), wire, cut, fence) == Taken(stream, ping, None, 0, True)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_every_form_of_length(twin: ModuleType, size: int) -> None:
    payload = bytes(at * 7 % 251 for at in range(size))
    whole = frame(BINARY, payload) + frame(BINARY, b"next")
    assert take(new(twin), whole, [SIZE_MAX]).payload == payload + b"next"
    assert take(new(twin), whole, [4097]).payload == payload + b"next"


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 70_000])
def test_what_leaves_is_what_others_read(twin: ModuleType, size: int) -> None:
    payload = bytes(size)
    assert binary_head(size) + payload == frame(BINARY, payload, mask=None)
    under = masked_binary_head(size, MASK) + twin.masked(payload, MASK)
    assert under == frame(BINARY, payload)
    taken = take(new(twin, FROM_SERVER), binary_head(size) + payload, [SIZE_MAX])
    assert taken == Taken(payload, None, None, 0, True)


def test_every_cut_of_a_conversation(twin: ModuleType) -> None:
    wire = (
        frame(BINARY, b"one", final=False)
        + frame(PING, b"are you there")
        + frame(CONTINUATION, b"two" * 50)
        + frame(TEXT, b"not for us")
        + frame(BINARY, b"")
        + frame(CLOSE, b"\x03\xe8bye")
    )
    wanted = Taken(b"one" + b"two" * 50, b"are you there", b"\x03\xe8bye", 0, True)
    for cut in range(1, len(wire)):
        unframer = new(twin)
        first = take(unframer, wire[:cut], [cut])
        second = take(unframer, wire[cut:], [len(wire)])
        assert second._replace(payload=first.payload + second.payload) == wanted


def test_what_follows_a_close_is_not_looked_at(twin: ModuleType) -> None:
    wire = frame(BINARY, b"a") + frame(CLOSE) + frame(BINARY, b"b") + b"\xff" * 20
    assert take(new(twin), wire, [SIZE_MAX]) == Taken(b"a", None, b"", 0, True)


def test_of_many_pings_the_last_counts(twin: ModuleType) -> None:
    unframer = new(twin)
    assert take(unframer, frame(PING, b"1") + frame(PING, b"2"), [SIZE_MAX]).ping == b"2"
    unframer.ping = None
    assert take(unframer, frame(PONG, b"3"), [SIZE_MAX]).ping is None


# What is hostile.

HOSTILE = {
    "a reserved bit": bytes((FINAL | 0x40 | BINARY, 0x80)),
    "an unknown opcode": frame(3),
    "an unknown control opcode": frame(11),
    "an unmasked frame": frame(BINARY, b"a", mask=None),
    "an unmasked ping": frame(PING, b"a", mask=None),
    "a continuation of nothing": frame(CONTINUATION, b"a"),
    "a message within a message": frame(BINARY, b"", final=False) + frame(BINARY, b"b"),
    "a text within a message": frame(BINARY, b"", final=False) + frame(TEXT, b"b"),
    "a ping in fragments": frame(PING, b"a", final=False),
    "a long ping": frame(PING, bytes(126)),
    "a long close": frame(CLOSE, bytes(126)),
    "a length of 2^63": bytes((FINAL | BINARY, 0xFF)) + struct.pack(">Q", 1 << 63),
    "a length of 2^64 - 1": bytes((FINAL | BINARY, 0xFF)) + b"\xff" * 8,
    "125 bytes in the long form": bytes((FINAL | BINARY, 0xFE)) + struct.pack(">H", 125),
    "65535 bytes in the longest form": bytes((FINAL | BINARY, 0xFF)) + struct.pack(">Q", 65_535),
}


@pytest.mark.parametrize("wire", HOSTILE.values(), ids=HOSTILE)
def test_a_protocol_error_ends_it(twin: ModuleType, wire: bytes) -> None:
    sound = frame(BINARY, b"before")
    for sizes in ([1], [SIZE_MAX]):
        taken = take(new(twin), sound + wire + frame(BINARY, b"behind"), sizes)
        assert (taken.payload, taken.failure) == (b"before", PROTOCOL_ERROR)


def test_a_length_is_only_a_number(twin: ModuleType) -> None:
    head = bytes((FINAL | BINARY, 0xFF)) + struct.pack(">Q", LENGTH_MAX) + MASK
    taken = take(new(twin), head + twin.masked(b"the first bytes", MASK), [3])
    assert taken == Taken(b"the first bytes", None, None, 0, False)


@pytest.mark.parametrize(
    "wire",
    [
        frame(BINARY, bytes(101)),
        frame(BINARY, bytes(60), final=False) + frame(CONTINUATION, bytes(41)),
        frame(TEXT, bytes(101)),
    ],
)
def test_a_bound_is_kept(twin: ModuleType, wire: bytes) -> None:
    assert take(new(twin, size_max=100), wire, [SIZE_MAX]).failure == TOO_BIG
    assert take(new(twin, size_max=101), wire, [SIZE_MAX]).failure == 0
    ones = frame(BINARY, bytes(100)) * 3
    assert take(new(twin, size_max=100), ones, [SIZE_MAX]).failure == 0


def test_who_has_to_mask(twin: ModuleType) -> None:
    masked, plain = frame(BINARY, b"m"), frame(BINARY, b"p", mask=None)
    assert take(new(twin, FROM_EITHER), masked + plain, [1]).payload == b"mp"
    assert take(new(twin, FROM_SERVER), plain + masked, [1]).failure == PROTOCOL_ERROR


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.builds(frame, st.integers(0, 15), st.binary(max_size=130), final=st.booleans()),
        ),
        max_size=6,
    ).map(b"".join),
    st.lists(st.integers(1, 60), min_size=1, max_size=3),
    st.sampled_from([20, LENGTH_MAX]),
)
def test_the_twins_agree_on_anything(wire: bytes, sizes: list[int], size_max: int) -> None:
    expected = take(new(plain_websocket, size_max=size_max), wire, sizes)
    assert take(new(compiled, size_max=size_max), wire, sizes, COMPILED_FENCE) == expected


def test_a_size_beyond_the_buffer_is_refused() -> None:
    with pytest.raises(IndexError):
        new(compiled).take(bytearray(3), 4)


# The end.


@pytest.mark.parametrize(
    ("carried", "answer"),
    [
        (b"", 1000),
        (struct.pack(">H", 1000) + b"done", 1000),
        (struct.pack(">H", 4999), 4999),
        (b"\x03", 1002),
        (struct.pack(">H", 1005), 1002),
        (struct.pack(">H", 999), 1002),
        (struct.pack(">H", 5000), 1002),
        (struct.pack(">H", 1000) + b"\xff", 1007),
    ],
)
def test_a_close_is_answered(carried: bytes, answer: int) -> None:
    assert answer_to_close(carried) == close_frame(answer)


def test_control_frames() -> None:
    assert close_frame(1009, "too big") == frame(CLOSE, b"\x03\xf1too big", mask=None)
    assert ping_frame(b"a") == frame(PING, b"a", mask=None)
    assert pong_frame(b"") == frame(PONG, b"", mask=None)
