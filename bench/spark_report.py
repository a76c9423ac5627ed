"""The figures of `borzoi bench spark` as a table and as a picture."""

from pathlib import Path
from typing import Final

from matplotlib.figure import Figure
from rich.table import Table

from borzoi.bench.charts import DPI, INK
from borzoi.bench.spark_rates import SparkFigures

SIZE: Final = (9.0, 3.6)
COLOUR: Final = "#2a6f97"


def rates_table(figures: SparkFigures) -> Table:
    table = Table(title="Spark, local[2], best runs", title_justify="left")
    table.add_column("case")
    for name in ("rows/s", "ratio", "wanted", ""):
        table.add_column(name, justify="right")
    for rate in figures.rates:
        table.add_row(
            rate.case,
            f"{rate.rows_per_s:,.0f}",
            "" if rate.ratio is None else f"{rate.ratio:.2f}",
            "" if rate.wanted is None else f"{rate.wanted:.2f}",
            "" if rate.met is None else "met" if rate.met else "not met",
        )
    return table


def draw_rates(figures: SparkFigures, path: Path) -> Path:
    rates = {rate.case: rate.rows_per_s for rate in figures.rates if "against" not in rate.case}
    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(rates), list(rates.values()), color=COLOUR)
    axes.bar_label(bars, [f"{value:,.0f}" for value in rates.values()], padding=4, color=INK)
    axes.invert_yaxis()
    axes.set_xlabel("rows per second")
    axes.margins(x=0.15)
    figure.savefig(path)
    return path
