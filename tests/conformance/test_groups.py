"""Consumer groups of the official client: every auto-commit policy, several members, a restart."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from apache_iggy import (
    AutoCommit,
    AutoCommitAfter,
    AutoCommitWhen,
    IggyClient,
    IggyConsumer,
    PollingStrategy,
    ReceiveMessage,
)

from borzoi.protocol.commands.groups import GetConsumerGroup
from borzoi.protocol.commands.offsets import GetConsumerOffset
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.conditions import until
from tests.conformance.official import WITH_SESSIONS, connected, new_topic, send
from tests.wire import Wire

GROUP = "readers"
TIMEOUT_S = 60.0
QUICK = timedelta(milliseconds=1)
SOON = timedelta(milliseconds=50)
MESSAGES = [b"%d" % number for number in range(12)]
THROUGH = WITH_SESSIONS  # a member of a group is a session


async def consumer_of(client: IggyClient, name: str, **options: Any) -> IggyConsumer:
    """A member of the group, which is made if it is not there."""
    defaults: dict[str, Any] = {
        "polling_strategy": PollingStrategy.Next(),
        "poll_interval": QUICK,
        "polling_retry_interval": QUICK,
        "batch_length": 5,
    }
    return await client.consumer_group(GROUP, name, name, **{**defaults, **options})


async def take(consumer: IggyConsumer, count: int) -> list[bytes]:
    """So many messages from the iterator."""
    found: list[bytes] = []
    messages = consumer.iter_messages()
    while len(found) < count:
        message = await asyncio.wait_for(anext(messages), TIMEOUT_S)
        found.append(message.payload())
    return found


async def consume(consumer: IggyConsumer, is_enough: Callable[[], bool]) -> list[bytes]:
    """Messages by callback, until it is enough.

    Over a WebSocket the client forgets what it has not stored yet when it is asked to stop.
    """
    found: list[bytes] = []
    enough = asyncio.Event()

    async def take_one(message: ReceiveMessage) -> None:
        found.append(message.payload())

    async def watch() -> None:
        await until(is_enough, 0.01)
        enough.set()

    consuming = consumer.consume_messages(take_one, enough)
    await asyncio.wait_for(asyncio.gather(consuming, watch()), TIMEOUT_S)
    return found


def stored(wire: Wire, name: str, partition_id: int = 0) -> int | None:
    group = Consumer(ConsumerKind.GROUP, GROUP)
    found = wire.ask(GetConsumerOffset(group, name, name, partition_id))
    return None if found is None else int(found.stored_offset)


def shares(wire: Wire, name: str) -> list[tuple[int, ...]]:
    return [one.partitions for one in wire.ask(GetConsumerGroup(name, name, GROUP)).members]


EACH = AutoCommitWhen.ConsumingEachMessage()
WHOLE = AutoCommitWhen.ConsumingAllMessages()
POLICIES = {
    "polling": AutoCommit.When(AutoCommitWhen.PollingMessages()),
    "all": AutoCommit.When(WHOLE),
    "each": AutoCommit.When(EACH),
    "every-nth": AutoCommit.When(AutoCommitWhen.ConsumingEveryNthMessage(1)),
    "interval": AutoCommit.Interval(SOON),
    "interval-or-polling": AutoCommit.IntervalOrWhen(SOON, AutoCommitWhen.PollingMessages()),
    "interval-or-all": AutoCommit.IntervalOrWhen(SOON, WHOLE),
    "interval-or-each": AutoCommit.IntervalOrWhen(SOON, EACH),
    "interval-or-after": AutoCommit.IntervalOrAfter(SOON, AutoCommitAfter.ConsumingEachMessage()),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_iterator_with_each_policy(
    standing_broker: BrokerProcess, transport: str, name: str, policy: AutoCommit
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        await send(client, name, 0, *MESSAGES)
        consumer = await consumer_of(client, name, auto_commit=policy)
        assert await take(consumer, len(MESSAGES)) == MESSAGES
        wire = Wire(standing_broker)
        await until(lambda: stored(wire, name) == len(MESSAGES) - 1, 0.01)
        wire.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    "after",
    [
        AutoCommitAfter.ConsumingEachMessage(),
        AutoCommitAfter.ConsumingAllMessages(),
        AutoCommitAfter.ConsumingEveryNthMessage(1),
    ],
    ids=["each", "all", "every-nth"],
)
def test_the_callback_with_each_policy(
    standing_broker: BrokerProcess, transport: str, name: str, after: AutoCommitAfter
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        await send(client, name, 0, *MESSAGES)
        consumer = await consumer_of(
            client,
            name,
            auto_commit=AutoCommit.After(after),
            # "All" means to this client: up to the partition's end. A smaller batch that does not
            # reach it is never committed, and so comes again and again.
            batch_length=len(MESSAGES),
        )
        last = len(MESSAGES) - 1
        with Wire(standing_broker) as wire:
            found = await consume(consumer, lambda: stored(wire, name) in (last, last - 1))
        # What is not stored yet may come again.
        assert found[: len(MESSAGES)] == MESSAGES

    asyncio.run(check())


def test_offsets_by_hand(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        await send(client, name, 0, *MESSAGES)
        consumer = await consumer_of(
            client, name, auto_commit=AutoCommit.Disabled(), batch_length=len(MESSAGES)
        )
        assert await take(consumer, 3) == MESSAGES[:3]
        wire = Wire(standing_broker)
        assert stored(wire, name) is None
        await consumer.store_offset(2, None)
        assert stored(wire, name) == 2
        await consumer.store_offset(7, 0)
        assert stored(wire, name) == 7
        await consumer.delete_offset(0)
        assert stored(wire, name) is None
        with pytest.raises(RuntimeError):
            await consumer.store_offset(99, 0)
        with pytest.raises(RuntimeError):
            await consumer.store_offset(0, 5)
        wire.close()

    asyncio.run(check())


def test_one_partition_of_choice(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 3)
        for partition in range(3):
            await send(client, name, partition, b"%d" % partition)
        consumer = await consumer_of(client, name, partition_id=2)
        assert await take(consumer, 1) == [b"2"]
        assert consumer.partition_id() == 2

    asyncio.run(check())


def test_several_members_get_every_message_once(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    """Each of three members commits what it has consumed; together they get all of it once."""

    async def check() -> None:
        producer = await connected(standing_broker, transport)
        await new_topic(producer, name, 6)
        found: dict[int, list[bytes]] = {}
        enough = asyncio.Event()
        expected = {b"%d.%d" % (partition, n) for partition in range(6) for n in range(20)}

        async def member(number: int) -> None:
            client = await connected(standing_broker, transport)
            consumer = await consumer_of(client, name, auto_commit=AutoCommit.When(EACH))
            mine = found.setdefault(number, [])

            async def take_one(message: ReceiveMessage) -> None:
                mine.append(message.payload())
                if sum(map(len, found.values())) >= len(expected):
                    enough.set()

            await asyncio.wait_for(consumer.consume_messages(take_one, enough), TIMEOUT_S)

        members = [asyncio.create_task(member(number)) for number in range(3)]
        wire = Wire(standing_broker)
        await until(
            lambda: len(found) == 3 and sorted(map(len, shares(wire, name))) == [2, 2, 2], 0.01
        )
        for n in range(0, 20, 5):
            for partition in range(6):
                batch = [b"%d.%d" % (partition, n + step) for step in range(5)]
                await send(producer, name, partition, *batch)
        await asyncio.gather(*members)
        together = [payload for mine in found.values() for payload in mine]
        assert sorted(together) == sorted(expected)
        assert {len(mine) for mine in found.values()} == {40}
        wire.close()

    asyncio.run(check())


def test_a_member_that_joins_late_gets_its_share(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        first = await connected(standing_broker, transport)
        await new_topic(first, name, 4)
        for partition in range(4):
            await send(first, name, partition, b"early")
        consumer = await consumer_of(first, name, auto_commit=AutoCommit.When(EACH))
        assert await take(consumer, 4) == [b"early"] * 4
        wire = Wire(standing_broker)
        assert shares(wire, name) == [(0, 1, 2, 3)]
        second = await connected(standing_broker, transport)
        late = await consumer_of(second, name, auto_commit=AutoCommit.When(EACH))
        await until(lambda: sorted(map(len, shares(wire, name))) == [2, 2], 0.01)
        for partition in range(4):
            await send(first, name, partition, b"late %d" % partition)
        got = await asyncio.gather(take(consumer, 2), take(late, 2))
        assert sorted(got[0] + got[1]) == [b"late %d" % partition for partition in range(4)]
        wire.close()

    asyncio.run(check())


@pytest.mark.slow
def test_members_come_back_after_a_restart(broker: BrokerProcess, transport: str) -> None:
    """The client reconnects, logs in and joins again by itself; nothing is lost."""

    async def check() -> None:
        client = await connected(broker, transport)
        name = await new_topic(client, "again", 2)
        await send(client, name, 0, b"before")
        consumer = await consumer_of(
            client, name, auto_commit=AutoCommit.When(AutoCommitWhen.PollingMessages())
        )
        found: list[bytes] = []
        enough = asyncio.Event()

        async def take_one(message: ReceiveMessage) -> None:
            found.append(message.payload())
            if message.payload() == b"after":
                enough.set()

        consuming = asyncio.ensure_future(consumer.consume_messages(take_one, enough))
        await until(lambda: found == [b"before"], 0.01)
        await asyncio.to_thread(broker.stop)
        await asyncio.to_thread(broker.start)
        producer = await connected(broker, transport)
        await send(producer, name, 1, b"after")
        await asyncio.wait_for(consuming, TIMEOUT_S)
        assert found == [b"before", b"after"]
        wire = Wire(broker)
        assert shares(wire, name) == [(0, 1)]
        wire.close()

    asyncio.run(check())
