"""Segments that are deleted: by command, by age, by size, and what consumers and readers see."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from borzoi.protocol.commands.offsets import DeleteConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import DeleteSegments, PurgeTopic, UpdateTopic
from borzoi.protocol.errors import PartitionNotFound, StreamIdNotFound, TopicIdNotFound
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.scraped import Scraped
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.topics import described, topic_of
from tests.wire import NEXT, Wire

pytestmark = pytest.mark.slow

PAYLOAD = bytes(936)  # with its header 1,000 bytes, so 7 messages in a segment
SMALL = {"IGGY_SYSTEM_SEGMENT_SIZE": "5KiB"}
OFTEN = {
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "50 ms",
}
METRICS = {"IGGY_METRICS_ENABLED": "true", "IGGY_METRICS_ADDRESS": "127.0.0.1:0"}
A_CONSUMER = Consumer(ConsumerKind.CONSUMER, 42)
NEVER = (1 << 64) - 1
PARTITIONS = 8


@pytest.fixture(scope="module")
def small_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Tiny segments and a cleaner that is always busy, on two shards."""
    data = tmp_path_factory.mktemp("retention") / "data"
    broker = BrokerProcess(data, {**TWO_SHARDS, **SMALL, **OFTEN})
    broker.start()
    yield broker
    output = broker.output()
    assert broker.stop() == 0
    assert "fault of ours" not in output


def segments_in(broker: BrokerProcess, stream_id: int, partition: int = 0) -> list[int]:
    """The segments, once each has both of its files: those that go lose one after the other."""
    directory = broker.data / f"streams/{stream_id}/topics/0/partitions/{partition}"

    def whole() -> list[int] | None:
        paths = list(directory.iterdir())
        logs = sorted(int(path.stem) for path in paths if path.suffix == ".log")
        indexes = sorted(int(path.stem) for path in paths if path.suffix == ".index")
        return logs if logs == indexes else None

    found = wait_for(whole)
    assert found is not None
    return found


def new_topic(wire: Wire, name: str, partitions_count: int = 1) -> int:
    """A stream with one topic of the same name; the stream's id."""
    stream_id = wire.ask(CreateStream(name)).id
    assert isinstance(stream_id, int)
    wire.ask(topic_of(name, partitions_count))
    return stream_id


def fill(wire: Wire, name: str, count: int, partition: int = 0) -> None:
    for _ in range(count):
        assert wire.send(name, partition, PAYLOAD) == 0


def test_delete_segments_takes_the_oldest_and_never_the_active_one(
    small_broker: BrokerProcess,
) -> None:
    wire = Wire(small_broker)
    stream = new_topic(wire, "oldest", 2)
    for partition in (0, 1):
        fill(wire, "oldest", 25, partition)
        wire.ask(DeleteSegments("oldest", "oldest", partition, 0))
        assert segments_in(small_broker, stream, partition) == [0, 7, 14, 21]
        wire.ask(DeleteSegments("oldest", "oldest", partition, 1))
        assert segments_in(small_broker, stream, partition) == [7, 14, 21]
        wire.ask(DeleteSegments("oldest", "oldest", partition, 9))
        assert segments_in(small_broker, stream, partition) == [21]
        polled = wire.poll("oldest", partition)
        assert [m.offset for m in polled.messages] == [21, 22, 23, 24]
    for info in described(wire, "oldest").partitions:
        assert (info.segments_count, info.size_bytes, info.messages_count) == (1, 4000, 4)
        assert info.current_offset == 24
    assert not list((small_broker.data / "trash").iterdir())
    wire.ask(PurgeTopic("oldest", "oldest"))


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (DeleteSegments("nowhere", "t", 0, 1), StreamIdNotFound),
        (DeleteSegments("errors", "nowhere", 0, 1), TopicIdNotFound),
        (DeleteSegments("errors", "errors", 9, 1), PartitionNotFound),
    ],
)
def test_delete_segments_of_what_is_not_there(
    small_broker: BrokerProcess, command: DeleteSegments, error: type[Exception]
) -> None:
    wire = Wire(small_broker)
    if command.stream == "errors" and command.topic == "nowhere":
        new_topic(wire, "errors")
    with pytest.raises(error):
        wire.ask(command)


def test_what_a_consumer_has_not_read_stays(small_broker: BrokerProcess) -> None:
    wire = Wire(small_broker)
    stream = new_topic(wire, "unread")
    fill(wire, "unread", 25)
    wire.ask(StoreConsumerOffset(A_CONSUMER, "unread", "unread", 0, 12))
    wire.ask(DeleteSegments("unread", "unread", 0, 9))
    assert segments_in(small_broker, stream) == [7, 14, 21]
    assert "consumer 42 has read up to offset 12 only" in small_broker.output()
    wire.ask(StoreConsumerOffset(A_CONSUMER, "unread", "unread", 0, 13))
    wire.ask(DeleteSegments("unread", "unread", 0, 9))
    assert segments_in(small_broker, stream) == [14, 21]
    wire.ask(DeleteConsumerOffset(A_CONSUMER, "unread", "unread", 0))
    wire.ask(DeleteSegments("unread", "unread", 0, 9))
    assert segments_in(small_broker, stream) == [21]
    # A purge does not wait for consumers.
    wire.ask(StoreConsumerOffset(A_CONSUMER, "unread", "unread", 0, 0))
    wire.ask(PurgeTopic("unread", "unread"))
    assert described(wire, "unread").partitions[0].messages_count == 0


def test_old_messages_expire_in_whole_segments(small_broker: BrokerProcess) -> None:
    wire = Wire(small_broker)
    stream = new_topic(wire, "expiring")
    fill(wire, "expiring", 21)
    wire.ask(StoreConsumerOffset(A_CONSUMER, "expiring", "expiring", 0, 6))
    wire.ask(UpdateTopic("expiring", "expiring", 1, 1000, NEVER, 1, "expiring"))
    wait_for(lambda: segments_in(small_broker, stream)[0] == 7)
    wait_for(lambda: "consumer 42 has read up to offset 6 only" in small_broker.output())
    wire.ask(StoreConsumerOffset(A_CONSUMER, "expiring", "expiring", 0, 20))
    # All are gone but an empty active segment, and yet no offset is used again.
    wait_for(lambda: segments_in(small_broker, stream) == [21])
    assert wire.poll("expiring").messages == ()
    assert described(wire, "expiring").partitions[0].current_offset == 20
    fill(wire, "expiring", 1)
    assert [m.offset for m in wire.poll("expiring").messages] == [21]
    assert [m.offset for m in wire.poll("expiring", 0, NEXT, consumer=A_CONSUMER).messages] == [21]


def test_a_topic_loses_its_oldest_segments_wherever_they_are(small_broker: BrokerProcess) -> None:
    """Partition by partition, so that the oldest segments are those of the first ones."""
    wire = Wire(small_broker)
    stream = new_topic(wire, "large", PARTITIONS)
    for partition in range(PARTITIONS):
        fill(wire, "large", 15, partition)
    assert described(wire, "large").topic.size_bytes == PARTITIONS * 15_000
    # 120,000 bytes; what is below 9/10 of 100,000 stays: five segments of 7,000 have to go.
    wire.ask(UpdateTopic("large", "large", 1, NEVER, 100_000, 1, "large"))
    wait_for(lambda: described(wire, "large").topic.size_bytes < 90_000)
    assert described(wire, "large").topic.size_bytes == 120_000 - 5 * 7_000
    left = [segments_in(small_broker, stream, number) for number in range(PARTITIONS)]
    assert left == [[14], [14], [7, 14], *[[0, 7, 14]] * 5]


@contextmanager
def polling(wires: Sequence[Wire], name: str) -> Iterator[list[list[int]]]:
    """Readers that poll from their first offset on without a pause; what each has seen."""
    seen: list[list[int]] = [[] for _ in wires]
    over = threading.Event()
    failures: list[BaseException] = []

    def read(wire: Wire, offsets: list[int]) -> None:
        try:
            while not over.is_set():
                start = offsets[-1] + 1 if offsets else 0
                strategy = PollingStrategy(StrategyKind.OFFSET, start)
                for message in wire.poll(name, 0, strategy, 5).messages:
                    assert message.payload == PAYLOAD
                    offsets.append(message.offset)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=pair) for pair in zip(wires, seen, strict=True)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert not failures, failures


def test_readers_of_both_shards_go_on_while_segments_are_deleted(
    small_broker: BrokerProcess,
) -> None:
    with one_per_shard(small_broker) as wires:
        writer = Wire(small_broker)
        new_topic(writer, "reading")
        fill(writer, "reading", 5)
        with polling(wires, "reading") as seen:
            for _ in range(30):
                fill(writer, "reading", 14)
                writer.ask(DeleteSegments("reading", "reading", 0, 9))
            last = 5 + 30 * 14 - 1
            wait_for(lambda: all(one and one[-1] == last for one in seen))
        for offsets in seen:
            # What was deleted before it was read is missing, nothing else is wrong.
            assert offsets == sorted(set(offsets))
            assert offsets[0] == 0


def overfill(broker: BrokerProcess, name: str) -> int:
    """A topic that is full, with a consumer that has read one message; the stream's id."""
    wire = Wire(broker)
    stream = new_topic(wire, name)
    fill(wire, name, 15)
    wire.ask(StoreConsumerOffset(A_CONSUMER, name, name, 0, 0))
    # Over nine tenths, but not full: a protected consumer keeps everything.
    wire.ask(UpdateTopic(name, name, 1, NEVER, 15_001, 1, name))
    wait_for(lambda: "consumer 42 has read up to offset 0 only" in broker.output())
    assert segments_in(broker, stream) == [0, 7, 14]
    fill(wire, name, 1)
    return stream


def test_a_full_topic_keeps_what_is_always_protected(new_broker: NewBroker) -> None:
    broker = new_broker(**SMALL, **OFTEN, IGGY_SYSTEM_SEGMENT_PROTECT_UNREAD="always")
    stream = overfill(broker, "full")
    wire = Wire(broker)
    # A topic that comes later in the round loses its oldest segment: this one had its turn.
    witness = new_topic(wire, "witness")
    fill(wire, "witness", 15)
    wire.ask(UpdateTopic("witness", "witness", 1, NEVER, 15_001, 1, "witness"))
    wait_for(lambda: segments_in(broker, witness) == [7, 14])
    assert segments_in(broker, stream) == [0, 7, 14]
    wire.ask(StoreConsumerOffset(A_CONSUMER, "full", "full", 0, 15))
    wait_for(lambda: segments_in(broker, stream) == [7, 14])


@pytest.mark.parametrize("protection", ["bounded", "until_full"])
def test_unless_it_is_protected_only_until_the_topic_is_full(
    new_broker: NewBroker, protection: str
) -> None:
    broker = new_broker(**SMALL, **OFTEN, IGGY_SYSTEM_SEGMENT_PROTECT_UNREAD=protection)
    stream = overfill(broker, "full")
    wait_for(lambda: segments_in(broker, stream) == [7, 14])
    wire = Wire(broker)
    assert [m.offset for m in wire.poll("full").messages] == list(range(7, 16))
    # All are read and deleted but an empty active segment: offsets go on, whatever happens.
    fill(wire, "full", 5)
    wire.ask(StoreConsumerOffset(A_CONSUMER, "full", "full", 0, 20))
    wire.ask(DeleteSegments("full", "full", 0, 9))
    for end in (broker.kill, broker.stop, broker.kill):
        assert segments_in(broker, stream) == [21]
        end()
        broker.start()
        wire = Wire(broker)
        assert described(wire, "full").partitions[0].current_offset == 20
        assert wire.poll("full").messages == ()
    fill(wire, "full", 1)
    assert [m.offset for m in wire.poll("full").messages] == [21]


def test_expired_segments_wait_for_a_reader_only_so_long(new_broker: NewBroker) -> None:
    """DELETE_SEGMENTS has no such bound: it never deletes what is unread."""
    broker = new_broker(**SMALL, **OFTEN, **METRICS, IGGY_SYSTEM_SEGMENT_UNREAD_GRACE="3 s")
    wire = Wire(broker)
    stream = new_topic(wire, "late")
    fill(wire, "late", 15)
    wire.ask(StoreConsumerOffset(A_CONSUMER, "late", "late", 0, 0))
    wire.ask(UpdateTopic("late", "late", 1, 1000, NEVER, 1, "late"))
    wait_for(lambda: "consumer 42 has read up to offset 0 only" in broker.output())
    wire.ask(DeleteSegments("late", "late", 0, 9))
    assert "were deleted unread" not in broker.output()
    wait_for(lambda: segments_in(broker, stream) == [14])
    # One segment may be a round of upkeep ahead of the other, whose line is not due then.
    wait_for(lambda: "segments were deleted unread: consumer 42 has read" in broker.output())

    def gone() -> float:
        scraped = Scraped.of(broker.metrics_address)
        return sum(count for _, count in scraped.rows("borzoi_retention_deleted_unread_segments"))

    wait_for(lambda: gone() == 2)


def test_where_nothing_unread_is_protected_it_goes_like_all_else(new_broker: NewBroker) -> None:
    broker = new_broker(**SMALL, **OFTEN, IGGY_SYSTEM_SEGMENT_PROTECT_UNREAD="never")
    wire = Wire(broker)
    stream = new_topic(wire, "free")
    fill(wire, "free", 15)
    wire.ask(StoreConsumerOffset(A_CONSUMER, "free", "free", 0, 0))
    wire.ask(DeleteSegments("free", "free", 0, 9))
    assert segments_in(broker, stream) == [0, 7, 14]
    # 15,000 bytes are nine tenths of it, and not all of it.
    wire.ask(UpdateTopic("free", "free", 1, NEVER, 16_000, 1, "free"))
    wait_for(lambda: segments_in(broker, stream) == [7, 14])
    wire.ask(UpdateTopic("free", "free", 1, 1000, NEVER, 1, "free"))
    wait_for(lambda: segments_in(broker, stream) == [14])


def test_a_deleted_segment_does_not_stay_mapped(small_broker: BrokerProcess) -> None:
    """On any shard: a file that is mapped takes disk space, also without a name."""
    with one_per_shard(small_broker) as wires:
        new_topic(wires[0], "mapped")
        fill(wires[0], "mapped", 15)
        for wire in wires:
            assert len(wire.poll("mapped").messages) == 15
        wires[0].ask(DeleteSegments("mapped", "mapped", 0, 9))
        wait_for(lambda: not any(map(deleted_maps, small_broker.workers().values())), 30.0)


def deleted_maps(pid: int) -> list[str]:
    """What a process has mapped of segments that have no name any more."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if "(deleted)" in line and "segment-" in line]
