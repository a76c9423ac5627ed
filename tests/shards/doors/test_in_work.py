"""The request in work is noted, and refused if it is known to kill workers."""

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import (
    FeatureUnavailable,
)
from borzoi.protocol.framing import (
    OK,
    encode_request,
    encode_response,
)
from borzoi.shards.faults.in_work import REQUEST, user_bits
from borzoi.shards.faults.poison import Guard, Refusal, digest_of
from borzoi.shards.serving.reply import Value
from tests.shards.doors.hand_bench import PING, Begun, Bench


def test_what_kills_workers_is_refused_and_the_rest_carried_out(bench: Bench) -> None:
    guard = Guard(lambda: 100.0)
    guard.refuse([Refusal(digest_of(Code.POLL_MESSAGES, 6, b"poison"), 160.0)])
    refused = encode_response(FeatureUnavailable.status)
    poison = encode_request(Code.POLL_MESSAGES, b"poison")
    bench.connection.guard(guard)
    bench.deliver(poison + PING + poison)
    bench.deliver(poison)
    assert bench.transport.sent == refused + OK + refused * 2
    assert [begun.code for begun in bench.session.begun] == [Code.PING]
    bench.connection.guard(None)
    bench.deliver(poison)
    assert bench.session.begun[-1] == Begun(Code.POLL_MESSAGES, b"poison")


def test_a_connection_is_guarded_from_its_first_request_on(bench: Bench) -> None:
    other = Bench(bench.pool, bench.receive)
    other.guard = Guard(lambda: 100.0)
    other.guard.refuse([Refusal(digest_of(Code.PING, 0, b""), 160.0)])
    other.connect().deliver(PING)
    assert other.transport.sent == encode_response(FeatureUnavailable.status)
    assert other.session.begun == []
    other.transport.lose()
    other.loop.settle()


def test_what_is_in_work_is_known_until_it_ends(bench: Bench) -> None:
    words = bench.in_work.words
    bench.session.later = lambda: True
    bench.deliver(encode_request(Code.POLL_MESSAGES, b"held"))
    assert words[REQUEST] != 0
    bench.session.finish()
    assert words[REQUEST] == 0
    bench.session.later = lambda: False
    bench.deliver(encode_request(Code.PING))
    assert words[REQUEST] == 0


def test_what_is_in_work_says_who_it_is_for(bench: Bench) -> None:
    bench.session.answer = lambda code: Value(code, b"")
    for user_id in (0, 5, None):
        bench.session.later = lambda: False
        bench.session.user_id = user_id
        bench.deliver(encode_request(Code.LOGIN_USER))
        bench.session.later = lambda: True
        bench.deliver(encode_request(Code.POLL_MESSAGES, b"held"))
        assert bench.in_work.words[REQUEST] >> 40 == user_bits(user_id) >> 40
        bench.session.finish()
