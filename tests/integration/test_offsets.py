"""Stored offsets: forwards, backwards, too far, forgotten, and what an edited file does."""

import pytest

from borzoi.protocol.commands import Command
from borzoi.protocol.commands.messages import FlushUnsavedBuffer
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.errors import (
    ConsumerGroupIdNotFound,
    ConsumerOffsetNotFound,
    InvalidOffset,
    PartitionNotFound,
    StreamIdNotFound,
    TopicIdNotFound,
)
from borzoi.protocol.identifiers import U64_MAX, Consumer, ConsumerKind
from borzoi.protocol.responses.consumers import ConsumerOffsetInfo
from tests.broker import BrokerProcess
from tests.topics import topic_of
from tests.wire import NEXT, Wire

ME = Consumer(ConsumerKind.CONSUMER, 42)
GROUP = Consumer(ConsumerKind.GROUP, "no such group")


def get(topic: str, partition_id: int | None = 0, consumer: Consumer = ME) -> GetConsumerOffset:
    return GetConsumerOffset(consumer, topic, topic, partition_id)


def store(topic: str, offset: int, partition_id: int | None = 0) -> StoreConsumerOffset:
    return StoreConsumerOffset(ME, topic, topic, partition_id, offset)


def delete(topic: str, partition_id: int | None = 0) -> DeleteConsumerOffset:
    return DeleteConsumerOffset(ME, topic, topic, partition_id)


@pytest.fixture
def filled(wire: Wire, stream: str) -> str:
    """Two partitions with messages 0 to 9."""
    wire.ask(topic_of(stream, 2))
    for partition_id in range(2):
        assert wire.send(stream, partition_id, *[b"x"] * 10) == 0
    return stream


def test_forwards_backwards_and_away(wire: Wire, filled: str) -> None:
    assert wire.ask(get(filled)) is None
    for offset in (3, 9, 0, 5):
        assert wire.status(store(filled, offset)) == 0
        assert wire.ask(get(filled)) == ConsumerOffsetInfo(0, 9, offset)
        following = wire.poll(filled, 0, NEXT, 1, consumer=ME).messages
        assert [message.offset for message in following] == ([offset + 1] if offset < 9 else [])
    assert wire.status(delete(filled)) == 0
    assert wire.ask(get(filled)) is None
    assert [m.offset for m in wire.poll(filled, 0, NEXT, 1, consumer=ME).messages] == [0]
    assert wire.status(delete(filled)) == ConsumerOffsetNotFound.status


@pytest.mark.parametrize("offset", [10, 11, U64_MAX])
def test_beyond_the_end(wire: Wire, filled: str, offset: int) -> None:
    assert wire.status(store(filled, 4)) == 0
    assert wire.status(store(filled, offset)) == InvalidOffset.status
    assert wire.ask(get(filled)).stored_offset == 4


def test_a_partition_that_never_held_a_message(wire: Wire, topic: str) -> None:
    assert wire.status(store(topic, 0)) == InvalidOffset.status
    assert wire.ask(get(topic)) is None
    assert wire.status(delete(topic)) == ConsumerOffsetNotFound.status


def test_no_partition_means_partition_0(wire: Wire, filled: str) -> None:
    assert wire.status(store(filled, 6, None)) == 0
    assert wire.ask(get(filled, 0)).stored_offset == 6
    assert wire.ask(get(filled, None)).stored_offset == 6
    assert wire.ask(get(filled, 1)) is None
    assert wire.status(delete(filled, None)) == 0
    assert wire.ask(get(filled, 0)) is None


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (store("nowhere", 0), StreamIdNotFound.status),
        (delete("nowhere"), StreamIdNotFound.status),
        (get("nowhere"), 0),
        (FlushUnsavedBuffer("nowhere", "nowhere", 0, False), StreamIdNotFound.status),
    ],
)
def test_streams_that_do_not_exist(wire: Wire, command: Command, status: int) -> None:
    assert wire.status(command) == status


def test_topics_and_partitions_that_do_not_exist(wire: Wire, filled: str) -> None:
    for topic, partition_id, status in (
        ("nothing", 0, TopicIdNotFound.status),
        (filled, 2, PartitionNotFound.status),
    ):
        for command in (
            StoreConsumerOffset(ME, filled, topic, partition_id, 0),
            DeleteConsumerOffset(ME, filled, topic, partition_id),
            FlushUnsavedBuffer(filled, topic, partition_id, True),
        ):
            assert wire.status(command) == status
        assert wire.ask(GetConsumerOffset(ME, filled, topic, partition_id)) is None


def test_groups_that_do_not_exist(wire: Wire, filled: str) -> None:
    assert wire.ask(get(filled, 0, GROUP)) is None
    for command in (
        StoreConsumerOffset(GROUP, filled, filled, 0, 0),
        DeleteConsumerOffset(GROUP, filled, filled, 0),
    ):
        assert wire.status(command) == ConsumerGroupIdNotFound.status


@pytest.mark.parametrize("fsync", [False, True])
def test_flush(wire: Wire, filled: str, fsync: bool) -> None:
    assert wire.status(FlushUnsavedBuffer(filled, filled, 1, fsync)) == 0


@pytest.mark.slow
def test_offsets_outlive_the_broker_and_a_wrong_file_is_put_right(broker: BrokerProcess) -> None:
    wire = Wire(broker)
    wire.ask(CreateStream("s"))
    wire.ask(topic_of("s", 4))
    for partition_id in range(4):
        assert wire.send("s", partition_id, *[b"x"] * 10) == 0
        assert wire.status(store("s", partition_id + 2, partition_id)) == 0
    wire.close()
    broker.kill()
    broker.start()
    wire = Wire(broker)
    assert [wire.ask(get("s", p)).stored_offset for p in range(4)] == [2, 3, 4, 5]
    wire.close()
    broker.stop()

    partitions = broker.data / "streams/0/topics/0/partitions"
    for partition_id in range(4):
        file = partitions / str(partition_id) / "offsets/consumers/42"
        assert file.read_bytes() == (partition_id + 2).to_bytes(8, "little")
        # What the official tests do while the server is stopped: an offset that was never reached.
        file.write_bytes((999).to_bytes(8, "little"))
    broker.start()
    wire = Wire(broker)
    for partition_id in range(4):
        assert wire.ask(get("s", partition_id)) == ConsumerOffsetInfo(partition_id, 9, 9)
        assert wire.poll("s", partition_id, NEXT, consumer=ME).messages == ()
        assert wire.send("s", partition_id, b"new") == 0
        (message,) = wire.poll("s", partition_id, NEXT, consumer=ME, auto_commit=True).messages
        assert (message.offset, message.payload) == (10, b"new")
