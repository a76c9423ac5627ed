"""`borzoi bench spark`, with few rows."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from borzoi.bench.main import bench

pytestmark = pytest.mark.slow


def test_the_figures_of_bench_spark(spark: SparkSession, tmp_path: Path) -> None:
    arguments = ["spark", "--rows", "400", "--warm-ups", "0", "--runs", "1", "--samples", "1"]
    said = CliRunner().invoke(bench, [*arguments, "-o", str(tmp_path), "--data-dir", str(tmp_path)])
    assert said.exit_code == 0, said.output
    written = json.loads((tmp_path / "spark.json").read_text())
    assert len(written["latencies_ms"]) == 1
    assert {rate["case"] for rate in written["rates"]} >= {"source, TCP", "sink, TCP"}
    assert all(rate["best"] >= rate["median"] > 0 for rate in written["rates"])
    assert len(written["ratios"]) == 4
    assert (tmp_path / "spark.png").stat().st_size > 0
    assert spark.range(3).count() == 3, "the session is still there"
