"""Sizes and durations as people write them, in the configuration and on every command line.

Pure: text to whole bytes, nanoseconds or microseconds. Words such as "unlimited" or "never" are
the business of whoever gives them a meaning. Errors say what is wrong with the text, not what it
was meant for.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
NS_PER_DAY: Final = 86_400 * NS_PER_S

SIZE_UNITS: Final = {
    **{"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
    **{"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40},
}
# As Spark has it: k, kb and kib are the same power of two.
BINARY_SIZE_UNITS: Final = {
    "b": 1,
    **{
        prefix + ending: 1024**power
        for power, prefix in enumerate("kmgt", start=1)
        for ending in ("", "b", "i", "ib")
    },
}
# In nanoseconds. A month is a twelfth of a year of 365.25 days, rounded to hundredths of a day.
DURATION_UNITS: Final = {
    **dict.fromkeys(("ns", "nsec"), 1),
    **dict.fromkeys(("us", "usec", "µs"), NS_PER_US),
    **dict.fromkeys(("ms", "msec"), NS_PER_MS),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), NS_PER_S),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60 * NS_PER_S),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3_600 * NS_PER_S),
    **dict.fromkeys(("d", "day", "days"), NS_PER_DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * NS_PER_DAY),
    **dict.fromkeys(("M", "month", "months"), 3044 * NS_PER_DAY // 100),
    **dict.fromkeys(("y", "year", "years"), 36525 * NS_PER_DAY // 100),
}
DURATION_US_MAX: Final = 2**64 - 1

# Bounded, so that no text makes a number of a million digits.
ONE: Final = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,12})?)\s*([a-zA-Z]*)\s*", re.ASCII)
PART: Final = re.compile(r"\s*([0-9]{1,20})\s*([a-zA-Zµ]+)")


def parse_size(text: str, units: Mapping[str, int] = SIZE_UNITS) -> int:
    """Bytes of `1.5 MiB`, `512B` or `4096`; a fraction of a byte is dropped."""
    return _one(text, units, without_unit=1)


def parse_seconds_ns(text: str) -> int:
    """Nanoseconds of `1.5 s`, `10ms` or `3`: one number, without a unit in seconds."""
    return _one(text, DURATION_UNITS, without_unit=NS_PER_S)


def parse_duration_us(text: str) -> int:
    """Microseconds of `1day 2h 3min`: whole numbers, each with a unit, whose case counts.

    Less than a microsecond counts as one, so that "500 ns" does not mean "off".
    """
    total_ns = 0
    position = 0
    while position < len(text):
        part = PART.match(text, position)
        if part is None:
            raise ValueError("no number with a unit")
        total_ns += int(part[1]) * _unit(part[2], DURATION_UNITS)
        position = part.end()
    if position == 0:
        raise ValueError("no number with a unit")
    duration_us = -(-total_ns // NS_PER_US)
    if duration_us > DURATION_US_MAX:
        raise ValueError("longer than 2^64 - 1 microseconds")
    return duration_us


def _one(text: str, units: Mapping[str, int], *, without_unit: int) -> int:
    match = ONE.fullmatch(text)
    if match is None:
        raise ValueError("no number with a unit")
    factor = _unit(match[2].lower(), units) if match[2] else without_unit
    return int(Decimal(match[1]) * factor)


def _unit(name: str, units: Mapping[str, int]) -> int:
    try:
        return units[name]
    except KeyError:
        raise ValueError(f"unknown unit {name}, there are {', '.join(units)}") from None
