"""Figures become metrics: true sums over shards, and labels that tell no names unless asked."""

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.protocol.openmetrics import exposition
from borzoi.router.placement import pack_namespace
from borzoi.shards.metrics.families import Disk, Scrape, families
from borzoi.shards.metrics.overview import (
    EVERYWHERE,
    Names,
    Overview,
    PartitionEnd,
    TopicFigures,
    TopicPlace,
)
from borzoi.shards.metrics.shard_figures import (
    ArchiveFigures,
    BlockedSince,
    BlockerFigures,
    CompressedTopic,
    Cut,
    Lag,
    NatsFigures,
    Resident,
)
from borzoi.shards.tallies.meters import Errors, RequestTimes, Times
from borzoi.shards.tallies.traffic import CompressionBacklog, Kernel, Traffic, Written
from borzoi.shares import ShareFigures
from borzoi.storage.ratio import Ratio
from borzoi.storage.write_faults import FaultCount
from tests.scraped import Scraped
from tests.shards.metrics.samples import lags_of, shard_figures

PLACE = TopicPlace(1, 2)
FIRST, SECOND = pack_namespace(1, 2, 0), pack_namespace(1, 2, 1)
CONSUMER, GROUP = int(ConsumerKind.CONSUMER), int(ConsumerKind.GROUP)
TOPIC = TopicFigures(PLACE, 2, 9, 100, 7000)
OVERVIEW = Overview(
    streams=3,
    users=4,
    consumer_groups=5,
    total=TopicFigures(EVERYWHERE, 20, 30, 400, 50_000),
    topics_count=6,
    topics=Cut([TOPIC], 5),
    ends=Cut([PartitionEnd(FIRST, 77)], 19),
)
ONE = shard_figures(
    connections=7,
    clients=8,
    cpu_seconds=1.5,
    resident=Resident(100, 200, 300),
    http_requests=9,
    deleted_segments=10,
    deleted_bytes=11,
    deleted_unread_segments=4,
    blocked=Cut([BlockerFigures(FIRST, CONSUMER, 42, 3)], 2),
    blocked_since=Cut([BlockedSince(FIRST, CONSUMER, 42, 1_500_000)], 1),
    archive=ArchiveFigures(12, 13, 14, 15),
    codecs={"zstd": Ratio(2, 400, 100)},
    compressed=Cut([CompressedTopic(1, 2, "zstd", 1, 200, 50)], 1),
    read_only=Cut([FIRST], 1),
    refused_partitions=1,
    faults=[FaultCount("sync", "EIO", 1)],
    duplicates=16,
    shared={"logins": ShareFigures(20, 21, 22, 23, 24, 25)},
    lags=lags_of(Lag(FIRST, GROUP, 0, 17), Lag(FIRST, CONSUMER, 42, 0), left_out=18),
    traffic=Traffic(
        requests=[RequestTimes("tcp", "ping", Times([1, 2, *[0] * 19, 3], 60.5), 700)],
        errors=[Errors("tcp", 1009, 4), Errors("http", 404, 5)],
        polled={"tcp": (6, 7)},
        written=Written(8, 9, 10),
        loop_lag=Times([*[0] * 21, 1], 99.0),
        backlog=CompressionBacklog(3, 4.5, 1),
        pool_bytes=11,
        kernel=Kernel(1, 2, 3, 4, 5, 6),
    ),
    nats=NatsFigures(True, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14),
)
TWO = shard_figures(
    clients=1,
    codecs={"zstd": Ratio(1, 100, 50), "gzip": Ratio(1, 30, 10)},
    compressed=Cut([CompressedTopic(1, 2, "zstd", 1, 100, 50)]),
    refused_partitions=2,
    metadata_is_read_only=True,
    lags=lags_of(Lag(SECOND, GROUP, 0, 1)),
)


def scraped(names: Names | None = None) -> Scraped:
    scrape = Scrape(
        "1.2", 12.5, OVERVIEW, names, Disk(1000, 10), {0: 1, 1: 3, 2: 1}, {0: ONE, 2: TWO}
    )
    return Scraped(b"".join(exposition(families(scrape))).decode())


def test_the_names_of_iggy_are_true_totals() -> None:
    found = scraped()
    totals = {"streams": 3, "topics": 6, "partitions": 20, "segments": 30, "messages": 400}
    for name, value in {**totals, "users": 4, "clients": 9}.items():
        assert found.value(name) == value
        assert found.families[name].documentation == f"total count of {name}"
    assert found.value("http_requests", shard=0) == 9


def test_nats_has_rows_where_it_is_configured() -> None:
    found = scraped()
    wanted = {
        "connected": 1,
        "subscriptions": 2,
        "pending_bytes": 3,
        "disconnects": 4,
        "received_messages": 5,
        "stored_messages": 6,
        "enveloped_messages": 7,
        "malformed_envelopes": 8,
        "acks": 9,
        "unsent_acks": 10,
    }
    for name, value in wanted.items():
        assert found.value(f"borzoi_nats_{name}", shard=0) == value
    dropped = {"overflowed": 11, "refused": 12, "failed": 13, "unreadable": 14}
    for reason, value in dropped.items():
        assert found.value("borzoi_nats_dropped_messages", shard=0, reason=reason) == value
    assert found.total("borzoi_nats_connected") == 1


def test_sums_and_labels() -> None:
    found = scraped()
    here = {"stream": 1, "topic": 2, "partition": 0}
    assert found.value("borzoi_build", version="1.2") == 1
    assert found.value("borzoi_messages_size_bytes") == 50_000
    assert found.value("borzoi_disk_free_bytes") == 10
    assert found.value("borzoi_topic_size_bytes", stream=1, topic=2) == 7000
    assert found.value("borzoi_partition_appended_messages", **here) == 77
    lag = "borzoi_consumer_lag_messages"
    assert found.value(lag, **here, kind="group", consumer=0) == 17
    assert found.value(lag, **here, kind="consumer", consumer=42) == 0
    assert found.total(lag, kind="group") == 18
    assert found.value("borzoi_retention_blocked", **here, kind="consumer", consumer=42) == 3
    since = "borzoi_retention_blocked_since_seconds"
    assert found.value(since, **here, kind="consumer", consumer=42) == 1.5
    assert found.value("borzoi_retention_deleted_bytes", shard=0) == 11
    assert found.value("borzoi_retention_deleted_unread_segments", shard=0) == 4
    assert found.value("borzoi_archive_waiting_segments", shard=0) == 15
    assert found.value("borzoi_write_errors", shard=0, written="sync", error="EIO") == 1
    assert found.value("borzoi_shard_resident_memory_bytes", shard=0, kind="file") == 200
    assert found.value("borzoi_shard_cpu_seconds", shard=0) == 1.5
    assert found.total("borzoi_deduplication_dropped_messages") == 16


def test_what_is_shared() -> None:
    found = scraped()
    fields = ("size", "taken", "largest", "takers", "waits", "refusals")
    values = [found.value(f"borzoi_share_{field}", shard=0, share="logins") for field in fields]
    assert values == [20, 21, 22, 23, 24, 25]


def test_compression_by_codec_is_of_all_topics_and_by_topic_of_all_shards() -> None:
    found = scraped()
    assert found.value("borzoi_compression_ratio", codec="zstd") == 500 / 150
    assert found.value("borzoi_compression_saved_bytes", codec="zstd") == 350
    assert found.value("borzoi_compression_ratio", codec="gzip") == 3
    topic = {"stream": 1, "topic": 2, "codec": "zstd"}
    assert found.value("borzoi_compression_topic_plain_bytes", **topic) == 300
    assert found.value("borzoi_compression_topic_stored_bytes", **topic) == 100
    assert found.value("borzoi_compression_topic_segments", **topic) == 2


def test_faults_count_also_what_is_left_out() -> None:
    found = scraped()
    assert found.value("borzoi_partitions_read_only") == 2
    assert found.value("borzoi_partition_read_only", stream=1, topic=2, partition=0) == 1
    assert found.value("borzoi_partitions_refused") == 3
    assert found.value("borzoi_metadata_read_only") == 1


def test_a_shard_that_is_away_and_how_often_it_was_replaced() -> None:
    found = scraped()
    assert [value for _, value in found.rows("borzoi_shard_up")] == [1, 0, 1]
    assert [value for _, value in found.rows("borzoi_shard_restarts")] == [0, 2, 0]
    assert found.total("borzoi_shard_connections", shard=1) == 0


def test_what_is_left_out_is_said_of_every_family_that_has_a_bound() -> None:
    found = scraped()
    left_out = {labels["family"]: value for labels, value in found.rows("borzoi_metrics_left_out")}
    assert left_out == {
        "borzoi_topic_partitions": 5,
        "borzoi_topic_segments": 5,
        "borzoi_topic_messages": 5,
        "borzoi_topic_size_bytes": 5,
        "borzoi_partition_appended_messages": 19,
        "borzoi_consumer_lag_messages": 18,
        "borzoi_retention_blocked": 2,
        "borzoi_retention_blocked_since_seconds": 1,
        "borzoi_compression_topic_segments": 1,
        "borzoi_compression_topic_plain_bytes": 1,
        "borzoi_compression_topic_stored_bytes": 1,
        "borzoi_partition_read_only": 1,
    }
    assert left_out.keys() <= found.families.keys()


def test_requests_are_histograms_by_command_and_door() -> None:
    found = scraped()
    ping = {"shard": "0", "door": "tcp", "command": "ping"}
    times = found.families["borzoi_request_duration_seconds"]
    assert times.type == "histogram"
    rows = {(one.name, one.labels.get("le")): one.value for one in times.samples}
    assert rows["borzoi_request_duration_seconds_bucket", "1.6384e-05"] == 1
    assert rows["borzoi_request_duration_seconds_bucket", "3.2768e-05"] == 3
    assert rows["borzoi_request_duration_seconds_bucket", "17.179869184"] == 3
    assert rows["borzoi_request_duration_seconds_bucket", "+Inf"] == 6
    assert rows["borzoi_request_duration_seconds_count", None] == 6
    assert rows["borzoi_request_duration_seconds_sum", None] == 60.5
    assert found.value("borzoi_request_bytes", **ping) == 700
    errors = list(found.rows("borzoi_request_errors"))
    first = {"shard": "0", "door": "tcp", "status": "1009", "error": "StreamIdNotFound"}
    second = {"shard": "0", "door": "http", "status": "404", "error": ""}
    assert errors == [(first, 4), (second, 5)]


def test_the_work_of_a_shard() -> None:
    found = scraped()
    assert found.value("borzoi_polled_messages", shard=0, door="tcp") == 6
    assert found.value("borzoi_polled_bytes", shard=0, door="tcp") == 7
    for number, name in enumerate(("messages", "bytes"), 8):
        assert found.value(f"borzoi_log_written_{name}", shard=0) == number
    assert found.value("borzoi_log_writes", shard=0) == 10
    assert found.value("borzoi_compression_waiting_segments", shard=0) == 3
    assert found.value("borzoi_compression_waiting_seconds", shard=0) == 4.5
    assert found.value("borzoi_pool_bytes", shard=0) == 11
    assert found.value("borzoi_context_preemptions", shard=0) == 6
    late = {
        one.labels.get("le"): one.value
        for one in found.families["borzoi_loop_lag_seconds"].samples
        if one.labels["shard"] == "0" and one.name.endswith("_bucket")
    }
    assert (late["17.179869184"], late["+Inf"]) == (0, 1)


def test_names_are_shown_beside_the_ids_if_wanted() -> None:
    names = Names({1: "orders"}, {PLACE: 'ev"ents'}, {(PLACE, 0): "billing"}, {42: "biller"})
    found = scraped(names)
    topic = {"stream": 1, "topic": 2, "stream_name": "orders", "topic_name": 'ev"ents'}
    assert found.value("borzoi_topic_messages", **topic) == 100
    assert found.value("borzoi_partition_read_only", **topic, partition=0) == 1
    assert found.value("borzoi_compression_topic_segments", **topic, codec="zstd") == 2
    group = {**topic, "partition": 0, "kind": "group", "consumer": 0}
    assert found.value("borzoi_consumer_lag_messages", **group, consumer_name="billing") == 17
    single = {**topic, "partition": 0, "kind": "consumer", "consumer": 42}
    assert found.value("borzoi_consumer_lag_messages", **single, consumer_name="biller") == 0
    # Whose names are not known any more, or never were.
    gone = scraped(Names({}, {}, {}, {}))
    assert gone.total("borzoi_topic_messages", stream=1, stream_name="", topic_name="") == 100
    assert gone.total("borzoi_consumer_lag_messages", consumer=42, consumer_name="") == 0


def test_every_family_says_what_it_is_and_counters_are_known_as_such() -> None:
    found = scraped()
    assert all(family.documentation for family in found.families.values())
    for family in found.families.values():
        for sample in family.samples:
            assert sample.name.endswith("_total") == (family.type == "counter")
    assert len(found.families) >= 60
