"""A clock that a test sets, for a broker of its own: no other process on the machine sees it.

`sitecustomize.py` in this folder is what Python imports at its start where PYTHONPATH names the
folder; there it makes the calendar of the process follow a file. Monotonic clocks stay as they
are, as when the machine's clock is set.
"""

import os
import time
from pathlib import Path

from tests.crash.set_clock.sitecustomize import CLOCK_FILE_VARIABLE, FROZEN, SHIFTED


class SettableClock:
    """The calendar of the processes that are started with `environment`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.shift_s(0)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PYTHONPATH": os.path.dirname(__file__),
            CLOCK_FILE_VARIABLE: str(self._file),
        }

    def shift_s(self, seconds: int) -> None:
        """So far ahead of the true time, or behind it."""
        self._write(f"{SHIFTED} {seconds * 10**9}")

    def freeze(self) -> None:
        """It stays at this moment."""
        self._write(f"{FROZEN} {time.time_ns()}")

    def _write(self, text: str) -> None:
        # By a rename: a reader never sees half of it.
        fresh = self._file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self._file)
