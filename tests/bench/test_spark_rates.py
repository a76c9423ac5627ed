"""The figures of `bench spark`: what is held to what, the tables and the picture."""

from pathlib import Path

import pytest

from borzoi.bench.spark_rates import SparkFigures
from borzoi.bench.spark_report import draw_rates, rates_table, ratios_table

TIMES = {
    "source, tuples": [4.0, 4.0, 9.0],
    "source, TCP": [1.0, 1.0, 1.0],
    "source, segments": [0.6, 0.625, 0.7],
    "Parquet, snappy": [0.1, 0.5, 0.5],
    "sink, no-op": [1.0, 1.0, 1.0],
    "sink, TCP": [2.0, 2.0, 1.0],
}


def test_each_case_is_held_to_its_measure(tmp_path: Path) -> None:
    figures = SparkFigures.of(TIMES, 1000, [float(n) for n in range(1, 101)])
    ratios = {(one.case, one.against): one for one in figures.ratios}
    assert {pair: (one.ratio, one.met) for pair, one in ratios.items()} == {
        ("source, TCP", "source, tuples"): (4.0, True),
        ("source, TCP", "Parquet, snappy"): (0.5, False),
        ("source, segments", "Parquet, snappy"): (0.8, True),
        ("sink, TCP", "sink, no-op"): (0.5, True),
    }
    assert ratios["source, TCP", "Parquet, snappy"].best_ratio == pytest.approx(0.1)
    assert (figures.percentile(0.5), figures.percentile(0.95)) == (51.0, 96.0)
    assert (rates_table(figures).row_count, ratios_table(figures).row_count) == (6, 4)
    assert draw_rates(figures, tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")
