"""A process that dies between two stores, without dying: words that stop taking stores.

DyingWords stands in for the words of a shared memory and lets a number of stores through, then
calls `death`. In a test that raises; in a child process it is SIGKILL, which leaves
the shared memory exactly as a crash would.
"""

from collections.abc import Callable
from typing import cast


class Died(Exception):
    """The writer is no more."""


def die() -> None:
    raise Died


class DyingWords:
    """Words that take `stores` stores and then die before the next."""

    def __init__(self, words: memoryview, stores: int, death: Callable[[], None] = die) -> None:
        self._words = words
        self._left = stores
        self._death = death

    def __getitem__(self, index: int) -> int:
        return self._words[index]

    def __setitem__(self, index: int, value: int) -> None:
        if self._left == 0:
            self._death()
        self._left -= 1
        self._words[index] = value


def dying(words: memoryview, stores: int, death: Callable[[], None] = die) -> memoryview:
    """As above, dressed as the memoryview that rings and boards expect."""
    return cast(memoryview, DyingWords(words, stores, death))
