"""Connections take turns, and pause while a peer does not read."""

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import (
    encode_request,
)
from borzoi.shards.doors.intake import REQUESTS_PER_TURN_MAX
from borzoi.shards.serving.reply import Value
from tests.shards.doors.hand_bench import LIMITS, PING, WINDOW, Bench
from tests.shards.doors.hand_transport import HIGH_WATER


def test_a_flood_of_requests_leaves_the_others_their_turn(bench: Bench) -> None:
    count = WINDOW // len(PING)
    assert count > REQUESTS_PER_TURN_MAX
    bench.transport.deliver(PING * count)
    turns = 0
    while len(bench.session.begun) < count:
        turns += 1
        assert len(bench.session.begun) == turns * REQUESTS_PER_TURN_MAX
        assert not bench.transport.reading
        bench.loop.turn()
    bench.loop.settle()
    assert bench.transport.reading


def test_a_full_window_is_one_turn(bench: Bench) -> None:
    frame = encode_request(Code.PING, bytes(WINDOW // 2 - 8))
    rest = bench.transport.deliver(frame * 6)
    assert len(bench.session.begun) == 2
    assert len(rest) == 4 * len(frame)
    bench.loop.turn()
    assert bench.transport.reading


def test_no_request_is_taken_while_the_peer_does_not_read(bench: Bench) -> None:
    bench.transport.peer_reads = False
    bench.session.answer = lambda code: Value(code, bytes(HIGH_WATER // 2 - 8))
    rest = bench.transport.deliver(PING * 20)
    bench.loop.settle()
    assert len(bench.session.begun) == 3, "just above the high water mark"
    assert rest == b""
    assert not bench.transport.reading
    assert bench.overdue_after(LIMITS.write_timeout_s - 1) is None
    bench.transport.take(2 * HIGH_WATER)
    bench.loop.settle()
    assert len(bench.session.begun) == 6
    assert bench.overdue_after(LIMITS.write_timeout_s) is None
