"""The worker's clock goes on evenly, whatever somebody does to the machine's."""

import time

import pytest

from borzoi.shards.clock import SteadyClock

HOUR_NS = 3_600_000_000_000


def test_it_starts_with_the_time_of_day() -> None:
    before = time.time_ns() // 1000
    now = SteadyClock().now_us()
    after = time.time_ns() // 1000
    # The two clocks are read one after the other, hence the second.
    assert before - 1_000_000 <= now <= after + 1_000_000


@pytest.mark.parametrize("jump_ns", [HOUR_NS, -HOUR_NS])
def test_setting_the_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch, jump_ns: int) -> None:
    clock = SteadyClock()
    before = clock.now_us()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump_ns)
    passed = clock.now_us() - before
    assert 0 <= passed < HOUR_NS // 1000
