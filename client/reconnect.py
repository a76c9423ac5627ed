"""How long and how often a lost connection is made again. Values only; session.py does it.

Delays double from the smallest to the largest. Each is shortened by chance, so that the clients
of a broker that comes back do not all arrive in the same moment.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from borzoi.client.arguments import InvalidArgument

SHORTEST_SHARE: Final = 0.5  # of a delay that chance leaves at least


@dataclass(frozen=True, slots=True)
class Reconnect:
    """The defaults give a broker about half a minute to come back."""

    attempts_max: int = 20
    delay_min_s: float = 0.05
    delay_max_s: float = 2.0

    def __post_init__(self) -> None:
        if self.attempts_max < 1:
            raise InvalidArgument(f"attempts_max is {self.attempts_max}; at least 1 is needed")
        if not 0 < self.delay_min_s <= self.delay_max_s:
            raise InvalidArgument(
                f"delays from {self.delay_min_s} to {self.delay_max_s} s;"
                " 0 < delay_min_s <= delay_max_s is needed"
            )

    def delays(self, chance: Callable[[], float]) -> Iterator[float]:
        """How long to wait before each attempt; `chance` gives numbers from 0 to 1."""
        delay_s = self.delay_min_s
        for _ in range(self.attempts_max):
            yield delay_s * (SHORTEST_SHARE + (1 - SHORTEST_SHARE) * chance())
            delay_s = min(2 * delay_s, self.delay_max_s)
