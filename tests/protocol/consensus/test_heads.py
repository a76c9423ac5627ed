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
from borzoi.protocol.framing import NOT_WHOLE
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


def new_head(loops: Any, session: int) -> Any:
    """As of a connection that is logged in, unless the session is 0."""
    head = loops.Head()
    if session:
        head.bound_session, head.bound_client = session, CLIENT
    return head


def said(head: Any) -> tuple[Any, ...]:
    """Everything that is known of the request cut last."""
    own = (head.client, head.checksum, head.request, head.operation)
    return (*own, head.number(), head.bound_session, head.bound_client)


def both(data: bytes, before: int, session: int) -> tuple[int, Any, bytes]:
    """What the plain one finds and leaves; the compiled one does the same, at both fences."""
    framed = bytes(before) + data
    place = memoryview(bytearray(framed))
    plain = new_head(plain_loops, session)
    found = plain.whole(place, before, len(framed))
    for put in (FENCE.at_the_start, FENCE.at_the_end):
        view = put(framed)
        head = new_head(compiled, session)
        assert head.whole(view, before, len(framed)) == found
        assert said(head) == said(plain)
        assert bytes(view) == bytes(place)
    return found, plain, bytes(place)


@given(requests(), st.sampled_from([0, 3]), st.sampled_from([0, SESSION]))
def test_requests_are_read_alike(data: bytes, before: int, session: int) -> None:
    found, head, left = both(data, before, session)
    if found == NOT_WHOLE:
        assert left == bytes(before) + data
        assert said(head) == said(new_head(plain_loops, session))
    else:
        assert struct.unpack_from("<II", left, before + 248) == (len(data) - 252, found)


def test_what_a_request_says() -> None:
    head = bytearray(256)
    struct.pack_into("<I", head, 48, 261)
    head[60], head[176] = 5, CREATE_STREAM
    head[128:144], head[144:160] = CLIENT, stamp(b"\4name")
    struct.pack_into("<QQ", head, 168, 99, CREATE_STREAM)
    struct.pack_into("<Q", head, 184, SESSION)
    found, read, _ = both(bytes(head) + b"\4name", 1, SESSION)
    assert found == Code.CREATE_STREAM
    assert said(read)[:5] == (CLIENT, stamp(b"\4name"), 99, CREATE_STREAM, 99)


def test_a_request_does_not_leave_its_view() -> None:
    with pytest.raises(AssertionError):
        compiled.Head().whole(memoryview(bytearray(300)), 0, 301)


ids = st.binary(min_size=16, max_size=16)
numbers = st.integers(0, 2**64 - 1)
u32 = st.integers(0, 2**32 - 1)
replies = st.one_of(
    st.tuples(st.just("answer"), st.tuples(st.binary(max_size=300))),
    st.tuples(st.just("polled"), st.tuples(u32, numbers, u32, st.integers(0, 2**31))),
    st.tuples(st.just("reply"), st.tuples(st.integers(0, 2**31), u32, st.binary(max_size=300))),
)


@given(ids, ids, numbers, operations, st.lists(replies, max_size=4))
def test_replies_are_written_alike(
    client: bytes, checksum: bytes, request: int, operation: int, wanted: list[Any]
) -> None:
    """Each of them is numbered, too."""
    heads = [plain_loops.Head(), compiled.Head()]
    for head in heads:
        head.client, head.checksum = client, checksum
        head.request, head.operation = request, operation
    for name, arguments in wanted:
        plain, quick = (getattr(head, name)(*arguments) for head in heads)
        assert quick == plain


def test_a_reply_that_is_too_long_or_misshapen_is_an_error() -> None:
    head = compiled.Head()
    with pytest.raises(OverflowError):
        head.reply(2**32 - 256)
    for field in ("client", "checksum", "bound_client"):
        with pytest.raises(AssertionError):
            setattr(head, field, bytes(15))
