"""The compiled headers of the consensus framing against the plain ones, whole, damaged and cut.

What the compiled ones are given lies directly before or behind memory that must not be touched.
"""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.protocol.codes import Code, LaterCode
from borzoi.protocol.consensus.heads import stamp
from borzoi.protocol.consensus.operations import OPERATIONS, QUERY, REGISTER, SEND
from tests.protocol.fenced import Fence
from tests.protocol.twins import compiled_loops, plain_loops

compiled = compiled_loops()

FENCE = Fence(4096)
CLIENT = bytes(range(16))
SESSION = 7
CREATE_STREAM = OPERATIONS[Code.CREATE_STREAM]

operations = st.sampled_from([REGISTER, QUERY, SEND, CREATE_STREAM, 161]) | st.integers(0, 255)
codes = st.sampled_from(
    [Code.PING, Code.POLL_MESSAGES, Code.LOGIN_USER, LaterCode.LOGIN_REGISTER, 45, 44]
) | st.integers(0, 2**32 - 1)
sizes = st.sampled_from([0, 0, 0, 1, -1, 2**31])
stamps = st.sampled_from(["right", "right", "none", "wrong", "high"])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request, most of the time with everything as it should be."""
    payload = draw(st.binary(max_size=40))
    operation, code = draw(operations), draw(codes)
    head = bytearray(256)
    struct.pack_into("<I", head, 48, (256 + len(payload) + draw(sizes)) & 0xFFFFFFFF)
    head[60] = draw(st.sampled_from([5, 5, 5, 8]))
    head[128:144] = draw(st.sampled_from([CLIENT, CLIENT, bytes(16)]))
    head[144:160] = {
        "right": stamp(payload),
        "none": bytes(16),
        "wrong": bytes([1]) * 16,
        "high": stamp(payload)[:8] + bytes([1]) * 8,
    }[draw(stamps)]
    struct.pack_into("<Q", head, 168, draw(st.integers(0, 2**64 - 1)))
    head[176] = operation
    struct.pack_into("<Q", head, 184, draw(st.sampled_from([SESSION, SESSION, 0])))
    struct.pack_into("<I", head, 196, code)
    whole = bytes(head) + payload
    return whole[: draw(st.sampled_from([len(whole), len(whole), 255, 0, 100]))]


def both(data: bytes, before: int, session: int, client: bytes) -> tuple[Any, bytes]:
    """What the plain one finds and leaves; the compiled one does the same, at both fences."""
    framed = bytes(before) + data
    place = memoryview(bytearray(framed))
    found = plain_loops.read_request(place, before, len(framed), session, client)
    for put in (FENCE.at_the_start, FENCE.at_the_end):
        view = put(framed)
        assert compiled.read_request(view, before, len(framed), session, client) == found
        assert bytes(view) == bytes(place)
    return found, bytes(place)


@given(requests(), st.sampled_from([0, 3]), st.sampled_from([0, SESSION]))
def test_requests_are_read_alike(data: bytes, before: int, session: int) -> None:
    found, left = both(data, before, session, CLIENT if session else bytes(16))
    if found is None:
        assert left == bytes(before) + data
    else:
        code = found[0]
        assert struct.unpack_from("<II", left, before + 248) == (len(data) - 252, code)


def test_what_a_request_says() -> None:
    head = bytearray(256)
    struct.pack_into("<I", head, 48, 261)
    head[60], head[176] = 5, CREATE_STREAM
    head[128:144], head[144:160] = CLIENT, stamp(b"\4name")
    struct.pack_into("<QQ", head, 168, 99, CREATE_STREAM)
    struct.pack_into("<Q", head, 184, SESSION)
    found, _ = both(bytes(head) + b"\4name", 1, SESSION, CLIENT)
    assert found == (Code.CREATE_STREAM, CLIENT, stamp(b"\4name"), 99, CREATE_STREAM)


def test_a_request_does_not_leave_its_view() -> None:
    with pytest.raises(AssertionError):
        compiled.read_request(memoryview(bytearray(300)), 0, 301, 0, bytes(16))


ids = st.binary(min_size=16, max_size=16)
numbers = st.integers(0, 2**64 - 1)
statuses = st.integers(0, 2**32 - 1)
replies = st.tuples(
    *(st.integers(0, 2**31), ids, ids, numbers, numbers, st.integers(0, 255), statuses),
    st.binary(max_size=300),
)


@given(replies)
def test_replies_are_written_alike(fields: tuple[Any, ...]) -> None:
    assert compiled.reply_with(*fields) == plain_loops.reply_with(*fields)


def test_a_reply_that_is_too_long_or_misshapen_is_an_error() -> None:
    with pytest.raises(OverflowError):
        compiled.reply_with(2**32 - 256, bytes(16), CLIENT, 1, 1, QUERY, 0, b"")
    with pytest.raises(AssertionError):
        compiled.reply_with(0, bytes(15), CLIENT, 1, 1, QUERY, 0, b"")
