"""Segments as files: which there are and how large, read straight after the last answer."""

from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import GetStats
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.identifiers import PollingStrategy, StrategyKind
from tests.conftest import NewBroker
from tests.shard_wires import ONE_SHARD
from tests.topics import described, topic_of
from tests.wire import Wire

pytestmark = pytest.mark.slow

PAYLOAD = bytes(936)  # with its header 1,000 bytes
SEGMENTS = (0, 7, 14, 21)


def files_in(directory: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_size
        for path in directory.iterdir()
        if path.suffix in (".log", ".index")
    }


@pytest.mark.parametrize("durability", ["written", "fsync"])
def test_a_segment_is_sealed_one_batch_late(new_broker: NewBroker, durability: str) -> None:
    broker = new_broker(
        **ONE_SHARD,
        IGGY_SYSTEM_SEGMENT_SIZE="5KiB",
        IGGY_SYSTEM_PARTITION_DURABILITY=durability,
        IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE="1",
    )
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s"))
    for _ in range(25):
        assert wire.send("s", 0, PAYLOAD) == 0
    directory = broker.data / "streams/0/topics/0/partitions/0"
    expected = {}
    for first_offset, messages in zip(SEGMENTS, (7, 7, 7, 4), strict=True):
        expected[f"{first_offset:020}.log"] = messages * 1000
        expected[f"{first_offset:020}.index"] = messages * 16
    assert files_in(directory) == expected

    (partition,) = described(wire, "s").partitions
    assert (partition.segments_count, partition.size_bytes) == (4, 25_000)
    assert wire.ask(GetStats()).segments_count == 4
    for offset in range(25):
        strategy = PollingStrategy(StrategyKind.OFFSET, offset)
        polled = wire.poll("s", 0, strategy, 9)
        assert [m.offset for m in polled.messages] == [*range(offset, min(25, offset + 9))]
    wire.close()

    assert broker.stop() == 0
    assert files_in(directory) == expected
    broker.start()
    wire = Wire(broker)
    assert [m.offset for m in wire.poll("s").messages] == list(range(25))
    # The active segment goes on where it was: three more and it is full.
    for _ in range(4):
        assert wire.send("s", 0, PAYLOAD) == 0
    sizes = files_in(directory)
    assert sizes[f"{21:020}.log"] == 7000
    assert sizes[f"{28:020}.log"] == 1000

    wire.ask(PurgeTopic("s", "s"))
    assert files_in(directory) == {f"{0:020}.log": 0, f"{0:020}.index": 0}
    assert described(wire, "s").partitions[0].segments_count == 1
