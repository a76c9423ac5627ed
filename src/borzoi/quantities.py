"""Sizes and durations in words: in the configuration, in Spark's options, on every command line.

Pure functions between text and whole bytes, nanoseconds or microseconds. Words such as "unlimited"
or "never" belong to the places that give them a meaning. Errors say what is wrong with the text,
not what it was meant for. Always: what format_size and format_duration return reads back as the
same number.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30

NS_PER_US: Final = 1_000
NS_PER_S: Final = 1_000_000_000
# In microseconds.
MILLISECOND: Final = 1_000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

SIZE_UNITS: Final = {
    **{"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12},
    **{"kib": KIB, "mib": MIB, "gib": GIB, "tib": 1 << 40},
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
_NS_PER_DAY: Final = DAY * NS_PER_US
# In nanoseconds. A month is a twelfth of a year of 365.25 days, rounded to hundredths of a day.
DURATION_UNITS: Final = {
    **dict.fromkeys(("ns", "nsec"), 1),
    **dict.fromkeys(("us", "usec", "µs"), NS_PER_US),
    **dict.fromkeys(("ms", "msec"), MILLISECOND * NS_PER_US),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), NS_PER_S),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), MINUTE * NS_PER_US),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), HOUR * NS_PER_US),
    **dict.fromkeys(("d", "day", "days"), _NS_PER_DAY),
    **dict.fromkeys(("w", "week", "weeks"), 7 * _NS_PER_DAY),
    **dict.fromkeys(("M", "month", "months"), 3044 * _NS_PER_DAY // 100),
    **dict.fromkeys(("y", "year", "years"), 36525 * _NS_PER_DAY // 100),
}
DURATION_US_MAX: Final = 2**64 - 1

# Largest first, the binary unit before the decimal one: the first that divides is shown.
SHOWN_SIZES: Final = {
    unit: SIZE_UNITS[unit.lower()]
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "KB", "B")
}
SHOWN_DURATIONS: Final = {
    "days": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND, "us": 1
}  # fmt: skip

# Bounded, so that no text makes a number of a million digits.
ONE: Final = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,12})?)\s*([a-zA-Z]*)\s*", re.ASCII)
PART: Final = re.compile(r"\s*([0-9]{1,20})\s*([a-zA-Zµ]+)")


def parse_size(text: str, units: Mapping[str, int] = SIZE_UNITS) -> int:
    """Bytes of `1.5 MiB`, `512B` or `4096`; a fraction of a byte is dropped."""
    return _one(text, units, without_unit=1)


def format_size(size: int) -> str:
    """The shortest text of whole units that means exactly `size` bytes."""
    return _shown(size, SHOWN_SIZES) if size else "0 B"


def parse_seconds_ns(text: str) -> int:
    """Nanoseconds of `1.5 s`, `10ms` or `3`: one number, without a unit in seconds."""
    return _one(text, DURATION_UNITS, without_unit=NS_PER_S)


def parse_duration_us(text: str) -> int:
    """Microseconds of `1day 2h 3min`: whole numbers, each with a unit, whose case counts.

    Less than a microsecond counts as one, so that "500 ns" does not mean "off".
    """
    total_ns = 0
    position = 0
    while position < len(text) or position == 0:
        part = PART.match(text, position)
        if part is None:
            raise ValueError("no number with a unit")
        total_ns += int(part[1]) * _unit(part[2], DURATION_UNITS)
        position = part.end()
    duration_us = -(-total_ns // NS_PER_US)
    if duration_us > DURATION_US_MAX:
        raise ValueError("longer than 2^64 - 1 microseconds")
    return duration_us


def format_duration(duration_us: int) -> str:
    """The shortest text of whole units that means exactly this duration."""
    if duration_us == DAY:
        return "1 day"
    return _shown(duration_us, SHOWN_DURATIONS) if duration_us else "0 s"


def seconds(duration_us: int) -> float:
    """The same length for timers, which count in seconds."""
    return duration_us / SECOND


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


def _shown(number: int, units: Mapping[str, int]) -> str:
    return next(f"{number // size} {unit}" for unit, size in units.items() if number % size == 0)
