"""Back-off after failed logins, with a clock of our own."""

import pytest

from borzoi.shards.login_failures import (
    FailureLimits,
    LoginFailures,
    attempt_of,
    is_worth_a_line,
)

LIMITS = FailureLimits(
    free=5, wait_min_s=1.0, wait_max_s=60.0, forgotten_after_s=900.0, rows_max=10
)
ANN = attempt_of("password", "ann", "10.0.0.1")


class Clock:
    """A monotonic clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def failures(clock: Clock) -> LoginFailures:
    return LoginFailures(LIMITS, clock)


def test_the_first_failures_are_free(failures: LoginFailures) -> None:
    for in_a_row in range(1, 5):
        assert failures.failed(ANN) == (in_a_row, 0.0)
        assert failures.wait_s(ANN) == 0.0
    assert failures.failed(ANN) == (5, 1.0)
    assert failures.wait_s(ANN) == 1.0


def test_each_further_failure_doubles_the_wait_up_to_a_bound(failures: LoginFailures) -> None:
    waits = [failures.failed(ANN).wait_s for _ in range(14)]
    assert waits[4:] == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    for _ in range(3000):
        assert failures.failed(ANN).wait_s == 60


def test_the_wait_ends_by_itself(failures: LoginFailures, clock: Clock) -> None:
    for _ in range(6):
        failures.failed(ANN)
    clock.now += 1.5
    assert failures.wait_s(ANN) == 0.5
    clock.now += 0.5
    assert failures.wait_s(ANN) == 0.0
    # The next one waits longer all the same.
    assert failures.failed(ANN) == (7, 4.0)


def test_a_success_ends_it(failures: LoginFailures) -> None:
    assert not failures.succeeded(ANN)
    for _ in range(5):
        failures.failed(ANN)
    assert failures.succeeded(ANN)
    assert failures.wait_s(ANN) == 0.0
    assert failures.failed(ANN).in_a_row == 1


def test_old_failures_are_forgotten(failures: LoginFailures, clock: Clock) -> None:
    for _ in range(4):
        failures.failed(ANN)
    assert failures.rank(ANN) == 4
    clock.now += 901
    assert failures.rank(ANN) == 0
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


def test_addresses_and_names_with_failures_rank_behind_others(failures: LoginFailures) -> None:
    for name in ("ann", "ben", "cid"):
        failures.failed(attempt_of("password", name, "10.0.0.1"))
    failures.succeeded(ANN)
    assert failures.rank(attempt_of("password", "dan", "10.0.0.1")) == 3
    assert failures.rank(attempt_of("password", "ann", "10.0.0.2")) == 1
    assert failures.rank(attempt_of("password", "dan", "10.0.0.2")) == 0


def test_the_table_is_bounded_and_the_oldest_rows_go(failures: LoginFailures) -> None:
    for _ in range(5):
        failures.failed(ANN)
    for number in range(9):
        failures.failed(attempt_of("password", f"user{number}", f"10.0.1.{number}"))
    assert failures.wait_s(ANN) > 0
    failures.failed(attempt_of("password", "one more", "10.0.2.0"))
    assert len(failures) == 3 * LIMITS.rows_max
    assert failures.wait_s(ANN) == 0.0
    for number in range(1000):
        failures.failed(attempt_of("password", f"user{number}", f"host{number}"))
        assert len(failures) <= 3 * LIMITS.rows_max


def test_which_failures_are_told() -> None:
    told = [count for count in range(1, 100) if is_worth_a_line(count, 5)]
    assert told == [1, 2, 3, 4, 5, 8, 16, 32, 64]
