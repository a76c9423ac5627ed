"""GET_STATS tells the truth: counts, sizes, processes, disk."""

import os
import time

import psutil
import pytest

from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.system import GetStats, Ping
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.message import Message
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.integration.wire import TWO_SHARDS, Wire, topic_of

pytestmark = pytest.mark.slow


def test_counts_and_sizes(broker: BrokerProcess) -> None:
    wire = Wire(broker)
    empty = wire.ask(GetStats())
    assert (empty.streams_count, empty.topics_count, empty.partitions_count) == (0, 0, 0)
    assert (empty.segments_count, empty.messages_count, empty.messages_size_bytes) == (0, 0, 0)
    assert (empty.clients_count, empty.consumer_groups_count) == (1, 0)

    for stream, topics in (("one", ("a", "b")), ("two", ("c",))):
        wire.ask(CreateStream(stream))
        for topic in topics:
            wire.ask(topic_of(topic, 4, stream=stream))
    created = wire.ask(GetStats())
    assert (created.streams_count, created.topics_count) == (2, 3)
    # Each partition has the segment it will write to.
    assert (created.partitions_count, created.segments_count) == (12, 12)

    messages = [Message(b"x" * n, user_headers=b"h" * (n % 7)) for n in range(1, 50)]
    size = sum(64 + len(m.payload) + len(m.user_headers) for m in messages)
    for partition_id in range(4):
        assert wire.send("a", partition_id, *messages, stream="one") == 0
    filled = wire.ask(GetStats())
    assert filled.messages_count == 4 * len(messages)
    assert filled.messages_size_bytes == 4 * size
    assert filled.segments_count == 12

    others = [Wire(broker, login=False) for _ in range(5)]
    # Connected is who has been accepted, and the kernel does not wait for that.
    assert all(other.status(Ping()) == 0 for other in others)
    assert wire.ask(GetStats()).clients_count == 6
    for other in others:
        other.close()

    wire.ask(PurgeTopic("one", "a"))
    purged = wire.ask(GetStats())
    assert (purged.messages_count, purged.messages_size_bytes) == (0, 0)
    assert (purged.partitions_count, purged.segments_count) == (12, 12)
    wire.ask(DeleteStream("one"))
    deleted = wire.ask(GetStats())
    assert (deleted.streams_count, deleted.topics_count) == (1, 1)
    assert (deleted.partitions_count, deleted.segments_count) == (4, 4)


def test_processes_and_disk(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS)
    wire = Wire(broker)
    first = wire.ask(GetStats())
    stats = wire.ask(GetStats())
    processes = [psutil.Process(pid) for pid in (broker.pid, *broker.workers().values())]
    assert stats.process_id == broker.pid
    resident = sum(process.memory_info().rss for process in processes)
    assert resident * 0.8 < stats.memory_usage < resident * 1.2
    assert 0 < stats.available_memory <= stats.total_memory
    assert stats.total_memory == psutil.virtual_memory().total
    assert stats.threads_count >= len(processes)
    assert 0 < stats.free_disk_space <= stats.total_disk_space
    assert stats.cpu_usage >= 0
    assert stats.total_cpu_usage >= 0
    now_us = time.time() * 1e6
    assert stats.start_time == first.start_time
    assert first.run_time <= stats.run_time
    assert abs(stats.start_time + stats.run_time - now_us) < 5e6
    assert (stats.server_version, stats.server_semver) == ("0.8.0", 8000)
    uname = os.uname()
    assert (stats.hostname, stats.kernel_version) == (uname.nodename, uname.release)
    assert stats.os_name
    assert stats.os_version
    assert stats.written_bytes >= 0
