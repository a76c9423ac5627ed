"""Data directories of older versions open in this one, and everything is there.

tests/golden/data-format-N.tar.gz is a data directory as a version that wrote format N left it
after a clean stop. They are never made again: what once could be read has to stay readable.

Format 1 holds stream "orders" with topic "events" (three partitions with 6, 7 and 8 messages in
segments of 1 KiB, consumer 7 has read up to offset 4 of the last) and topic "audit" (two
partitions, purged once, one message); stream "gone" was made and deleted.
"""

import json
import tarfile
from pathlib import Path

import pytest

from borzoi import __version__
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.topics import GetTopic
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from borzoi.shards.decisions.decide import MetadataSettings
from borzoi.shards.metadata_log.writer import open_writer
from borzoi.storage.files import Files
from borzoi.storage.info import FORMAT
from borzoi.storage.wal import log_start
from tests.broker import BrokerProcess
from tests.shard_wires import TWO_SHARDS
from tests.wire import Wire

pytestmark = pytest.mark.slow

GOLDEN = Path(__file__).parent.parent / "golden"


def unpacked(format: int, target: Path) -> Path:
    with tarfile.open(GOLDEN / f"data-format-{format}.tar.gz") as archive:
        archive.extractall(target, filter="data")
    return target


def check(wire: Wire) -> None:
    """Everything that lies in the directory of format 1."""
    assert "orders" in [stream.name for stream in wire.ask(GetStreams())]
    events = wire.ask(GetTopic("orders", "events"))
    assert [one.messages_count for one in events.partitions] == [6, 7, 8]
    assert [one.segments_count for one in events.partitions] == [2, 2, 2]
    for partition in range(3):
        messages = wire.poll("events", partition, stream="orders").messages
        assert [message.payload for message in messages] == [
            f"event {partition} {number} ".encode() + bytes(range(200))
            for number in range(6 + partition)
        ]
    consumer = Consumer(ConsumerKind.CONSUMER, 7)
    assert wire.ask(GetConsumerOffset(consumer, "orders", "events", 2)).stored_offset == 4
    audit = wire.ask(GetTopic("orders", "audit"))
    assert (audit.topic.message_expiry, audit.topic.max_topic_size) == (60_000_000, 1 << 40)
    assert audit.topic.compression_algorithm == 2
    assert wire.poll("audit", 0, stream="orders").messages == ()
    messages = wire.poll("audit", 1, stream="orders").messages
    assert [message.payload for message in messages] == [b"first after the purge"]


@pytest.mark.parametrize("clean", [True, False])
def test_format_1(tmp_path: Path, clean: bool) -> None:
    data = unpacked(1, tmp_path / "data")
    if not clean:
        for path in data.glob("clean-stop.*"):
            path.unlink()
    broker = BrokerProcess(data, {**TWO_SHARDS, "IGGY_SYSTEM_SEGMENT_SIZE": "1KiB"})
    try:
        broker.start()
        wire = Wire(broker)
        check(wire)
        wire.ask(CreateStream("new"))
        wire.close()
        assert broker.stop() == 0
        info = json.loads((data / "info.json").read_text())
        assert (info["version"], info["format"]) == (__version__, FORMAT)
        if clean:
            take_snapshots(data)
            broker.start()
            assert log_start(Files(), data / "state.messages").index > 1
            assert "are in the snapshots" in broker.output()
            check(Wire(broker))
            # The next start, an unclean one, reads the shortened log as well.
            broker.kill()
            broker.start()
            check(Wire(broker))
    finally:
        broker.close()


def take_snapshots(data: Path) -> None:
    """Two, one entry apart, as a run with very many entries leaves them."""
    log, snapshot = data / "state.messages", data / "state.snapshot"
    for name in ("one", "two"):
        writer = open_writer(log, snapshot, Files(), MetadataSettings(segment_size=1024))
        writer.append(writer.prepare(CreateStream(name), user_id=0, timestamp=1))
        writer.sync()
        writer.applied()
        writer.write_snapshot(writer.take_snapshot())
        writer.close()
