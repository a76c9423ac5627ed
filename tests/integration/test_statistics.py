"""GET_STATS tells the truth: every field is compared with another source."""

import os
import platform
import time
from collections.abc import Iterator, Sequence

import psutil
import pytest

from borzoi.protocol.commands.offsets import StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, DeleteStream, GetStream
from borzoi.protocol.commands.system import GetStats, Ping
from borzoi.protocol.commands.topics import DeletePartitions, PurgeTopic
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.protocol.message import Message
from borzoi.protocol.responses.stats import Stats
from borzoi.shards.observing.usage import WINDOW_MIN_S
from tests.broker import BrokerProcess, wait_for
from tests.shard_wires import TWO_SHARDS, one_per_shard, shard_of_wire
from tests.topics import topic_of
from tests.wire import NEXT, Wire

pytestmark = pytest.mark.slow

SETTINGS = {**TWO_SHARDS, "IGGY_SYSTEM_SEGMENT_SIZE": "1KiB", "IGGY_TCP_SOCKET_MIGRATION": "false"}
TICKS_PERCENT = 5.0
"""What the kernel's clock ticks leave open, of three processes in a second."""


@pytest.fixture(scope="module")
def counted_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Two shards, segments that roll all the time, no other connection."""
    broker = BrokerProcess(tmp_path_factory.mktemp("statistics") / "data", SETTINGS)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def both_shards(counted_broker: BrokerProcess) -> Iterator[Sequence[Wire]]:
    """A connection to each shard."""
    with one_per_shard(counted_broker) as wires:
        yield wires


def processes_of(broker: BrokerProcess) -> list[psutil.Process]:
    pids = (broker.pid, broker.nursery(), *broker.workers().values())
    return [psutil.Process(pid) for pid in pids]


def test_counts_and_sizes(counted_broker: BrokerProcess, both_shards: Sequence[Wire]) -> None:
    broker = counted_broker
    wire, other_shard = both_shards

    def stats() -> Stats:
        """What both shards say, which must be the same."""
        here, there = wire.ask(GetStats()), other_shard.ask(GetStats())
        assert isinstance(here, Stats)
        assert counts(here) == counts(there)
        return here

    def segments() -> int:
        """Files, and the segments of the eight partitions that have no messages yet."""
        return len(list(broker.data.glob("streams/*/topics/*/partitions/*/*.log"))) + 8

    wait_for(lambda: wire.ask(GetStats()).clients_count == 2)
    assert counts(stats()) == (0, 0, 0, 0, 0, 0, 2, 0)

    for stream, topics in (("one", ("a", "b")), ("two", ("c",))):
        wire.ask(CreateStream(stream))
        for topic in topics:
            wire.ask(topic_of(topic, 4, stream=stream))
    # Each partition has the segment it will write to.
    assert counts(stats()) == (0, 2, 3, 12, 12, 0, 2, 0)

    messages = [Message(b"x" * n, user_headers=b"h" * (n % 7)) for n in range(1, 50)]
    size = sum(64 + len(m.payload) + len(m.user_headers) for m in messages)
    for partition_id in range(4):
        for message in messages:
            assert wire.send("a", partition_id, message, stream="one") == 0
    filled = stats()
    assert (filled.messages_count, filled.messages_size_bytes) == (4 * len(messages), 4 * size)
    assert filled.segments_count > 20
    assert filled.segments_count == segments()
    on_disk = sum(path.stat().st_size for path in broker.data.glob("streams/**/*.log"))
    assert filled.messages_size_bytes == on_disk
    wire.ask(StoreConsumerOffset(Consumer(ConsumerKind.CONSUMER, 1), "one", "a", 0, 1))

    others = [Wire(broker, login=False) for _ in range(5)]
    # Connected is who has been accepted, and the kernel does not wait for that.
    assert all(other.status(Ping()) == 0 for other in others)
    assert stats().clients_count == 7
    for other in others:
        other.close()
    wait_for(lambda: wire.ask(GetStats()).clients_count == 2)

    wire.ask(DeletePartitions("one", "a", 1))
    assert counts(stats())[:4] == (3 * size, 2, 3, 11)
    assert stats().segments_count == segments()
    wire.ask(PurgeTopic("one", "a"))
    assert counts(stats()) == (0, 2, 3, 11, 11, 0, 2, 0)
    wire.ask(DeleteStream("one"))
    assert counts(stats()) == (0, 1, 1, 4, 4, 0, 2, 0)
    wire.ask(DeleteStream("two"))


def counts(stats: Stats) -> tuple[int, ...]:
    return (
        stats.messages_size_bytes,
        stats.streams_count,
        stats.topics_count,
        stats.partitions_count,
        stats.segments_count,
        stats.messages_count,
        stats.clients_count,
        stats.consumer_groups_count,
    )


def test_reads_of_both_shards_are_counted(both_shards: Sequence[Wire]) -> None:
    wire, other_shard = both_shards
    wire.ask(CreateStream("read"))
    wire.ask(topic_of("read", 2))
    stream_id = wire.ask(GetStream("read")).stream.id
    for partition_id in range(2):
        assert wire.send("read", partition_id, b"1", b"2", b"3") == 0
    for _ in range(3):
        assert len(wire.poll("read", 0).messages) == 3
        assert len(other_shard.poll("read", 0).messages) == 3
    assert len(other_shard.poll("read", 1, NEXT, auto_commit=True).messages) == 3
    # Nothing is found here, so nothing is read.
    assert other_shard.poll("read", 1, NEXT).messages == ()
    for one in (wire, other_shard):
        metrics = one.ask(GetStats()).cache_metrics
        # Written a moment ago: it is in memory. A poll reads once, also one that commits.
        assert metrics == ((stream_id, 0, 0, 6, 0, 1.0), (stream_id, 0, 1, 1, 0, 1.0))
    wire.ask(PurgeTopic("read", "read"))
    assert other_shard.ask(GetStats()).cache_metrics == ()
    wire.ask(DeleteStream("read"))


def test_processes_and_disk(counted_broker: BrokerProcess) -> None:
    broker = counted_broker
    wire = Wire(broker)
    processes = processes_of(broker)
    assert len(processes) == 4

    def memory_agrees() -> bool:
        # Proportional sizes: what the shards share is counted once. A login needs 19 MiB for a
        # moment, and figures may be some tenths of a second old.
        taken = sum(process.memory_full_info().pss for process in processes)
        answered = wire.ask(GetStats()).memory_usage
        return bool(abs(answered - taken) < taken / 20)

    wait_for(memory_agrees)
    resident = sum(process.memory_info().rss for process in processes)
    stats = wire.ask(GetStats())
    assert stats.memory_usage < resident
    assert stats.process_id == broker.pid
    assert stats.total_memory == psutil.virtual_memory().total
    assert 0 < stats.available_memory <= stats.total_memory
    assert stats.threads_count == pytest.approx(sum(one.num_threads() for one in processes), abs=4)
    disk = psutil.disk_usage(str(broker.data))
    assert stats.total_disk_space == disk.total
    assert 0 < stats.free_disk_space <= stats.total_disk_space
    traffic = [process.io_counters() for process in processes]
    assert stats.read_bytes <= sum(one.read_bytes for one in traffic)
    assert 0 < stats.written_bytes <= sum(one.write_bytes for one in traffic)


def test_start_and_run_time(counted_broker: BrokerProcess) -> None:
    wire = Wire(counted_broker)
    first = wire.ask(GetStats())
    before_us = time.time() * 1e6
    stats = wire.ask(GetStats())
    after_us = time.time() * 1e6
    assert stats.start_time == first.start_time
    assert before_us <= stats.start_time + stats.run_time <= after_us
    # The kernel counts from the boot in seconds: that is as well as anybody else knows.
    began_us = psutil.Process(counted_broker.pid).create_time() * 1e6
    assert began_us - 2e6 < stats.start_time < before_us


def test_the_start_is_that_of_the_broker_not_of_a_worker(counted_broker: BrokerProcess) -> None:
    before = Wire(counted_broker).ask(GetStats()).start_time
    (old,) = (pid for shard, pid in counted_broker.workers().items() if shard == 1)
    os.kill(old, 9)
    wait_for(lambda: counted_broker.workers().get(1, old) != old, 30.0)
    wait_for(lambda: shard_of_wire(counted_broker, Wire(counted_broker, login=False)) == 1, 30.0)
    with one_per_shard(counted_broker) as wires:
        assert [wire.ask(GetStats()).start_time for wire in wires] == [before, before]


def test_cpu_of_all_processes(counted_broker: BrokerProcess, both_shards: Sequence[Wire]) -> None:
    """One shard is kept busy and the other one is asked."""
    idle, busy = both_shards
    processes = processes_of(counted_broker)

    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    def keep_busy(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert busy.status(Ping()) == 0

    # Figures that are younger would be given again; the next question begins a window of its own,
    # and the one after that ends it. When exactly is known only between before and after.
    keep_busy(WINDOW_MIN_S)
    asked, asked_s = time.monotonic(), used()
    idle.ask(GetStats())
    began, began_s = time.monotonic(), used()
    keep_busy(1.0)
    ended, ended_s = time.monotonic(), used()
    stats = idle.ask(GetStats())
    answered, answered_s = time.monotonic(), used()
    least = 100 * (ended_s - began_s) / (answered - asked)
    most = 100 * (answered_s - asked_s) / (ended - began)
    assert least - TICKS_PERCENT <= stats.cpu_usage <= most + TICKS_PERCENT
    assert stats.cpu_usage > 0
    assert 0 < stats.total_cpu_usage <= 100


def test_names_and_versions(counted_broker: BrokerProcess) -> None:
    stats = Wire(counted_broker).ask(GetStats())
    uname = os.uname()
    release = platform.freedesktop_os_release()
    assert (stats.hostname, stats.kernel_version) == (uname.nodename, uname.release)
    assert stats.os_name == release["NAME"]
    assert stats.os_version == f"Linux ({release['NAME']} {release['VERSION_ID']})"
    assert (stats.server_version, stats.server_semver) == ("0.8.0", 8000)
