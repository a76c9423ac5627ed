"""Writes what a run left behind: report.json, charts, an HTML page, in a directory of its own."""

import json
import re
from itertools import count
from pathlib import Path
from typing import Any, Final

from borzoi.bench.failures import BenchFailed

UNSAFE: Final = re.compile(r"[^A-Za-z0-9._+-]+")
NAME_LENGTH_MAX: Final = 200


def directory_name(report: dict[str, Any]) -> str:
    """Parameters, machine and CPU, joined; only what every file system takes."""
    hardware = report["hardware"]
    parts = (
        report["params"]["params_identifier"],
        hardware["identifier"],
        hardware["cpu_name"],
    )
    return "_".join(UNSAFE.sub("-", part).strip("-") for part in parts)[:NAME_LENGTH_MAX]


def save_report(report: dict[str, Any], output: Path) -> Path:
    """The directory that holds it all. Each run has its own: a later one of that name a number."""
    # Drawing needs a library that takes half a second to load; only a saved report needs it.
    from borzoi.bench.charts import draw_charts
    from borzoi.bench.page import report_page

    directory = _new_directory(output, directory_name(report))
    save_json(report, directory / "report.json")
    charts = draw_charts(report, directory)
    (directory / "report.html").write_text(report_page(report, charts))
    return directory


def _new_directory(output: Path, name: str) -> Path:
    for number in count(1):
        directory = output / (name if number == 1 else f"{name}_run{number}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            continue
        return directory
    raise AssertionError("numbers have no end")


def save_json(value: object, path: Path) -> None:
    """Writes a value as JSON; makes the directories above."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, default=str) + "\n")


def load_report(path: Path) -> dict[str, Any]:
    """A report from its file, or from the directory it lies in."""
    file = path / "report.json" if path.is_dir() else path
    report: dict[str, Any] = json.loads(file.read_text())
    missing = {"params", "group_metrics", "hardware"} - report.keys()
    if missing:
        raise BenchFailed(f"{file} is no report: it has no {', '.join(sorted(missing))}")
    return report
