"""report.json: everything a run measured, under the names of iggy-bench's report.

Pure: an Outcome to plain values. What iggy-bench does not have stands under `borzoi`. These are the
bare limits and the ratios to them, and CPU and memory of every shard and generator over time. It
also says which process was the bottleneck, and whether the disk's write-back held writers up.

Throughput counts user data (payloads); the 64-byte headers of messages are in `total_bytes`.
"""

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, Final

import numpy as np

from borzoi.bench.benchmark import Outcome
from borzoi.bench.hardware import this_machine
from borzoi.bench.measures import (
    PERCENTILE_NAMES,
    Latencies,
    Measured,
    Point,
    distribution_of,
    latencies_of,
    latency_series,
    mean_latencies,
    mean_series,
    measured,
    megabytes,
    rate_series,
    smoothed,
    thinned,
)
from borzoi.bench.options import TRANSPORT, Options
from borzoi.bench.plans import Role
from borzoi.bench.quantities import MB, NS_PER_S
from borzoi.bench.rates import Rate, rate_of
from borzoi.bench.usage import Sample
from borzoi.protocol.message import MESSAGE_HEADER_SIZE

Report = dict[str, Any]

GROUP_NAMES: Final = {
    Role.PRODUCER: "producers",
    Role.CONSUMER: "consumers",
    Role.PAIR: "producing_consumers",
}
BOTH: Final = "producers_and_consumers"
BUSY_SHARE: Final = 0.90


def build_report(outcome: Outcome) -> Report:
    """Returns the report of a run as JSON values."""
    actors = [measured(actor) for actor in outcome.load.actors]
    individuals = [_individual(actor, outcome.options) for actor in actors]
    return {
        "uuid": str(uuid.uuid4()),
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "server_stats": None if outcome.stats is None else asdict(outcome.stats),
        "hardware": asdict(this_machine(outcome.options.output.identifier)),
        "params": _params(outcome),
        "group_metrics": _groups(actors, individuals, outcome.options),
        "individual_metrics": individuals,
        "borzoi": _extras(outcome, actors),
    }


def params_identifier(options: Options) -> str:
    """The parts of a run's parameters, joined: what its directory is called."""
    amount = options.message_batches or options.total_data or f"{_seconds(options.duration_ns)}s"
    actors = [str(count) for count in (options.producers, options.consumers) if count]
    return "_".join(
        [
            options.kind.name,
            *actors[: 1 if options.kind.pairs and not options.groups else 2],
            str(options.message_size),
            str(options.messages_per_batch),
            str(amount),
            TRANSPORT,
            *(part for part in (options.output.remark, options.output.gitref) if part),
        ]
    )


def _params(outcome: Outcome) -> Report:
    options = outcome.options
    return {
        "benchmark_kind": options.kind.name,
        "transport": TRANSPORT,
        "server_address": outcome.address,
        "remark": options.output.remark or None,
        "extra_info": options.output.extra_info or None,
        "gitref": options.output.gitref or None,
        "gitref_date": options.output.gitref_date or None,
        "messages_per_batch": str(options.messages_per_batch),
        "message_batches": options.message_batches,
        "message_size": str(options.message_size),
        "producers": options.producers,
        "consumers": options.consumers,
        "streams": options.streams,
        "partitions": options.partitions,
        "consumer_groups": options.groups,
        "rate_limit": options.rate_limit,
        "pretty_name": options.kind.pretty_name,
        "bench_command": options.command,
        "params_identifier": params_identifier(options),
        "total_data": options.total_data,
        "duration_s": _seconds(options.duration_ns) if options.duration_ns is not None else None,
        "warmup_s": _seconds(options.warmup_ns),
    }


def _individual(actor: Measured, options: Options) -> Report:
    latencies = latencies_of(actor.latencies_ns)
    start, bucket = actor.started_ns, options.sampling_ns
    bytes_series = megabytes(rate_series(actor.ends_ns, actor.user_bytes, start, bucket))
    messages_series = rate_series(actor.ends_ns, actor.messages, start, bucket)
    return {
        "summary": {
            "benchmark_kind": options.kind.name,
            "actor_kind": str(actor.role),
            "actor_id": actor.actor_id,
            "total_time_secs": actor.seconds,
            "total_user_data_bytes": actor.byte_count,
            "total_bytes": actor.byte_count + actor.message_count * MESSAGE_HEADER_SIZE,
            "total_messages": actor.message_count,
            "total_message_batches": actor.request_count,
            "throughput_megabytes_per_second": actor.byte_count / MB / actor.seconds,
            "throughput_messages_per_second": actor.message_count / actor.seconds,
            **_latency_fields(latencies, "", "avg_latency_ms", "median_latency_ms"),
        },
        "throughput_mb_ts": _series(bytes_series, options.window),
        "throughput_msg_ts": _series(messages_series, options.window),
        "latency_ts": _series(
            latency_series(actor.ends_ns, actor.latencies_ns, start, bucket), options.window
        ),
    }


def _groups(
    actors: Sequence[Measured], individuals: Sequence[Report], options: Options
) -> list[Report]:
    found = []
    roles = [role for role in GROUP_NAMES if any(actor.role is role for actor in actors)]
    for role in roles:
        chosen = [place for place, actor in enumerate(actors) if actor.role is role]
        found.append(_group(GROUP_NAMES[role], chosen, actors, individuals, options))
    if len(roles) > 1:
        found.append(_group(BOTH, range(len(actors)), actors, individuals, options))
    return found


def _group(
    name: str,
    chosen: Iterable[int],
    actors: Sequence[Measured],
    individuals: Sequence[Report],
    options: Options,
) -> Report:
    places = list(chosen)
    members = [actors[place] for place in places]
    summaries = [individuals[place]["summary"] for place in places]
    total_mb = sum(one["throughput_megabytes_per_second"] for one in summaries)
    total_messages = sum(one["throughput_messages_per_second"] for one in summaries)
    latencies = mean_latencies([latencies_of(actor.latencies_ns) for actor in members])
    start = min(one.started_ns for one in members)
    bucket, window = options.sampling_ns, options.window
    ends = np.concatenate([one.ends_ns for one in members])
    byte_counts = np.concatenate([one.user_bytes for one in members])
    message_counts = np.concatenate([one.messages for one in members])
    byte_rates = megabytes(rate_series(ends, byte_counts, start, bucket))
    message_rates = rate_series(ends, message_counts, start, bucket)
    latency = [latency_series(one.ends_ns, one.latencies_ns, start, bucket) for one in members]
    everything = np.concatenate([actor.latencies_ns for actor in members])
    return {
        "summary": {
            "kind": name,
            "total_throughput_megabytes_per_second": total_mb,
            "total_throughput_messages_per_second": total_messages,
            "average_throughput_megabytes_per_second": total_mb / len(members),
            "average_throughput_messages_per_second": total_messages / len(members),
            **_latency_fields(
                latencies, "average_", "average_latency_ms", "average_median_latency_ms"
            ),
        },
        "avg_throughput_mb_ts": _series(byte_rates, window, len(members)),
        "avg_throughput_msg_ts": _series(message_rates, window, len(members)),
        "avg_latency_ts": _series(mean_series(latency), window),
        "latency_distribution": _distribution(everything),
    }


def _latency_fields(latencies: Latencies, prefix: str, mean: str, median: str) -> Report:
    named = zip(PERCENTILE_NAMES, latencies.percentiles, strict=True)
    return {
        **{f"{prefix}{name}_latency_ms": value for name, value in named},
        mean: latencies.mean,
        median: latencies.median,
        "min_latency_ms": latencies.lowest,
        "max_latency_ms": latencies.highest,
        "std_dev_latency_ms": latencies.deviation,
    }


def _series(points: Sequence[Point], window: int, divisor: int = 1) -> Report:
    shown = thinned(smoothed(points, window))
    return {
        "points": [
            {"time_s": round(point.time_s, 6), "value": point.value / divisor} for point in shown
        ]
    }


def _distribution(latencies_ns: "np.ndarray[Any, np.dtype[np.int64]]") -> Report | None:
    found = distribution_of(latencies_ns)
    if found is None:
        return None
    bins = zip(found.edges_ms, found.density, strict=True)
    return {
        "bins": [{"edge_ms": edge, "density": density} for edge, density in bins],
        "log_normal_params": {"mu": found.mu, "sigma": found.sigma},
        "percentiles": {
            "p05_ms": found.p05_ms,
            "p50_ms": found.p50_ms,
            "p95_ms": found.p95_ms,
            "p99_ms": found.p99_ms,
        },
    }


def _extras(outcome: Outcome, actors: Sequence[Measured]) -> Report:
    load = outcome.load
    start = min(actor.started_ns for actor in actors)
    end = max(actor.started_ns + int(actor.seconds * NS_PER_S) for actor in actors)
    shards = [name for name in _names(load.samples) if name.startswith("shard")]
    rate = rate_of(load, shards)
    throttled = [sample.dirty.throttled for sample in load.samples if start <= sample.at_ns <= end]
    return {
        "own_broker": outcome.own_broker,
        "shards": outcome.shard_count,
        "loops": outcome.loops,
        "polled_range": _polled_range(outcome),
        "cpus": {
            "shards": list(outcome.cpus.shard_cpus),
            "generators": [list(cpus) for cpus in outcome.cpus.generator_cpus],
            "shared": outcome.cpus.shared,
        },
        "rate": rate.as_json(),
        "generators": [
            {"number": one.number, "cpu_share": one.cpu_ns / max(1, one.elapsed_ns)}
            for one in load.generators
        ],
        "bottleneck": _bottleneck(rate, len(shards), outcome.cpus.shared),
        "empty_polls": sum(actor.empty_polls for actor in actors),
        "write_back_throttled_share": sum(throttled) / max(1, len(throttled)),
        "limits": None if outcome.limits is None else outcome.limits.as_json(),
        "ratios": _ratios(outcome, actors),
        "resources": _resources(load.samples, start),
    }


def _polled_range(outcome: Outcome) -> str | None:
    """Whether the server had to verify what it served; None when nothing was polled."""
    if not outcome.options.kind.consumes:
        return None
    if outcome.own_broker or outcome.options.kind.produces:
        return "written by the server in this run, so it was served without verifying it again"
    return "unknown: it was there before; a server verifies such data when it is first read"


def _bottleneck(rate: Rate, shard_count: int, shared: bool) -> str:
    if rate.generator_cpu_share >= BUSY_SHARE:
        return "the load generator: the server could do more than it was asked for"
    if shard_count and rate.server_cpu_share / shard_count >= BUSY_SHARE:
        return "the shards: they were busy all the time"
    if shared:
        return "unclear: server and generator shared their CPUs"
    return "neither: both waited, for each other, the disk, or other programs on these CPUs"


def _ratios(outcome: Outcome, actors: Sequence[Measured]) -> Report:
    """The broker's figures over the bare limits'; None where a limit does not apply."""
    limits = outcome.limits
    if limits is None:
        return {}
    produced = _rate_of_role(actors, Role.PRODUCER)
    consumed = _rate_of_role(actors, Role.CONSUMER)
    paired = _rate_of_role(actors, Role.PAIR)
    requests = produced[1] + consumed[1] + 2 * paired[1]
    return {
        "produced_bytes_to_append": _ratio(produced[0] + paired[0], limits.append.bytes_per_s),
        "consumed_bytes_to_slices": _ratio(consumed[0] + paired[0], limits.slices.bytes_per_s),
        "requests_to_echo": _ratio(requests, limits.echo.requests_per_s),
    }


def _rate_of_role(actors: Sequence[Measured], role: Role) -> tuple[float, float]:
    chosen = [actor for actor in actors if actor.role is role and actor.request_count]
    return (
        sum(actor.byte_count / actor.seconds for actor in chosen),
        sum(actor.request_count / actor.seconds for actor in chosen),
    )


def _ratio(reached: float, limit: float) -> float | None:
    return reached / limit if reached and limit else None


def _names(samples: Sequence[Sample]) -> list[str]:
    return sorted({name for sample in samples for name in sample.processes})


def _resources(samples: Sequence[Sample], start_ns: int) -> Report:
    """Per process: CPU as a share of one core since the look before, and memory."""
    found: Report = {}
    for name in _names(samples):
        seen = [(one.at_ns, one.processes[name]) for one in samples if name in one.processes]
        found[name] = [
            {
                "time_s": (at - start_ns) / NS_PER_S,
                "cpu_share": (usage.cpu_ns - before.cpu_ns) / max(1, at - before_at),
                "rss_anon": usage.rss_anon,
                "rss_shmem": usage.rss_shmem,
                "rss_file": usage.rss_file,
                "descriptors": usage.descriptors,
            }
            for (before_at, before), (at, usage) in pairwise(seen)
        ]
    return found


def _seconds(duration_ns: int | None) -> float:
    return (duration_ns or 0) / NS_PER_S
