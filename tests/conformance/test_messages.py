"""Sending: bytes and texts, small and large, and to places that do not exist."""

import asyncio
import random

import pytest
from apache_iggy import PollingStrategy

from tests.broker import BrokerProcess
from tests.conformance.official import connected, new_topic, payloads, poll, says, send

LARGEST_PAYLOAD = 64_000_000


def test_bytes_and_texts(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        sent: list[bytes | str] = [b"bytes", "text", "größer", bytes(range(256)), b"\0"]
        await send(client, name, 0, *sent)
        assert await payloads(client, name, PollingStrategy.First()) == [
            one.encode() if isinstance(one, str) else one for one in sent
        ]

    asyncio.run(check())


def test_the_server_gives_offset_time_id_and_checksum(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        await send(client, name, 0, b"a", b"b")
        await send(client, name, 0, b"c")
        one, two, three = await poll(client, name, 0, PollingStrategy.First())
        assert (one.offset, two.offset, three.offset) == (0, 1, 2)
        # One time per batch; never backwards.
        assert one.timestamp == two.timestamp <= three.timestamp
        assert len({one.id, two.id, three.id}) == 3
        assert 0 not in (one.id, two.id, three.id)
        assert len({one.checksum, two.checksum, three.checksum}) == 3

    asyncio.run(check())


def test_a_batch_of_many(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        sent = [b"%d" % number for number in range(5000)]
        await send(client, name, 0, *sent)
        assert await payloads(client, name, PollingStrategy.First(), 5000) == sent

    asyncio.run(check())


@pytest.mark.slow
@pytest.mark.parametrize("size", [65_000, 1_000_000, 10_000_000])
def test_large_messages(
    standing_broker: BrokerProcess, transport: str, name: str, size: int
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 2)
        large = random.Random(size).randbytes(size)
        for partition_id in range(2):
            await send(client, name, partition_id, b"before", large, b"after")
            received = await poll(client, name, partition_id, PollingStrategy.First())
            assert [message.payload for message in received] == [b"before", large, b"after"]

    asyncio.run(check())


@pytest.mark.slow
def test_the_largest_message(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        largest = random.Random(name).randbytes(LARGEST_PAYLOAD)
        await send(client, name, 0, largest)
        (received,) = await poll(client, name, 0, PollingStrategy.First())
        assert received.payload == largest
        await send(client, name, 0, b"small again")
        assert await payloads(client, name, PollingStrategy.Offset(1)) == [b"small again"]

    asyncio.run(check())


def test_places_that_do_not_exist(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        with pytest.raises(RuntimeError, match=says("StreamIdNotFound")):
            await send(client, name, 0, b"x")
        await client.create_stream(name)
        with pytest.raises(RuntimeError, match=says("TopicIdNotFound")):
            await send(client, name, 0, b"x")
        await client.create_topic(name, name, 1)
        with pytest.raises(RuntimeError, match=says("PartitionNotFound")):
            await send(client, name, 1, b"x")
        await send(client, name, 0, b"x")
        assert await payloads(client, name, PollingStrategy.First()) == [b"x"]

    asyncio.run(check())
