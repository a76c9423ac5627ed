"""What a store is asked, and what it answers: the language between lane.py and a driver. Pure.

A driver carries operations out, in any order and at the same time, and hands each result back.
It repeats a reading that failed, because reading twice harms nothing. It never repeats a put by
itself: the machine does that, and knows why.
"""

from enum import Enum
from typing import Final, NamedTuple, TypeAlias

FIRST_PAUSE_S: Final = 0.05
PAUSE_S_MAX: Final = 2.0


class Create(NamedTuple):
    """Put an object if there is none under this key. Answered by PutResult."""

    key: str
    body: bytes
    tries: int = 0


class Put(NamedTuple):
    """Put an object whose name only one writer uses. Answered by OK or UNKNOWN."""

    key: str
    body: bytes
    tries: int = 0


class Get(NamedTuple):
    """Read an object. Answered by its bytes, or None if there is none."""

    key: str


class ListKeys(NamedTuple):
    """Read the names below a prefix and a slash. Answered by a list of Listed."""

    prefix: str


class Delete(NamedTuple):
    """Remove an object. What becomes of it does not matter: a sweep finds what was left."""

    key: str


Operation: TypeAlias = Create | Put | Get | ListKeys | Delete


class PutResult(Enum):
    """What became of a put."""

    OK = "ok"
    EXISTS = "exists"
    """The key is taken, perhaps by this very put, of which the first answer was lost."""
    UNKNOWN = "unknown"
    """It may have happened, may happen later, or never."""


class Listed(NamedTuple):
    """An object as a listing shows it."""

    key: str
    size: int
    modified_s: float


Result: TypeAlias = PutResult | bytes | list[Listed] | None


def pause_s(tries: int) -> float:
    """How long a driver waits before a put that was tried so often: 50 ms, doubling to 2 s."""
    return 0.0 if tries == 0 else min(FIRST_PAUSE_S * 2.0 ** min(tries - 1, 16), PAUSE_S_MAX)
