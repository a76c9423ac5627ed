"""How often something happened on one connection within a second, and whether that is too often."""

from typing import Final

WINDOW_S: Final = 1.0


class Often:
    """Counts in windows of a second, which begin when the one before is over."""

    __slots__ = ("_count", "_since")

    def __init__(self) -> None:
        self._count = 0
        self._since = 0.0

    def is_too_often(self, now: float, most: int, count: int = 1) -> bool:
        """It has happened again; whether that is more than `most` times in this second."""
        if now - self._since > WINDOW_S:
            self._count, self._since = 0, now
        self._count += count
        return self._count > most
