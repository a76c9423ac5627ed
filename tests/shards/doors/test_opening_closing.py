"""The first and the last moments of a connection."""

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    Disconnected,
    InvalidCommand,
)
from borzoi.protocol.framing import (
    OK,
)
from borzoi.shards.serving.reply import UNKNOWN_OUTCOME
from tests.shards.doors.hand_bench import PARTING, PING, Begun, Bench


def test_a_peer_that_was_reset_before_the_accept_is_forgotten(bench: Bench) -> None:
    other = Bench(bench.pool, bench.receive)
    other.transport.peer = None
    other.connect()
    other.loop.settle()
    assert other.transport.aborted
    assert other.lost_count == 0


def test_one_too_many_is_closed_at_once(bench: Bench) -> None:
    other = Bench(bench.pool, bench.receive)
    other.refuses = True
    other.connect()
    other.loop.settle()
    assert other.transport.aborted
    assert not other.session.was_closed
    assert other.lost_count == 0
    assert other.connection.check_deadlines(other.loop.time() + 1000) is None


def test_nothing_is_carried_out_behind_a_closing_answer(bench: Bench) -> None:
    bench.session.close_after = True
    bench.transport.deliver(PING * 3)
    bench.loop.settle()
    assert bench.session.begun == [Begun(Code.PING, b"")]
    assert bench.transport.sent == OK
    assert bench.session.was_closed


def test_nothing_is_carried_out_behind_an_abandoned_request(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING * 3)
    assert bench.session.waiting is not None
    bench.session.waiting = None
    bench.connection.reply(UNKNOWN_OUTCOME)
    bench.loop.settle()
    assert len(bench.session.begun) == 1
    assert bench.transport.sent == b""
    assert bench.transport.aborted


def test_an_answer_to_a_closed_connection(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING * 2)
    bench.transport.lose()
    bench.loop.settle()
    bench.session.finish()
    bench.loop.settle()
    assert len(bench.session.begun) == 1
    assert bench.transport.sent == b""


def test_a_parting_frame_only_between_answers(bench: Bench) -> None:
    bench.connection.close(Disconnected.status)
    assert bench.transport.sent == PARTING
    bench.connection.close(InvalidCommand.status)
    assert bench.transport.sent == PARTING


def test_no_parting_frame_while_a_request_is_in_work(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING)
    bench.connection.close(Disconnected.status)
    assert bench.transport.sent == b""
    assert bench.transport.closing


def test_an_end_of_file_closes(bench: Bench) -> None:
    assert bench.connection.eof_received() is False


def test_a_client_that_shuts_its_end_still_gets_its_answers(bench: Bench) -> None:
    bench.session.later = lambda: True
    bench.transport.deliver(PING + PING)
    assert bench.connection.eof_received(), "stay open, there is something to answer"
    bench.session.finish()
    bench.loop.settle()
    assert not bench.transport.closing
    bench.session.finish()
    bench.loop.settle()
    assert bench.transport.sent == OK + OK
    assert bench.transport.closing


def test_a_client_that_shuts_its_end_idle_is_closed(bench: Bench) -> None:
    assert not bench.connection.eof_received()
