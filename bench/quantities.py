"""Sizes, counts, ranges and durations as people write them on the command line.

Pure: text to values. A range is `min..max`, both ends included; a single number is a range of
one. Sizes are bytes ("1000", "4 KB", "1 MiB"), durations nanoseconds ("10ms", "1.5 s").
"""

import re
from dataclasses import dataclass
from typing import Final

KB: Final = 1_000
MB: Final = 1_000_000
GB: Final = 1_000_000_000
NS_PER_S: Final = 1_000_000_000
NS_PER_US: Final = 1_000

SIZE_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": KB,
    "mb": MB,
    "gb": GB,
    "tb": 1000 * GB,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}
DURATION_UNITS_NS: Final = {
    "ns": 1,
    "us": NS_PER_US,
    "ms": 1_000_000,
    "": NS_PER_S,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
NUMBER_AND_UNIT: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)(?:/s)?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Range:
    """`first` to `last`, both included."""

    first: int
    last: int

    @property
    def is_fixed(self) -> bool:
        return self.first == self.last

    @property
    def middle(self) -> float:
        return (self.first + self.last) / 2

    def __str__(self) -> str:
        return str(self.first) if self.is_fixed else f"{self.first}..{self.last}"


def parse_size(text: str) -> int:
    """Bytes; "/s" behind the unit is allowed, because rates are sizes too."""
    return _scaled(text, SIZE_UNITS, "size")


def parse_duration_ns(text: str) -> int:
    return _scaled(text, DURATION_UNITS_NS, "duration")


def parse_range(text: str) -> Range:
    """`min..max` of sizes, or one size. Nothing below 1 makes sense for what is measured."""
    first, dots, last = text.partition("..")
    found = Range(parse_size(first), parse_size(last if dots else first))
    if not 1 <= found.first <= found.last:
        raise ValueError(f"{text!r} is no range: needs 1 <= min <= max")
    return found


def format_size(size: float) -> str:
    """A size for people to read, in powers of ten."""
    for unit, factor in (("GB", GB), ("MB", MB), ("KB", KB)):
        if abs(size) >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size:,.0f} B"


def _scaled(text: str, units: dict[str, int], what: str) -> int:
    match = NUMBER_AND_UNIT.fullmatch(text)
    factor = units.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is no {what}: needs a number with one of {_shown(units)}")
    return int(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


def _shown(units: dict[str, int]) -> str:
    return ", ".join(unit for unit in units if unit)
