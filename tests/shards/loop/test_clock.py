"""The broker's clock goes on evenly, whatever the machine's is set to."""

import time

import pytest

from borzoi.shards.loop.clock import BrokerClock, BrokerStart, broker_start

HOUR_NS = 3_600_000_000_000


def test_it_starts_with_the_time_of_day() -> None:
    before = time.time_ns() // 1000
    now = BrokerClock(broker_start()).now_us()
    after = time.time_ns() // 1000
    # The two clocks are read one after the other, hence the second.
    assert before - 1_000_000 <= now <= after + 1_000_000


@pytest.mark.parametrize("jump_ns", [HOUR_NS, -HOUR_NS])
def test_setting_the_clock_changes_nothing(monkeypatch: pytest.MonkeyPatch, jump_ns: int) -> None:
    clock = BrokerClock(broker_start())
    before = clock.now_us()
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + jump_ns)
    passed = clock.now_us() - before
    assert 0 <= passed < HOUR_NS // 1000


def test_a_worker_that_comes_later_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    boot = [5_000_000_000]
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _clock: boot[0])
    monkeypatch.setattr(time, "time_ns", lambda: 1 << 62)
    clock = BrokerClock(BrokerStart(wall_us=1_000_000_000, boot_ns=2_000_000_000))
    assert clock.now_us() == 1_000_000_000 + 3_000_000
    boot[0] += 7_000
    assert clock.now_us() == 1_000_000_000 + 3_000_007
    assert clock.run_time_us() == 3_000_007
