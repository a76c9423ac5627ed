"""Who sends where and reads what."""

from dataclasses import replace

import pytest

from borzoi.bench.casting import BenchStream, cast
from borzoi.bench.cpus import decide, decide_without_broker
from borzoi.bench.failures import BenchFailed
from borzoi.bench.options import Options
from borzoi.bench.plans import Goal, Role
from tests.bench.test_options import parsed

STREAMS = [BenchStream(10, 1, message_count=100), BenchStream(11, 1, message_count=200)]


def actors(options: Options, streams: list[BenchStream] = STREAMS) -> list[tuple[object, ...]]:
    return [
        (one.role, one.actor_id, one.stream, one.partition_id, one.group)
        for one in cast(options, "host", 1, streams)
    ]


def test_pinned_producers_take_the_streams_in_turn() -> None:
    assert actors(parsed("pp -p 3")) == [
        (Role.PRODUCER, 1, 10, 0, None),
        (Role.PRODUCER, 2, 11, 0, None),
        (Role.PRODUCER, 3, 10, 0, None),
    ]


def test_more_than_one_partition_is_balanced() -> None:
    assert {one[3] for one in actors(parsed("bp"))} == {None}
    assert {one[3] for one in actors(parsed("pp -a 2"))} == {None}


def test_consumers_read_round_and_round() -> None:
    plans = cast(parsed("pc -c 2"), "host", 1, STREAMS)
    assert [plan.wraps_at for plan in plans] == [100, 200]
    assert not any(plan.latency_from_origin for plan in plans)


def test_producers_and_consumers_know_how_much_will_come() -> None:
    options = parsed("-b 7 -P 10 ppc -p 3 -c 2")
    plans = cast(options, "host", 1, STREAMS)
    consumers = [plan for plan in plans if plan.role is Role.CONSUMER]
    # Two of the three producers send to the first stream.
    assert [plan.goal for plan in consumers] == [Goal(messages=140), Goal(messages=70)]
    assert all(plan.latency_from_origin for plan in consumers)


def test_the_rate_is_shared_and_readers_are_a_little_faster() -> None:
    options = parsed("-r 1MB -m 100 -P 10 ppc -p 2 -c 2 -R 2")
    producer, _, consumer, _ = cast(options, "host", 1, STREAMS)
    assert producer.interval_ns == 2_000_000
    assert consumer.interval_ns == 1_000_000


def test_groups_are_spread_over_streams_and_members_over_groups() -> None:
    streams = [replace(STREAMS[0], group_ids=(5, 7)), replace(STREAMS[1], group_ids=(6,))]
    found = actors(parsed("bcg -c 4 -g 3 -s 2"), streams)
    assert [(one[2], one[4]) for one in found] == [(10, 5), (11, 6), (10, 7), (10, 5)]
    assert {one[3] for one in found} == {0}


def test_pairs_with_groups_may_be_uneven() -> None:
    streams = [replace(STREAMS[0], group_ids=(5,))]
    found = actors(parsed("e2ecg -p 1 -c 2"), streams)
    assert [one[0] for one in found] == [Role.PAIR, Role.CONSUMER]
    found = actors(parsed("e2ecg -p 2 -c 1"), streams)
    assert [(one[0], one[4]) for one in found] == [(Role.PAIR, 5), (Role.PRODUCER, None)]


def test_totals_are_divided() -> None:
    goals = {plan.goal for plan in cast(parsed("-T 8MB pp -p 4"), "h", 1, STREAMS)}
    assert goals == {Goal(user_bytes=2_000_000)}
    goals = {plan.goal for plan in cast(parsed("-d 3s pp"), "h", 1, STREAMS)}
    assert goals == {Goal(duration_ns=3 * 10**9)}


def test_the_generator_keeps_away_from_the_shards() -> None:
    plan = decide((0, 1), None, 8)
    assert (plan.shard_cpus, plan.generator_cpus, plan.shared) == ((0,), ((1,),), False)
    assert plan.cpu_allocation == "0..1"
    plan = decide((2, 3, 4, 5), 2, 8)
    assert (plan.cpu_allocation, plan.generator_cpus) == ("2..4", ((4,), (5,)))
    assert decide((0, 1, 2, 3), 1, 1).generator_cpus == ((1,),)


def test_without_a_free_cpu_they_share_and_say_so() -> None:
    plan = decide((0, 1), 2, 8)
    assert plan.shared
    assert plan.generator_cpus == ((),)
    with pytest.raises(BenchFailed, match="3 shards need 3 CPUs"):
        decide((0, 1), 3, 8)
    assert decide_without_broker((0, 1), 1).generator_cpus == ((),)
