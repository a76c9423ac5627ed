"""Everything that the official client can do, with its errors: streams to consumer groups."""

import asyncio
from datetime import timedelta
from typing import Final

from apache_iggy import AutoCommit, AutoCommitWhen, IggyClient, PollingStrategy, SendMessage

from tests.replay.proxy import Proxy

SETTINGS: Final = {"IGGY_SYSTEM_SEGMENT_SIZE": "5KiB"}
STREAM, TOPIC = "orders", "events"
PARTITIONS: Final = 3
BATCH: Final = 40


async def run(proxy: Proxy) -> None:
    client = IggyClient.from_connection_string(f"iggy+tcp://iggy:iggy@{proxy.address}")
    await client.connect()
    await client.ping()
    await _streams_and_topics(client)
    await _send(client)
    await _poll(client)
    await _errors(client)
    await _groups(client)
    await _wrong_login(proxy)


async def _streams_and_topics(client: IggyClient) -> None:
    await client.create_stream(STREAM)
    await client.create_topic(STREAM, TOPIC, PARTITIONS)
    await client.create_topic(
        STREAM,
        "audit",
        1,
        compression_algorithm="gzip",
        replication_factor=1,
        message_expiry=timedelta(days=3),
        max_topic_size=1 << 40,
    )
    for stream in (STREAM, 0, "missing", 77):
        await client.get_stream(stream)
        for topic in (TOPIC, 0, "audit", "missing", 77):
            await client.get_topic(stream, topic)


async def _send(client: IggyClient) -> None:
    for partition_id in range(PARTITIONS):
        for batch in range(5):
            messages = [
                SendMessage(f"{partition_id}/{batch}/{number}".ljust(50 + partition_id))
                for number in range(BATCH)
            ]
            await client.send_messages(STREAM, TOPIC, partition_id, messages)
    await client.send_messages(STREAM, "audit", 0, [SendMessage(bytes(range(256)) * 40)])
    await client.get_stream(STREAM)
    await client.get_topic(STREAM, TOPIC)


async def _poll(client: IggyClient) -> None:
    found = await client.poll_messages(STREAM, TOPIC, 0, PollingStrategy.First(), 1000, False)
    times = [found[at].timestamp() for at in (0, BATCH, 3 * BATCH)]
    for partition_id in range(PARTITIONS):
        strategies = [
            PollingStrategy.First(),
            PollingStrategy.Last(),
            PollingStrategy.Next(),
            *(PollingStrategy.Offset(offset) for offset in (0, 1, 39, 40, 199, 200, 10_000)),
            PollingStrategy.Timestamp(0),
            PollingStrategy.Timestamp(1 << 62),
        ]
        if partition_id == 0:
            strategies += [PollingStrategy.Timestamp(time) for time in times]
        for strategy in strategies:
            for count in (1, 7, 1000):
                await client.poll_messages(STREAM, TOPIC, partition_id, strategy, count, False)
        for count in (3, 100, 1000, 1000):
            strategy = PollingStrategy.Next()
            await client.poll_messages(STREAM, TOPIC, partition_id, strategy, count, True)
    await client.poll_messages(STREAM, "audit", 0, PollingStrategy.Last(), 1, True)


async def _errors(client: IggyClient) -> None:
    first = PollingStrategy.First()
    for refused in (
        lambda: client.create_stream(STREAM),
        lambda: client.create_topic(STREAM, TOPIC, 1),
        lambda: client.create_topic("missing", TOPIC, 1),
        lambda: client.create_topic(STREAM, "huge", 1001),
        lambda: client.create_topic(STREAM, "small", 1, max_topic_size=10),
        lambda: client.poll_messages(STREAM, TOPIC, 9, first, 1, False),
        lambda: client.poll_messages("missing", TOPIC, 0, first, 1, False),
        lambda: client.poll_messages(STREAM, "missing", 0, first, 1, False),
        lambda: client.send_messages(STREAM, "missing", 0, [SendMessage("x")]),
        lambda: client.send_messages("missing", TOPIC, 0, [SendMessage("x")]),
        lambda: client.send_messages(STREAM, TOPIC, 9, [SendMessage("x")]),
    ):
        await _refused(refused())


async def _groups(client: IggyClient) -> None:
    consumer = await client.consumer_group(
        "readers",
        STREAM,
        TOPIC,
        polling_strategy=PollingStrategy.Next(),
        batch_length=25,
        auto_commit=AutoCommit.When(AutoCommitWhen.PollingMessages()),
        poll_interval=timedelta(milliseconds=1),
    )
    count = 0
    async for _message in consumer.iter_messages():
        count += 1
        if count == PARTITIONS * 5 * BATCH:
            break
    await consumer.store_offset(5, 1)
    await consumer.delete_offset(1)
    await client.get_topic(STREAM, TOPIC)


async def _wrong_login(proxy: Proxy) -> None:
    client = IggyClient(proxy.address)
    await client.connect()
    await _refused(client.create_stream("not allowed"))
    await _refused(client.login_user("iggy", "wrong"))
    await client.login_user("iggy", "iggy")
    await client.get_stream(STREAM)


async def _refused(request: object) -> None:
    try:
        await asyncio.ensure_future(request)  # type: ignore[call-overload] # an Awaitable of the client
    except RuntimeError:
        return
    raise AssertionError("the broker was expected to refuse this")
