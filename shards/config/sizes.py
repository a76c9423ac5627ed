"""Byte sizes as people write them: "1 GiB", "100.00 KB", "512B", or a bare number of bytes.

Pure functions between text and a number of bytes. Always: parse_size(format_size(n)) == n for
every n that fits 64 bits, so a rendered configuration reads back as itself.
"""

from __future__ import annotations

from typing import Final

from borzoi.quantities import parse_size as parse_size_text

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

SIZE_MAX: Final = 2**64 - 1

# A topic without a limit, and a topic that takes the server's; the numbers clients send for them.
UNLIMITED: Final = 2**64 - 1
SERVER_DEFAULT: Final = 0

# Largest first, the binary unit before the decimal one: format_size takes the first that divides.
UNITS: Final = (
    ("TiB", 1024**4),
    ("TB", 1000**4),
    ("GiB", GIB),
    ("GB", 1000**3),
    ("MiB", MIB),
    ("MB", 1000**2),
    ("KiB", KIB),
    ("KB", 1000),
    ("B", 1),
)


def parse_size(value: int | str) -> int:
    """Bytes of `value`; a fraction of a byte is dropped. ValueError when it is no size."""
    size = value if isinstance(value, int) else parse_size_text(value)
    if not 0 <= size <= SIZE_MAX:
        raise ValueError("outside 0 to 2^64 - 1 bytes")
    return size


def format_size(size: int) -> str:
    """The shortest text of whole units that means exactly `size` bytes."""
    if size == 0:
        return "0 B"
    return next(f"{size // factor} {unit}" for unit, factor in UNITS if size % factor == 0)


def parse_topic_size(value: int | str) -> int:
    """A size limit of a topic: bytes, UNLIMITED or SERVER_DEFAULT."""
    if isinstance(value, str):
        text = value.strip().lower()
        if text == "unlimited":
            return UNLIMITED
        if text == "server_default":
            return SERVER_DEFAULT
    return parse_size(value)


def format_topic_size(size: int) -> str:
    if size == UNLIMITED:
        return "unlimited"
    return "server_default" if size == SERVER_DEFAULT else format_size(size)
