"""A row of the table of targets: what is compared, with what, and whether it is met.

Values and arithmetic only. A row is made from several runs; each run holds a reference figure and
the broker's, measured one after the other. Where the broker must reach a share of a limit the best
run counts, as for any limit. Where it must not cost more than something else, the lowest cost of
each side. The median of all runs stands beside it, so that luck is seen.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

# Of one core. Below it are the kernel's own threads and the bench's parent process.
FOREIGN_SHARE_MAX: Final = 0.25


def disturbance(extras: Mapping[str, Any]) -> str:
    """What a report says of programs that took CPUs from the run; empty if they took little."""
    share = extras["rate"]["foreign_cpu_share"]
    if share <= FOREIGN_SHARE_MAX:
        return ""
    return f"Disturbed: other programs kept {share:.1f} cores busy meanwhile"


class Run(NamedTuple):
    """One comparison: the reference (a bare limit, or the same load in the plain case).

    `cpu_ratio` is the reference's CPU time per request over the broker's. It says the same as the
    ratio when no other program is on the CPUs, and stays true when one is. Then the run counts as
    disturbed, because a limit that others held down is no limit.
    """

    reference: float
    broker: float
    note: str = ""
    cpu_ratio: float | None = None
    foreign_cpu_share: float = 0.0

    @property
    def ratio(self) -> float:
        """The broker's figure over the reference, 0 without one."""
        return self.broker / self.reference if self.reference else 0.0

    @property
    def disturbed(self) -> bool:
        """Whether other programs used the CPUs too much for this run to count."""
        return self.foreign_cpu_share > FOREIGN_SHARE_MAX


@dataclass(frozen=True, slots=True)
class Row:
    """`at_most`: the ratio must not exceed the target; otherwise it must reach it."""

    name: str
    workload: str
    unit: str
    target: float
    at_most: bool
    runs: tuple[Run, ...]
    skipped: str = ""

    @property
    def best(self) -> Run | None:
        """The run that decides; None if there is none."""
        if not self.runs:
            return None
        if self.at_most:
            # Costs: the lowest of each side. One run's ratio would look best when something
            # else made its reference expensive.
            reference = min(run.reference for run in self.runs)
            cheapest = min(self.runs, key=lambda run: run.broker)
            return Run(reference, cheapest.broker, cheapest.note)
        quiet = [run for run in self.runs if not run.disturbed]
        return max(quiet or self.runs, key=lambda run: run.ratio)

    @property
    def median_ratio(self) -> float:
        """The median ratio of all runs."""
        return statistics.median(run.ratio for run in self.runs) if self.runs else 0.0

    @property
    def median_cpu_ratio(self) -> float | None:
        """The median ratio of CPU time per request; None if it is unknown."""
        known = [run.cpu_ratio for run in self.runs if run.cpu_ratio is not None]
        return statistics.median(known) if known else None

    @property
    def met(self) -> bool | None:
        """None when the row could not be measured, or only while others used the CPUs."""
        best = self.best
        if best is None or best.disturbed:
            return None
        return best.ratio <= self.target if self.at_most else best.ratio >= self.target

    def as_json(self) -> dict[str, object]:
        """Returns the members of a JSON object."""
        best = self.best
        return {
            "name": self.name,
            "workload": self.workload,
            "unit": self.unit,
            "target": self.target,
            "comparison": "at most" if self.at_most else "at least",
            "reference": best.reference if best else None,
            "broker": best.broker if best else None,
            "ratio": best.ratio if best else None,
            "disturbed": best.disturbed if best else None,
            "median_ratio": self.median_ratio if best else None,
            "met": self.met,
            "skipped": self.skipped or None,
            "cpu_ratio": best.cpu_ratio if best else None,
            "note": best.note if best else "",
            "runs": [run._asdict() | {"ratio": run.ratio} for run in self.runs],
        }


def all_met(rows: Sequence[Row]) -> bool:
    """A row that was skipped says nothing; one that stays undecided is not met."""
    return all(row.met or row.skipped for row in rows)
