"""Writes that the disk refused, counted by what was written and by what the kernel said.

Owned by the worker's loop; noted where a failure is reported, so it costs nothing as long as there
is none. Both names come from short lists: an alarm wants figures that are there before the first
failure, and zero.
"""

import errno
from collections import Counter
from enum import Enum
from itertools import product
from typing import Final, NamedTuple

ERRORS: Final = {errno.EIO: "EIO", errno.ENOSPC: "ENOSPC", errno.EMFILE: "EMFILE"}
OTHER: Final = "other"


class Written(Enum):
    """What could not be written."""

    MESSAGES = "messages"
    SYNC = "sync"
    OFFSETS = "offsets"
    METADATA = "metadata"


class FaultCount(NamedTuple):
    """How often writes of one kind failed with one error."""

    written: str
    error: str
    times: int


class WriteFaults:
    """Counts of failed writes since this worker started, for the given kinds of writes."""

    def __init__(self, *written: Written) -> None:
        self._written = written
        self._counts: Counter[tuple[Written, str]] = Counter()

    def note(self, written: Written, error: BaseException) -> None:
        """Counts a failed write: an OSError, or an error of ours that has one as its cause."""
        cause = error if isinstance(error, OSError) else error.__cause__
        number = cause.errno if isinstance(cause, OSError) else None
        name = OTHER if number is None else ERRORS.get(number, OTHER)
        self._counts[written, name] += 1

    def counts(self) -> list[FaultCount]:
        """Returns every figure, also those that are zero."""
        return [
            FaultCount(written.value, error, self._counts[written, error])
            for written, error in product(self._written, (*ERRORS.values(), OTHER))
        ]
