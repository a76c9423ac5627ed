"""Which metrics there are: their names, their meanings, and where their figures come from. Pure.

The first seven have the names of the Iggy 0.8.0 server, and are true totals. Also what was there
before the start counts, and each user once. All others begin with `borzoi_`. Counters are since the
start of the worker that counts, and have its number as a label. When it is replaced they start from
zero, which is what Prometheus expects of a counter.

Rows are made while they are written, so that thousands of them never take a whole turn.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from borzoi.protocol.openmetrics import Family, MetricKind, Row
from borzoi.router.control import FIRST_GENERATION
from borzoi.shards.metrics.naming import Naming
from borzoi.shards.metrics.nats_families import nats_families
from borzoi.shards.metrics.overview import Names, Overview
from borzoi.shards.metrics.shard_figures import Cut, ShardFigures
from borzoi.shards.metrics.traffic_families import traffic_families
from borzoi.storage.ratio import Ratio

SHARD: Final = ("shard",)

TOPIC_FIELDS: Final = {
    "partitions": "Partitions of a topic.",
    "segments": "Segments of a topic.",
    "messages": "Messages in a topic.",
    "size_bytes": "Bytes of messages in a topic.",
}
COMPRESSED_FIELDS: Final = {
    "segments": "Compressed segments of a topic.",
    "plain_bytes": "Bytes of messages in these.",
    "stored_bytes": "What they take on the disk.",
}


SHARE_GAUGES: Final = {
    "total": "How much there is of something scarce that users and addresses share.",
    "taken": "How much of it is taken.",
    "largest": "What the user or address that has most of it has.",
    "takers": "How many users and addresses have some of it.",
}
SHARE_COUNTERS: Final = {
    "waits": "How often a user or address had to wait for its share.",
    "refusals": "How often one was refused, because it had its share.",
}


class Disk(NamedTuple):
    """The file system that holds the data."""

    total: int
    free: int


class Scrape(NamedTuple):
    """Everything that one answer is made of. A shard that did not answer has no figures."""

    version: str
    start_seconds: float
    overview: Overview
    names: Names | None
    disk: Disk | None
    generations: Mapping[int, int]
    shards: Mapping[int, ShardFigures]


def families(scrape: Scrape) -> Iterator[Family]:
    """Returns all families in the order of the answer."""
    yield from _known_from_iggy(scrape)
    yield from _broker(scrape)
    yield from _shards(scrape)
    yield from traffic_families(scrape.shards)
    yield from _shared(scrape)
    yield from _slow(scrape)
    yield from nats_families(scrape.shards)
    naming = Naming(scrape.names)
    yield from _topics(scrape, naming)
    yield from _consumers(scrape, naming)
    yield from _retention(scrape, naming)
    yield from _archive(scrape)
    yield from _compression(scrape, naming)
    yield from _faults(scrape, naming)
    yield _left_out(scrape)


def _gauge(name: str, help: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Family:
    return Family(f"borzoi_{name}", MetricKind.GAUGE, help, labels, rows)


def _counter(name: str, help: str, labels: tuple[str, ...], rows: Iterable[Row]) -> Family:
    return Family(f"borzoi_{name}", MetricKind.COUNTER, help, labels, rows)


def _one(value: float) -> list[Row]:
    return [((), value)]


def _known_from_iggy(scrape: Scrape) -> Iterator[Family]:
    found = scrape.overview
    totals = {
        "streams": found.streams,
        "topics": found.topics_count,
        "partitions": found.total.partitions,
        "segments": found.total.segments,
        "messages": found.total.messages,
        "users": found.users,
        "clients": sum(one.clients for one in scrape.shards.values()),
    }
    for name, value in totals.items():
        yield Family(name, MetricKind.GAUGE, f"total count of {name}", (), _one(value))
    requests = [((shard,), one.http_requests) for shard, one in scrape.shards.items()]
    yield Family(
        "http_requests", MetricKind.COUNTER, "total count of HTTP requests", SHARD, requests
    )


def _broker(scrape: Scrape) -> Iterator[Family]:
    found = scrape.overview
    version = (scrape.version,)
    yield Family("borzoi_build", MetricKind.INFO, "What runs.", ("version",), [(version, 1)])
    yield _gauge(
        "start_time_seconds", "When the broker was started.", (), _one(scrape.start_seconds)
    )
    yield _gauge("messages_size_bytes", "Bytes of all messages.", (), _one(found.total.size_bytes))
    yield _gauge(
        "consumer_groups", "Consumer groups of all topics.", (), _one(found.consumer_groups)
    )
    disk = scrape.disk
    yield _gauge(
        "disk_size_bytes",
        "Size of the file system that holds the data.",
        (),
        _one(disk.total) if disk else [],
    )
    yield _gauge(
        "disk_free_bytes",
        "What is free of it for the broker.",
        (),
        _one(disk.free) if disk else [],
    )


def _shards(scrape: Scrape) -> Iterator[Family]:
    shards = scrape.shards.items()
    yield _gauge(
        "shard_up",
        "1 if the shard gave its figures for this answer; without them its rows are missing.",
        SHARD,
        [((shard,), int(shard in scrape.shards)) for shard in scrape.generations],
    )
    yield _counter(
        "shard_restarts",
        "How often a dead worker was replaced since the start of the broker.",
        SHARD,
        [((shard,), lives - FIRST_GENERATION) for shard, lives in scrape.generations.items()],
    )
    yield _gauge(
        "shard_connections",
        "Open TCP connections of clients.",
        SHARD,
        [((shard,), one.connections) for shard, one in shards],
    )
    yield _counter(
        "shard_cpu_seconds",
        "CPU time of the worker.",
        SHARD,
        [((shard,), one.cpu_seconds) for shard, one in shards],
    )
    yield _gauge(
        "shard_resident_memory_bytes",
        "Memory of the worker; file is the kernel's cache of data, which it takes back at will.",
        ("shard", "kind"),
        [
            ((shard, kind), size)
            for shard, one in shards
            for kind, size in one.resident._asdict().items()
        ],
    )
    yield _gauge(
        "shard_mapped_memory_bytes",
        "What of that are pages of logs and indexes, which limits.mapped_size_max bounds.",
        SHARD,
        [((shard,), one.mapped_bytes) for shard, one in shards],
    )
    yield _counter(
        "http_refused",
        "Connections for metrics that were closed unanswered, because too many were open.",
        SHARD,
        [((shard,), one.http_refused) for shard, one in shards],
    )
    yield _counter(
        "deduplication_dropped_messages",
        "Messages that were dropped as duplicates.",
        SHARD,
        [((shard,), one.duplicates) for shard, one in shards],
    )


def _slow(scrape: Scrape) -> Iterator[Family]:
    """Where `limits.slow_request` is set; no rows without it."""
    shards = [(shard, one.slow) for shard, one in scrape.shards.items() if one.slow is not None]
    yield _counter(
        "slow_requests",
        "Requests that took longer than limits.slow_request.",
        SHARD,
        [((shard,), one.requests) for shard, one in shards],
    )
    yield _counter(
        "slow_request_seconds",
        "Where their time went.",
        ("shard", "part"),
        [
            ((shard, part), spent)
            for shard, one in shards
            for part, spent in one.parts._asdict().items()
        ],
    )
    yield _counter(
        "collector_seconds",
        "What the garbage collector of Python took, where slow requests are watched.",
        SHARD,
        [((shard,), one.collector_seconds) for shard, one in shards],
    )


def _shared(scrape: Scrape) -> Iterator[Family]:
    for fields, family in ((SHARE_GAUGES, _gauge), (SHARE_COUNTERS, _counter)):
        for field, help in fields.items():
            rows = [
                ((shard, share), getattr(found, field))
                for shard, one in scrape.shards.items()
                for share, found in one.shared.items()
            ]
            # A gauge that ended with "total" would be taken for a counter.
            name = "size" if field == "total" else field
            yield family(f"share_{name}", help, ("shard", "share"), rows)


def _topics(scrape: Scrape, naming: Naming) -> Iterator[Family]:
    def rows(field: str) -> Iterator[Row]:
        for one in scrape.overview.topics.rows:
            yield naming.of_topic(*one.place), getattr(one, field)

    for field, help in TOPIC_FIELDS.items():
        yield _gauge(f"topic_{field}", help, naming.topic, rows(field))
    yield _counter(
        "partition_appended_messages",
        "The offset that the next message of a partition will get: all that were appended since"
        " it was made or purged.",
        naming.partition,
        (
            (naming.of_partition(one.namespace), one.next_offset)
            for one in scrape.overview.ends.rows
        ),
    )


def _consumers(scrape: Scrape, naming: Naming) -> Iterator[Family]:
    yield _gauge(
        "consumer_lag_messages",
        "Messages of a partition behind the offset that a consumer or group has committed.",
        naming.consumer,
        (
            (naming.of_consumer(*row[:3]), row.messages)
            for one in scrape.shards.values()
            for row in one.lags.rows
        ),
    )


def _retention(scrape: Scrape, naming: Naming) -> Iterator[Family]:
    shards = scrape.shards.items()
    yield _counter(
        "retention_deleted_segments",
        "Segments that were deleted: too old, too much for their topic, or by command.",
        SHARD,
        [((shard,), one.deleted_segments) for shard, one in shards],
    )
    yield _counter(
        "retention_deleted_bytes",
        "Bytes of messages in deleted segments.",
        SHARD,
        [((shard,), one.deleted_bytes) for shard, one in shards],
    )
    yield _counter(
        "retention_deleted_unread_segments",
        "Deleted segments that a consumer or group with a committed offset had not read.",
        SHARD,
        [((shard,), one.deleted_unread_segments) for shard, one in shards],
    )
    yield _counter(
        "retention_blocked",
        "How often a segment was due to be deleted but kept, because this consumer or group has"
        " not read it.",
        naming.consumer,
        (
            (naming.of_consumer(*row[:3]), row.times)
            for one in scrape.shards.values()
            for row in one.blocked.rows
        ),
    )
    yield _gauge(
        "retention_blocked_since_seconds",
        "Since when (seconds since 1970) a segment is due to be deleted but kept, because this"
        " consumer or group has not read it.",
        naming.consumer,
        (
            (naming.of_consumer(*row[:3]), row.since_us / 1e6)
            for one in scrape.shards.values()
            for row in one.blocked_since.rows
        ),
    )


def _archive(scrape: Scrape) -> Iterator[Family]:
    shards = [
        (shard, one.archive) for shard, one in scrape.shards.items() if one.archive is not None
    ]
    yield _counter(
        "archive_segments",
        "Segments that were archived.",
        SHARD,
        [((shard,), one.segments) for shard, one in shards],
    )
    yield _counter(
        "archive_bytes",
        "Bytes that were archived.",
        SHARD,
        [((shard,), one.size_bytes) for shard, one in shards],
    )
    yield _counter(
        "archive_failures",
        "Rounds of archiving that the archive or the disk has ended early.",
        SHARD,
        [((shard,), one.failures) for shard, one in shards],
    )
    yield _gauge(
        "archive_waiting_segments",
        "Segments that have yet to be archived.",
        SHARD,
        [((shard,), one.waiting) for shard, one in shards],
    )


def _compression(scrape: Scrape, naming: Naming) -> Iterator[Family]:
    by_codec: dict[str, Ratio] = defaultdict(Ratio)
    # Its partitions may belong to several shards.
    by_topic: dict[tuple[int, int, str], Ratio] = defaultdict(Ratio)
    for one in scrape.shards.values():
        for codec, found in one.codecs.items():
            by_codec[codec] = by_codec[codec].plus(found)
        for row in one.compressed.rows:
            by_topic[row[:3]] = by_topic[row[:3]].plus(Ratio(*row[3:]))
    yield _gauge(
        "compression_ratio",
        "How many bytes of messages one byte of compressed segments stands for.",
        ("codec",),
        [((codec,), found.ratio) for codec, found in by_codec.items()],
    )
    yield _gauge(
        "compression_saved_bytes",
        "What compressed segments take less on the disk than they would otherwise.",
        ("codec",),
        [((codec,), found.saved_bytes) for codec, found in by_codec.items()],
    )
    for field, help in COMPRESSED_FIELDS.items():
        rows = [
            (naming.of_codec(*place), getattr(found, field)) for place, found in by_topic.items()
        ]
        yield _gauge(f"compression_topic_{field}", help, naming.codec, rows)


def _faults(scrape: Scrape, naming: Naming) -> Iterator[Family]:
    shards = scrape.shards.values()
    yield _gauge(
        "partitions_read_only",
        "Partitions that take nothing until a restart, because a sync has failed.",
        (),
        _one(sum(_count(one.read_only) for one in shards)),
    )
    yield _gauge(
        "partition_read_only",
        "1 for each of them.",
        naming.partition,
        ((naming.of_partition(space), 1) for one in shards for space in one.read_only.rows),
    )
    yield _gauge(
        "partitions_refused",
        "Partitions that are not served, because their files are missing or cannot be trusted.",
        (),
        _one(sum(one.refused_partitions for one in shards)),
    )
    yield _gauge(
        "metadata_read_only",
        "1 if streams, topics and users cannot be changed until a restart.",
        (),
        _one(int(any(one.metadata_is_read_only for one in shards))),
    )
    yield _counter(
        "write_errors",
        "Writes that failed, by what was written and what the kernel said.",
        ("shard", "written", "error"),
        [
            ((shard, fault.written, fault.error), fault.times)
            for shard, one in scrape.shards.items()
            for fault in one.faults
        ],
    )


def _count(rows: Cut[int]) -> int:
    return len(rows.rows) + rows.left_out


def _left_out(scrape: Scrape) -> Family:
    shards = scrape.shards.values()
    overview = scrape.overview
    compressed = sum(one.compressed.left_out for one in shards)
    left_out = {
        **{f"topic_{field}": overview.topics.left_out for field in TOPIC_FIELDS},
        "partition_appended_messages": overview.ends.left_out,
        "consumer_lag_messages": sum(one.lags.left_out for one in shards),
        "retention_blocked": sum(one.blocked.left_out for one in shards),
        "retention_blocked_since_seconds": sum(one.blocked_since.left_out for one in shards),
        **{f"compression_topic_{field}": compressed for field in COMPRESSED_FIELDS},
        "partition_read_only": sum(one.read_only.left_out for one in shards),
    }
    return _gauge(
        "metrics_left_out",
        "Rows that metrics.series_max has kept out of a family.",
        ("family",),
        [((f"borzoi_{name}",), count) for name, count in left_out.items()],
    )
