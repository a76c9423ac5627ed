"""Counters of several shards become one entry for each partition."""

from borzoi.protocol.responses.stats import CacheMetric
from borzoi.shards.observing.read_hits import metric, together


def test_sums_and_ratios() -> None:
    of_shards = [metric(1, 0, 2, 3, 1), metric(0, 0, 0, 0, 0), metric(1, 0, 2, 0, 4)]
    assert together(of_shards) == (
        CacheMetric(0, 0, 0, 0, 0, 0.0),
        CacheMetric(1, 0, 2, 3, 5, 3 / 8),
    )


def test_nothing_was_read() -> None:
    assert together([]) == ()
