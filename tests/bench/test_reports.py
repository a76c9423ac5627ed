"""Charts, pages, tables and comparisons, from a report that was not measured."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from borzoi.bench.charts import draw_lines
from borzoi.bench.compare import compare, warnings
from borzoi.bench.failures import BenchFailed
from borzoi.bench.main import bench
from borzoi.bench.saving import directory_name, load_report, save_report
from borzoi.bench.scale import ScalePoint
from borzoi.bench.scale_report import save_sweeps
from borzoi.bench.tables import print_report, targets_table
from borzoi.bench.target_rows import Row, Run, all_met

PNG = b"\x89PNG\r\n\x1a\n"
END_OF_PNG = b"IEND\xaeB`\x82"
SMALLEST_CHART = 5_000


def is_chart(path: Path) -> bool:
    data = path.read_bytes()
    return data.startswith(PNG) and data.endswith(END_OF_PNG) and len(data) > SMALLEST_CHART


@pytest.mark.slow
def test_a_saved_report_has_everything_and_stands_alone(
    report: dict[str, Any], results: Path
) -> None:
    directory = save_report(report, results)
    assert sorted(path.name for path in directory.iterdir()) == [
        "latency.png",
        "latency_distribution.png",
        "report.html",
        "report.json",
        "resources.png",
        "throughput.png",
    ]
    assert all(is_chart(path) for path in directory.glob("*.png"))
    assert load_report(directory) == load_report(directory / "report.json") == report
    page = (directory / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "http:" not in page
    assert "https:" not in page
    assert not re.search(r"<script[^>]*src|<link|@import|url\(", page)
    for title in ("Throughput of producers", "Throughput of consumers", "Page cache"):
        assert title in page
    assert "Pinned &lt;producer&gt; &amp; consumer" in page
    assert "borzoi bench ppc" in page
    assert "Disturbed: other programs kept 0.8 cores busy meanwhile" in page
    again = save_report(report, results)
    assert again.name == f"{directory.name}_run2"
    assert load_report(again) == load_report(directory)


def test_the_name_of_a_directory_is_safe_everywhere(report: dict[str, Any]) -> None:
    name = directory_name(report)
    assert name == "pinned-producer-and-consumer_2_2_1000_100_1s_tcp_here_A-fast-CPU-3"
    report["params"]["params_identifier"] = "x" * 500
    assert len(directory_name(report)) == 200


def test_what_is_no_report(tmp_path: Path) -> None:
    path = tmp_path / "some.json"
    path.write_text("{}")
    with pytest.raises(BenchFailed, match="no report"):
        load_report(path)


def test_the_table_says_who_was_busy(report: dict[str, Any]) -> None:
    console = Console(width=80, record=True, quiet=True)
    console.quiet = False
    with console.capture() as captured:
        print_report(console, report)
    text = captured.get()
    assert "producers and consumers" in text
    assert "generators 40%" in text
    assert "the shards" in text
    assert "25% of the time" in text
    assert "other programs kept 0.8 cores busy" in text
    assert "produced bytes to append 0.07" in text
    assert "…" not in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert re.search(r"p9999 +│ +[0-9.]+ │", text)


def test_compare_knows_which_way_is_better(report: dict[str, Any]) -> None:
    after = copy.deepcopy(report)
    summary = after["group_metrics"][0]["summary"]
    summary["total_throughput_megabytes_per_second"] *= 1.5
    summary["average_p99_latency_ms"] *= 1.5
    summary["average_p50_latency_ms"] *= 1.01
    found = {(one.group, one.figure): one for one in compare(report, after)}
    assert found["producers", "MB/s"].better is True
    assert found["producers", "MB/s"].change == pytest.approx(0.5)
    assert found["producers", "p99 ms"].better is False
    assert found["producers", "p50 ms"].better is None
    assert found["shards", "us CPU/request"].change == 0.0
    assert warnings(report, after) == []
    after["params"]["message_size"] = "5"
    after["hardware"]["cpu_cores"] = 64
    assert len(warnings(report, after)) == 2


def test_compare_on_the_command_line(report: dict[str, Any], tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(json.dumps(report))
    report["group_metrics"][0]["summary"]["average_p99_latency_ms"] = 60.0
    second.write_text(json.dumps(report))
    result = CliRunner().invoke(bench, ["compare", str(first), str(second)])
    assert result.exit_code == 0, result.output
    assert "+900.0%" in result.output
    assert CliRunner().invoke(bench, ["compare", str(first), "nowhere"]).exit_code == 2


@pytest.mark.slow
def test_sweeps_are_drawn(results: Path) -> None:
    points = [ScalePoint(1, 2.0, 1e5, 100.0), ScalePoint(1000, 2.1, 1e5, 100.0)]
    directory = save_sweeps({"partitions": points, "batch-size": points}, results)
    assert is_chart(directory / "partitions.png")
    assert json.loads((directory / "scale.json").read_text())["batch-size"][1]["value"] == 1000
    page = (directory / "scale.html").read_text()
    assert "http:" not in page
    assert page.count("data:image/png") == 2
    chart = draw_lines("t", "x", "y", {"a": [(1, 1)], "b": [(1, 2)]}, results / "c.png")
    assert is_chart(chart)


def test_rows_of_targets() -> None:
    runs = (Run(100.0, 70.0), Run(100.0, 81.0), Run(100.0, 60.0))
    least = Row("a", "at least", "MB/s", 0.80, False, runs)
    assert (least.met, least.best, least.median_ratio) == (True, runs[1], 0.70)
    costs = (Run(90.0, 120.0), Run(180.0, 110.0))
    most = Row("b", "at most", "us", 1.25, True, costs)
    assert (most.met, most.best) == (True, Run(90.0, 110.0)), "a dear reference does not help"
    missed = Row("c", "missed", "us", 1.15, True, costs)
    skipped = Row("d", "skipped", "us", 0.5, True, (), skipped="no tool")
    assert (missed.met, skipped.met) == (False, None)
    busy = Row("e", "busy", "MB/s", 0.8, False, (*runs, Run(1.0, 9.0, foreign_cpu_share=1.0)))
    assert busy.best == runs[1], "a disturbed run does not count when there are quiet ones"
    undecided = Row("f", "busy", "MB/s", 0.8, False, (Run(1.0, 9.0, foreign_cpu_share=1.0),))
    assert undecided.met is None
    assert undecided.as_json()["disturbed"]
    assert not all_met([undecided])
    assert all_met([least, most, skipped])
    assert not all_met([least, missed])
    assert least.as_json()["ratio"] == 0.81
    assert skipped.as_json()["skipped"] == "no tool"
    assert targets_table([least, most, missed, skipped, busy]).row_count == 5
    workload = "poll 10 x 1 KB per request, 32 connections, of a topic of another shard"
    wide = Row("g", workload, "requests/s", 0.8, False, (Run(123456.7, 234567.8),))
    console = Console(width=80)
    with console.capture() as captured:
        console.print(targets_table([wide, undecided]))
    text = captured.get()
    assert "…" not in text
    assert "234,568" in text
    assert max(map(len, text.splitlines())) <= 80
