"""Charts of a report that can be read off with a finger or a mouse: uPlot, inside the page.

uPlot (bench/uplot, MIT licence) is written into the page as it is, so nothing is loaded from
anywhere. Producers and consumers have a chart each, and so has the page cache: one scale for both
would hide the smaller one.
"""

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from borzoi.bench.colours import GROUP_COLOURS, INK, process_colours, shown_groups, words
from borzoi.bench.quantities import MB

FOLDER: Final = Path(__file__).parent / "uplot"
LICENCE: Final = "/*! uPlot 1.6.32, MIT licence, (c) Leon Sorokin */"
SCRIPT: Final = """
for (const place of document.querySelectorAll(".hover")) {
  const chart = JSON.parse(place.querySelector("script").textContent);
  const size = () => ({ width: place.clientWidth, height: place.clientWidth < 500 ? 220 : 280 });
  const lines = chart.lines.map(([label, stroke]) => ({
    label, stroke, width: 1.6,
    value: (_, value) => value == null
      ? "-" : value.toLocaleString("en", { maximumSignificantDigits: 4 }),
  }));
  const plot = new uPlot({
    ...size(),
    scales: { x: { time: false }, y: { range: (_, __, top) => [0, (top || 1) * 1.08] } },
    axes: [{ label: "seconds" }, { label: chart.unit, size: 70 }],
    series: [{ label: "s" }, ...lines],
  }, chart.data, place);
  new ResizeObserver(() => plot.setSize(size())).observe(place);
}
"""


class Line(NamedTuple):
    """One curve: times in seconds, and values."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]


def hover_charts(report: dict[str, Any]) -> list[str]:
    """All charts of a report, as parts of a page; the first brings what they need."""
    drawn = [
        *(_throughput(group) for group in shown_groups(report)),
        *(_latency(group) for group in shown_groups(report)),
        *_resources(report["borzoi"]["resources"]),
    ]
    drawn = [one for one in drawn if one]
    return [_library(), *drawn, f"<script>{SCRIPT}</script>"] if drawn else []


def _library() -> str:
    style = (FOLDER / "uPlot.min.css").read_text()
    script = (FOLDER / "uPlot.iife.min.js").read_text().partition("\n")[2]
    return f"<style>{style}</style>\n<script>{LICENCE}\n{script}</script>"


def _throughput(group: dict[str, Any]) -> str:
    summary = group["summary"]
    name = summary["kind"]
    # The series of a group is the mean of its actors; what is shown is all of them together.
    members = round(
        summary["total_throughput_megabytes_per_second"]
        / max(1e-12, summary["average_throughput_megabytes_per_second"])
    )
    points = [
        (one["time_s"], one["value"] * members) for one in group["avg_throughput_mb_ts"]["points"]
    ]
    return _chart(f"Throughput of {words(name)}", "MB/s", [_line(name, points)])


def _latency(group: dict[str, Any]) -> str:
    name = group["summary"]["kind"]
    points = [(one["time_s"], one["value"]) for one in group["avg_latency_ts"]["points"]]
    return _chart(f"Latency of {words(name)}", "ms", [_line(name, points)])


def _line(name: str, points: Sequence[tuple[float, float]]) -> Line:
    return Line(words(name), GROUP_COLOURS.get(name, INK), points)


def _resources(resources: dict[str, Any]) -> list[str]:
    colours = process_colours(resources)

    def lines(names: Sequence[str], parts: Sequence[str], scale: float) -> list[Line]:
        return [
            Line(
                name,
                colours[name],
                [(one["time_s"], scale * sum(one[part] for part in parts)) for one in looks],
            )
            for name, looks in resources.items()
            if name in names
        ]

    every = list(resources)
    shards = [name for name in every if name.startswith("shard")]
    return [
        _chart("CPU", "% of one core", lines(every, ["cpu_share"], 100)),
        _chart("Memory", "MB", lines(every, ["rss_anon", "rss_shmem"], 1 / MB)),
        _chart("Page cache seen through maps", "MB", lines(shards, ["rss_file"], 1 / MB)),
    ]


def _chart(title: str, unit: str, lines: Sequence[Line]) -> str:
    times = sorted({at for line in lines for at, _ in line.points})
    if not times:
        return ""
    columns: list[list[float | None]] = [list(times)]
    for line in lines:
        values = dict(line.points)
        columns.append([_rounded(values.get(at)) for at in times])
    data = {
        "unit": unit,
        "lines": [(line.name, line.colour) for line in lines],
        "data": columns,
    }
    # No end tag can be inside: "<" is written as JSON may write it.
    text = json.dumps(data).replace("<", "\\u003c")
    return (
        f'<h3>{html.escape(title)}</h3><div class="hover">'
        f'<script type="application/json">{text}</script></div>'
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
