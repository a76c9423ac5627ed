"""Two reports side by side: what got better and what worse, in percent.

Pure: works on the plain values of report.json, ours or iggy-bench's. Warns where the two runs
cannot be compared because parameters or machines differ.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from borzoi.bench.measures import PERCENTILE_NAMES

# Of the parameters, those that decide what was measured.
DECISIVE: Final = (
    "benchmark_kind",
    "message_size",
    "messages_per_batch",
    "producers",
    "consumers",
    "streams",
    "partitions",
    "rate_limit",
)
MACHINE: Final = ("cpu_name", "cpu_cores", "total_memory_mb")
NOISE: Final = 0.03  # less than this is not called a change


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of both runs. `change` is relative; `better` None when it is only noise."""

    group: str
    figure: str
    before: float
    after: float
    more_is_better: bool

    @property
    def change(self) -> float:
        """The relative change, 0 if there was nothing before."""
        return self.after / self.before - 1.0 if self.before else 0.0

    @property
    def better(self) -> bool | None:
        """Whether the change is an improvement; None if it is only noise."""
        if abs(self.change) < NOISE:
            return None
        return (self.change > 0) == self.more_is_better


def compare(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """All figures that both reports have."""
    return list(_differences(before, after))


def warnings(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Why these two should perhaps not be compared."""
    found = []
    for part, names in (("params", DECISIVE), ("hardware", MACHINE)):
        for name in names:
            first, second = before[part].get(name), after[part].get(name)
            if str(first) != str(second):
                found.append(f"{name} differs: {first} and {second}")
    return found


def _differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Difference]:
    groups = {group["summary"]["kind"]: group["summary"] for group in after["group_metrics"]}
    figures = [
        ("MB/s", "total_throughput_megabytes_per_second", True),
        ("messages/s", "total_throughput_messages_per_second", True),
        *((f"{name} ms", f"average_{name}_latency_ms", False) for name in PERCENTILE_NAMES),
        ("mean ms", "average_latency_ms", False),
        ("max ms", "max_latency_ms", False),
    ]
    for group in before["group_metrics"]:
        first = group["summary"]
        second = groups.get(first["kind"])
        if second is None:
            continue
        for title, field, more_is_better in figures:
            if field in first and field in second:
                yield Difference(first["kind"], title, first[field], second[field], more_is_better)
    first_cost, second_cost = _cost(before), _cost(after)
    if first_cost and second_cost:
        yield Difference("shards", "us CPU/request", first_cost, second_cost, False)


def _cost(report: dict[str, Any]) -> float:
    cost: float = report.get("borzoi", {}).get("rate", {}).get("server_us_per_request", 0.0)
    return cost
