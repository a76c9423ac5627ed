"""Back-off after failed logins, with a clock of our own."""

import pytest

from borzoi.shards.identity.login_failures import (
    FailureLimits,
    LoginFailures,
    attempt_of,
    is_worth_a_line,
)
from tests.shards.hand_clock import HandClock

LIMITS = FailureLimits(
    free=5,
    wait_min_s=1.0,
    wait_max_s=60.0,
    forgotten_after_s=900.0,
    rows_max=10,
    free_per_address=90,
    slowed_per_second=5,
    known_for_s=3600.0,
)
ANN = attempt_of("password", "ann", "10.0.0.1")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def failures(clock: HandClock) -> LoginFailures:
    return LoginFailures(LIMITS, clock)


def test_the_first_failures_are_free(failures: LoginFailures) -> None:
    for in_a_row in range(1, 5):
        assert failures.failed(ANN)[:2] == (in_a_row, 0.0)
        assert failures.wait_s(ANN) == 0.0
    assert failures.failed(ANN)[:2] == (5, 1.0)
    assert failures.wait_s(ANN) == 1.0


def test_each_further_failure_doubles_the_wait_up_to_a_bound(failures: LoginFailures) -> None:
    waits = [failures.failed(ANN).wait_s for _ in range(14)]
    assert waits[4:] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    for _ in range(3000):
        assert failures.failed(ANN).wait_s == 60


def test_the_wait_ends_by_itself(failures: LoginFailures, clock: HandClock) -> None:
    for _ in range(6):
        failures.failed(ANN)
    clock.now += 1.5
    assert failures.wait_s(ANN) == 0.5
    clock.now += 0.5
    assert failures.wait_s(ANN) == 0.0
    # The next one waits longer all the same.
    assert failures.failed(ANN)[:2] == (7, 4.0)


def test_a_success_ends_it(failures: LoginFailures) -> None:
    for _ in range(5):
        failures.failed(ANN)
    assert failures.succeeded(ANN)
    assert failures.wait_s(ANN) == 0.0
    assert failures.failed(ANN).in_a_row == 1


def test_old_failures_are_forgotten(failures: LoginFailures, clock: HandClock) -> None:
    for _ in range(4):
        failures.failed(ANN)
    assert failures.of_name(ANN) == 4
    clock.now += 901
    assert failures.of_name(ANN) == 0
    assert failures.failed(ANN).in_a_row == 1


def test_users_addresses_and_kinds_are_counted_apart(failures: LoginFailures) -> None:
    others = [
        attempt_of("password", "ben", "10.0.0.1"),
        attempt_of("password", "ann", "10.0.0.2"),
        attempt_of("token", "ann", "10.0.0.1"),
        # The border between name and address cannot be moved.
        attempt_of("password", "1 ann", "10.0.0."),
    ]
    for _ in range(9):
        failures.failed(ANN)
    assert [failures.wait_s(other) for other in others] == [0, 0, 0, 0]


def test_addresses_with_failures_rank_behind_others(failures: LoginFailures) -> None:
    other = attempt_of("password", "ann", "10.0.0.2")
    assert failures.rank(ANN) == failures.rank(other) == 1
    ranks = []
    for number in range(200):
        failures.failed(attempt_of("password", f"name {number}", "10.0.0.1"))
        ranks.append(failures.rank(ANN))
    assert ranks == sorted(ranks)
    assert (ranks[3], ranks[4], ranks[-1]) == (1, 2, 6)
    assert failures.rank(other) == 1
    # Who was there before is suspected of nothing.
    failures.succeeded(ANN)
    assert failures.rank(ANN) == 0


def test_names_with_failures_come_behind_others(failures: LoginFailures) -> None:
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        failures.failed(attempt_of("password", "ann", host))
    assert failures.of_name(attempt_of("password", "ann", "10.0.0.4")) == 3
    assert failures.of_name(attempt_of("password", "ben", "10.0.0.1")) == 0


def invent(failures: LoginFailures, count: int, host: str = "10.0.0.1") -> None:
    for number in range(count):
        failures.failed(attempt_of("password", f"name {number}", host))


def test_an_address_is_slowed_down_whatever_the_names(
    failures: LoginFailures, clock: HandClock
) -> None:
    invent(failures, 89)
    assert not failures.is_slowed(ANN)
    failed = failures.failed(attempt_of("password", "one more", "10.0.0.1"))
    assert (failed.from_address, failed.slowed_s) == (90, 900.0)
    assert failures.is_slowed(ANN)
    assert not failures.is_slowed(attempt_of("password", "ann", "10.0.0.2"))
    # A few are looked at, then so many a second.
    for _ in range(LIMITS.slowed_per_second):
        assert failures.slowed_wait_s(ANN) == 0.0
        failures.look_at_slowed(ANN)
    assert failures.slowed_wait_s(ANN) == pytest.approx(0.2, abs=1e-5)
    clock.now += 0.25
    assert failures.slowed_wait_s(ANN) == 0.0


def test_a_slowed_address_is_forgiven_in_time(failures: LoginFailures, clock: HandClock) -> None:
    invent(failures, 10_000)
    assert failures.failed(ANN).slowed_s == pytest.approx(LIMITS.forgotten_after_s)
    clock.now += LIMITS.forgotten_after_s - 1
    assert failures.is_slowed(ANN)
    clock.now += 2
    assert not failures.is_slowed(ANN)
    clock.now += LIMITS.forgotten_after_s
    assert failures.failed(ANN).from_address == 1


def test_a_few_failures_now_and_then_slow_no_login_down(
    failures: LoginFailures, clock: HandClock
) -> None:
    """Many people behind one address, who mistype now and then for weeks."""
    for number in range(5000):
        failures.failed(attempt_of("password", f"name {number % 50}", "10.0.0.1"))
        clock.now += 15
        assert not failures.is_slowed(ANN)


def test_who_has_logged_in_from_there_is_not_slowed_down(
    failures: LoginFailures, clock: HandClock
) -> None:
    assert failures.succeeded(ANN)
    invent(failures, 200)
    assert not failures.is_slowed(ANN)
    assert failures.is_slowed(attempt_of("password", "ben", "10.0.0.1"))
    # But its own failures count.
    for _ in range(5):
        failures.failed(ANN)
    assert failures.wait_s(ANN) == 1.0
    clock.now += LIMITS.known_for_s + 1
    assert not failures.is_known(ANN)


def test_a_login_is_news_once_and_then_now_and_then(
    failures: LoginFailures, clock: HandClock
) -> None:
    assert failures.succeeded(ANN)
    for _ in range(10):
        clock.now += 10
        assert not failures.succeeded(ANN)
    clock.now += LIMITS.known_for_s / 2
    assert failures.succeeded(ANN)
    # As long as it goes on it is known.
    for _ in range(100):
        clock.now += LIMITS.known_for_s / 5
        failures.succeeded(ANN)
        assert failures.is_known(ANN)


def test_failures_that_took_no_work_slow_no_login_down(failures: LoginFailures) -> None:
    for number in range(1000):
        failures.failed(attempt_of("token", f"{number}", "10.0.0.1"), took_work=False)
    assert not failures.is_slowed(ANN)
    assert failures.rank(ANN) == 1


def test_the_tables_are_bounded_and_the_oldest_rows_go(failures: LoginFailures) -> None:
    for _ in range(5):
        failures.failed(ANN)
    for number in range(9):
        failures.failed(attempt_of("password", f"user{number}", f"10.0.1.{number}"))
    assert failures.wait_s(ANN) > 0
    failures.failed(attempt_of("password", "one more", "10.0.2.0"))
    assert failures.wait_s(ANN) == 0.0
    for number in range(1000):
        attempt = attempt_of("password", f"user{number}", f"host{number}")
        failures.failed(attempt)
        failures.succeeded(attempt)
        failures.look_at_slowed(attempt)
        assert len(failures) <= 5 * LIMITS.rows_max


def test_which_failures_are_logged() -> None:
    logged = [count for count in range(1, 100) if is_worth_a_line(count, 5)]
    assert logged == [1, 2, 3, 4, 5, 8, 16, 32, 64]
