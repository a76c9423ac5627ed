"""Real runs, small ones: every kind that is served, the limits, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from borzoi.bench.admin import Admin
from borzoi.bench.bare_crossing import bare_crossing
from borzoi.bench.benchmark import run_benchmark
from borzoi.bench.broker import OwnBroker
from borzoi.bench.cpus import CpuPlan, available_cpus
from borzoi.bench.main import bench
from borzoi.bench.report import build_report
from borzoi.bench.soak import soak
from borzoi.bench.sockets import shard_of_connection, written_bytes
from borzoi.bench.target_rows import Row
from borzoi.bench.targets import Effort, produce_single
from tests.bench.test_options import parsed

pytestmark = pytest.mark.slow

SUMMARY = {
    "throughput_megabytes_per_second",
    "throughput_messages_per_second",
    "p50_latency_ms",
    "p9999_latency_ms",
    "avg_latency_ms",
    "median_latency_ms",
    "min_latency_ms",
    "max_latency_ms",
    "std_dev_latency_ms",
    "total_time_secs",
    "total_user_data_bytes",
    "total_bytes",
    "total_messages",
    "total_message_batches",
    "actor_kind",
    "actor_id",
    "benchmark_kind",
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench, list(arguments))


def report_of(result: Result, results: Path) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    (path,) = results.glob("*/report.json")
    report: dict[str, Any] = json.loads(path.read_text())
    return report


def small(kind: str, address: str) -> dict[str, Any]:
    """A run of 5 batches of 10 messages per actor; only its report, as it would be written."""
    options = parsed(f"-m 100 -P 10 -b 5 --no-limits {kind} tcp --server-address {address}")
    report = build_report(run_benchmark(options, say=lambda _: None))
    plain: dict[str, Any] = json.loads(json.dumps(report))
    return plain


def totals(report: dict[str, Any], actor: str) -> tuple[int, int]:
    """Messages and user data of all actors of a kind."""
    summaries = [one["summary"] for one in report["individual_metrics"]]
    chosen = [one for one in summaries if one["actor_kind"] == actor]
    return (
        sum(one["total_messages"] for one in chosen),
        sum(one["total_user_data_bytes"] for one in chosen),
    )


def test_produce_then_consume(address: str) -> None:
    report = small("pp -p 3", address)
    assert totals(report, "producer") == (150, 15_000)
    report = small("pc -c 3", address)
    assert totals(report, "consumer") == (150, 15_000)


def test_produce_and_consume(address: str) -> None:
    report = small("ppc -p 2 -c 2", address)
    assert totals(report, "producer") == totals(report, "consumer") == (100, 10_000)
    kinds = [one["summary"]["kind"] for one in report["group_metrics"]]
    assert kinds == ["producers", "consumers", "producers_and_consumers"]


def test_balanced_producers(address: str) -> None:
    report = small("bp -p 2 -a 4", address)
    assert totals(report, "producer") == (100, 10_000)
    assert report["params"]["partitions"] == 4


def test_end_to_end(address: str) -> None:
    report = small("e2e -p 2", address)
    assert totals(report, "producing_consumer") == (100, 10_000)


def test_ranges_and_a_rate(address: str, results: Path) -> None:
    line = "-m 50..100 -P 5..10 -r 1MB --no-limits pp -d 300ms -w 50ms -p 2"
    where = ("--server-address", address, "-o", str(results))
    report = report_of(run(*line.split(), *where), results)
    messages, size = totals(report, "producer")
    assert 50 <= size / messages <= 100
    # 300 ms at 1 MB/s, within what a busy machine can miss and what is in flight at the end.
    assert 30_000 <= size <= 330_000


def test_groups(address: str) -> None:
    small("bp -p 1 -a 2", address)
    for kind in ("bcg -c 2", "bpcg -p 2 -c 2 -a 2", "e2ecg -p 2 -c 2 -a 2"):
        line = f"-m 100 -P 10 -b 3 --no-limits {kind} --no-output --server-address {address}"
        result = run(*line.split())
        assert result.exit_code == 0, result.output


def test_the_fields_of_a_report(address: str) -> None:
    report = small("pp -p 1 --remark try --identifier here", address)
    assert report["hardware"]["identifier"] == "here"
    assert report["hardware"].keys() == {
        "identifier",
        "cpu_name",
        "cpu_cores",
        "total_memory_mb",
        "os_name",
        "os_version",
    }
    assert report["params"]["params_identifier"] == "pinned-producer_1_100_10_5_tcp_try"
    assert report["params"]["server_address"] == address
    assert report["server_stats"]["messages_count"] >= 50
    (individual,) = report["individual_metrics"]
    assert individual["summary"].keys() >= SUMMARY
    assert individual["summary"]["total_bytes"] == 5_000 + 50 * 64
    for name in ("throughput_mb_ts", "throughput_msg_ts", "latency_ts"):
        assert individual[name]["points"][0].keys() == {"time_s", "value"}
    (group,) = report["group_metrics"]
    assert len(group["latency_distribution"]["bins"]) == 50
    assert group["latency_distribution"]["log_normal_params"].keys() == {"mu", "sigma"}
    assert list(report["borzoi"]["resources"]) == ["generator 0", "shard 0"]


def test_a_broker_of_our_own_with_its_limits(results: Path, tmp_path: Path) -> None:
    line = "-m 100 -P 100 -d 300ms pc -c 2 --shards 1 --identifier x"
    result = run(*line.split(), "--data-dir", str(tmp_path), "-o", str(results))
    report = report_of(result, results)
    extras = report["borzoi"]
    assert extras["own_broker"]
    assert extras["shards"] == 1
    assert extras["ratios"]["consumed_bytes_to_slices"] > 0
    assert extras["limits"]["echo"]["requests_per_s"] > 0
    assert "Ratio to the bare limits" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["results"], "something was left behind"


def test_limits_on_the_command_line(tmp_path: Path) -> None:
    line = "limit -m 100 -P 10 -d 100ms"
    result = run(*line.split(), "--data-dir", str(tmp_path), "--json", str(tmp_path / "l.json"))
    assert result.exit_code == 0, result.output
    limits = json.loads((tmp_path / "l.json").read_text())
    assert limits["append"]["variant"] in ("append-loop", "append-uvloop")
    assert all(limits[name]["requests_per_s"] > 0 for name in ("append", "slices", "echo"))
    assert limits["fdatasyncs_per_s"] > 0


def test_nothing_to_read_and_no_server_there(address: str, shared_broker: OwnBroker) -> None:
    result = run("pc", "-s", "999", "-c", "1", "--server-address", address, "--no-output")
    assert result.exit_code == 1
    assert "there is no stream bench-stream-" in result.output
    result = run("pp", "--server-address", "127.0.0.1:1", "--no-output")
    assert result.exit_code == 1
    assert "cannot connect to 127.0.0.1:1" in result.output
    line = "-p wrong --no-limits pp --no-output --server-address"
    result = run(*line.split(), address)
    assert result.exit_code == 1
    assert "InvalidCredentials" in result.output


def test_a_row_of_the_targets(tmp_path: Path) -> None:
    row: Row = produce_single(Effort(1, 200_000_000, tmp_path))
    assert row.best is not None
    assert row.best.reference > 0
    assert row.best.broker > 0
    assert list(tmp_path.iterdir()) == []


def test_sockets_are_found_from_outside(shared_broker: OwnBroker) -> None:
    admin = Admin.connect(shared_broker.host, shared_broker.port, shared_broker.credentials)
    try:
        workers = shared_broker.workers()
        assert shard_of_connection(workers, shared_broker.port, admin.local_port) == 0
        assert shard_of_connection(workers, shared_broker.port, 1) is None
        assert written_bytes(workers[0]) > 0
    finally:
        admin.close()


def test_a_small_soak(tmp_path: Path) -> None:
    seen: list[int] = []
    result = soak(3_000_000, tmp_path, lambda piece: seen.append(piece.produced), 1_000_000)
    assert seen == [1_000_000, 2_000_000, 3_000_000]
    assert all(piece.memory_peak > 0 and piece.descriptors_peak > 0 for piece in result.pieces)
    assert list(tmp_path.iterdir()) == []


def test_two_bare_processes_hand_frames_over(tmp_path: Path) -> None:
    cpus = available_cpus()
    run = bare_crossing(CpuPlan((cpus[0], cpus[-1]), ((),), shared=True), tmp_path, rounds=3)
    assert run.reference > 0
    assert run.broker > 0
