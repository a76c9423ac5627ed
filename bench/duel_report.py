"""What a duel leaves behind: a table on the terminal, duel.json, a chart and one HTML page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure
from rich.table import Table

from borzoi.bench.charts import DPI, LIMIT_COLOUR
from borzoi.bench.colours import INK, SHARD_COLOURS
from borzoi.bench.duel_figures import DuelLine, RunFigures, Spread
from borzoi.bench.duel_rows import DUEL_ROWS
from borzoi.bench.hardware import this_machine
from borzoi.bench.page import image, page, table
from borzoi.bench.saving import save_json

HEAD: Final = (
    "workload",
    "server",
    "MB/s",
    "ratio",
    "requests/s",
    "p50 ms",
    "p99 ms",
    "CPU us/msg",
    "ratio",
)
LEFT: Final = 2  # columns of words
NOTE: Final = (
    "Medians of all rounds. Ratios are to the first server within a round, above 1 where this"
    " server is better. Latency of consumers beside producers is from origin to poll."
)
BAR_HEIGHT_INCHES: Final = 0.32
CHART_WIDTH_INCHES: Final = 11.0
CHART_MARGIN_INCHES: Final = 1.4


def duel_table(lines: Sequence[DuelLine]) -> Table:
    """Returns the table of a duel, one line for each role and server."""
    found = Table(title="Duel", title_justify="left", caption=NOTE, caption_justify="left")
    for number, name in enumerate(HEAD):
        found.add_column(name, justify="left" if number < LEFT else "right")
    for line in lines:
        found.add_row(*cells(line))
    return found


def cells(line: DuelLine) -> list[str]:
    """Returns a line as text; ratios of the first server are empty."""
    return [
        f"{line.row} ({line.role.replace('_', ' ')})",
        line.server,
        f"{line.mb_per_s:,.1f}",
        _ratio(line.rate_ratio),
        f"{line.requests_per_s:,.0f}",
        f"{line.p50_ms:.3f}",
        f"{line.p99_ms:.3f}",
        "" if line.cpu_us is None else f"{line.cpu_us:.3f}",
        _ratio(line.cpu_ratio),
    ]


def _ratio(spread: Spread | None) -> str:
    return (
        f"{spread.middle:.2f} ({spread.lowest:.2f}..{spread.highest:.2f})"
        if spread is not None
        else ""
    )


def save_duel(
    lines: Sequence[DuelLine],
    runs: Sequence[RunFigures],
    servers: Mapping[str, str],
    output: Path,
) -> Path:
    """Writes figures of all runs, chart and page; returns the path of the page."""
    output.mkdir(parents=True, exist_ok=True)
    machine = this_machine()
    shapes = {line.row: DUEL_ROWS[line.row].shape for line in lines}
    save_json(
        {
            "hardware": asdict(machine),
            "servers": dict(servers),
            "rows": shapes,
            "lines": [asdict(line) for line in lines],
            "runs": [asdict(run) for run in runs],
        },
        output / "duel.json",
    )
    title = f"Duel: {' and '.join(servers)}"
    parts = [
        f"<h1>{title}</h1>",
        table(["server", "address"], [list(pair) for pair in servers.items()]),
        f'<p class="soft">{machine.cpu_name}, {machine.cpu_cores} cores. {NOTE}</p>',
        *([image(draw_ratios(lines, output / "duel.png"))] if len(servers) > 1 else []),
        table(HEAD, [cells(line) for line in lines]),
        "<h2>Workloads</h2>",
        table(["name", "shape"], [list(pair) for pair in shapes.items()]),
    ]
    path = output / "duel.html"
    path.write_text(page(title, parts))
    return path


def draw_ratios(lines: Sequence[DuelLine], path: Path) -> Path:
    """Draws throughput, 99th percentile and CPU of each line against the first server's."""
    shown = [line for line in lines if line.rate_ratio is not None]
    height = CHART_MARGIN_INCHES + BAR_HEIGHT_INCHES * len(shown)
    figure = Figure(figsize=(CHART_WIDTH_INCHES, height), dpi=DPI, layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    servers = list(dict.fromkeys(line.server for line in shown))
    colours = [SHARD_COLOURS[servers.index(line.server) % len(SHARD_COLOURS)] for line in shown]
    labels = [
        f"{line.row} ({line.role})" + (f": {line.server}" if len(servers) > 1 else "")
        for line in shown
    ]
    for axes, title, spreads in zip(
        panels,
        ("throughput", "1 / p99", "1 / CPU per message"),
        (
            [line.rate_ratio for line in shown],
            [line.p99_ratio for line in shown],
            [line.cpu_ratio for line in shown],
        ),
        strict=True,
    ):
        middles = [spread.middle if spread else 0.0 for spread in spreads]
        bars = axes.barh(range(len(shown)), middles, color=colours)
        axes.bar_label(bars, [f"{value:.2f}" if value else "" for value in middles], padding=3)
        axes.axvline(1.0, color=LIMIT_COLOUR, linewidth=1.2, linestyle="--")
        axes.set_title(f"{title}, first server = 1", fontsize=10, color=INK)
        axes.margins(x=0.2)
    panels[0].set_yticks(range(len(shown)), labels)
    panels[0].invert_yaxis()
    figure.savefig(path)
    return path
