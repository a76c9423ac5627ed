"""Commands about streams: what they answer, what they refuse, and which ids they give out."""

from pathlib import Path

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.errors import (
    InvalidCommand,
    InvalidFormat,
    StreamIdNotFound,
    StreamNameAlreadyExists,
)
from tests.broker import BrokerProcess
from tests.topics import described, topic_of
from tests.wire import Wire

ABSENT = "no such stream"


def directory_of(broker: BrokerProcess, stream_id: int) -> Path:
    return broker.data / "streams" / str(stream_id)


def test_create_and_get(wire: Wire, stream: str) -> None:
    details = wire.ask(GetStream(stream))
    assert details.stream.name == stream
    assert details.stream.created_at > 0
    assert (details.stream.topics_count, details.topics) == (0, ())
    assert (details.stream.size_bytes, details.stream.messages_count) == (0, 0)
    assert wire.ask(GetStream(details.stream.id)) == details
    assert details.stream in wire.ask(GetStreams())


def test_the_answer_to_create_is_the_stream(wire: Wire, stream: str) -> None:
    created = wire.ask(CreateStream(stream + "2"))
    assert wire.ask(GetStream(created.id)).stream == created
    wire.ask(DeleteStream(created.id))


def test_a_stream_sums_up_its_topics(wire: Wire, stream: str) -> None:
    for number, name in enumerate(("a", "b")):
        wire.ask(topic_of(name, 2, stream=stream))
        for partition_id in range(2):
            assert wire.send(name, partition_id, *[b"12345"] * (number + 1), stream=stream) == 0
    details = wire.ask(GetStream(stream))
    assert [topic.name for topic in details.topics] == ["a", "b"]
    assert [topic.messages_count for topic in details.topics] == [2, 4]
    assert [topic.size_bytes for topic in details.topics] == [2 * 69, 4 * 69]
    assert (details.stream.messages_count, details.stream.size_bytes) == (6, 6 * 69)


def test_streams_are_listed_by_id(wire: Wire, stream: str) -> None:
    created = [wire.ask(CreateStream(f"{stream} {number}")) for number in range(3)]
    listed = wire.ask(GetStreams())
    assert [one.id for one in listed] == sorted(one.id for one in listed)
    assert [one for one in listed if one in created] == sorted(created, key=lambda one: one.id)
    for one in created:
        wire.ask(DeleteStream(one.id))


def test_rename(wire: Wire, stream: str) -> None:
    before = wire.ask(GetStream(stream)).stream
    wire.ask(CreateStream(stream + " taken"))
    assert wire.status(UpdateStream(stream, stream + " taken")) == StreamNameAlreadyExists.status
    assert wire.status(UpdateStream(stream, stream)) == 0
    assert wire.status(UpdateStream(stream, stream + " new")) == 0
    assert wire.ask(GetStream(stream)) is None
    renamed = wire.ask(GetStream(before.id)).stream
    assert (renamed.name, renamed.created_at) == (stream + " new", before.created_at)
    # The old name is free at once.
    wire.ask(CreateStream(stream))
    for name in (stream + " new", stream + " taken"):
        wire.ask(DeleteStream(name))


def test_delete_takes_everything_along(
    standing_broker: BrokerProcess, wire: Wire, topic: str
) -> None:
    stream_id = wire.ask(GetStream(topic)).stream.id
    assert wire.send(topic, 0, b"x") == 0
    assert directory_of(standing_broker, stream_id).exists()
    wire.ask(DeleteStream(topic))
    assert not directory_of(standing_broker, stream_id).exists()
    assert wire.ask(GetStream(topic)) is None
    assert wire.send(topic, 0, b"x") == StreamIdNotFound.status
    assert wire.status(DeleteStream(topic)) == StreamIdNotFound.status


def test_freed_ids_are_given_out_again_the_last_one_first(
    standing_broker: BrokerProcess, wire: Wire, stream: str
) -> None:
    names = [f"{stream} {letter}" for letter in "abc"]
    ids = [wire.ask(CreateStream(name)).id for name in names]
    assert len(set(ids)) == 3
    wire.ask(topic_of("t", 4, stream=names[0]))
    for partition_id in range(4):
        assert wire.send("t", partition_id, b"old", stream=names[0]) == 0
    wire.ask(DeleteStream(ids[1]))
    wire.ask(DeleteStream(ids[0]))
    assert wire.ask(CreateStream(names[0])).id == ids[0]
    assert wire.ask(CreateStream(names[1])).id == ids[1]
    # The id is the old one, the data is not.
    wire.ask(topic_of("t", 4, stream=names[0]))
    for partition_id in range(4):
        polled = wire.poll("t", partition_id, stream=names[0])
        assert (polled.current_offset, polled.messages) == (0, ())
        assert wire.send("t", partition_id, b"new", stream=names[0]) == 0
        (message,) = wire.poll("t", partition_id, stream=names[0]).messages
        assert (message.offset, message.payload) == (0, b"new")
    for name in names:
        wire.ask(DeleteStream(name))


def test_purge_empties_all_topics(wire: Wire, stream: str) -> None:
    for name in ("a", "b"):
        wire.ask(topic_of(name, 2, stream=stream))
        for partition_id in range(2):
            assert wire.send(name, partition_id, b"1", b"2", stream=stream) == 0
    wire.ask(PurgeStream(stream))
    details = wire.ask(GetStream(stream))
    assert (details.stream.messages_count, details.stream.size_bytes) == (0, 0)
    assert [topic.partitions_count for topic in details.topics] == [2, 2]
    for name in ("a", "b"):
        for partition_id in range(2):
            assert wire.poll(name, partition_id, stream=stream).messages == ()


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (DeleteStream(ABSENT), StreamIdNotFound.status),
        (DeleteStream(4_000_000_000), StreamIdNotFound.status),
        (UpdateStream(ABSENT, "x"), StreamIdNotFound.status),
        (PurgeStream(ABSENT), StreamIdNotFound.status),
        (GetStream(ABSENT), 0),
    ],
)
def test_streams_that_do_not_exist(wire: Wire, command: Command, status: int) -> None:
    assert wire.status(command) == status


def test_twice_the_same_name(wire: Wire, stream: str) -> None:
    assert wire.status(CreateStream(stream)) == StreamNameAlreadyExists.status
    other = stream.upper()
    wire.ask(CreateStream(other))
    wire.ask(DeleteStream(other))


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"", InvalidCommand.status),
        (b"\0", InvalidFormat.status),
        (b"\x05abc", InvalidCommand.status),
        (b"\xff" + b"a" * 254, InvalidCommand.status),
        (b"\x02\xff\xfe", InvalidCommand.status),
    ],
)
def test_names_that_are_none(wire: Wire, payload: bytes, status: int) -> None:
    assert wire.request(Code.CREATE_STREAM, payload) == (status, b"")


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (b"\x01\x04\0\0\0", InvalidCommand.status),
        (b"\x01\x03\0\0\0", InvalidFormat.status),
        (b"\x02\0", InvalidFormat.status),
        (b"\x03\x04\0\0\0\0", InvalidCommand.status),
        (b"\0\x04\0\0\0\0", InvalidCommand.status),
        (b"\x02\x02\xff\xfe", InvalidCommand.status),
    ],
)
def test_identifiers_that_are_none(wire: Wire, payload: bytes, status: int) -> None:
    assert wire.request(Code.GET_STREAM, payload) == (status, b"")


def test_the_longest_name(wire: Wire, stream: str) -> None:
    name = ("ß" * 127 + "s")[:255]
    assert len(name.encode()) == 255
    wire.ask(CreateStream(name))
    wire.ask(topic_of(name))
    assert wire.send(name, 0, b"x") == 0
    assert described(wire, name).topic.name == name
    wire.ask(DeleteStream(name))
