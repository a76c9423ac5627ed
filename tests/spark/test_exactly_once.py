"""Twenty rounds of what `python -m tests.spark.exactly_once` does for longer."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.exactly_once import IntoFiles
from tests.spark.strikes import shuffled_events

ROUNDS = 20
SEED = 7


@pytest.mark.slow
def test_every_row_once_whatever_is_stopped_or_killed(spark: SparkSession, tmp_path: Path) -> None:
    found = IntoFiles(spark, tmp_path, SEED).run(shuffled_events(ROUNDS, SEED))
    assert found.row_count > 0
    assert found.within_batches > 0
