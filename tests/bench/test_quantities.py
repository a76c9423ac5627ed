"""Sizes, ranges and durations from the command line."""

import pytest

from borzoi.bench.quantities import (
    Range,
    format_size,
    parse_duration_ns,
    parse_range,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("1KB", 1000),
        ("4 KiB", 4096),
        ("1.5MB", 1_500_000),
        ("20GB", 20_000_000_000),
        ("10MB/s", 10_000_000),
        ("0", 0),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("10ms", 10_000_000),
        ("1s", 1_000_000_000),
        ("0s", 0),
        ("2 m", 120_000_000_000),
        ("3", 3 * 10**9),
    ],
)
def test_durations(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


def test_ranges() -> None:
    assert parse_range("100") == Range(100, 100)
    assert parse_range("100..2000") == Range(100, 2000)
    assert parse_range("1KB..1MB") == Range(1000, 1_000_000)
    assert str(parse_range("5..5")) == "5"
    assert str(parse_range("5..6")) == "5..6"


@pytest.mark.parametrize("text", ["", "x", "5..", "..5", "6..5", "0", "-1", "1e3", "5 apples"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        parse_range(text)


def test_sizes_for_people() -> None:
    assert format_size(999) == "999 B"
    assert format_size(1_500) == "1.50 KB"
    assert format_size(20_000_000_000) == "20.00 GB"
