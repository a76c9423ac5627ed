"""Every polling strategy, with and without auto-commit, and what lies past the end."""

import asyncio
from collections.abc import Callable

import pytest
from apache_iggy import IggyClient, PollingStrategy

from tests.broker import BrokerProcess
from tests.conformance.official import connected, new_topic, payloads, poll, says, send

FIVE = [b"0", b"1", b"2", b"3", b"4"]
FAR_FUTURE_US = 2**63

Strategy = Callable[[], PollingStrategy]
ALL_STRATEGIES: list[Strategy] = [
    lambda: PollingStrategy.Offset(0),
    lambda: PollingStrategy.Timestamp(0),
    lambda: PollingStrategy.First(),
    lambda: PollingStrategy.Last(),
    lambda: PollingStrategy.Next(),
]
BY_NAME = pytest.mark.parametrize(
    "strategy", ALL_STRATEGIES, ids=["offset", "timestamp", "first", "last", "next"]
)


async def five_messages(client: IggyClient, name: str) -> None:
    await new_topic(client, name)
    for payload in FIVE:
        await send(client, name, 0, payload)


@pytest.mark.parametrize(
    ("strategy", "count", "expected"),
    [
        (lambda: PollingStrategy.First(), 2, FIVE[:2]),
        (lambda: PollingStrategy.First(), 100, FIVE),
        (lambda: PollingStrategy.Last(), 2, FIVE[3:]),
        (lambda: PollingStrategy.Last(), 100, FIVE),
        (lambda: PollingStrategy.Next(), 3, FIVE[:3]),
        (lambda: PollingStrategy.Next(), 100, FIVE),
        (lambda: PollingStrategy.Offset(0), 1, FIVE[:1]),
        (lambda: PollingStrategy.Offset(3), 100, FIVE[3:]),
        (lambda: PollingStrategy.Offset(4), 1, FIVE[4:]),
        (lambda: PollingStrategy.Offset(5), 1, []),
        (lambda: PollingStrategy.Offset(2**64 - 1), 1, []),
        (lambda: PollingStrategy.Timestamp(0), 100, FIVE),
        (lambda: PollingStrategy.Timestamp(FAR_FUTURE_US), 100, []),
    ],
)
def test_where_a_poll_begins(
    standing_broker: BrokerProcess,
    transport: str,
    name: str,
    strategy: Strategy,
    count: int,
    expected: list[bytes],
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await five_messages(client, name)
        assert await payloads(client, name, strategy(), count) == expected
        # A poll without auto-commit leaves no trace.
        assert await payloads(client, name, strategy(), count) == expected

    asyncio.run(check())


@BY_NAME
def test_an_empty_partition(
    standing_broker: BrokerProcess, transport: str, name: str, strategy: Strategy
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        assert await payloads(client, name, strategy(), 10) == []
        assert await payloads(client, name, strategy(), 10, auto_commit=True) == []
        await send(client, name, 0, *FIVE)
        # The client itself refuses to ask for nothing.
        with pytest.raises(RuntimeError, match=says("InvalidMessagesCount")):
            await payloads(client, name, strategy(), 0, auto_commit=True)
        # Nothing was returned, so nothing was committed.
        assert await payloads(client, name, PollingStrategy.Next()) == FIVE

    asyncio.run(check())


def test_timestamps(standing_broker: BrokerProcess, transport: str, name: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await five_messages(client, name)
        messages = await poll(client, name, 0, PollingStrategy.First())
        for message in messages:
            at = message.timestamp
            later = [one for one in messages if one.timestamp >= at]
            assert await poll(client, name, 0, PollingStrategy.Timestamp(at)) == later
            after = [one for one in messages if one.timestamp >= at + 1]
            assert await poll(client, name, 0, PollingStrategy.Timestamp(at + 1)) == after

    asyncio.run(check())


@BY_NAME
def test_auto_commit_stores_the_last_one_returned(
    standing_broker: BrokerProcess, transport: str, name: str, strategy: Strategy
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await five_messages(client, name)
        returned = await payloads(client, name, strategy(), 2, auto_commit=True)
        assert len(returned) == 2
        rest = FIVE[FIVE.index(returned[-1]) + 1 :]
        assert await payloads(client, name, PollingStrategy.Next()) == rest

    asyncio.run(check())


def test_next_goes_through_everything_once(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await five_messages(client, name)
        next_two = PollingStrategy.Next()
        for expected in (FIVE[:2], FIVE[2:4], FIVE[4:], []):
            assert await payloads(client, name, next_two, 2, auto_commit=True) == expected
        await send(client, name, 0, b"5")
        assert await payloads(client, name, next_two, 2, auto_commit=True) == [b"5"]
        # Auto-commit may also go back.
        assert await payloads(client, name, PollingStrategy.First(), 1, auto_commit=True) == [b"0"]
        assert await payloads(client, name, next_two, 1) == [b"1"]

    asyncio.run(check())


def test_all_clients_are_consumer_0(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    """The client gives every caller the same consumer id, so they share one stored offset."""

    async def check() -> None:
        clients = [await connected(standing_broker, transport) for _ in range(4)]
        await five_messages(clients[0], name)
        seen = []
        for turn in range(5):
            client = clients[turn % len(clients)]
            seen += await payloads(client, name, PollingStrategy.Next(), 1, auto_commit=True)
        assert seen == FIVE

    asyncio.run(check())


def test_partitions_have_offsets_of_their_own(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 2)
        for partition_id in range(2):
            await send(client, name, partition_id, *FIVE)
        await poll(client, name, 0, PollingStrategy.Next(), 3, auto_commit=True)
        next_one = PollingStrategy.Next()
        assert [m.offset for m in await poll(client, name, 0, next_one, 1)] == [3]
        assert [m.offset for m in await poll(client, name, 1, next_one, 1)] == [0]

    asyncio.run(check())


def test_places_that_do_not_exist(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        first = PollingStrategy.First()
        with pytest.raises(RuntimeError, match=says("StreamIdNotFound")):
            await payloads(client, name, first)
        await client.create_stream(name)
        with pytest.raises(RuntimeError, match=says("TopicIdNotFound")):
            await payloads(client, name, first)
        await client.create_topic(name, name, 1)
        with pytest.raises(RuntimeError, match=says("PartitionNotFound")):
            await poll(client, name, 1, first)

    asyncio.run(check())
