"""A few rounds of what `python -m tests.spark.effectively_once` does for longer."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.effectively_once import IntoTopic
from tests.spark.strikes import Event

pytestmark = pytest.mark.slow
SEED = 11
STOPS_MAX = 5


def test_with_deduplication_every_row_is_in_the_topic_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    rounds = IntoTopic(spark, tmp_path, SEED, deduplication=True)
    found = rounds.run([Event.KILL_TASKS, Event.EVERYTHING])
    assert found.row_count > 0
    assert found.repeated_count == 0


def test_without_it_none_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    rounds = IntoTopic(spark, tmp_path, SEED, deduplication=False)
    found = rounds.run(stops_until_one_is_within_a_batch(rounds))
    assert found.within_batches == 1
    assert found.repeated_count > 0, "what was sent before the stop was sent again"
    assert found.row_count > found.repeated_count


def stops_until_one_is_within_a_batch(rounds: IntoTopic) -> Iterator[Event]:
    """On a busy machine a batch may be done before it is struck."""
    for _ in range(STOPS_MAX):
        if rounds.within_batches == 0:
            yield Event.STOP
