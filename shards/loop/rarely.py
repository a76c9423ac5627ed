"""Log lines that one thing may write only now and then, so that a client cannot fill the log.

Owned by the worker's loop; the caller brings the time. Nothing runs until a line is to be written.

Always: between two lines about one key lies at least the interval, and no more than `keys_max` keys
are remembered. Where all of them are fresh, a new key stays silent until one of them has aged.
"""

from collections.abc import Hashable
from typing import Final

WARN_AGAIN_S: Final = 60.0
"""So long after a warning the same thing is not warned of again."""

KEYS_MAX: Final = 4096


class Rarely:
    """Says whether a line about a key is due."""

    def __init__(self, interval_s: float = WARN_AGAIN_S, keys_max: int = KEYS_MAX) -> None:
        self._interval_s = interval_s
        self._keys_max = keys_max
        self._last_s: dict[Hashable, float] = {}

    def is_due(self, key: Hashable, now_s: float) -> bool:
        """Whether to write about this key now; a True counts as written."""
        last_s = self._last_s.get(key)
        if last_s is not None and now_s - last_s < self._interval_s:
            return False
        if last_s is None and len(self._last_s) >= self._keys_max:
            fresh = {
                one: then for one, then in self._last_s.items() if now_s - then < self._interval_s
            }
            self._last_s = fresh
            if len(fresh) >= self._keys_max:
                return False
        self._last_s[key] = now_s
        return True
