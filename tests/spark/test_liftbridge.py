"""What a Liftbridge client publishes, read by Spark: a Liftbridge stream is a topic."""

import asyncio
from pathlib import Path

import pytest
from gufo.liftbridge.client import LiftbridgeClient as GufoClient

from tests.broker import BrokerProcess
from tests.liftbridge.client import ANONYMOUS
from tests.spark.conftest import SETTINGS, Queries

COUNT = 20
TIMEOUT_S = 60


async def publish(address: str) -> None:
    async with asyncio.timeout(TIMEOUT_S), GufoClient([address]) as client:
        await client.create_stream("orders", subject="shop.orders", partitions=2)
        for number in range(COUNT):
            await client.publish(
                f"order {number}".encode(),
                stream="orders",
                partition=number % 2,
                key=b"k%d" % number,
                headers={"shop": b"north"},
            )


@pytest.mark.slow
def test_a_stream_of_liftbridge_is_a_topic_of_spark(queries: Queries, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "bridged", {**SETTINGS, **ANONYMOUS})
    broker.start()
    try:
        asyncio.run(publish(broker.liftbridge_address))
        frame = queries.read(
            "orders", server=broker.address, stream="liftbridge", includeHeaders="true"
        )
        rows = frame.orderBy("partition", "offset").collect()
    finally:
        broker.close()
    assert [(row.partition, row.offset) for row in rows] == [
        (partition, offset) for partition in range(2) for offset in range(COUNT // 2)
    ]
    for row in rows:
        number = 2 * row.offset + row.partition
        headers = {name: bytes(value) for name, value in row.headers.items()}
        assert bytes(row.payload) == f"order {number}".encode()
        assert headers["lb.key"] == b"k%d" % number
        assert headers["shop"] == b"north"
