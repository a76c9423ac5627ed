"""Metrics of a running broker: what they tell is what clients, commands and files tell."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from apache_iggy import PollingStrategy
from click.testing import CliRunner

from borzoi.main import main
from borzoi.protocol.commands.groups import CreateConsumerGroup, JoinConsumerGroup
from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.commands.topics import CreateTopic, DeleteSegments
from borzoi.protocol.commands.users import CreateUser
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.message import Message
from borzoi.protocol.responses.stats import Stats
from tests.broker import BrokerProcess, wait_for
from tests.conformance.official import connected, poll, send
from tests.conftest import NewBroker
from tests.scraped import Scraped, fetch
from tests.shard_wires import ONE_SHARD, TWO_SHARDS
from tests.topics import topic_of
from tests.wire import Wire

pytestmark = pytest.mark.slow

FAMILIES_MIN = 60
METRICS = {"IGGY_METRICS_ENABLED": "true", "IGGY_METRICS_ADDRESS": "127.0.0.1:0"}
SETTINGS = {
    **TWO_SHARDS,
    **METRICS,
    "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB",
    "IGGY_SYSTEM_COMPRESSION_ALLOW_OVERRIDE": "true",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_ARCHIVER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_ARCHIVER_INTERVAL": "50 ms",
}
PAYLOAD = bytes(936)  # with its header 1,000 bytes, so 7 messages in a segment
ZSTD = 4
PARTITIONS = 4
A_CONSUMER = Consumer(ConsumerKind.CONSUMER, 42)


class Filled(NamedTuple):
    """A broker that has something of everything, and the ids of its streams."""

    broker: BrokerProcess
    packed: int
    blocked: int
    official: int

    def scraped_once(self, condition: Callable[[Scraped], bool]) -> Scraped:
        """The first scrape for which it is true: answers may be those of a moment ago."""

        def look() -> Scraped | None:
            try:
                found = Scraped.of(self.broker.metrics_address)
            except ConnectionError:
                # A worker that was killed takes those along that waited at its door.
                return None
            return found if condition(found) else None

        found = wait_for(look)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    broker = BrokerProcess(tmp_path_factory.mktemp("metrics") / "data", SETTINGS)
    try:
        broker.start()
        yield fill_broker(broker)
        output = broker.output()
        assert broker.stop() == 0
        assert "fault of ours" not in output
        assert "Traceback" not in output
    finally:
        broker.close()


def fill_broker(broker: BrokerProcess) -> Filled:
    wire = Wire(broker)
    wire.ask(CreateUser("a-user", "secret-password"))
    packed = new_stream(wire, "packed-secret")
    wire.ask(CreateTopic("packed-secret", PARTITIONS, ZSTD, 0, 0, 1, "packed-secret"))
    for partition in range(PARTITIONS):
        fill(wire, "packed-secret", partition)
    blocked = new_stream(wire, "blocked-secret")
    wire.ask(topic_of("blocked-secret"))
    fill(wire, "blocked-secret", 0)
    wire.ask(CreateConsumerGroup("blocked-secret", "blocked-secret", "group-secret"))
    wire.ask(StoreConsumerOffset(A_CONSUMER, "blocked-secret", "blocked-secret", 0, 12))
    wire.ask(DeleteSegments("blocked-secret", "blocked-secret", 0, 9))
    for _ in range(3):
        assert wire.send("blocked-secret", 0, Message(b"the same", 7)) == 0
    wire.ask(JoinConsumerGroup("blocked-secret", "blocked-secret", "group-secret"))
    group = Consumer(ConsumerKind.GROUP, "group-secret")
    wire.ask(StoreConsumerOffset(group, "blocked-secret", "blocked-secret", 0, 25))
    official = new_stream(wire, "official")
    wire.close()
    asyncio.run(use_official_client(broker))
    return Filled(broker, packed, blocked, official)


def new_stream(wire: Wire, name: str) -> int:
    stream = wire.ask(CreateStream(name)).id
    assert isinstance(stream, int)
    return stream


def fill(wire: Wire, name: str, partition: int) -> None:
    for _ in range(25):
        assert wire.send(name, partition, PAYLOAD) == 0


async def use_official_client(broker: BrokerProcess) -> None:
    """Five messages, of which three are read and committed."""
    client = await connected(broker, "tcp")
    await client.create_topic("official", "official", partitions_count=1)
    await send(client, "official", 0, *[b"x"] * 5)
    polled = await poll(client, "official", 0, PollingStrategy.First(), 3, auto_commit=True)
    assert len(polled) == 3


def stats_of(broker: BrokerProcess) -> Stats:
    wire = Wire(broker)
    stats = wire.ask(GetStats())
    wire.close()
    assert isinstance(stats, Stats)
    return stats


def check_totals(found: Scraped, stats: Stats) -> None:
    """The gauges of Iggy against GET_STATS."""
    assert found.value("streams") == stats.streams_count == 3
    assert found.value("topics") == stats.topics_count == 3
    assert found.value("partitions") == stats.partitions_count == PARTITIONS + 2
    assert found.value("segments") == stats.segments_count
    assert found.value("messages") == stats.messages_count
    assert found.value("borzoi_messages_size_bytes") == stats.messages_size_bytes
    assert found.value("borzoi_consumer_groups") == stats.consumer_groups_count == 1
    assert found.value("users") == 2


def test_figures_are_those_that_others_tell(filled: Filled) -> None:
    clients = stats_of(filled.broker).clients_count - 1
    found = filled.scraped_once(
        lambda one: (
            one.total("borzoi_archive_waiting_segments") == 0
            and one.total("borzoi_compression_topic_segments") == 3 * PARTITIONS
            and one.value("clients") == clients
        )
    )
    assert len(found.families) >= FAMILIES_MIN
    check_totals(found, stats_of(filled.broker))
    check_compression(filled, found)

    here = {"stream": filled.blocked, "topic": 0, "partition": 0}
    consumer = {**here, "kind": "consumer", "consumer": 42}
    assert found.value("borzoi_retention_blocked", **consumer) >= 1
    assert found.value("borzoi_retention_blocked_since_seconds", **consumer) > 0
    assert found.total("borzoi_retention_deleted_unread_segments") == 0
    assert found.total("borzoi_retention_deleted_segments") == 1
    assert found.total("borzoi_retention_deleted_bytes") == 7000
    assert found.total("borzoi_deduplication_dropped_messages") == 2
    assert found.value("borzoi_partition_appended_messages", **here) == 26
    assert found.value("borzoi_topic_messages", stream=filled.blocked, topic=0) == 26 - 7

    lag = "borzoi_consumer_lag_messages"
    assert found.value(lag, **consumer) == 13
    assert found.value(lag, **here, kind="group", consumer=0) == 0
    assert found.total(lag, stream=filled.official) == 2

    archived = list((filled.broker.data / "backup").rglob("*.log*"))
    assert found.total("borzoi_archive_segments") >= 3 * PARTITIONS + 2 <= len(archived)
    assert found.total("borzoi_archive_failures") == 0
    assert found.value("borzoi_partitions_read_only") == 0
    assert found.total("borzoi_write_errors") == 0
    assert found.total("borzoi_metrics_left_out") == 0
    disk = os.statvfs(filled.broker.data)
    assert found.value("borzoi_disk_size_bytes") == disk.f_blocks * disk.f_frsize


def check_compression(filled: Filled, found: Scraped) -> None:
    shown = CliRunner().invoke(main, ["compression", str(filled.broker.data), "--json"])
    assert shown.exit_code == 0, shown.output
    rows = {row["stream_id"]: row for row in json.loads(shown.stdout)}
    row = rows[filled.packed]
    topic = {"stream": filled.packed, "topic": 0, "codec": "zstd"}
    assert found.value("borzoi_compression_topic_plain_bytes", **topic) == row["plain_bytes"]
    assert found.value("borzoi_compression_topic_stored_bytes", **topic) == row["stored_bytes"]
    assert found.value("borzoi_compression_saved_bytes", codec="zstd") == row["saved_bytes"] > 0
    ratio = found.value("borzoi_compression_ratio", codec="zstd")
    assert round(ratio, 3) == row["ratio"] > 2


def test_requests_are_counted_by_command_door_and_status(filled: Filled) -> None:
    broker = filled.broker
    requests = "borzoi_request_duration_seconds"

    def counted(found: Scraped, command: str, door: str = "tcp") -> float:
        return sum(
            one.value
            for one in found.families[requests].samples
            if one.name == f"{requests}_count"
            and (one.labels["command"], one.labels["door"]) == (command, door)
        )

    before = Scraped.of(broker.metrics_address)
    wire = Wire(broker)
    for _ in range(7):
        wire.ask(GetStats())
    assert wire.send("nosuch", 0, b"x") != 0
    wire.close()
    found = filled.scraped_once(
        lambda one: (
            counted(one, "get_stats") >= counted(before, "get_stats") + 7
            and one.total("borzoi_request_errors", door="tcp", error="StreamIdNotFound") >= 1
        )
    )
    assert counted(found, "send_messages") >= 25 * (PARTITIONS + 1)
    assert found.total("borzoi_log_written_messages") >= 25 * (PARTITIONS + 1) + 5
    assert found.total("borzoi_log_written_bytes") >= 1000 * 25 * (PARTITIONS + 1)
    assert found.total("borzoi_polled_messages") == 3
    assert found.total("borzoi_request_bytes", command="send_messages") > 100_000
    assert found.total("borzoi_pool_bytes") > 0
    assert len(found.families) >= 60


def test_no_name_is_shown_unless_it_was_asked_for(filled: Filled) -> None:
    assert "secret" not in Scraped.of(filled.broker.metrics_address).text


def test_other_paths_and_methods(filled: Filled) -> None:
    address = filled.broker.metrics_address
    assert fetch(address, "/").status == 404
    assert fetch(address, "/metrics", "POST").status == 405
    head = fetch(address, "/metrics?x=y", "HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["Content-Length"]) > 1000


def test_a_worker_dies_and_the_other_answers(filled: Filled) -> None:
    broker = filled.broker
    os.kill(broker.workers()[1], signal.SIGKILL)
    # The other tells of it before the successor serves, or at least afterwards.
    found = filled.scraped_once(lambda one: one.value("borzoi_shard_restarts", shard=1) == 1)
    assert found.value("borzoi_shard_restarts", shard=0) == 0
    # The successor has opened the same door: the kernel sends it every other reader.
    back = filled.scraped_once(
        lambda one: one.total("borzoi_shard_up") == 2 and one.value("http_requests", shard=1) > 0
    )
    assert back.total("borzoi_consumer_lag_messages", stream=filled.blocked) == 13


def test_after_a_restart_totals_are_those_of_the_disk_and_names_can_be_had(filled: Filled) -> None:
    broker = filled.broker
    before = stats_of(broker)
    assert broker.stop() == 0
    broker.settings["IGGY_METRICS_NAMES"] = "true"
    broker.settings["IGGY_HTTP_METRICS_ENDPOINT"] = "/figures"
    broker.start()
    answer = fetch(broker.metrics_address, "/figures")
    found = Scraped(answer.body.decode())
    check_totals(found, before)
    assert fetch(broker.metrics_address).status == 404
    name = "blocked-secret"
    assert found.total("borzoi_topic_messages", stream_name=name, topic_name=name) == 19
    lag_of = "borzoi_consumer_lag_messages"
    groups = [one for one, _ in found.rows(lag_of) if one["consumer_name"] == "group-secret"]
    assert [(one["kind"], one["consumer"]) for one in groups] == [("group", "0")]
    with Wire(broker) as wire:
        billing = Consumer(ConsumerKind.CONSUMER, "billing")
        wire.ask(StoreConsumerOffset(billing, "official", "official", 0, 1))

    def named() -> list[float] | None:
        shown = Scraped(fetch(broker.metrics_address, "/figures").body.decode())
        return [lag for one, lag in shown.rows(lag_of) if one["consumer_name"] == "billing"] or None

    assert wait_for(named) == [3]
    del broker.settings["IGGY_HTTP_METRICS_ENDPOINT"]


def test_a_port_that_is_taken_stops_the_start(new_broker: NewBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {**ONE_SHARD, **METRICS, "IGGY_METRICS_ADDRESS": address}
        broker = new_broker(start=False, **settings)
        with pytest.raises(AssertionError, match=f"cannot listen on {address}"):
            broker.start()
