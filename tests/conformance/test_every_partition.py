"""Many connections, many partitions, both shards: everybody reads what anybody wrote."""

import asyncio
from typing import Final

import pytest
from apache_iggy import IggyClient, PollingStrategy

from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import HTTP, BrokerProcess
from tests.conformance.official import Received, connected, new_topic, poll, send
from tests.conftest import NewBroker

CONNECTIONS: Final = 8
PARTITIONS: Final = 8
BATCHES: Final = 5
TOPIC: Final = "shared"
COMMITTED: Final = 7

Logs = list[list[Received]]


def payload(producer: int, partition_id: int, number: int) -> bytes:
    """A payload that tells where it belongs; sizes differ, one in ten is larger than a page."""
    text = b"%d %d %d " % (producer, partition_id, number)
    return text + bytes(range(256)) * (20 if number % 10 == 9 else number % 3)


async def produce(client: IggyClient, producer: int) -> None:
    number = 0
    for _ in range(BATCHES):
        for partition_id in range(PARTITIONS):
            batch = [payload(producer, partition_id, number + k) for k in range(2)]
            await send(client, TOPIC, partition_id, *batch)
        number += 2


async def read_all(client: IggyClient) -> Logs:
    first = PollingStrategy.First()
    return [await poll(client, TOPIC, partition_id, first) for partition_id in range(PARTITIONS)]


async def everybody_reads(broker: BrokerProcess, transport: str) -> Logs:
    """The logs as one connection sees them, which is how all see them."""
    clients = [await connected(broker, transport) for _ in range(CONNECTIONS)]
    seen = await asyncio.gather(*(read_all(client) for client in clients))
    assert all(logs == seen[0] for logs in seen)
    topic = await clients[0].get_topic(TOPIC, TOPIC)
    assert topic is not None
    assert topic.messages_count == sum(map(len, seen[0]))
    return seen[0]


def check(logs: Logs) -> None:
    """Nothing is lost, doubled or out of a producer's order, and offsets have no gaps."""
    for partition_id, log in enumerate(logs):
        assert [message.offset for message in log] == list(range(CONNECTIONS * BATCHES * 2))
        assert [m.timestamp for m in log] == sorted(m.timestamp for m in log)
        assert len({message.id for message in log}) == len(log)
        for producer in range(CONNECTIONS):
            mine = [m.payload for m in log if int(m.payload.split()[0]) == producer]
            assert mine == [payload(producer, partition_id, k) for k in range(BATCHES * 2)]


async def write_and_read(broker: BrokerProcess, transport: str) -> Logs:
    clients = [await connected(broker, transport) for _ in range(CONNECTIONS)]
    await new_topic(clients[0], TOPIC, PARTITIONS)
    await asyncio.gather(*(produce(client, k) for k, client in enumerate(clients)))
    logs = await everybody_reads(broker, transport)
    check(logs)
    next_one = PollingStrategy.Next()
    for partition_id in range(PARTITIONS):
        await poll(clients[0], TOPIC, partition_id, next_one, COMMITTED, auto_commit=True)
    return logs


async def read_again(broker: BrokerProcess, transport: str, logs: Logs) -> None:
    assert await everybody_reads(broker, transport) == logs
    client = await connected(broker, transport)
    for partition_id in range(PARTITIONS):
        rest = await poll(client, TOPIC, partition_id, PollingStrategy.Next())
        assert rest == logs[partition_id][COMMITTED:]


async def append_one(broker: BrokerProcess, transport: str, logs: Logs, text: bytes) -> None:
    """Writing goes on where it had stopped."""
    client = await connected(broker, transport)
    for partition_id, log in enumerate(logs):
        await send(client, TOPIC, partition_id, text)
        (last,) = await poll(client, TOPIC, partition_id, PollingStrategy.Last(), 1)
        assert (last.offset, last.payload) == (len(log), text)
        log.append(last)


@pytest.mark.parametrize("transport", ["tcp", "wss"])
@pytest.mark.slow
def test_everybody_reads_everything_before_and_after_stop_and_kill(
    new_broker: NewBroker, transport: str
) -> None:
    broker = new_broker(**HTTP, IGGY_SYSTEM_SHARDING_CPU_ALLOCATION="2")
    owners = {
        shard_of(pack_namespace(0, 0, partition_id), len(broker.workers()))
        for partition_id in range(PARTITIONS)
    }
    assert owners == set(broker.workers()), "each shard is to own some partitions"
    logs = asyncio.run(write_and_read(broker, transport))

    assert broker.stop() == 0
    broker.start()
    asyncio.run(read_again(broker, transport, logs))
    asyncio.run(append_one(broker, transport, logs, b"after the stop"))

    broker.kill()
    broker.start()
    asyncio.run(read_again(broker, transport, logs))
    asyncio.run(append_one(broker, transport, logs, b"after the kill"))
