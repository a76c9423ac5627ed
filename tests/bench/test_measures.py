"""Percentiles, series and distributions."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.bench.measures import (
    NO_LATENCIES,
    Point,
    distribution_of,
    latencies_of,
    latency_series,
    mean_latencies,
    mean_series,
    percentiles_of,
    rate_series,
    smoothed,
    thinned,
)

SECOND = 1_000_000_000
MS = 1_000_000


def words(*values: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


def test_percentiles_interpolate_between_ranks() -> None:
    assert percentiles_of(words(10, 20, 30, 40), (0.0, 50.0, 100.0)) == (10.0, 25.0, 40.0)
    assert percentiles_of(words(7), (99.99,)) == (7.0,)
    assert percentiles_of(words(), (50.0, 99.0)) == (0.0, 0.0)


@given(st.lists(st.integers(1, 10**12), min_size=1, max_size=200), st.floats(0.0, 100.0))
def test_percentiles_agree_with_the_definition(values: list[int], wanted: float) -> None:
    ranked = sorted(values)
    place = wanted / 100 * (len(ranked) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    expected = ranked[low] + (ranked[high] - ranked[low]) * (place - low)
    assert percentiles_of(words(*values), (wanted,))[0] == pytest.approx(expected)


def test_latencies_are_milliseconds() -> None:
    found = latencies_of(words(1 * MS, 2 * MS, 3 * MS, 10 * MS))
    assert found.lowest == 1.0
    assert found.highest == 10.0
    assert found.median == 2.5
    assert found.mean == 4.0
    assert latencies_of(words()) == NO_LATENCIES


def test_a_group_has_the_mean_of_percentiles_and_the_extremes_of_all() -> None:
    first, second = latencies_of(words(1 * MS)), latencies_of(words(3 * MS))
    both = mean_latencies([first, second])
    assert both.percentiles == (2.0,) * 6
    assert (both.lowest, both.highest) == (1.0, 3.0)
    assert mean_latencies([]) == NO_LATENCIES


def test_rates_by_bucket_with_an_empty_one_and_a_short_one() -> None:
    # Buckets of 1 s: 30 in the first, none in the second, 10 in the half that there is of a third.
    ends = words(int(0.2 * SECOND), int(0.9 * SECOND), int(2.5 * SECOND))
    points = rate_series(ends, words(10, 20, 10), 0, SECOND)
    assert points == [Point(1.0, 30.0), Point(2.0, 0.0), Point(2.5, 20.0)]
    assert rate_series(words(), words(), 0, SECOND) == []


def test_a_crumb_of_a_bucket_belongs_to_the_one_before() -> None:
    ends = words(int(0.5 * SECOND), int(1.2 * SECOND))
    assert rate_series(ends, words(6, 6), 0, SECOND) == [Point(1.2, 10.0)]


@given(st.lists(st.tuples(st.integers(1, 10**10), st.integers(0, 10**6)), min_size=1, max_size=99))
def test_a_rate_series_loses_nothing(samples: list[tuple[int, int]]) -> None:
    ends = words(*(end for end, _ in samples))
    amounts = words(*(amount for _, amount in samples))
    points = rate_series(ends, amounts, 0, 10**8)
    times = [0.0, *(point.time_s for point in points)]
    widths = [late - early for early, late in pairwise(times)]
    total = sum(point.value * width for point, width in zip(points, widths, strict=True))
    assert total == pytest.approx(int(amounts.sum()), rel=1e-6, abs=1e-3)


def test_latency_over_time_leaves_gaps() -> None:
    ends = words(int(0.1 * SECOND), int(0.2 * SECOND), int(2.1 * SECOND))
    points = latency_series(ends, words(2 * MS, 4 * MS, 9 * MS), 0, SECOND)
    assert points == [Point(1.0, 3.0), Point(3.0, 9.0)]


def test_series_of_several_actors() -> None:
    one = [Point(1.0, 1.0), Point(2.0, 2.0)]
    other = [Point(1.0, 10.0)]
    assert mean_series([one, other]) == [Point(1.0, 5.5), Point(2.0, 2.0)]
    assert mean_series([]) == []


def test_smoothing_and_thinning() -> None:
    points = [Point(float(at), float(at)) for at in range(5)]
    assert [point.value for point in smoothed(points, 2)] == [0.0, 0.5, 1.5, 2.5, 3.5]
    assert [point.value for point in thinned(points, 3)] == [0.5, 2.5, 4.0]
    assert thinned(points, 5) == points


def test_the_distribution_is_a_density() -> None:
    chance = np.random.default_rng(1)
    samples = (chance.lognormal(0.0, 0.5, 20_000) * MS).astype(np.int64)
    found = distribution_of(samples)
    assert found is not None
    step = found.edges_ms[1] - found.edges_ms[0]
    assert len(found.edges_ms) == 50
    assert sum(found.density) * step == pytest.approx(1.0, rel=1e-6)
    assert found.mu == pytest.approx(0.0, abs=0.02)
    assert found.sigma == pytest.approx(0.5, abs=0.02)
    assert distribution_of(words()) is None
    assert distribution_of(words(5 * MS)) is not None
