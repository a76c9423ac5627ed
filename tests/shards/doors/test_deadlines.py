"""Deadlines: at the bound nothing, behind it the end."""

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import (
    encode_request,
)
from borzoi.shards.serving.reply import Value
from tests.shards.doors.hand_bench import LIMITS, PING, Bench
from tests.shards.doors.hand_transport import HIGH_WATER


def test_a_peer_must_log_in(bench: Bench) -> None:
    bench.session.is_authenticated = False
    assert bench.overdue_after(LIMITS.login_timeout_s) is None
    bench.deliver(PING)
    assert bench.overdue_after(0.5) == "did not log in"
    assert bench.transport.aborted


def test_a_login_in_work_is_waited_for(bench: Bench) -> None:
    bench.session.is_authenticated = False
    bench.session.later = lambda: True
    bench.deliver(PING)
    assert bench.overdue_after(LIMITS.login_timeout_s * 2) is None


def test_after_a_logout_the_time_begins_again(bench: Bench) -> None:
    assert bench.overdue_after(LIMITS.login_timeout_s * 5) is None
    bench.session.is_authenticated = False
    assert bench.overdue_after(LIMITS.login_timeout_s) is None
    assert bench.overdue_after(0.5) == "did not log in"


@pytest.mark.parametrize("begun", [1, 7, 8, 20])
def test_a_frame_must_be_finished(bench: Bench, begun: int) -> None:
    frame = encode_request(Code.PING, bytes(100))
    bench.deliver(frame[:begun])
    assert bench.overdue_after(LIMITS.frame_timeout_s) is None
    bench.deliver(frame[begun : begun + 5])
    assert bench.overdue_after(0.5) == "did not finish a frame"
    assert bench.transport.aborted


def test_a_drained_frame_must_be_finished_too(bench: Bench) -> None:
    frame = encode_request(Code.PING, bytes(LIMITS.control_frame_size_max + 1))
    bench.deliver(frame[:-1])
    assert bench.overdue_after(LIMITS.frame_timeout_s + 0.5) == "did not finish a frame"


def test_each_frame_has_a_time_of_its_own(bench: Bench) -> None:
    """Every delivery ends inside a header, so there is always one that has begun."""
    bench.deliver(PING[:5])
    for _ in range(5):
        assert bench.overdue_after(LIMITS.frame_timeout_s * 0.9) is None
        bench.deliver(PING[5:] + PING + PING[:5])
    bench.deliver(PING[5:])
    assert bench.overdue_after(LIMITS.frame_timeout_s * 5) is None


def test_a_request_in_work_is_no_unfinished_frame(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.deliver(PING[:5])
    bench.transport.deliver(PING[5:] + PING[:3])
    assert bench.session.waiting is not None
    assert bench.overdue_after(LIMITS.frame_timeout_s * 2) is None


def test_a_peer_may_be_slow_down_to_a_rate(bench: Bench) -> None:
    """A byte now and then is not enough; the least rate is, window after window."""
    window = LIMITS.write_timeout_s + 1
    enough = round(LIMITS.read_rate_min * window)
    bench.transport.peer_reads = False
    bench.session.answer = lambda code: Value(code, bytes(4 * HIGH_WATER - 8))
    bench.transport.deliver(PING)
    for _ in range(5):
        assert bench.overdue_after(window / 2) is None
        bench.transport.take(enough)
        assert bench.overdue_after(window / 2) is None
    bench.transport.take(enough - 1)
    assert bench.overdue_after(window) == (
        f"took {enough - 1} bytes of its answers in {window:.0f} s, "
        f"less than {LIMITS.read_rate_min} a second"
    )
    assert bench.transport.aborted


def test_a_last_answer_that_is_not_read(bench: Bench) -> None:
    """Below the high water mark, so that writing is never paused."""
    bench.transport.peer_reads = False
    bench.session.close_after = True
    bench.transport.deliver(PING)
    bench.loop.settle()
    assert bench.transport.closing
    assert bench.lost_count == 0
    assert bench.overdue_after(0) is None
    assert bench.overdue_after(LIMITS.write_timeout_s) is None
    assert bench.overdue_after(0.5) == "does not read its last answers"
    bench.loop.settle()
    assert bench.lost_count == 1
