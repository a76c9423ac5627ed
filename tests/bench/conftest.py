"""A broker for the runs of this folder, and a report to draw and compare."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from borzoi.bench.broker import OwnBroker
from borzoi.bench.cpus import available_cpus


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """One broker for all runs: they make their own streams."""
    first = available_cpus()[0]
    directory = tmp_path_factory.mktemp("bench")
    with OwnBroker(f"{first}..{first + 1}", directory=directory) as broker:
        yield broker


@pytest.fixture
def address(shared_broker: OwnBroker) -> str:
    return f"{shared_broker.host}:{shared_broker.port}"


def group(kind: str, rate: float, latency: float) -> dict[str, Any]:
    """A group as it stands in a report, with easy numbers."""
    points = [{"time_s": at / 10, "value": rate} for at in range(1, 20)]
    return {
        "summary": {
            "kind": kind,
            "total_throughput_megabytes_per_second": rate * 2,
            "total_throughput_messages_per_second": rate * 2000,
            "average_throughput_megabytes_per_second": rate,
            "average_throughput_messages_per_second": rate * 1000,
            **{
                f"average_{name}_latency_ms": latency * factor
                for factor, name in enumerate(("p50", "p90", "p95", "p99", "p999", "p9999"), 1)
            },
            "average_latency_ms": latency,
            "average_median_latency_ms": latency,
            "min_latency_ms": latency / 2,
            "max_latency_ms": latency * 10,
            "std_dev_latency_ms": latency / 3,
        },
        "avg_throughput_mb_ts": {"points": points},
        "avg_throughput_msg_ts": {"points": points},
        "avg_latency_ts": {"points": points},
        "latency_distribution": {
            "bins": [{"edge_ms": at / 10, "density": 0.2} for at in range(50)],
            "log_normal_params": {"mu": 0.1, "sigma": 0.6},
            "percentiles": {"p05_ms": 0.1, "p50_ms": 1.0, "p95_ms": 3.0, "p99_ms": 4.0},
        },
    }


def look(time_s: float) -> dict[str, float]:
    return {
        "time_s": time_s,
        "cpu_share": 0.5,
        "rss_anon": 5e7,
        "rss_shmem": 1e7,
        "rss_file": 9e7,
        "descriptors": 30,
    }


@pytest.fixture
def report() -> dict[str, Any]:
    """A report as build_report makes it, without having run anything."""
    rate = {"bytes_per_s": 9e8, "requests_per_s": 90_000.0}
    return {
        "uuid": "u",
        "timestamp": "2000-01-01T00:00:00Z",
        "server_stats": None,
        "hardware": {
            "identifier": "here",
            "cpu_name": "A (fast) CPU / 3",
            "cpu_cores": 2,
            "total_memory_mb": 1000,
            "os_name": "Linux",
            "os_version": "6",
        },
        "params": {
            "benchmark_kind": "pinned-producer-and-consumer",
            "pretty_name": "Pinned <producer> & consumer",
            "messages_per_batch": "100",
            "message_size": "1000",
            "producers": 2,
            "consumers": 2,
            "streams": 2,
            "partitions": 1,
            "rate_limit": None,
            "bench_command": "borzoi bench ppc",
            "params_identifier": "pinned-producer-and-consumer_2_2_1000_100_1s_tcp",
        },
        "group_metrics": [
            group("producers", 30.0, 1.5),
            group("consumers", 28.0, 2.5),
            group("producers_and_consumers", 29.0, 2.0),
        ],
        "individual_metrics": [],
        "borzoi": {
            "generators": [{"number": 0, "cpu_share": 0.4}],
            "cpus": {"shared": False},
            "rate": {
                "server_cpu_share": 0.8,
                "server_us_per_request": 12.5,
                "foreign_cpu_share": 0.75,
            },
            "bottleneck": "the shards: they were busy all the time",
            "polled_range": "written by the server in this run",
            "write_back_throttled_share": 0.25,
            "limits": {"append": rate, "slices": rate, "echo": rate, "fdatasyncs_per_s": 900.0},
            "ratios": {"produced_bytes_to_append": 0.07, "requests_to_echo": None},
            "resources": {
                "shard 0": [look(0.1), look(0.2)],
                "generator 0": [look(0.1), look(0.2)],
            },
        },
    }


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"
