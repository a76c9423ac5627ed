"""From raw samples to figures: percentiles, series over time, distributions.

Pure functions over arrays. Percentiles interpolate linearly between ranks over all raw samples. A
series has one point per bucket of `bucket_ns`, from the start of the measured part. A bucket in
which nothing ended counts as zero throughput and has no latency.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from borzoi.bench.plans import ActorResult, Role
from borzoi.bench.quantities import MB, NS_PER_S

Words = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
PERCENTILE_NAMES: Final = ("p50", "p90", "p95", "p99", "p999", "p9999")
NS_PER_MS: Final = 1_000_000
BINS: Final = 50
BINS_REACH: Final = 1.5  # the histogram ends at this many times p99
POINTS_MAX: Final = 3_000


class Point(NamedTuple):
    """A value at a moment of the run."""

    time_s: float
    value: float


@dataclass(frozen=True, slots=True)
class Latencies:
    """In milliseconds; `percentiles` in the order of PERCENTILES."""

    percentiles: tuple[float, ...]
    mean: float
    median: float
    lowest: float
    highest: float
    deviation: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One actor's samples as arrays, with its figures."""

    role: Role
    actor_id: int
    started_ns: int
    seconds: float
    ends_ns: Words
    latencies_ns: Words
    messages: Words
    user_bytes: Words
    empty_polls: int

    @property
    def message_count(self) -> int:
        """The number of messages in all requests."""
        return int(self.messages.sum())

    @property
    def byte_count(self) -> int:
        """The bytes of payloads and headers in all requests."""
        return int(self.user_bytes.sum())

    @property
    def request_count(self) -> int:
        """The number of requests that were answered."""
        return len(self.ends_ns)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Edges and mean in milliseconds; density integrates to one."""

    edges_ms: tuple[float, ...]
    density: tuple[float, ...]
    mu: float
    sigma: float
    p05_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


NO_LATENCIES: Final = Latencies((0.0,) * len(PERCENTILES), 0.0, 0.0, 0.0, 0.0, 0.0)


def measured(result: ActorResult) -> Measured:
    """Returns the samples of a generator's actor as arrays."""
    return Measured(
        role=result.role,
        actor_id=result.actor_id,
        started_ns=result.started_ns,
        seconds=max(1, result.ended_ns - result.started_ns) / NS_PER_S,
        ends_ns=np.frombuffer(result.ends, dtype=np.int64),
        latencies_ns=np.frombuffer(result.latencies, dtype=np.int64),
        messages=np.frombuffer(result.messages, dtype=np.int64),
        user_bytes=np.frombuffer(result.user_bytes, dtype=np.int64),
        empty_polls=result.empty_polls,
    )


def percentiles_of(values: npt.NDArray[np.generic], wanted: Sequence[float]) -> tuple[float, ...]:
    """Linear interpolation between ranks; zeros when there is nothing."""
    if len(values) == 0:
        return (0.0,) * len(wanted)
    found = np.percentile(np.asarray(values, dtype=np.float64), wanted, method="linear")
    return tuple(float(value) for value in found)


def latencies_of(latencies_ns: Words) -> Latencies:
    """Returns the figures of latencies, in milliseconds."""
    if len(latencies_ns) == 0:
        return NO_LATENCIES
    milliseconds = latencies_ns / NS_PER_MS
    return Latencies(
        percentiles=percentiles_of(milliseconds, PERCENTILES),
        mean=float(milliseconds.mean()),
        median=float(np.median(milliseconds)),
        lowest=float(milliseconds.min()),
        highest=float(milliseconds.max()),
        deviation=float(milliseconds.std()),
    )


def mean_latencies(all_latencies: Sequence[Latencies]) -> Latencies:
    """Of a group: the mean of its actors' percentiles, but the extremes over all of them."""
    if not all_latencies:
        return NO_LATENCIES
    by_percentile = zip(*(one.percentiles for one in all_latencies), strict=True)
    return Latencies(
        percentiles=tuple(sum(values) / len(values) for values in by_percentile),
        mean=_mean(one.mean for one in all_latencies),
        median=_mean(one.median for one in all_latencies),
        lowest=min(one.lowest for one in all_latencies),
        highest=max(one.highest for one in all_latencies),
        deviation=_mean(one.deviation for one in all_latencies),
    )


def rate_series(ends_ns: Words, amounts: Words, start_ns: int, bucket_ns: int) -> list[Point]:
    """Amounts per second, bucket by bucket, up to the last end.

    The last bucket counts with the time it really had. Less than half of one is added to the one
    before, because a few samples over next to no time are no rate.
    """
    if len(ends_ns) == 0:
        return []
    last_ns = int(ends_ns.max())
    whole, rest_ns = divmod(max(1, last_ns - start_ns), bucket_ns)
    count = max(1, whole + (rest_ns >= bucket_ns / 2))
    buckets = np.clip((ends_ns - start_ns) // bucket_ns, 0, count - 1)
    sums = np.bincount(buckets, weights=amounts.astype(np.float64), minlength=count)
    widths_s = np.full(count, bucket_ns / NS_PER_S)
    widths_s[-1] = max(last_ns - start_ns - (count - 1) * bucket_ns, 1) / NS_PER_S
    times = (np.arange(count) * bucket_ns) / NS_PER_S + widths_s
    return [
        Point(float(time), float(value)) for time, value in zip(times, sums / widths_s, strict=True)
    ]


def latency_series(
    ends_ns: Words, latencies_ns: Words, start_ns: int, bucket_ns: int
) -> list[Point]:
    """Mean latency in milliseconds of the requests that ended in each bucket; gaps stay gaps."""
    if len(ends_ns) == 0:
        return []
    buckets = np.maximum((ends_ns - start_ns) // bucket_ns, 0)
    sums = np.bincount(buckets, weights=latencies_ns.astype(np.float64))
    counts = np.bincount(buckets)
    filled = np.flatnonzero(counts)
    means = sums[filled] / counts[filled] / NS_PER_MS
    times = (filled + 1) * bucket_ns / NS_PER_S
    return [Point(float(time), float(mean)) for time, mean in zip(times, means, strict=True)]


def mean_series(all_series: Sequence[Sequence[Point]]) -> list[Point]:
    """The mean of the actors at each moment any of them has a point for."""
    found: dict[float, list[float]] = {}
    for series in all_series:
        for point in series:
            found.setdefault(point.time_s, []).append(point.value)
    return [Point(time_s, _mean(found[time_s])) for time_s in sorted(found)]


def smoothed(series: Sequence[Point], window: int) -> list[Point]:
    """A moving average over the last `window` points."""
    result: list[Point] = []
    total = 0.0
    for number, point in enumerate(series):
        total += point.value
        if number >= window:
            total -= series[number - window].value
        result.append(Point(point.time_s, total / min(window, number + 1)))
    return result


def thinned(series: Sequence[Point], points_max: int = POINTS_MAX) -> list[Point]:
    """At most `points_max` points, each the mean of the neighbours it stands for."""
    if len(series) <= points_max:
        return list(series)
    step = math.ceil(len(series) / points_max)
    groups = [series[at : at + step] for at in range(0, len(series), step)]
    return [Point(group[-1].time_s, _mean(point.value for point in group)) for group in groups]


def distribution_of(latencies_ns: Words) -> Distribution | None:
    """The histogram of all latencies, with a log-normal fit; None without samples."""
    milliseconds = latencies_ns[latencies_ns > 0] / NS_PER_MS
    if len(milliseconds) == 0:
        return None
    p05, p50, p95, p99 = percentiles_of(milliseconds, (5.0, 50.0, 95.0, 99.0))
    lowest = float(milliseconds.min())
    reach = max(BINS_REACH * p99, lowest * 1.001)
    density, edges = np.histogram(milliseconds, bins=BINS, range=(lowest, reach), density=True)
    logarithms = np.log(milliseconds)
    return Distribution(
        edges_ms=tuple(float(edge) for edge in edges[:-1]),
        density=tuple(float(value) for value in density),
        mu=float(logarithms.mean()),
        sigma=float(logarithms.std()),
        p05_ms=p05,
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
    )


def megabytes(series: Iterable[Point]) -> list[Point]:
    """Returns a series of bytes in megabytes."""
    return [Point(point.time_s, point.value / MB) for point in series]


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0
