"""Commands about topics and partitions: settings, figures, ids, refusals."""

from dataclasses import replace
from typing import Any

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import GetStream
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidPartitionsCount,
    InvalidTopicSize,
    PartitionNotFound,
    StreamIdNotFound,
    TooManyPartitions,
    TopicIdNotFound,
    TopicNameAlreadyExists,
)
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import U64_MAX
from tests.broker import BrokerProcess
from tests.topics import described, topic_of
from tests.wire import Wire

GIB = 1024**3
ABSENT = "no such thing"


def test_the_answer_to_create_is_the_topic(wire: Wire, stream: str) -> None:
    created = wire.ask(topic_of(stream, 3))
    assert [one.id for one in created.partitions] == [0, 1, 2]
    assert [one.segments_count for one in created.partitions] == [0, 0, 0]
    details = described(wire, stream)
    assert details.topic == created.topic
    # Later each partition shows the segment it will write to.
    assert [replace(one, segments_count=0) for one in details.partitions] == [*created.partitions]
    assert [one.segments_count for one in details.partitions] == [1, 1, 1]
    assert wire.ask(GetTopics(stream)) == (created.topic,)


def test_defaults_are_resolved(wire: Wire, stream: str) -> None:
    wire.ask(replace(topic_of(stream), replication_factor=0))
    topic = described(wire, stream).topic
    assert (topic.message_expiry, topic.max_topic_size) == (U64_MAX, U64_MAX)
    assert (topic.replication_factor, topic.compression_algorithm) == (1, 1)


def test_settings_are_kept(wire: Wire, stream: str) -> None:
    wire.ask(CreateTopic(stream, 2, 2, 60_000_000, GIB, 3, stream))
    topic = described(wire, stream).topic
    assert (topic.name, topic.partitions_count) == (stream, 2)
    assert (topic.message_expiry, topic.max_topic_size) == (60_000_000, GIB)
    assert (topic.replication_factor, topic.compression_algorithm) == (3, 2)
    wire.ask(UpdateTopic(stream, stream, 1, U64_MAX, U64_MAX, 1, "new name"))
    assert wire.ask(GetTopic(stream, stream)) is None
    renamed = wire.ask(GetTopic(stream, topic.id)).topic
    assert (renamed.name, renamed.created_at) == ("new name", topic.created_at)
    assert (renamed.message_expiry, renamed.max_topic_size) == (U64_MAX, U64_MAX)
    assert (renamed.replication_factor, renamed.compression_algorithm) == (1, 1)
    # The server's defaults are resolved by an update as well, or 0 would mean "no bytes".
    wire.ask(UpdateTopic(stream, "new name", 1, 0, 0, 0, "new name"))
    default = wire.ask(GetTopic(stream, topic.id)).topic
    assert (default.message_expiry, default.max_topic_size) == (U64_MAX, U64_MAX)
    assert default.replication_factor == 1


@pytest.mark.parametrize("codec", [3, 4])
def test_codecs_are_shown_to_those_who_know_them(
    standing_broker: BrokerProcess, wire: Wire, stream: str, codec: int
) -> None:
    """Official clients fail on the codes of lz4 and zstd, so the answer says gzip."""
    wire.ask(replace(topic_of(stream), compression_algorithm=codec))
    assert described(wire, stream).topic.compression_algorithm == 2
    assert wire.ask(GetTopics(stream))[0].compression_algorithm == 2
    assert wire.ask(GetStream(stream)).topics[0].compression_algorithm == 2
    knowing = Wire(standing_broker, login=False)
    knowing.ask(LoginUser("iggy", "iggy", "0.10.0", "codecs"))
    assert described(knowing, stream).topic.compression_algorithm == codec
    knowing.close()


def test_figures_of_partitions(wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream, 3))
    for partition_id, payloads in ((0, [b"1"]), (2, [b"22", b"333"])):
        assert wire.send(stream, partition_id, *payloads) == 0
    details = described(wire, stream)
    assert [one.messages_count for one in details.partitions] == [1, 0, 2]
    assert [one.current_offset for one in details.partitions] == [0, 0, 1]
    assert [one.size_bytes for one in details.partitions] == [65, 0, 66 + 67]
    assert [one.segments_count for one in details.partitions] == [1, 1, 1]
    assert (details.topic.messages_count, details.topic.size_bytes) == (3, 198)


def test_topics_are_listed_by_id_and_ids_are_reused_the_last_one_first(
    wire: Wire, stream: str
) -> None:
    for name in ("a", "b", "c"):
        wire.ask(topic_of(name, 1, stream=stream))
    assert [(topic.id, topic.name) for topic in wire.ask(GetTopics(stream))] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
    ]
    wire.ask(DeleteTopic(stream, "a"))
    wire.ask(DeleteTopic(stream, "b"))
    assert wire.ask(topic_of("d", 1, stream=stream)).topic.id == 1
    assert wire.ask(topic_of("e", 1, stream=stream)).topic.id == 0
    assert wire.ask(topic_of("f", 1, stream=stream)).topic.id == 3


def test_delete_removes_the_files_and_a_new_topic_is_empty(
    standing_broker: BrokerProcess, wire: Wire, stream: str
) -> None:
    stream_id = wire.ask(GetStream(stream)).stream.id
    wire.ask(topic_of(stream, 4))
    for partition_id in range(4):
        assert wire.send(stream, partition_id, b"old", b"old") == 0
    directory = standing_broker.data / "streams" / str(stream_id) / "topics" / "0"
    assert len(list(directory.glob("partitions/*/*.log"))) == 4
    wire.ask(DeleteTopic(stream, stream))
    assert not directory.exists()
    assert wire.send(stream, 0, b"x") == TopicIdNotFound.status
    wire.ask(topic_of(stream, 4))
    for partition_id in range(4):
        assert wire.poll(stream, partition_id).messages == ()
        assert wire.send(stream, partition_id, b"new") == 0
        (message,) = wire.poll(stream, partition_id).messages
        assert (message.offset, message.payload) == (0, b"new")


def test_purge_removes_the_files_and_starts_at_0(
    standing_broker: BrokerProcess, wire: Wire, stream: str
) -> None:
    stream_id = wire.ask(GetStream(stream)).stream.id
    wire.ask(topic_of(stream, 4))
    for partition_id in range(4):
        for _ in range(3):
            assert wire.send(stream, partition_id, b"old") == 0
        wire.poll(stream, partition_id, auto_commit=True)
    partitions = standing_broker.data / "streams" / str(stream_id) / "topics/0/partitions"
    assert len(list(partitions.glob("*/offsets/consumers/0"))) == 4
    wire.ask(PurgeTopic(stream, stream))
    sizes = {path.name: path.stat().st_size for path in partitions.glob("*/0*")}
    assert sizes == {"0" * 20 + ".log": 0, "0" * 20 + ".index": 0}
    assert list(partitions.glob("*/offsets/*/*")) == []
    assert described(wire, stream).topic.messages_count == 0
    for partition_id in range(4):
        polled = wire.poll(stream, partition_id)
        assert (polled.current_offset, polled.messages) == (0, ())
        assert wire.send(stream, partition_id, b"new") == 0
        (message,) = wire.poll(stream, partition_id).messages
        assert (message.offset, message.payload) == (0, b"new")


def test_more_and_fewer_partitions(standing_broker: BrokerProcess, wire: Wire, stream: str) -> None:
    stream_id = wire.ask(GetStream(stream)).stream.id
    wire.ask(topic_of(stream, 2))
    wire.ask(CreatePartitions(stream, stream, 3))
    assert [one.id for one in described(wire, stream).partitions] == [0, 1, 2, 3, 4]
    for partition_id in range(5):
        assert wire.send(stream, partition_id, b"old") == 0
    wire.ask(DeletePartitions(stream, stream, 4))
    partitions = standing_broker.data / "streams" / str(stream_id) / "topics/0/partitions"
    assert [path.name for path in partitions.iterdir()] == ["0"]
    assert wire.send(stream, 1, b"x") == PartitionNotFound.status
    wire.ask(CreatePartitions(stream, stream, 1))
    assert wire.payloads(stream, 0) == [b"old"]
    assert wire.payloads(stream, 1) == []
    assert wire.send(stream, 1, b"new") == 0
    assert wire.payloads(stream, 1) == [b"new"]
    wire.ask(DeletePartitions(stream, stream, 2))
    assert described(wire, stream).partitions == ()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (GetTopic(ABSENT, ABSENT), 0),
        (GetTopic("S", ABSENT), 0),
        (GetTopics(ABSENT), 0),
        (DeleteTopic(ABSENT, ABSENT), StreamIdNotFound.status),
        (DeleteTopic("S", ABSENT), TopicIdNotFound.status),
        (PurgeTopic(ABSENT, ABSENT), StreamIdNotFound.status),
        (PurgeTopic("S", ABSENT), TopicIdNotFound.status),
        (UpdateTopic(ABSENT, ABSENT, 1, 0, 0, 1, "x"), StreamIdNotFound.status),
        (UpdateTopic("S", ABSENT, 1, 0, 0, 1, "x"), TopicIdNotFound.status),
        (UpdateTopic("S", "one", 1, 0, 0, 1, "two"), TopicNameAlreadyExists.status),
        (UpdateTopic("S", "one", 1, 0, 0, 1, "one"), 0),
        # Only a new topic has to hold a segment.
        (UpdateTopic("S", "one", 1, 0, 1000, 1, "one"), 0),
        (CreateTopic(ABSENT, 1, 1, 0, 0, 1, "x"), StreamIdNotFound.status),
        (CreateTopic("S", 1, 1, 0, 0, 1, "one"), TopicNameAlreadyExists.status),
        (CreateTopic("S", 1, 1, 0, GIB - 1, 1, "x"), InvalidTopicSize.status),
        (CreateTopic("S", 1, 1, 0, GIB, 1, "x"), 0),
        (CreateTopic("S", 1001, 1, 0, 0, 1, "x"), TooManyPartitions.status),
        # The count is looked at before anything else.
        (CreateTopic(ABSENT, 1001, 1, 0, 1, 1, "one"), TooManyPartitions.status),
        (CreatePartitions(ABSENT, ABSENT, 1), StreamIdNotFound.status),
        (CreatePartitions("S", ABSENT, 1), TopicIdNotFound.status),
        (CreatePartitions("S", "one", 0), TooManyPartitions.status),
        (CreatePartitions("S", "one", 1001), TooManyPartitions.status),
        (DeletePartitions(ABSENT, ABSENT, 1), StreamIdNotFound.status),
        (DeletePartitions("S", ABSENT, 1), TopicIdNotFound.status),
        (DeletePartitions("S", "one", 0), TooManyPartitions.status),
        (DeletePartitions("S", "one", 2), InvalidPartitionsCount.status),
        (DeletePartitions("S", "one", 1), 0),
    ],
)
def test_statuses(wire: Wire, stream: str, command: Any, status: int) -> None:
    for name in ("one", "two"):
        wire.ask(topic_of(name, 1, stream=stream))
    if getattr(command, "stream", None) == "S":
        command = replace(command, stream=stream)
    assert wire.status(command) == status


@pytest.mark.parametrize("code", [0, 5, 255])
def test_compression_that_is_unknown(wire: Wire, stream: str, code: int) -> None:
    payload = bytearray(encode_command(topic_of(stream)))
    at = len(stream) + 2 + 4
    assert payload[at] == 1
    payload[at] = code
    assert wire.request(Code.CREATE_TOPIC, bytes(payload)) == (InvalidCommand.status, b"")


@pytest.mark.slow
def test_a_thousand_partitions(wire: Wire, stream: str) -> None:
    wire.ask(topic_of(stream, 1000))
    wire.ask(CreatePartitions(stream, stream, 1000))
    details = described(wire, stream)
    assert [one.id for one in details.partitions] == list(range(2000))
    for partition_id in (0, 999, 1000, 1999):
        assert wire.send(stream, partition_id, b"%d" % partition_id) == 0
        assert wire.payloads(stream, partition_id) == [b"%d" % partition_id]
    assert wire.send(stream, 2000, b"x") == PartitionNotFound.status
