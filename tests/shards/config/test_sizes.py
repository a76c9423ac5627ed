"""Byte sizes between text and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.config.sizes import (
    SERVER_DEFAULT,
    SIZE_MAX,
    UNLIMITED,
    format_size,
    format_topic_size,
    parse_size,
    parse_topic_size,
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
        (SIZE_MAX, SIZE_MAX),
        (str(SIZE_MAX), SIZE_MAX),
    ],
)
def test_what_people_write(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "KB", "1 XB", "1 KB KB", "-1", "1,5 KB", "1e3", SIZE_MAX + 1, -1, "17000000 TiB"]
)
def test_what_is_no_size(text: str | int) -> None:
    with pytest.raises(ValueError, match=r"unit|bytes"):
        parse_size(text)


@given(st.integers(0, SIZE_MAX))
def test_shown_sizes_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


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
    assert parse_topic_size(text) == size
    assert parse_topic_size(format_topic_size(size)) == size
