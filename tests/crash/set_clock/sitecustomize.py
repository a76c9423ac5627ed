"""Makes the calendar of this process follow a file, if the environment names one.

    shifted NANOSECONDS     the true time and so much, which may be negative
    frozen NANOSECONDS      this moment, since 1970, for ever

Everything of ours asks `time` for the calendar, at the moment it wants to know.
"""

import os
import time
from typing import Final

CLOCK_FILE_VARIABLE: Final = "BORZOI_TEST_CLOCK_FILE"
SHIFTED: Final = "shifted"
FROZEN: Final = "frozen"


def follow(path: str) -> None:
    """From now on, in this process."""
    true_time_ns = time.time_ns

    def time_ns() -> int:
        with open(path, encoding="ascii") as file:
            kind, number = file.read().split()
        return int(number) if kind == FROZEN else true_time_ns() + int(number)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if CLOCK_FILE_VARIABLE in os.environ:
    follow(os.environ[CLOCK_FILE_VARIABLE])
