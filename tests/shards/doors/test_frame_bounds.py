"""Lengths: the largest frame, one byte more, and far too much."""

import struct

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    Disconnected,
    Unauthenticated,
)
from borzoi.protocol.framing import (
    OK,
    encode_request,
    encode_response,
)
from tests.shards.doors.hand_bench import LIMITS, PING, REFUSED, Bench


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
