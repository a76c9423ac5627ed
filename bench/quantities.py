"""Sizes, counts, ranges and durations as the command line takes them.

Pure: text to values. A range is `min..max`, both ends included; a single number is a range of
one. Sizes are bytes ("1000", "4 KB", "1 MiB"), durations nanoseconds ("10ms", "1.5 s").
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from borzoi import quantities
from borzoi.quantities import NS_PER_S as NS_PER_S
from borzoi.quantities import NS_PER_US as NS_PER_US

KB: Final = 1_000
MB: Final = 1_000_000
GB: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Range:
    """`first` to `last`, both included."""

    first: int
    last: int

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one value."""
        return self.first == self.last

    @property
    def middle(self) -> float:
        """The mean of both ends."""
        return (self.first + self.last) / 2

    def __str__(self) -> str:
        return str(self.first) if self.is_fixed else f"{self.first}..{self.last}"


def parse_size(text: str) -> int:
    """Bytes; "/s" behind the unit is allowed, because rates are sizes too."""
    return _parsed(text, "size", lambda text: quantities.parse_size(text.removesuffix("/s")))


def parse_duration_ns(text: str) -> int:
    """Returns the nanoseconds of a duration such as 5s; else raises ValueError."""
    return _parsed(text, "duration", quantities.parse_seconds_ns)


def parse_range(text: str) -> Range:
    """`min..max` of sizes, or one size. Nothing below 1 makes sense for what is measured."""
    first, dots, last = text.partition("..")
    found = Range(parse_size(first), parse_size(last if dots else first))
    if not 1 <= found.first <= found.last:
        raise ValueError(f"{text!r} is no range: needs 1 <= min <= max")
    return found


def format_size(size: float) -> str:
    """Returns a size as text, in powers of ten."""
    for unit, factor in (("GB", GB), ("MB", MB), ("KB", KB)):
        if abs(size) >= factor:
            return f"{size / factor:,.2f} {unit}"
    return f"{size:,.0f} B"


def _parsed(text: str, what: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text.strip())
    except ValueError as error:
        raise ValueError(f"{text!r} is no {what}: {error}") from error
