"""What `bench spark` found: rates, and what each is held to.

A case's time is the median of its runs. The shortest one is shown beside it, but a best run of
Parquet against a best run of ours is one lucky moment against another.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

TUPLES: Final = "source, tuples"
TCP: Final = "source, TCP"
SEGMENTS: Final = "source, segments"
PARQUET: Final = "Parquet, snappy"
COUNTING: Final = "sink, no-op"
SINK: Final = "sink, TCP"
# What is measured, against what, and the ratio that is wanted.
HELD_TO: Final = (
    (TCP, TUPLES, 3.0),
    (TCP, PARQUET, 0.55),
    (SEGMENTS, PARQUET, 0.65),
    (SINK, COUNTING, 0.5),
)


@dataclass(frozen=True, slots=True)
class SparkRate:
    """Rows per second of one way."""

    case: str
    median: float
    best: float


@dataclass(frozen=True, slots=True)
class SparkRatio:
    """The rate of a case over that of another, and what it is held to."""

    case: str
    against: str
    ratio: float
    best_ratio: float
    wanted: float

    @property
    def met(self) -> bool:
        """Whether the median ratio reaches what is wanted."""
        return self.ratio >= self.wanted


@dataclass(frozen=True, slots=True)
class SparkFigures:
    """All that `bench spark` has measured."""

    rates: tuple[SparkRate, ...]
    ratios: tuple[SparkRatio, ...]
    latencies_ms: tuple[float, ...]

    @classmethod
    def of(
        cls, times: Mapping[str, Sequence[float]], rows: int, latencies_ms: Sequence[float]
    ) -> "SparkFigures":
        """From the seconds of each run."""
        rates = {
            case: SparkRate(case, rows / statistics.median(found), rows / min(found))
            for case, found in times.items()
        }
        return cls(tuple(rates.values()), tuple(_ratios(rates)), tuple(latencies_ms))

    def percentile(self, share: float) -> float:
        """Returns a percentile of the latencies; `share` is between 0 and 1."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def as_json(self) -> dict[str, object]:
        """Returns the members of a JSON object."""
        return {
            "rates": [asdict(rate) for rate in self.rates],
            "ratios": [{**asdict(ratio), "met": ratio.met} for ratio in self.ratios],
            "latencies_ms": self.latencies_ms,
        }


def _ratios(rates: Mapping[str, SparkRate]) -> Iterator[SparkRatio]:
    for case, against, wanted in HELD_TO:
        ours, theirs = rates[case], rates[against]
        yield SparkRatio(
            case, against, ours.median / theirs.median, ours.best / theirs.best, wanted
        )
