"""Making streams and topics, and asking for them, with all the options the client has."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tests.broker import BrokerProcess
from tests.conformance.official import connected, new_topic, says, send


def test_what_is_missing_is_none(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        assert await client.get_stream(name) is None
        assert await client.get_topic(name, name) is None
        await client.create_stream(name)
        assert await client.get_topic(name, name) is None
        assert await client.get_stream(4_000_000_000) is None

    asyncio.run(check())


def test_by_name_and_by_id(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await client.create_stream(name)
        await client.create_topic(name, "first", 2)
        await client.create_topic(name, "second", 3)
        stream = await client.get_stream(name)
        assert stream is not None
        assert (stream.name, stream.topics_count, stream.messages_count) == (name, 2, 0)
        by_id = await client.get_stream(stream.id)
        assert by_id is not None
        assert by_id.name == name
        for topic_id, topic_name, partitions_count in ((0, "first", 2), (1, "second", 3)):
            for identifier in (topic_id, topic_name):
                topic = await client.get_topic(stream.id, identifier)
                assert topic is not None
                assert (topic.id, topic.name) == (topic_id, topic_name)
                assert (topic.partitions_count, topic.messages_count) == (partitions_count, 0)

    asyncio.run(check())


def test_twice_is_an_error(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        with pytest.raises(RuntimeError, match=says("StreamNameAlreadyExists")):
            await client.create_stream(name)
        with pytest.raises(RuntimeError, match=says("TopicNameAlreadyExists")):
            await client.create_topic(name, name, 1)
        # Names are compared byte by byte.
        await client.create_stream(name.upper())
        await client.create_topic(name, name.upper(), 1)

    asyncio.run(check())


@pytest.mark.parametrize(
    "options",
    [
        {"compression_algorithm": "none"},
        {"compression_algorithm": "gzip"},
        {"replication_factor": 3},
        {"message_expiry": timedelta(hours=1)},
        {"max_topic_size": 2 * 1024**3},
        {"max_topic_size": 2**64 - 1},
        {
            "compression_algorithm": "gzip",
            "replication_factor": 1,
            "message_expiry": timedelta(seconds=90),
            "max_topic_size": 1024**3,
        },
    ],
)
def test_topic_options(
    standing_broker: BrokerProcess, transport: str, name: str, options: dict[str, Any]
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await client.create_stream(name)
        await client.create_topic(name, "topic", 2, **options)
        topic = await client.get_topic(name, "topic")
        assert topic is not None
        assert topic.partitions_count == 2

    asyncio.run(check())


@pytest.mark.parametrize(
    ("partitions_count", "options", "error"),
    [
        (1001, {}, "TooManyPartitions"),
        (1, {"max_topic_size": 1000}, "InvalidTopicSize"),
    ],
)
def test_refused_topic_options(
    standing_broker: BrokerProcess,
    transport: str,
    name: str,
    partitions_count: int,
    options: dict[str, Any],
    error: str,
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await client.create_stream(name)
        with pytest.raises(RuntimeError, match=says(error)):
            await client.create_topic(name, "topic", partitions_count, **options)
        assert await client.get_topic(name, "topic") is None

    asyncio.run(check())


def test_a_topic_without_a_stream(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        with pytest.raises(RuntimeError, match=says("StreamIdNotFound")):
            await client.create_topic(name, "topic", 1)

    asyncio.run(check())


@pytest.mark.parametrize("size", [1, 255])
def test_the_shortest_and_the_longest_name(
    standing_broker: BrokerProcess, transport: str, size: int
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        # The transports share a broker; a name of one byte is only so different.
        name = await new_topic(client, transport[0] * size)
        await send(client, name, 0, "text")
        topic = await client.get_topic(name, name)
        assert topic is not None
        assert (topic.name, topic.messages_count) == (name, 1)

    asyncio.run(check())


def test_names_that_are_not_ascii(standing_broker: BrokerProcess, transport: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        # Over HTTP the client puts a name into the path as it is, and a slash ends it.
        wanted = "Ströme и «темы»" if transport == "http" else "Ströme/../и «темы»\n"
        name = await new_topic(client, wanted + transport)
        topic = await client.get_topic(name, name)
        assert topic is not None
        assert topic.name == name

    asyncio.run(check())


def test_counts_grow_with_messages(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 3)
        for partition_id in range(3):
            await send(client, name, partition_id, *(b"x" for _ in range(partition_id + 1)))
        stream = await client.get_stream(name)
        topic = await client.get_topic(name, name)
        assert stream is not None
        assert topic is not None
        assert (stream.messages_count, topic.messages_count) == (6, 6)

    asyncio.run(check())
