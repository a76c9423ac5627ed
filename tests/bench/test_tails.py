"""Tails: minutes from given samples, and a short load on a real broker."""

from array import array

import pytest

from borzoi.bench.broker import OwnBroker
from borzoi.bench.duel import Contestant
from borzoi.bench.failures import BenchFailed
from borzoi.bench.load import LoadResult
from borzoi.bench.plans import ActorResult, Role
from borzoi.bench.quantities import MB, NS_PER_S
from borzoi.bench.tails import Minute, Tails, flat_ratio, minute_line, minutes_of, tails_of

MS = 1_000_000
SHORT_NS = NS_PER_S // 4


def actor(role: Role, polls: list[tuple[int, int]], started_ns: int = 0) -> ActorResult:
    """With polls of a megabyte each: when they ended, in ms, and how old the messages were."""
    count = len(polls)
    return ActorResult(
        role=role,
        actor_id=1,
        started_ns=started_ns,
        ended_ns=started_ns + max((end for end, _ in polls), default=0) * MS,
        ends=array("q", [started_ns + end * MS for end, _ in polls]).tobytes(),
        latencies=array("q", [age * MS for _, age in polls]).tobytes(),
        messages=array("q", [1000] * count).tobytes(),
        user_bytes=array("q", [MB] * count).tobytes(),
        empty_polls=0,
    )


def load(*actors: ActorResult) -> LoadResult:
    return LoadResult(actors, (), ())


def test_polls_count_in_the_minute_in_which_they_end() -> None:
    first = actor(Role.CONSUMER, [(100, 1), (900, 3), (1100, 10)], started_ns=5 * MS)
    second = actor(Role.CONSUMER, [(500, 2), (1999, 20)], started_ns=5 * MS)
    sent = actor(Role.PRODUCER, [(100, 500), (1900, 500)], started_ns=5 * MS)
    found = minutes_of(load(sent, first, second), NS_PER_S)
    assert [minute.number for minute in found] == [1, 2]
    assert [minute.polls for minute in found] == [3, 2]
    assert [minute.p50_ms for minute in found] == [2.0, 15.0]
    assert found[0].p9999_ms == pytest.approx(3.0, abs=0.001)
    assert found[1].p99_ms == pytest.approx(19.9)
    assert found[0].mb_per_s == pytest.approx(3.0)
    # It ended a millisecond early.
    assert found[1].mb_per_s == pytest.approx(2.0 / 0.999)


def test_a_short_rest_belongs_to_the_minute_before() -> None:
    ends = [(900, 1), (1400, 7)]
    (only,) = minutes_of(load(actor(Role.CONSUMER, ends)), NS_PER_S)
    assert only.polls == 2
    assert only.mb_per_s == pytest.approx(2.0 / 1.4)
    assert len(minutes_of(load(actor(Role.CONSUMER, [(900, 1), (1500, 7)])), NS_PER_S)) == 2


def test_a_minute_without_a_poll_is_shown() -> None:
    ends = [(100, 1), (2600, 2)]
    found = minutes_of(load(actor(Role.CONSUMER, ends)), NS_PER_S)
    assert [minute.polls for minute in found] == [1, 0, 1]


def test_nothing_polled_is_an_error() -> None:
    with pytest.raises(BenchFailed, match="no message was polled"):
        minutes_of(load(actor(Role.PRODUCER, [(100, 1)]), actor(Role.CONSUMER, [])))


def test_one_long_minute_is_enough_to_fail() -> None:
    short, long = Minute(1, 100.0, 9, 0.5, 2.0, 25.0), Minute(2, 100.0, 9, 0.5, 5.0, 25.1)
    assert (short.met, long.met) == (True, False)
    assert Tails(200.0, 140.0, (short, short), 0.0).met
    assert not Tails(200.0, 140.0, (short, long), 0.0).met
    assert flat_ratio([short, long]) == 2.5
    assert minute_line(long) == (
        "minute   2: 100 MB/s, from origin to poll p50 0.50 ms, p99 5.00 ms, p99.99 25.10 ms"
        " of 9 polls"
    )


@pytest.mark.slow
def test_tails_of_a_broker(shared_broker: OwnBroker) -> None:
    credentials = shared_broker.credentials
    server = Contestant("broker", shared_broker.host, shared_broker.port, credentials)
    said: list[str] = []
    found = tails_of(server, 2, 0.1, said.append, minute_ns=SHORT_NS, saturation_ns=SHORT_NS)
    assert found.saturation_mb_per_s is not None
    assert found.offered_mb_per_s == pytest.approx(0.1 * found.saturation_mb_per_s, rel=0.01)
    assert 1 <= len(found.minutes) <= 2
    assert all(minute.p50_ms <= minute.p99_ms <= minute.p9999_ms for minute in found.minutes)
    assert sum(minute.polls for minute in found.minutes) > 0
    assert [line.partition(" ")[0] for line in said][::2] == ["measuring", "offering"]


@pytest.mark.slow
def test_a_rate_may_be_asked_for(shared_broker: OwnBroker) -> None:
    credentials = shared_broker.credentials
    server = Contestant("broker", shared_broker.host, shared_broker.port, credentials)
    said: list[str] = []
    found = tails_of(server, 1, 0.7, said.append, rate=2 * MB, minute_ns=SHORT_NS)
    assert (found.saturation_mb_per_s, found.offered_mb_per_s) == (None, 2.0)
    assert said == ["offering 2 MB/s"]
    assert len(found.minutes) == 1
