"""A report as pictures: PNG files that stand alone.

Drawn with matplotlib's file backend: no display, no network. Every chart says its unit on the
axis; colours are the same for the same thing in all of them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from borzoi.bench.colours import (
    GENERATOR_COLOURS,
    GROUP_COLOURS,
    INK,
    SHARD_COLOURS,
    process_colours,
    shown_groups,
    words,
)
from borzoi.bench.measures import PERCENTILE_NAMES
from borzoi.bench.quantities import MB
from borzoi.bench.target_rows import disturbance

mpl.use("Agg")

DPI: Final = 110
WIDE: Final = (11.0, 4.6)
TALL: Final = (11.0, 7.2)
TALLEST: Final = (11.0, 9.6)
FAINT: Final = "#d9e0e6"
PAPER: Final = "#ffffff"
PERCENTILE_LABELS: Final = ("p50", "p90", "p95", "p99", "p99.9", "p99.99")
LOG_ABOVE: Final = 20  # curves that span more than this factor are drawn logarithmically
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
    groups = shown_groups(report)
    size = WIDE if len(groups) == 1 else TALL
    figure, panels = _figure(_title(report, "Throughput over time"), size, len(groups))
    for group, axes in zip(groups, panels, strict=True):
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
        label = f"{words(name)}: {total:,.0f} MB/s"
        axes.plot(times, values, color=_colour(name), linewidth=1.8, label=label)
        axes.fill_between(times, values, color=_colour(name), alpha=0.06, linewidth=0)
        _draw_limit(axes, report, name)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
        axes.set_ylabel("MB/s of user data")
        _legend(axes)
    panels[-1].set_xlabel("seconds")
    return figure


def _draw_limit(axes: Axes, report: dict[str, Any], group: str) -> None:
    """The bare limit of what a group does; of one connection, so that many may exceed it."""
    limits = report["borzoi"]["limits"]
    if limits is None:
        return
    name, label = ("slices", "mapped slices") if group == "consumers" else ("append", "append")
    rate = limits[name]["bytes_per_s"] / MB
    text = f"bare {label}, one connection: {rate:,.0f} MB/s"
    axes.axhline(rate, color=LIMIT_COLOUR, linestyle="--", linewidth=1.4, label=text)


def _latency(report: dict[str, Any]) -> Figure:
    figure, (percentiles, series) = _figure(_title(report, "Latency"), TALL, 2)
    groups = list(shown_groups(report))
    width = 0.8 / max(1, len(groups))
    for number, group in enumerate(groups):
        summary = group["summary"]
        name = summary["kind"]
        values = [summary[f"average_{percentile}_latency_ms"] for percentile in PERCENTILE_NAMES]
        places = [at + (number - (len(groups) - 1) / 2) * width for at in range(len(values))]
        bars = percentiles.bar(
            places, values, width * 0.92, color=_colour(name), label=words(name), zorder=3
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
            label=words(name),
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
    groups = [group for group in shown_groups(report) if group["latency_distribution"]]
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
            edges,
            density,
            step * 0.96,
            align="edge",
            color=_colour(name),
            alpha=0.55,
            zorder=3,
            label=words(name),
        )
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
    axes.set_ylabel("density")
    axes.set_xlim(left=0)
    _legend(axes)
    return figure


def _resources(report: dict[str, Any]) -> Figure | None:
    resources = report["borzoi"]["resources"]
    if not any(resources.values()):
        return None
    figure, (cpu, memory, cache) = _figure(_title(report, "CPU and memory"), TALLEST, 3)
    for name, colour in process_colours(resources).items():
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
            seen = [look["rss_file"] / MB for look in looks]
            cache.plot(times, seen, color=colour, linewidth=1.8, label=name)
    cpu.axhline(100, color=LIMIT_COLOUR, linestyle="--", linewidth=1.0)
    for axes in (cpu, memory, cache):
        axes.axvline(0, color=FAINT, linewidth=1.2)
    cpu.set_ylabel("% of one core")
    cpu.set_ylim(bottom=0)
    memory.set_ylabel("MB of memory")
    memory.set_ylim(bottom=0)
    cache.set_ylabel("MB of page cache, mapped")
    cache.set_ylim(bottom=0)
    cache.set_xlabel("seconds since the measured part began")
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
        # Above the curves, so that it covers none.
        axes.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=4,
            frameon=False,
            fontsize=9,
            labelcolor=INK,
        )


def _title(report: dict[str, Any], what: str) -> str:
    params = report["params"]
    title = (
        f"{what} - {params['pretty_name']}, "
        f"{params['messages_per_batch']} x {params['message_size']} B"
    )
    disturbed = disturbance(report["borzoi"])
    return f"{title}\n{disturbed}" if disturbed else title


def _colour(group: str) -> str:
    return GROUP_COLOURS.get(group, INK)


def _short(value: float) -> str:
    if value >= WHOLE_FROM:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}"
