"""The figures of `bench spark`: what is held to what, the table and the picture."""

from pathlib import Path

import pytest

from borzoi.bench.spark_rates import SparkFigures, rates_of
from borzoi.bench.spark_report import draw_rates, rates_table

BEST = {
    "source, tuples": 4.0,
    "source, TCP": 1.0,
    "source, segments": 0.625,
    "Parquet, snappy": 0.5,
    "sink, no-op": 1.0,
    "sink, TCP": 2.0,
}


def test_each_case_is_held_to_its_measure(tmp_path: Path) -> None:
    figures = SparkFigures(tuple(rates_of(BEST, 1000)), tuple(float(n) for n in range(1, 101)))
    ratios = {rate.case: rate.ratio for rate in figures.rates if rate.ratio is not None}
    assert ratios == pytest.approx(
        {
            "source, TCP": 4.0,
            "sink, TCP": 0.5,
            "source, TCP, against Parquet": 0.5,
            "source, segments, against Parquet": 0.8,
        }
    )
    met = {rate.case: rate.met for rate in figures.rates if rate.met is not None}
    assert met == {
        "source, TCP": True,
        "sink, TCP": True,
        "source, TCP, against Parquet": False,
        "source, segments, against Parquet": True,
    }
    assert (figures.percentile(0.5), figures.percentile(0.95)) == (51.0, 96.0)
    assert rates_table(figures).row_count == 8
    assert draw_rates(figures, tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG")
