"""Lengths of time as people write them: "30 s", "1day 2h 3min", "100ms", "none".

Pure functions between text and whole microseconds. Always: parse_duration(format_duration(n)) ==
n for every n that fits 64 bits.
"""

from __future__ import annotations

from typing import Final

from borzoi.quantities import parse_duration_us

MICROSECOND: Final = 1
MILLISECOND: Final = 1000
SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

# Message expiry and token expiry; the numbers clients send for them.
NEVER: Final = 2**64 - 1
SERVER_DEFAULT: Final = 0
# An expiry is kept in whole seconds of 32 bits by the clients that show it.
EXPIRY_MAX: Final = (2**32 - 1) * SECOND

ZERO_WORDS: Final = frozenset({"0", "unlimited", "disabled", "none"})
NEVER_WORDS: Final = frozenset({"none", "None", "unlimited", "Unlimited", "never_expire"})
DEFAULT_WORDS: Final = frozenset({"default", "Default", "server_default", "Server_default"})

# Largest first; format_duration takes the first that divides.
SHOWN_UNITS: Final = (
    ("days", DAY),
    ("h", HOUR),
    ("m", MINUTE),
    ("s", SECOND),
    ("ms", MILLISECOND),
    ("us", MICROSECOND),
)


def parse_duration(text: str) -> int:
    """Microseconds of `text`. Case does not count, so "M" is a minute here, not a month."""
    text = text.strip().lower()
    return 0 if text in ZERO_WORDS else parse_duration_us(text)


def format_duration(duration_us: int) -> str:
    """The shortest text of whole units that means exactly this duration."""
    if duration_us == 0:
        return "0 s"
    return next(
        f"{duration_us // length} {'day' if duration_us == DAY else unit}"
        for unit, length in SHOWN_UNITS
        if duration_us % length == 0
    )


def parse_expiry(text: str) -> int:
    """Microseconds of `text`, NEVER or SERVER_DEFAULT. Letters keep their case: "M" is a month."""
    text = text.strip()
    if text in NEVER_WORDS:
        return NEVER
    if text in DEFAULT_WORDS or text == "0":
        return SERVER_DEFAULT
    expiry_us = parse_duration_us(text)
    if expiry_us > EXPIRY_MAX:
        raise ValueError("longer than 2^32 - 1 seconds")
    return expiry_us


def format_expiry(expiry_us: int) -> str:
    if expiry_us == NEVER:
        return "none"
    return "server_default" if expiry_us == SERVER_DEFAULT else format_duration(expiry_us)


def seconds(duration_us: int) -> float:
    """The same length for timers, which count in seconds."""
    return duration_us / SECOND
