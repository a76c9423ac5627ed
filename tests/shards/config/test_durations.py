"""Durations and expiries between text and microseconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.quantities import DURATION_US_MAX
from borzoi.shards.config.durations import (
    DAY,
    EXPIRY_MAX,
    HOUR,
    MINUTE,
    NEVER,
    SECOND,
    SERVER_DEFAULT,
    format_duration,
    format_expiry,
    parse_duration,
    parse_expiry,
    seconds,
)


@pytest.mark.parametrize(
    ("text", "duration_us"),
    [
        ("1 h", HOUR),
        ("30s", 30 * SECOND),
        ("1day 2h 3min", DAY + 2 * HOUR + 3 * MINUTE),
        ("100ms", 100_000),
        ("500s", 500 * SECOND),
        ("7 days", 7 * DAY),
        ("1 m", MINUTE),
        ("1 M", MINUTE),
        ("2 weeks", 14 * DAY),
        ("1 month", 2_630_016 * SECOND),
        ("1 year", 31_557_600 * SECOND),
        ("250us", 250),
        ("1500 ns", 2),
        ("1 ns", 1),
        ("0", 0),
        ("0 s", 0),
        ("None", 0),
        ("disabled", 0),
        ("UNLIMITED", 0),
    ],
)
def test_what_people_write(text: str, duration_us: int) -> None:
    assert parse_duration(text) == duration_us


@pytest.mark.parametrize("text", ["", "30", "s", "1 fortnight", "1.5 h", "-1 s", "1 h 5", "1" * 30])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        parse_duration(text)


def test_the_longest_duration() -> None:
    assert parse_duration(f"{DURATION_US_MAX} us") == DURATION_US_MAX
    with pytest.raises(ValueError, match="longer"):
        parse_duration(f"{DURATION_US_MAX} us 1 us")


@given(st.integers(0, DURATION_US_MAX))
def test_shown_durations_read_back(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us


def test_shown_durations_use_the_largest_whole_unit() -> None:
    assert format_duration(7 * DAY) == "7 days"
    assert format_duration(DAY) == "1 day"
    assert format_duration(90 * SECOND) == "90 s"
    assert format_duration(0) == "0 s"


@pytest.mark.parametrize("text", ["none", "None", "unlimited", "Unlimited", "never_expire"])
def test_never(text: str) -> None:
    assert parse_expiry(text) == NEVER


@pytest.mark.parametrize("text", ["default", "Default", "server_default", "Server_default", "0"])
def test_server_default(text: str) -> None:
    assert parse_expiry(text) == SERVER_DEFAULT


def test_expiry_keeps_the_case_of_its_units() -> None:
    assert parse_expiry("1 M") == 2_630_016 * SECOND
    with pytest.raises(ValueError, match=r"unit"):
        parse_expiry("NONE")


def test_the_longest_expiry() -> None:
    assert parse_expiry(f"{2**32 - 1} s") == EXPIRY_MAX
    with pytest.raises(ValueError, match="longer"):
        parse_expiry(f"{2**32} s")


@pytest.mark.parametrize("expiry_us", [NEVER, SERVER_DEFAULT, HOUR, 1, EXPIRY_MAX])
def test_shown_expiries_read_back(expiry_us: int) -> None:
    assert parse_expiry(format_expiry(expiry_us)) == expiry_us


def test_seconds_for_timers() -> None:
    assert seconds(1_500_000) == 1.5
