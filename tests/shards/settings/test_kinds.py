"""Sizes, durations and expiries between text and numbers, with the words the configuration has."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.quantities import (
    DAY,
    DURATION_US_MAX,
    HOUR,
    MINUTE,
    SECOND,
    format_duration,
    format_size,
    seconds,
)
from borzoi.shards.settings.kinds import (
    EXPIRY_MAX,
    NEVER,
    SERVER_DEFAULT,
    U64_MAX,
    UNLIMITED,
    read_duration,
    read_expiry,
    read_size,
    read_topic_size,
    show_expiry,
    show_topic_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("100.00 KB", 100_000),
        ("400.00 KB", 400_000),
        ("5KiB", 5 * 1024),
        ("0 B", 0),
        ("512B", 512),
        ("1GB", 10**9),
        ("1 GiB", 2**30),
        ("1 gib", 2**30),
        ("2 tb", 2 * 10**12),
        ("2 TiB", 2 * 2**40),
        ("1.5 MiB", 3 * 2**19),
        ("0.1 KiB", 102),
        ("1024", 1024),
        (4096, 4096),
        (U64_MAX, U64_MAX),
        (str(U64_MAX), U64_MAX),
    ],
)
def test_sizes_in_words(text: str | int, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "KB", "1 XB", "1 KB KB", "-1", "1,5 KB", "1e3", U64_MAX + 1, -1, "17000000 TiB"]
)
def test_what_is_no_size(text: str | int) -> None:
    with pytest.raises(ValueError, match=r"unit|bytes"):
        read_size(text)


@given(st.integers(0, U64_MAX))
def test_shown_sizes_read_back(size: int) -> None:
    assert read_size(format_size(size)) == size


def test_shown_sizes_use_the_largest_whole_unit() -> None:
    assert format_size(2**30) == "1 GiB"
    assert format_size(100_000) == "100 KB"
    assert format_size(1025) == "1025 B"
    assert format_size(0) == "0 B"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("unlimited", UNLIMITED),
        ("Unlimited", UNLIMITED),
        ("server_default", SERVER_DEFAULT),
        ("0", SERVER_DEFAULT),
        (0, SERVER_DEFAULT),
        ("10 GB", 10**10),
    ],
)
def test_topic_sizes(text: str | int, size: int) -> None:
    assert read_topic_size(text) == size
    assert read_topic_size(show_topic_size(size)) == size


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
def test_durations_in_words(text: str, duration_us: int) -> None:
    assert read_duration(text) == duration_us


@pytest.mark.parametrize("text", ["", "30", "s", "1 fortnight", "1.5 h", "-1 s", "1 h 5", "1" * 30])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="unit"):
        read_duration(text)


def test_the_longest_duration() -> None:
    assert read_duration(f"{DURATION_US_MAX} us") == DURATION_US_MAX
    with pytest.raises(ValueError, match="longer"):
        read_duration(f"{DURATION_US_MAX} us 1 us")


@given(st.integers(0, DURATION_US_MAX))
def test_shown_durations_read_back(duration_us: int) -> None:
    assert read_duration(format_duration(duration_us)) == duration_us


def test_shown_durations_use_the_largest_whole_unit() -> None:
    assert format_duration(7 * DAY) == "7 days"
    assert format_duration(DAY) == "1 day"
    assert format_duration(90 * SECOND) == "90 s"
    assert format_duration(0) == "0 s"


@pytest.mark.parametrize("text", ["none", "None", "unlimited", "Unlimited", "never_expire"])
def test_never(text: str) -> None:
    assert read_expiry(text) == NEVER


@pytest.mark.parametrize("text", ["default", "Default", "server_default", "Server_default", "0"])
def test_server_default(text: str) -> None:
    assert read_expiry(text) == SERVER_DEFAULT


def test_expiry_keeps_the_case_of_its_units() -> None:
    assert read_expiry("1 M") == 2_630_016 * SECOND
    with pytest.raises(ValueError, match=r"unit"):
        read_expiry("NONE")


def test_the_longest_expiry() -> None:
    assert read_expiry(f"{2**32 - 1} s") == EXPIRY_MAX
    with pytest.raises(ValueError, match="longer"):
        read_expiry(f"{2**32} s")


@pytest.mark.parametrize("expiry_us", [NEVER, SERVER_DEFAULT, HOUR, 1, EXPIRY_MAX])
def test_shown_expiries_read_back(expiry_us: int) -> None:
    assert read_expiry(show_expiry(expiry_us)) == expiry_us


def test_seconds_for_timers() -> None:
    assert seconds(1_500_000) == 1.5
