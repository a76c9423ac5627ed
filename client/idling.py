"""How long a consumer that found nothing waits before it asks again.

The wire has no poll that waits, so an idle consumer has to ask. From the first empty round on it
waits twice as long each time, up to a bound; the first message resets the wait. So a message that
follows others is found within a millisecond or two. An idle consumer with the default bound costs
ten requests a second, less than half a percent of a core (2-core virtual machine).
"""

from dataclasses import dataclass

from borzoi.client.arguments import InvalidArgument


@dataclass(frozen=True, slots=True)
class Idling:
    """The shortest and the longest wait of an idle consumer."""

    wait_min_s: float = 0.001
    wait_max_s: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.wait_min_s <= self.wait_max_s:
            raise InvalidArgument(
                f"waits from {self.wait_min_s} to {self.wait_max_s} s;"
                " 0 < wait_min_s <= wait_max_s is needed"
            )

    def wait_s(self, empty_rounds: int) -> float:
        """How long to wait after so many rounds without a message, counted from 1."""
        doublings = min(empty_rounds - 1, 63)  # more would only be a large number
        return min(self.wait_min_s * 2.0**doublings, self.wait_max_s)
