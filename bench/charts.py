"""A report as pictures: PNG files that stand alone.

Drawn with matplotlib's file backend: no display, no network. Every chart says its unit on the
axis; colours are the same for the same thing in all of them.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from borzoi.bench.measures import PERCENTILE_NAMES
from borzoi.bench.quantities import MB

mpl.use("Agg")

DPI: Final = 110
WIDE: Final = (11.0, 4.6)
TALL: Final = (11.0, 7.2)
INK: Final = "#22303c"
FAINT: Final = "#d9e0e6"
PAPER: Final = "#ffffff"
GROUP_COLOURS: Final = {
    "producers": "#c8553d",
    "consumers": "#2a6f97",
    "producing_consumers": "#6a4c93",
    "producers_and_consumers": "#7a8793",
}
SHARD_COLOURS: Final = ("#2a6f97", "#2a9d8f", "#61a5c2", "#52796f", "#013a63", "#8ab17d")
GENERATOR_COLOURS: Final = ("#f4a259", "#e76f51", "#bc6c25", "#e9c46a")
PERCENTILE_LABELS: Final = ("p50", "p90", "p95", "p99", "p99.9", "p99.99")
LOG_ABOVE: Final = 20  # curves that span more than this factor are drawn logarithmically
FIT_POINTS: Final = 400
LIMIT_COLOUR: Final = "#9aa5b1"
WHOLE_FROM: Final = 100  # larger figures have no decimals


def draw_charts(report: dict[str, Any], directory: Path) -> list[Path]:
    """All charts of one run; the files, in the order they should be shown."""
    charts = {
        "throughput.png": _throughput(report),
        "latency.png": _latency(report),
        "latency_distribution.png": _distribution(report),
        "resources.png": _resources(report),
    }
    return [_save(figure, directory / name) for name, figure in charts.items() if figure]


def draw_lines(
    title: str,
    x_label: str,
    y_label: str,
    lines: dict[str, Sequence[tuple[float, float]]],
    path: Path,
    *,
    log_x: bool = True,
) -> Path:
    """Some curves over one parameter, for sweeps."""
    figure, (axes,) = _figure(title, WIDE, 1)
    colours = (*SHARD_COLOURS, *GENERATOR_COLOURS)
    for number, (name, points) in enumerate(lines.items()):
        axes.plot(
            [x for x, _ in points],
            [y for _, y in points],
            marker="o",
            markersize=5,
            linewidth=2,
            color=colours[number % len(colours)],
            label=name,
        )
    if log_x:
        axes.set_xscale("log", base=10)
    ticks = sorted({x for points in lines.values() for x, _ in points})
    axes.set_xticks(ticks, [f"{tick:,.0f}" for tick in ticks])
    heights = [y for points in lines.values() for _, y in points if y > 0]
    if heights and max(heights) > LOG_ABOVE * min(heights):
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    else:
        axes.set_ylim(bottom=0)
    axes.minorticks_off()
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if len(lines) > 1:
        _legend(axes)
    return _save(figure, path)


def _throughput(report: dict[str, Any]) -> Figure:
    figure, (axes,) = _figure(_title(report, "Throughput over time"), WIDE, 1)
    for group in _shown_groups(report):
        summary = group["summary"]
        # The series of a group is the mean of its actors; what is shown is all of them together.
        members = round(
            summary["total_throughput_megabytes_per_second"]
            / max(1e-12, summary["average_throughput_megabytes_per_second"])
        )
        points = group["avg_throughput_mb_ts"]["points"]
        times = [point["time_s"] for point in points]
        values = [point["value"] * members for point in points]
        name = summary["kind"]
        total = summary["total_throughput_megabytes_per_second"]
        axes.plot(
            times,
            values,
            color=_colour(name),
            linewidth=1.8,
            label=f"{_words(name)}: {total:,.0f} MB/s",
        )
        axes.fill_between(times, values, color=_colour(name), alpha=0.06, linewidth=0)
    _draw_limit(axes, report)
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB/s of user data")
    _legend(axes)
    return figure


def _draw_limit(axes: Axes, report: dict[str, Any]) -> None:
    limits = report["borzoi"]["limits"]
    if limits is None:
        return
    produces = report["params"]["producers"] > 0
    name, label = ("append", "bare append") if produces else ("slices", "bare mapped slices")
    rate = limits[name]["bytes_per_s"] / MB
    axes.axhline(
        rate, color=LIMIT_COLOUR, linestyle="--", linewidth=1.4, label=f"{label}: {rate:,.0f} MB/s"
    )


def _latency(report: dict[str, Any]) -> Figure:
    figure, (percentiles, series) = _figure(_title(report, "Latency"), TALL, 2)
    groups = list(_shown_groups(report))
    width = 0.8 / max(1, len(groups))
    for number, group in enumerate(groups):
        summary = group["summary"]
        name = summary["kind"]
        values = [summary[f"average_{percentile}_latency_ms"] for percentile in PERCENTILE_NAMES]
        places = [at + (number - (len(groups) - 1) / 2) * width for at in range(len(values))]
        bars = percentiles.bar(
            places, values, width * 0.92, color=_colour(name), label=_words(name), zorder=3
        )
        percentiles.bar_label(
            bars, [_short(value) for value in values], padding=2, fontsize=8, color=INK
        )
        points = group["avg_latency_ts"]["points"]
        series.plot(
            [point["time_s"] for point in points],
            [point["value"] for point in points],
            color=_colour(name),
            linewidth=1.5,
            label=_words(name),
        )
    percentiles.set_xticks(range(len(PERCENTILE_LABELS)), PERCENTILE_LABELS)
    percentiles.set_yscale("log")
    percentiles.margins(y=0.18)
    percentiles.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    percentiles.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    percentiles.yaxis.set_minor_formatter(NullFormatter())
    percentiles.set_ylabel("ms (logarithmic)")
    percentiles.set_title("percentiles, mean over the actors", loc="left", fontsize=10, color=INK)
    series.set_title("over time", loc="left", fontsize=10, color=INK)
    series.set_xlabel("seconds")
    series.set_ylabel("ms")
    series.set_ylim(bottom=0)
    series.set_xlim(left=0)
    _legend(percentiles)
    return figure


def _distribution(report: dict[str, Any]) -> Figure | None:
    groups = [group for group in _shown_groups(report) if group["latency_distribution"]]
    if not groups:
        return None
    figure, (axes,) = _figure(_title(report, "Distribution of latencies"), WIDE, 1)
    for group in groups:
        name = group["summary"]["kind"]
        found = group["latency_distribution"]
        edges = [one["edge_ms"] for one in found["bins"]]
        density = [one["density"] for one in found["bins"]]
        step = edges[1] - edges[0] if len(edges) > 1 else 1.0
        axes.bar(
            edges, density, step * 0.96, align="edge", color=_colour(name), alpha=0.55, zorder=3
        )
        mu, sigma = found["log_normal_params"]["mu"], found["log_normal_params"]["sigma"]
        reach = edges[-1] + step
        fitted = [reach * number / FIT_POINTS for number in range(1, FIT_POINTS + 1)]
        if sigma > 0:
            fit = [_log_normal(x, mu, sigma) for x in fitted]
            axes.plot(fitted, fit, color=_colour(name), linewidth=1.6, label=_words(name))
        for percentile in ("p50", "p95", "p99"):
            at = found["percentiles"][f"{percentile}_ms"]
            axes.axvline(at, color=_colour(name), linestyle=":", linewidth=1.1)
            axes.annotate(
                f"{percentile} {_short(at)}",
                (at, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(3, -10),
                textcoords="offset points",
                fontsize=8,
                color=INK,
                rotation=90,
                va="top",
            )
    axes.set_xlabel("ms")
    axes.set_ylabel("density, with a log-normal fit")
    _legend(axes)
    return figure


def _resources(report: dict[str, Any]) -> Figure | None:
    resources = report["borzoi"]["resources"]
    if not any(resources.values()):
        return None
    figure, (cpu, memory) = _figure(_title(report, "CPU and memory"), TALL, 2)
    for name, colour in _process_colours(resources).items():
        looks = resources[name]
        times = [look["time_s"] for look in looks]
        cpu.plot(
            times,
            [100 * look["cpu_share"] for look in looks],
            color=colour,
            linewidth=1.8,
            label=name,
        )
        taken = [(look["rss_anon"] + look["rss_shmem"]) / MB for look in looks]
        memory.plot(times, taken, color=colour, linewidth=1.8, label=name)
        if name.startswith("shard"):
            memory.plot(
                times,
                [look["rss_file"] / MB for look in looks],
                color=colour,
                linewidth=1.1,
                linestyle=":",
                label=f"{name}: page cache seen through maps",
            )
    cpu.axhline(100, color=LIMIT_COLOUR, linestyle="--", linewidth=1.0)
    cpu.axvline(0, color=FAINT, linewidth=1.2)
    memory.axvline(0, color=FAINT, linewidth=1.2)
    cpu.set_ylabel("% of one core")
    cpu.set_ylim(bottom=0)
    memory.set_ylabel("MB")
    memory.set_ylim(bottom=0)
    memory.set_xlabel("seconds since the measured part began")
    _legend(cpu)
    _legend(memory)
    return figure


def _figure(title: str, size: tuple[float, float], rows: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=size, facecolor=PAPER, layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=12.5, fontweight="bold", color=INK)
    found = [figure.add_subplot(rows, 1, number + 1) for number in range(rows)]
    for axes in found:
        axes.grid(True, axis="y", color=FAINT, linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("left", "bottom"):
            axes.spines[side].set_color(LIMIT_COLOUR)
        axes.tick_params(colors=INK, labelsize=9)
        axes.yaxis.label.set_color(INK)
        axes.xaxis.label.set_color(INK)
    return figure, found


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=DPI, facecolor=PAPER)
    return path


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="best", frameon=False, fontsize=9, labelcolor=INK)


def _title(report: dict[str, Any], what: str) -> str:
    params = report["params"]
    return (
        f"{what} - {params['pretty_name']}, "
        f"{params['messages_per_batch']} x {params['message_size']} B"
    )


def _shown_groups(report: dict[str, Any]) -> Iterable[dict[str, Any]]:
    """Producers and consumers by themselves, not their mixture."""
    groups: list[dict[str, Any]] = report["group_metrics"]
    return [group for group in groups if group["summary"]["kind"] != "producers_and_consumers"]


def _process_colours(resources: dict[str, Any]) -> dict[str, str]:
    shards = [name for name in resources if name.startswith("shard")]
    others = [name for name in resources if not name.startswith("shard")]
    colours = {name: SHARD_COLOURS[at % len(SHARD_COLOURS)] for at, name in enumerate(shards)}
    return colours | {
        name: GENERATOR_COLOURS[at % len(GENERATOR_COLOURS)] for at, name in enumerate(others)
    }


def _colour(group: str) -> str:
    return GROUP_COLOURS.get(group, INK)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _short(value: float) -> str:
    if value >= WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"


def _log_normal(x: float, mu: float, sigma: float) -> float:
    if x <= 0:
        return 0.0
    exponent = -((math.log(x) - mu) ** 2) / (2 * sigma**2)
    return math.exp(exponent) / (x * sigma * math.sqrt(2 * math.pi))
