"""Indexes that are damaged or missing are rebuilt from the log, byte for byte, and logged."""

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.errors import BrokerError, CannotReadFile
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.broker import BrokerProcess
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.topics import topic_of
from tests.wire import NEXT, Wire

pytestmark = pytest.mark.slow

PAYLOAD = bytes(936)  # with its header 1,000 bytes, so 7 messages in a segment
COUNT = 25
PARTITIONS = 8
ENTRY = struct.Struct("<IIQ")


def index_of(broker: BrokerProcess, partition: int, segment: int) -> Path:
    directory = broker.data / f"streams/0/topics/0/partitions/{partition}"
    return directory / f"{segment:020d}.index"


def swap_positions(path: Path) -> None:
    """Two entries in the middle say each other's end: a start does not notice that."""
    data = bytearray(path.read_bytes())
    data[16 * 2 + 4 : 16 * 2 + 8], data[16 * 3 + 4 : 16 * 3 + 8] = (
        data[16 * 3 + 4 : 16 * 3 + 8],
        data[16 * 2 + 4 : 16 * 2 + 8],
    )
    replace(path, data)


def spoil_times(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for number in range(len(data) // 16 - 1):
        offset, position, _ = ENTRY.unpack_from(data, number * 16)
        ENTRY.pack_into(data, number * 16, offset, position, 1)
    replace(path, data)


def cut_in_half(path: Path) -> None:
    replace(path, path.read_bytes()[:48])


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path, data: bytes | bytearray) -> None:
    """Writes another file: a process that has the old one mapped must survive this test."""
    path.unlink()
    path.write_bytes(data)


DAMAGES: Sequence[Callable[[Path], None]] = (swap_positions, spoil_times, cut_in_half, remove)


def read_all(wire: Wire, partition: int) -> list[int]:
    """Offset by offset, so that no message is skipped because of its neighbour."""
    found = []
    for offset in range(COUNT):
        strategy = PollingStrategy(StrategyKind.OFFSET, offset)
        polled = wire.poll("t", partition, strategy, 1)
        assert all(message.payload == PAYLOAD for message in polled.messages)
        found += [message.offset for message in polled.messages]
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Partitions with 25 messages each, written by an earlier run: no byte is trusted.

    Each test damages partitions of its own.
    """
    data = tmp_path_factory.mktemp("indexes") / "data"
    broker = BrokerProcess(data, {**TWO_SHARDS, "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB"})
    broker.start()
    wire = Wire(broker)
    wire.ask(CreateStream("t"))
    wire.ask(topic_of("t", PARTITIONS + 5))
    for partition in range(PARTITIONS + 5):
        for _ in range(COUNT):
            assert wire.send("t", partition, PAYLOAD) == 0
    wire.close()
    assert broker.stop() == 0
    broker.start()
    yield broker
    assert broker.stop() == 0
    assert "fault of ours" not in broker.output()


def test_readers_of_all_shards_have_damaged_indexes_repaired(broker: BrokerProcess) -> None:
    """While the broker runs; the damage is met first by one shard, then by the other."""
    before = {}
    for partition in range(PARTITIONS):
        for segment in (0, 21):
            path = index_of(broker, partition, segment)
            before[path] = path.read_bytes()
            # Partitions of both shards get each kind; 21 is the active segment.
            DAMAGES[partition % len(DAMAGES)](path)
    with one_per_shard(broker) as wires:
        for partition in range(PARTITIONS):
            first, second = wires if partition % 2 else reversed(wires)
            by_time = PollingStrategy(StrategyKind.TIMESTAMP, 0)
            assert len(first.poll("t", partition, by_time, 100).messages) > 0
            assert read_all(first, partition) == list(range(COUNT))
            assert read_all(second, partition) == list(range(COUNT))
            times = [m.timestamp for m in second.poll("t", partition).messages]
            for offset in range(0, COUNT, 4):
                strategy = PollingStrategy(StrategyKind.TIMESTAMP, times[offset])
                polled = second.poll("t", partition, strategy, 1).messages
                assert polled[0].offset == times.index(times[offset])
    for path, content in before.items():
        assert path.read_bytes() == content
    assert broker.output().count("index rewritten") == 2 * PARTITIONS


def test_the_owner_repairs_what_stops_a_poll_for_the_next(broker: BrokerProcess) -> None:
    wire = Wire(broker)
    remove(index_of(broker, PARTITIONS, 0))
    consumer = Consumer(ConsumerKind.CONSUMER, 9)
    polled = wire.poll("t", PARTITIONS, NEXT, 10, consumer=consumer, auto_commit=True)
    assert [message.offset for message in polled.messages] == list(range(10))
    assert index_of(broker, PARTITIONS, 0).exists()


def test_a_message_that_is_damaged_itself_stays_an_error_and_later_ones_readable(
    broker: BrokerProcess,
) -> None:
    wire = Wire(broker)
    log = index_of(broker, PARTITIONS + 1, 7).with_suffix(".log")
    data = bytearray(log.read_bytes())
    data[2500] ^= 1
    replace(log, data)
    for _ in range(3):
        with pytest.raises(BrokerError):
            wire.poll("t", PARTITIONS + 1, PollingStrategy(StrategyKind.OFFSET, 9), 1)
        later = wire.poll(
            "t", PARTITIONS + 1, PollingStrategy(StrategyKind.OFFSET, 10), 100
        ).messages
        assert [message.offset for message in later] == list(range(10, COUNT))
    # Looked at once, not at each poll of it.
    assert broker.output().count("DAMAGED messages at offsets 9 to 9") == 1


def test_lost_indexes_are_there_again_after_a_start(broker: BrokerProcess) -> None:
    before = {}
    assert broker.stop() == 0
    for partition, kill in ((PARTITIONS + 2, cut_in_half), (PARTITIONS + 3, remove)):
        for segment in (0, 7, 21):
            path = index_of(broker, partition, segment)
            before[path] = path.read_bytes()
            kill(path)
    broker.start()
    for path, content in before.items():
        assert path.read_bytes() == content
    wire = Wire(broker)
    for partition in (PARTITIONS + 2, PARTITIONS + 3):
        assert read_all(wire, partition) == list(range(COUNT))


def test_a_directory_that_the_system_cannot_read_fails_polls_and_ends_no_worker(
    broker: BrokerProcess,
) -> None:
    """It is neither there nor missing: a file lies in its place for a while."""
    partition = PARTITIONS + 4
    directory = index_of(broker, partition, 0).parent
    aside = directory.with_suffix(".aside")
    workers = broker.workers()
    directory.rename(aside)
    directory.touch()
    with one_per_shard(broker) as wires:
        for wire in wires:
            for strategy in (PollingStrategy(StrategyKind.OFFSET, 0), NEXT):
                with pytest.raises(CannotReadFile):
                    wire.poll("t", partition, strategy, 1)
        directory.unlink()
        aside.rename(directory)
        for wire in wires:
            assert read_all(wire, partition) == list(range(COUNT))
    assert broker.workers() == workers
    assert "cannot be read, its polls fail until it can" in broker.output()
