"""A report as one HTML file that needs nothing else: charts are inside it.

Pure text. Nothing is loaded from anywhere; every value is escaped.
"""

import base64
import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from borzoi.bench.colours import words
from borzoi.bench.hover import hover_charts
from borzoi.bench.run_figures import FIGURES
from borzoi.bench.target_rows import disturbance

STYLE: Final = """
:root { color-scheme: light; --ink: #22303c; --faint: #e4e9ee; --soft: #5b6b79; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1080px; padding: 32px 24px 64px; color: var(--ink);
  background: #f6f8fa; font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; }
h2 { font-size: 18px; margin: 36px 0 10px; }
p { margin: 0 0 8px; }
.soft { color: var(--soft); }
table { border-collapse: collapse; width: 100%; background: #fff; border-radius: 8px;
  overflow: hidden; box-shadow: 0 1px 2px rgba(0, 0, 0, .08); }
th, td { padding: 7px 12px; text-align: right; border-bottom: 1px solid var(--faint);
  font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
th { font-weight: 600; color: var(--soft); font-size: 13px; background: #fbfcfd; }
tr:last-child td { border-bottom: 0; }
img { display: block; width: 100%; margin: 0 0 16px; background: #fff; border-radius: 8px;
  box-shadow: 0 1px 2px rgba(0, 0, 0, .08); }
code { background: #e9eef2; border-radius: 4px; padding: 2px 6px; font-size: 13px;
  overflow-wrap: anywhere; }
h3 { font-size: 14px; margin: 18px 0 6px; color: var(--soft); }
.hover { background: #fff; border-radius: 8px; padding: 8px 0; margin: 0 0 12px;
  box-shadow: 0 1px 2px rgba(0, 0, 0, .08); overflow: hidden; }
.wide { overflow-x: auto; }
.warning { background: #fff4d6; border-left: 4px solid #d99a00; border-radius: 4px;
  padding: 8px 12px; }
details { margin: 16px 0; }
summary { cursor: pointer; color: var(--soft); }
@media (max-width: 600px) {
  body { padding: 16px 12px 40px; }
  th, td { padding: 6px 8px; font-size: 13px; }
}
.good { color: #1b7f5c; font-weight: 600; }
.bad { color: #b3392b; font-weight: 600; }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; }
.card { background: #fff; border-radius: 8px; padding: 14px 16px;
  box-shadow: 0 1px 2px rgba(0, 0, 0, .08); }
.card b { display: block; font-size: 22px; }
"""


def report_page(report: dict[str, Any], charts: Sequence[Path]) -> str:
    """The whole page of one run."""
    params, hardware, extras = report["params"], report["hardware"], report["borzoi"]
    parts = [
        f"<h1>{_e(params['pretty_name'])}</h1>",
        f'<p class="soft">{_e(params["messages_per_batch"])} messages of'
        f" {_e(params['message_size'])} B per batch on {_e(hardware['cpu_name'])},"
        f" {hardware['cpu_cores']} cores; {_e(report['timestamp'])}</p>",
        f"<p><code>{_e(params['bench_command'])}</code></p>",
        _disturbed(report),
        _cards(report),
        "<h2>Latency and throughput</h2>",
        _groups_table(report["group_metrics"]),
        f'<p class="soft">Bottleneck: {_e(extras["bottleneck"])}.{_throttled(extras)}</p>',
        f'<p class="soft">Polled range: {_e(extras["polled_range"])}.</p>'
        if extras["polled_range"]
        else "",
        _limits_section(extras),
        "<h2>Charts</h2>",
        *hover_charts(report),
        "<details><summary>As pictures</summary>",
        *(image(path) for path in charts),
        "</details>",
        "<h2>Parameters</h2>",
        table(["name", "value"], [[key, _shown(value)] for key, value in params.items()]),
        "<h2>Machine</h2>",
        table(["name", "value"], [[key, _shown(value)] for key, value in hardware.items()]),
    ]
    return page(params["pretty_name"], parts)


def page(title: str, parts: Sequence[str]) -> str:
    """A page around these parts."""
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{_e(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def image(path: Path) -> str:
    """Returns an image tag that holds the file itself."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{_e(path.stem)}" src="data:image/png;base64,{data}">'


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns an HTML table; all cells are escaped."""
    titles = "".join(f"<th>{_e(title)}</th>" for title in head)
    lines = "".join(
        "<tr>" + "".join(f"<td>{_e(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{titles}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cards(report: dict[str, Any]) -> str:
    cards = []
    for group in report["group_metrics"]:
        summary = group["summary"]
        name = summary["kind"].replace("_", " ")
        cards.append((f"{summary['total_throughput_megabytes_per_second']:,.0f} MB/s", name))
        cards.append((f"{summary['total_throughput_messages_per_second']:,.0f} msg/s", name))
    busiest = max((one["cpu_share"] for one in report["borzoi"]["generators"]), default=0.0)
    cards.append((f"{busiest:.0%}", "CPU of the busiest generator"))
    inner = "".join(
        f'<div class="card"><b>{_e(value)}</b><span class="soft">{_e(name)}</span></div>'
        for value, name in cards
    )
    return f'<div class="grid">{inner}</div>'


def _groups_table(groups: Sequence[dict[str, Any]]) -> str:
    """A figure is a row: three groups fit a phone, a dozen figures side by side do not."""
    summaries = [group["summary"] for group in groups]
    head = ["", *(words(summary["kind"]) for summary in summaries)]
    rows = [
        [name, *(f"{summary[key]:,.{digits}f}" for summary in summaries)]
        for name, key, digits in FIGURES
    ]
    return table(head, rows) + '<p class="soft">Latencies in milliseconds.</p>'


def _limits_section(extras: dict[str, Any]) -> str:
    limits = extras["limits"]
    if limits is None:
        return ""
    rows = [
        ["receive and append", f"{limits['append']['bytes_per_s'] / 1e6:,.0f} MB/s"],
        ["mapped slices to a socket", f"{limits['slices']['bytes_per_s'] / 1e6:,.0f} MB/s"],
        ["echo of small frames", f"{limits['echo']['requests_per_s']:,.0f} requests/s"],
        ["fdatasync", f"{limits['fdatasyncs_per_s']:,.0f} per second"],
    ]
    ratios = [
        [name.replace("_", " "), f"{value:.2f}"]
        for name, value in extras["ratios"].items()
        if value is not None
    ]
    return (
        "<h2>Bare limits of this machine, measured in the same run</h2>"
        + table(["limit", "reached"], rows)
        + "<h2>Ratio of the server to them</h2>"
        + table(["ratio", "value"], ratios)
    )


def _disturbed(report: dict[str, Any]) -> str:
    text = disturbance(report["borzoi"])
    return f'<p class="warning">{_e(text)}.</p>' if text else ""


def _throttled(extras: dict[str, Any]) -> str:
    share = extras["write_back_throttled_share"]
    return f" The disk's write-back held writers up {share:.0%} of the time." if share else ""


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _e(value: object) -> str:
    return html.escape(str(value))
