"""Whether something can be read: by poll, because select takes no descriptor above 1,023."""

import math
import select
from collections.abc import Iterable
from typing import Protocol


class HasFileno(Protocol):
    def fileno(self) -> int: ...


def readable(
    candidates: Iterable[int | HasFileno], wait_s: float | None = 0.0
) -> list[tuple[int, int]]:
    """The descriptors that have something to read, or have ended; None waits without end."""
    poller = select.poll()
    for candidate in candidates:
        poller.register(candidate, select.POLLIN)
    return poller.poll(None if wait_s is None else math.ceil(wait_s * 1000))


def is_readable(candidate: int | HasFileno, wait_s: float | None = 0.0) -> bool:
    return bool(readable([candidate], wait_s))
