"""One round of what `python -m tests.spark.exactly_once` does for longer."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.exactly_once import run_rounds


@pytest.mark.slow
def test_every_row_once_whatever_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    assert run_rounds(spark, tmp_path, ["everything"], seed=7) > 0
