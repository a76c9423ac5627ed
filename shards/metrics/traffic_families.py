"""The rows about the work of shards: requests and their times, errors, bytes, waits, the kernel."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from borzoi.protocol.openmetrics import Distribution, Family, MetricKind, Row
from borzoi.protocol.statuses import STATUSES
from borzoi.shards.metrics.shard_figures import ShardFigures
from borzoi.shards.tallies.meters import BOUNDS_S, Errors, Times
from borzoi.shards.tallies.traffic import Traffic

SHARD: Final = ("shard",)
REQUEST: Final = ("shard", "door", "command")
WEB: Final = "http"

WRITTEN: Final = {
    "messages": ("log_written_messages", "Messages that were written to logs."),
    "size_bytes": ("log_written_bytes", "Bytes of messages that were written to logs."),
    "writes": ("log_writes", "Writes of a log; one takes all sends of a turn to its partition."),
}
KERNEL: Final = {
    "read_bytes": ("disk_read_bytes", "Bytes that the disk has read for the worker."),
    "written_bytes": ("disk_written_bytes", "Bytes that the worker has made the disk write."),
    "major_faults": ("major_page_faults", "Times that the worker had to wait for a page of disk."),
    "minor_faults": ("minor_page_faults", "Pages that the worker has touched first."),
    "waits": ("context_waits", "Times that a thread of the worker had nothing to do."),
    "preemptions": ("context_preemptions", "Times that a thread of it had to give up its core."),
}
BACKLOG: Final = {
    "segments": ("compression_waiting_segments", "Segments that have yet to be compressed."),
    "waited_s": ("compression_waiting_seconds", "For how long the first of these has waited."),
    "left_plain": ("compression_plain_segments", "Segments that stay plain: damaged, or larger."),
}
KEY_EXCHANGE: Final = {
    "waiting": ("encryption_old_key_segments", "Segments that need an encryption key of before."),
    "staying": ("encryption_old_key_damaged_segments", "Of these, those that cannot be read."),
}
GAUGES: Final = {
    "pool_bytes": "Size of the memory for bytes on their way, some of it never touched.",
    "pool_free_bytes": "What is free of it.",
    "descriptors_max": "How many files and sockets the worker may have open.",
}


def traffic_families(shards: Mapping[int, ShardFigures]) -> Iterator[Family]:
    """All families about the work of shards."""
    found = {shard: one.traffic for shard, one in shards.items()}
    yield from _requests(found)
    for field, (name, help) in WRITTEN.items():
        yield _counter(name, help, SHARD, _each(found, "written", field))
    yield _histogram("log_sync_duration_seconds", "Time of a sync of a log.", SHARD, _syncs(found))
    lags: list[Row] = [((shard,), _shown(one.loop_lag)) for shard, one in found.items()]
    yield _histogram(
        "loop_lag_seconds",
        "How late the event loop is, four times a second.",
        SHARD,
        lags,
    )
    for field, (name, help) in KERNEL.items():
        yield _counter(name, help, SHARD, _each(found, "kernel", field))
    for field, (name, help) in BACKLOG.items():
        yield _gauge(name, help, _each(found, "backlog", field))
    for field, (name, help) in KEY_EXCHANGE.items():
        yield _gauge(name, help, _each(found, "key_exchange", field))
    yield _counter(
        "encryption_reencrypted_segments",
        "Segments that were encrypted once more, with the key of now.",
        SHARD,
        _each(found, "key_exchange", "reencrypted"),
    )
    for field, help in GAUGES.items():
        rows: list[Row] = [((shard,), getattr(one, field)) for shard, one in found.items()]
        yield _gauge(field, help, rows)


def _requests(found: Mapping[int, Traffic]) -> Iterator[Family]:
    requests = [(shard, one) for shard, traffic in found.items() for one in traffic.requests]
    yield _histogram(
        "request_duration_seconds",
        "Time from the last byte of a request to its answer, by command and door.",
        REQUEST,
        [((shard, one.door, one.command), _shown(one.times)) for shard, one in requests],
    )
    yield _counter(
        "request_bytes",
        "Bytes of requests, by command and door.",
        REQUEST,
        [((shard, one.door, one.command), one.bytes) for shard, one in requests],
    )
    yield _counter(
        "request_errors",
        "Answers that were no success, by their status.",
        ("shard", "door", "status", "error"),
        [
            ((shard, one.door, one.status, error_name(one)), one.times)
            for shard, traffic in found.items()
            for one in traffic.errors
        ],
    )
    polled = [
        (shard, door, counts) for shard, one in found.items() for door, counts in one.polled.items()
    ]
    labels = ("shard", "door")
    yield _counter(
        "polled_messages",
        "Messages that polls were answered with.",
        labels,
        [((shard, door), messages) for shard, door, (messages, _) in polled],
    )
    yield _counter(
        "polled_bytes",
        "Bytes of these messages.",
        labels,
        [((shard, door), size) for shard, door, (_, size) in polled],
    )


def error_name(error: Errors) -> str:
    """What a status is called; the numbers of HTTP have no other name here."""
    known = None if error.door == WEB else STATUSES.get(error.status)
    return "" if known is None else known.name


def _each(found: Mapping[int, Traffic], part: str, field: str) -> list[Row]:
    return [((shard,), getattr(getattr(one, part), field)) for shard, one in found.items()]


def _syncs(found: Mapping[int, Traffic]) -> list[Row]:
    return [((shard,), _shown(one.syncs)) for shard, one in found.items()]


def _shown(times: Times) -> Distribution:
    return Distribution(BOUNDS_S, times.counts or [0] * (len(BOUNDS_S) + 1), times.sum_s)


def _gauge(name: str, help: str, rows: Iterable[Row]) -> Family:
    return Family(f"borzoi_{name}", MetricKind.GAUGE, help, SHARD, rows)


def _counter(name: str, help: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Family:
    return Family(f"borzoi_{name}", MetricKind.COUNTER, help, labels, rows)


def _histogram(name: str, help: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Family:
    return Family(f"borzoi_{name}", MetricKind.HISTOGRAM, help, labels, rows)
