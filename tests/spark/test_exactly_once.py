"""Twenty rounds of what `python -m tests.spark.exactly_once` does for longer."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.exactly_once import run_rounds, shuffled_events

ROUNDS = 20
SEED = 7


@pytest.mark.slow
def test_every_row_once_whatever_is_stopped_or_killed(spark: SparkSession, tmp_path: Path) -> None:
    found = run_rounds(spark, tmp_path, shuffled_events(ROUNDS, SEED), SEED)
    assert found.row_count > 0
    assert found.within_batches > 0
