"""Numbers as Iggy's JSON has them. Pure.

A size is text, "<number> <unit>", and exact: the largest unit in which it is at least 1 and has at
most three decimals. A float of 32 bits is written with as many digits as tell it from others.
"""

import struct
from typing import Final

F32: Final = struct.Struct("<f")
UNITS: Final = (
    ("TiB", 1 << 40),
    ("TB", 10**12),
    ("GiB", 1 << 30),
    ("GB", 10**9),
    ("MiB", 1 << 20),
    ("MB", 10**6),
    ("KiB", 1 << 10),
    ("KB", 10**3),
)
DIGITS_OF_F32: Final = range(6, 10)


def size_text(size: int) -> str:
    """A number of bytes as text: 0 is "0 B", 150949888 is "147412 KiB"."""
    for name, unit in UNITS:
        if size >= unit and size * 1000 % unit == 0:
            whole, thousandths = divmod(size * 1000 // unit, 1000)
            decimals = f".{thousandths:03}".rstrip("0") if thousandths else ""
            return f"{whole}{decimals} {name}"
    return f"{size} B"


def float32(value: float) -> float:
    """The shortest number that is this one as a float of 32 bits."""
    wanted = F32.pack(value)
    for digits in DIGITS_OF_F32:
        shorter = float(f"{value:.{digits}g}")
        if F32.pack(shorter) == wanted:
            return shorter
    return value
