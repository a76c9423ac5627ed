"""The three durability modes as clients see them."""

from pathlib import Path

import pytest

from borzoi.protocol.commands.messages import FlushUnsavedBuffer
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStream
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.identifiers import PollingStrategy, StrategyKind
from tests.conftest import NewBroker
from tests.shard_wires import ONE_SHARD, TWO_SHARDS, one_per_shard
from tests.topics import described, topic_of
from tests.wire import ANYBODY, NEXT, Wire

pytestmark = pytest.mark.slow

PARTITIONS = 4
JOURNAL_MAX = 1024
EVERY_STRATEGY = [PollingStrategy(kind) for kind in StrategyKind]


def log_size(data: Path, partition_id: int = 0) -> int:
    """Bytes of a partition that have left the process."""
    logs = data.glob(f"streams/0/topics/0/partitions/{partition_id}/*.log")
    return sum(path.stat().st_size for path in logs)


def test_buffered_shows_everything_although_nothing_is_written(new_broker: NewBroker) -> None:
    broker = new_broker(IGGY_SYSTEM_PARTITION_DURABILITY="buffered", **TWO_SHARDS)
    with one_per_shard(broker) as wires:
        wires[0].ask(CreateStream("s"))
        wires[0].ask(topic_of("s", PARTITIONS))
        for asking in wires:
            for partition_id in range(PARTITIONS):
                before = described(asking, "s").partitions[partition_id].messages_count
                on_disk = log_size(broker.data, partition_id)
                assert asking.send("s", partition_id, b"1", b"2") == 0
                # In memory only, and yet no answer shows it.
                assert log_size(broker.data, partition_id) == on_disk
                shown = described(asking, "s").partitions[partition_id]
                assert shown.messages_count == before + 2
                assert shown.current_offset == before + 1
                assert asking.send("s", partition_id, b"3") == 0
                assert asking.ask(GetStats()).messages_count == sum(
                    one.messages_count for one in described(asking, "s").partitions
                )
                assert asking.send("s", partition_id, b"4") == 0
                details = asking.ask(GetStream("s"))
                assert details.stream.messages_count == details.topics[0].messages_count
                assert asking.send("s", partition_id, b"5") == 0
                polled = asking.poll("s", partition_id)
                assert polled.current_offset == before + 4
                assert [m.payload for m in polled.messages][-5:] == [b"1", b"2", b"3", b"4", b"5"]
        for partition_id in range(PARTITIONS):
            for number, strategy in enumerate(EVERY_STRATEGY):
                assert wires[number % 2].send("s", partition_id, b"x") == 0
                polled = wires[number % 2].poll("s", partition_id, strategy)
                assert len(polled.messages) == polled.current_offset + 1 == 11 + number


def test_buffered_knows_its_end_for_offsets(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_SYSTEM_PARTITION_DURABILITY="buffered")
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s"))
    assert wire.send("s", 0, b"1", b"2", b"3") == 0
    assert wire.status(StoreConsumerOffset(ANYBODY, "s", "s", 0, 2)) == 0
    stored = wire.ask(GetConsumerOffset(ANYBODY, "s", "s", 0))
    assert (stored.current_offset, stored.stored_offset) == (2, 2)
    assert log_size(broker.data) == 0
    assert wire.poll("s", 0, NEXT).messages == ()


def test_buffered_writes_when_the_journal_is_full(new_broker: NewBroker) -> None:
    broker = new_broker(
        **ONE_SHARD,
        IGGY_SYSTEM_PARTITION_DURABILITY="buffered",
        IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE=str(JOURNAL_MAX),
    )
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s"))
    assert wire.send("s", 0, *[b"x"] * (JOURNAL_MAX - 1)) == 0
    assert log_size(broker.data) == 0
    assert wire.send("s", 0, b"x") == 0
    assert log_size(broker.data) == JOURNAL_MAX * 65
    assert wire.send("s", 0, b"x") == 0
    assert log_size(broker.data) == JOURNAL_MAX * 65
    assert wire.status(FlushUnsavedBuffer("s", "s", 0, True)) == 0
    assert log_size(broker.data) == (JOURNAL_MAX + 1) * 65
    assert wire.send("s", 0, b"last") == 0
    wire.close()
    # An orderly stop writes what is left.
    assert broker.stop() == 0
    assert log_size(broker.data) == (JOURNAL_MAX + 1) * 65 + 68
    broker.start()
    wire = Wire(broker)
    polled = wire.poll("s", 0, count=10_000)
    assert len(polled.messages) == JOURNAL_MAX + 2
    assert polled.messages[-1].payload == b"last"


@pytest.mark.parametrize("durability", ["written", "fsync"])
def test_what_is_acknowledged_is_in_the_file_and_survives_a_kill(
    new_broker: NewBroker, durability: str
) -> None:
    broker = new_broker(IGGY_SYSTEM_PARTITION_DURABILITY=durability)
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s", PARTITIONS))
    for number in range(10):
        for partition_id in range(PARTITIONS):
            assert wire.send("s", partition_id, b"%d" % number) == 0
            assert log_size(broker.data, partition_id) == (number + 1) * 65
    before = [wire.poll("s", partition_id) for partition_id in range(PARTITIONS)]
    assert all(polled.current_offset == 9 for polled in before)
    wire.close()
    broker.kill()
    broker.start()
    wire = Wire(broker)
    assert [wire.poll("s", partition_id) for partition_id in range(PARTITIONS)] == before


def test_enforce_fsync_is_mode_fsync(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC="true")
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s"))
    assert wire.send("s", 0, b"x") == 0
    assert "durability fsync" in broker.output()
