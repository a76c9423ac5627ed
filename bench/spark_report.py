"""The figures of `borzoi bench spark` as a table and as a picture."""

from pathlib import Path
from typing import Final

from matplotlib.figure import Figure
from rich.table import Table

from borzoi.bench.charts import DPI
from borzoi.bench.colours import INK
from borzoi.bench.spark_rates import SparkFigures

SIZE: Final = (9.0, 3.6)
COLOUR: Final = "#2a6f97"


def rates_table(figures: SparkFigures) -> Table:
    """Returns the table of rates."""
    table = Table(title="Spark, local[2], rows/s", title_justify="left")
    table.add_column("case")
    for name in ("median", "best"):
        table.add_column(name, justify="right")
    for rate in figures.rates:
        table.add_row(rate.case, f"{rate.median:,.0f}", f"{rate.best:,.0f}")
    return table


def ratios_table(figures: SparkFigures) -> Table:
    """Returns the table of ratios, with what each is held to."""
    table = Table(title="of medians", title_justify="left")
    table.add_column("ratio")
    for name in ("found", "best runs", "wanted", ""):
        table.add_column(name, justify="right")
    for one in figures.ratios:
        table.add_row(
            f"{one.case} / {one.against}",
            f"{one.ratio:.2f}",
            f"{one.best_ratio:.2f}",
            f"{one.wanted:.2f}",
            "met" if one.met else "not met",
        )
    return table


def draw_rates(figures: SparkFigures, path: Path) -> Path:
    """Draws the rates as bars; returns the path of the picture."""
    rates = {rate.case: rate.median for rate in figures.rates}
    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    axes = figure.subplots()
    bars = axes.barh(list(rates), list(rates.values()), color=COLOUR)
    axes.bar_label(bars, [f"{value:,.0f}" for value in rates.values()], padding=4, color=INK)
    axes.invert_yaxis()
    axes.set_xlabel("rows per second")
    axes.margins(x=0.15)
    figure.savefig(path)
    return path
