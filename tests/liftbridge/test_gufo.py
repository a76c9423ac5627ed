"""gufo-liftbridge 0.2.0, unmodified, against a running broker: every method of its client."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from gufo.liftbridge.client import LiftbridgeClient
from gufo.liftbridge.error import ErrorAlreadyExists, ErrorNotFound
from gufo.liftbridge.types import AckPolicy, Message, StartPosition

from tests.broker import BrokerProcess

pytestmark = pytest.mark.slow


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


async def taken(client: LiftbridgeClient, count: int, stream: str, **how: Any) -> list[Message]:
    """The first messages of a subscription."""
    found: list[Message] = []
    subscription: Any = client.subscribe(stream, **how)
    async for message in subscription:
        found.append(message)
        if len(found) == count:
            break
    await subscription.aclose()
    return found


def test_streams_and_metadata(bridged: BrokerProcess) -> None:
    async def scenario() -> None:
        async with LiftbridgeClient([bridged.liftbridge_address]) as client:
            await client.create_stream(
                "gufo-streams",
                subject="gufo.streams",
                group="g",
                replication_factor=1,
                minisr=1,
                partitions=3,
                enable_compact=True,
                retention_max_age=3600,
                retention_max_bytes=1 << 30,
                segment_max_age=60,
                segment_max_bytes=1 << 26,
                auto_pause_time=60,
                auto_pause_disable_if_subscribers=True,
                wait_for_stream=True,
            )
            with pytest.raises(ErrorAlreadyExists):
                await client.create_stream("gufo-streams")
            await client.wait_for_stream("gufo-streams")
            metadata = await client.get_metadata("gufo-streams")
            (stream,) = metadata.metadata
            assert (stream.name, stream.subject) == ("gufo-streams", "gufo.streams")
            assert sorted(stream.partitions) == [0, 1, 2]
            (broker,) = metadata.brokers
            assert f"{broker.host}:{broker.port}" == bridged.liftbridge_address
            await client.get_metadata()
            partition = await client.get_partition_metadata("gufo-streams", 1)
            assert (partition.id, partition.newest_offset, partition.paused) == (1, -1, False)
            assert (partition.leader, partition.isr) == (broker.id, [broker.id])
            await client.delete_stream("gufo-streams")
            with pytest.raises(ErrorNotFound):
                await client.delete_stream("gufo-streams")

    run(scenario())


def test_publishing_and_subscribing(bridged: BrokerProcess) -> None:
    async def scenario() -> None:
        async with LiftbridgeClient(
            [bridged.liftbridge_address], compression_method="zlib", compression_threshold=10
        ) as client:
            await client.create_stream("gufo", partitions=2, wait_for_stream=True)
            await client.publish(
                b"first",
                stream="gufo",
                key=b"k",
                partition=1,
                headers={"h": b"\1"},
                ack_inbox="a",
                correlation_id="c",
                ack_policy=AckPolicy.ALL,
                wait_for_stream=True,
            )
            middle = time.time()
            await client.publish(b"x" * 100, stream="gufo", partition=1, auto_compress=True)
            requests = [
                client.get_publish_request(b"%d" % number, stream="gufo", partition=1)
                for number in range(50)
            ]
            bulk: Any = client.publish_bulk(requests)
            acks = [ack async for ack in bulk]
            assert [one.ack.offset for one in acks] == list(range(2, 52))
            with pytest.raises(ErrorNotFound):
                await client.publish(b"x", stream="gufo-missing")
            found = await taken(
                client, 52, "gufo", partition=1, start_position=StartPosition.EARLIEST
            )
            assert (found[0].value, found[0].key, found[0].headers["h"]) == (b"first", b"k", b"\1")
            assert (found[0].subject, found[0].partition) == ("gufo.1", 1)
            assert found[1].value == b"x" * 100
            assert [one.offset for one in found] == list(range(52))
            by_offset = await taken(client, 1, "gufo", partition=1, start_offset=7, allow_isr=True)
            assert by_offset[0].value == b"5"
            by_time = await taken(client, 1, "gufo", partition=1, start_timestamp=middle)
            assert by_time[0].offset == 1
            latest = await taken(
                client, 1, "gufo", partition=1, start_position=StartPosition.LATEST, resume=True
            )
            assert latest[0].offset == 51

    run(scenario())


def test_cursors(bridged: BrokerProcess) -> None:
    async def scenario() -> None:
        async with LiftbridgeClient([bridged.liftbridge_address]) as client:
            await client.create_stream("gufo-cursors", wait_for_stream=True)
            for number in range(5):
                await client.publish(b"%d" % number, stream="gufo-cursors")
            await client.wait_for_cursors()
            assert await client.get_cursor("gufo-cursors", 0, "reader") == -1
            await client.set_cursor("gufo-cursors", 0, "reader", 2)
            # This client keeps the offset to begin at.
            assert await client.get_cursor("gufo-cursors", 0, "reader") == 3
            (resumed,) = await taken(
                client,
                1,
                "gufo-cursors",
                start_position=StartPosition.RESUME,
                cursor_id="reader",
            )
            assert resumed.value == b"3"

    run(scenario())
