"""What a sweep leaves behind: scale.json, a chart per parameter, one HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from borzoi.bench.charts import draw_lines
from borzoi.bench.page import image, page, table
from borzoi.bench.saving import save_json
from borzoi.bench.scale import SWEEPS, ScalePoint


def save_sweeps(found: Mapping[str, Sequence[ScalePoint]], output: Path) -> Path:
    """Writes figures, charts and a page; returns the path of the page."""
    output.mkdir(parents=True, exist_ok=True)
    parts = ["<h1>What a message costs</h1>", "<p>CPU time of all shards per message.</p>"]
    for name, points in found.items():
        sweep = SWEEPS[name]
        chart = draw_lines(
            sweep.title,
            sweep.axis,
            "us of CPU per message",
            {sweep.title: [(point.value, point.us_per_message) for point in points]},
            output / f"{name}.png",
        )
        rows = [
            [
                f"{point.value:,}",
                f"{point.us_per_message:.3f}",
                f"{point.messages_per_s:,.0f}",
                f"{point.megabytes_per_s:,.1f}",
            ]
            for point in points
        ]
        head = [sweep.axis, "us CPU per message", "messages/s", "MB/s"]
        parts += [f"<h2>{sweep.title}</h2>", image(chart), table(head, rows)]
    save_json(
        {name: [p._asdict() for p in points] for name, points in found.items()},
        output / "scale.json",
    )
    (output / "scale.html").write_text(page("What a message costs", parts))
    return output
