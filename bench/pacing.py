"""When each request of an actor is planned to leave.

Pure. Under a rate limit request i is planned at `start + i * interval`, whatever happened to the
requests before it. Latency is counted from that moment. A server that stalls for a second makes
every request planned in that second late. Real users do not wait for each other either. Counting
from the actual send would hide the late ones (coordinated omission).

Always: planned times do not depend on answers; without a limit a request is planned for the
moment it can be sent.
"""

from dataclasses import dataclass

from borzoi.bench.quantities import NS_PER_S


@dataclass(slots=True)
class Pace:
    """The plan of one actor. `interval_ns` is 0 when there is no limit."""

    interval_ns: int
    start_ns: int = 0
    number: int = 0

    def restart(self, start_ns: int) -> None:
        """Starts the count at 0: the first request is planned for `start_ns`."""
        self.start_ns = start_ns
        self.number = 0

    def next_planned_ns(self, now_ns: int) -> int:
        """When the next request should leave; in the past when we are behind the plan."""
        if not self.interval_ns:
            return now_ns
        planned = self.start_ns + self.number * self.interval_ns
        self.number += 1
        return planned


def interval_ns(rate_bytes_per_s: int | None, actor_count: int, batch_bytes: float) -> int:
    """Time between two batches of one actor when `actor_count` share the rate; 0 for no limit."""
    if rate_bytes_per_s is None:
        return 0
    return max(1, round(batch_bytes * actor_count * NS_PER_S / rate_bytes_per_s))


def staggered_start_ns(start_ns: int, interval: int, number: int, actor_count: int) -> int:
    """The first planned moment of actor `number`: the actors take turns, they do not pulse."""
    return start_ns + interval * number // actor_count
