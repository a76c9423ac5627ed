"""Group consumers of our own client: sharing, taking over, restarts."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from borzoi.client import (
    COMMIT_AFTER_EACH,
    COMMIT_DISABLED,
    COMMIT_ON_CLOSE,
    COMMIT_ON_POLL,
    BorzoiClient,
    CommitPolicy,
    MessageConsumer,
    Reconnect,
    commit_after,
    commit_every,
)
from tests.broker import BrokerProcess
from tests.conditions import until
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS

TEST_TIMEOUT_S = 60
PARTITIONS = 6


async def fill(client: BorzoiClient, stream: str, first: int, count: int) -> None:
    for partition_id in range(PARTITIONS):
        messages = [f"{partition_id}:{number}" for number in range(first, first + count)]
        await client.send_messages(stream, "t", messages, partition_id=partition_id)


def everything(count: int) -> list[str]:
    return sorted(f"{p}:{number}" for p in range(PARTITIONS) for number in range(count))


async def read(consumer: MessageConsumer, found: list[str], count: int) -> None:
    """Reads until there are so many different messages, of all readers together."""
    async with consumer:
        async for message in consumer:
            found.append(message.payload.decode())
            if len(set(found)) >= count:
                break


@pytest.mark.parametrize(
    "commit",
    [
        COMMIT_DISABLED,
        COMMIT_ON_POLL,
        COMMIT_AFTER_EACH,
        commit_after(7),
        commit_every(0.01),
        COMMIT_ON_CLOSE,
    ],
)
def test_one_member_reads_everything_once(
    standing_broker: BrokerProcess, stream: str, commit: CommitPolicy
) -> None:
    async def test() -> None:
        async with BorzoiClient.connect(f"iggy://iggy:iggy@{standing_broker.address}") as client:
            await client.create_topic(stream, "t", PARTITIONS)
            await fill(client, stream, 0, 20)
            found: list[str] = []
            consumer = client.group_consumer(stream, "t", "g", commit=commit, batch_size=8)
            await read(consumer, found, PARTITIONS * 20)
            assert sorted(found) == everything(20)
            details = await client.get_consumer_group(stream, "t", "g")
            assert details is not None
            assert details.members == ()

    asyncio.run(asyncio.wait_for(test(), TEST_TIMEOUT_S))


def test_members_share_and_take_over(standing_broker: BrokerProcess, stream: str) -> None:
    """Three members; one leaves in the middle. Nothing is skipped."""

    async def test() -> None:
        async with AsyncExitStack() as stack:
            address = f"iggy://iggy:iggy@{standing_broker.address}"
            clients = [
                await stack.enter_async_context(BorzoiClient.connect(address)) for _ in range(3)
            ]
            await clients[0].create_topic(stream, "t", PARTITIONS)
            found: list[str] = []
            members = [
                client.group_consumer(stream, "t", "g", commit=commit_after(5), batch_size=5)
                for client in clients
            ]
            for member in members:
                await member.open()
            details = await clients[0].get_consumer_group(stream, "t", "g")
            assert details is not None
            assert sorted(len(member.partitions) for member in details.members) == [2, 2, 2]
            await fill(clients[0], stream, 0, 20)
            reading = [
                asyncio.create_task(read(member, found, PARTITIONS * 40)) for member in members
            ]
            await until(lambda: len(found) >= PARTITIONS * 10, 0.001)
            await members[1].close()
            await fill(clients[0], stream, 20, 20)
            await until(lambda: len(set(found)) >= PARTITIONS * 40, 0.001)
            for member in members:
                await member.close()
            await asyncio.gather(*reading)
            assert sorted(set(found)) == everything(40)

    asyncio.run(asyncio.wait_for(test(), TEST_TIMEOUT_S))


@pytest.mark.slow
def test_members_are_members_again_after_a_restart(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS)

    async def test() -> None:
        patient = Reconnect(attempts_max=200, delay_min_s=0.01, delay_max_s=0.2)
        connecting = BorzoiClient.connect(
            broker.address, username="iggy", password="iggy", reconnect=patient
        )
        async with connecting as client:
            await client.create_stream("s")
            await client.create_topic("s", "t", PARTITIONS)
            await fill(client, "s", 0, 10)
            found: list[str] = []
            consumer = client.group_consumer("s", "t", "g", commit=commit_after(3), batch_size=4)
            async with consumer:
                for _ in range(PARTITIONS * 5):
                    found.append((await anext(consumer)).payload.decode())
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
                while len(set(found)) < PARTITIONS * 10:
                    found.append((await anext(consumer)).payload.decode())
                details = await client.get_consumer_group("s", "t", "g")
                assert details is not None
                assert len(details.members) == 1
            assert sorted(set(found)) == everything(10)

    asyncio.run(asyncio.wait_for(test(), TEST_TIMEOUT_S))
