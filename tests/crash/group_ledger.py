"""What members of a group got and committed, and whether the rules of handing over were kept.

All times are of one monotonic clock. A time that something had at the broker is only known to lie
between two of ours, so every rule is judged with the bounds that accuse no member wrongly.
"""

import threading
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Delivery(NamedTuple):
    """One poll that returned messages."""

    member: str
    first: int
    last: int
    started: float
    finished: float


class Commit(NamedTuple):
    offset: int
    acknowledged: float


class Span(NamedTuple):
    """An event: it took effect somewhere between these two."""

    started: float
    finished: float


class Verdict(NamedTuple):
    delivered: int
    twice: int
    settled_events: int


class Violation(AssertionError):
    """A rule was broken."""


@dataclass
class GroupLedger:
    """Written by many threads."""

    revocation_timeout_s: float
    deliveries: dict[int, list[Delivery]] = field(default_factory=dict)
    commits: dict[int, list[Commit]] = field(default_factory=dict)
    joins: list[Span] = field(default_factory=list)
    departures: list[Span] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def delivered(self, partition: int, delivery: Delivery) -> None:
        with self._lock:
            self.deliveries.setdefault(partition, []).append(delivery)

    def committed(self, partition: int, commit: Commit) -> None:
        with self._lock:
            self.commits.setdefault(partition, []).append(commit)

    def judge(self, produced: Mapping[int, int]) -> Verdict:
        """Raises Violation if messages were skipped, or a member got what another one held."""
        delivered = twice = 0
        for partition, count in produced.items():
            deliveries = sorted(self.deliveries.get(partition, []), key=lambda it: it.finished)
            commits = sorted(self.commits.get(partition, []), key=lambda it: it.acknowledged)
            self._check_committed(partition, deliveries, commits)
            last_by: dict[int, Delivery] = {}
            for delivery in deliveries:
                for offset in range(delivery.first, delivery.last + 1):
                    before = last_by.get(offset)
                    if before is not None:
                        twice += 1
                        if before.member != delivery.member:
                            self._check_excuse(partition, offset, before, delivery)
                    last_by[offset] = delivery
            missing = sorted(set(range(count)) - set(last_by))
            if missing:
                raise Violation(
                    f"partition {partition}: {len(missing)} of {count} messages were skipped, "
                    f"the first is {missing[0]}"
                )
            delivered += len(last_by)
        return Verdict(delivered, twice, len(self.departures))

    @staticmethod
    def _check_committed(partition: int, deliveries: list[Delivery], commits: list[Commit]) -> None:
        """Nothing comes again that was committed before it was asked for."""
        times = [commit.acknowledged for commit in commits]
        highest: list[int] = []
        for commit in commits:
            highest.append(max(commit.offset, highest[-1] if highest else -1))
        for delivery in deliveries:
            known = bisect_left(times, delivery.started)
            if known and delivery.first <= highest[known - 1]:
                raise Violation(
                    f"partition {partition}: {delivery} although {highest[known - 1]} was "
                    "committed before"
                )

    def _check_excuse(self, partition: int, offset: int, before: Delivery, after: Delivery) -> None:
        """Two members have the same message: only a departure or the timeout explains it."""
        for span in self.departures:
            if span.started <= after.finished and span.finished >= before.started:
                return
        for span in self.joins:
            waited = after.finished - span.started
            if waited >= self.revocation_timeout_s and before.started <= span.finished:
                return
        raise Violation(
            f"partition {partition}, offset {offset}: {before.member} got it and so did "
            f"{after.member}, and no member left and no time was over: {before}, {after}"
        )
