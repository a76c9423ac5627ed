"""Requests leave when they are planned, and lateness is measured, not hidden."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.bench.pacing import Pace, interval_ns, staggered_start_ns
from borzoi.bench.quantities import NS_PER_S


def test_no_limit_means_now() -> None:
    pace = Pace(0)
    pace.restart(100)
    assert [pace.next_planned_ns(now) for now in (100, 250, 251)] == [100, 250, 251]


def test_the_rate_is_shared_by_the_actors() -> None:
    assert interval_ns(None, 8, 1000.0) == 0
    # 1 MB/s over 4 actors with batches of 1000 bytes: 250 batches per second each.
    assert interval_ns(1_000_000, 4, 1000.0) == NS_PER_S // 250
    assert interval_ns(10**30, 1, 1.0) == 1


def test_actors_take_turns_within_one_interval() -> None:
    starts = [staggered_start_ns(0, 1000, number, 4) for number in range(4)]
    assert starts == [0, 250, 500, 750]


@given(
    interval=st.integers(1, 10**9),
    service_times=st.lists(st.integers(0, 10**10), min_size=1, max_size=60),
)
def test_planned_times_do_not_depend_on_answers(interval: int, service_times: list[int]) -> None:
    """One request in flight, a server as slow as it likes: the plan stays where it was."""
    pace = Pace(interval)
    pace.restart(0)
    now = 0
    for number, service_time in enumerate(service_times):
        planned = pace.next_planned_ns(now)
        assert planned == number * interval
        now = max(now, planned) + service_time


@given(stall=st.integers(10**6, 10**10), interval=st.integers(10**3, 10**6))
def test_a_stall_is_seen_by_every_request_planned_in_it(stall: int, interval: int) -> None:
    """No coordinated omission: the first answer takes `stall`, all others are immediate.

    A generator that counts from the real send would report one slow request. Counted from the
    plan, each request that was due during the stall waited for the rest of it.
    """
    pace = Pace(interval)
    pace.restart(0)
    now = 0
    late = 0
    for number in range(50):
        planned = pace.next_planned_ns(now)
        sent = max(now, planned)
        now = sent + (stall if number == 0 else 0)
        latency = now - planned
        if number * interval < stall:
            assert latency == stall - number * interval
            late += 1
        else:
            assert latency == 0
    assert late == min(50, -(-stall // interval))
