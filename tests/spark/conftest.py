"""One Spark and one broker for all tests of this folder: starting Spark takes longer than they do.

Tests run in several processes. A test that needs Spark waits until no other process has one, so
that there is at most one JVM at work.
"""

import asyncio
import fcntl
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import DataFrame, SparkSession

from borzoi.client import BorzoiClient
from borzoi.spark import session
from tests.broker import BrokerProcess

Found = TypeVar("Found")
SETTINGS = {
    "IGGY_ROOT_USERNAME": "iggy",
    "IGGY_ROOT_PASSWORD": "iggy",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
}
STREAM = "spark"
_numbers = count()


@pytest.fixture(scope="package")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.getbasetemp()
    shared = place.parent if place.name.startswith("popen-") else place
    with (shared / "spark.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # The warehouse and the temporary files of Spark belong to the tests as well.
        made = session(
            "local[2]",
            short_lived=True,
            config={
                "spark.local.dir": str(place / "spark"),
                "spark.sql.warehouse.dir": str(place / "warehouse"),
                "spark.log.level": "ERROR",
                "spark.sql.shuffle.partitions": "1",
            },
        )
        yield made
        made.stop()


class SparkBroker:
    """A broker, and the little that tests of Spark ask of it."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process

    @property
    def options(self) -> dict[str, str]:
        return {
            "server": self.process.address,
            "username": "iggy",
            "password": "iggy",
            "stream": STREAM,
            "retryInterval": "50ms",
        }

    def call(self, use: Callable[[BorzoiClient], Awaitable[Found]]) -> Found:
        async def called() -> Found:
            async with BorzoiClient.connect(
                self.process.address, username="iggy", password="iggy"
            ) as client:
                return await use(client)

        return asyncio.run(called())

    def topic(self, partitions: int = 2, name: str | None = None) -> str:
        """A new topic, empty."""
        name = name or f"topic-{next(_numbers)}"

        async def make(client: BorzoiClient) -> None:
            if await client.get_stream(STREAM) is None:
                await client.create_stream(STREAM)
            await client.create_topic(STREAM, name, partitions_count=partitions)

        self.call(make)
        return name

    def send(self, topic: str, partition: int, *payloads: Any) -> None:
        async def send(client: BorzoiClient) -> None:
            await client.send_messages(STREAM, topic, payloads, partition_id=partition)

        self.call(send)

    def filled(self, *counts: int) -> str:
        """A topic whose partitions have so many messages, `partition:offset` each."""
        name = self.topic(len(counts))
        for partition, number in enumerate(counts):
            if number:
                self.send(name, partition, *(f"{partition}:{at}" for at in range(number)))
        return name


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkBroker]:
    process = BrokerProcess(tmp_path_factory.mktemp("broker") / "data", SETTINGS)
    process.start()
    yield SparkBroker(process)
    process.close()


@pytest.fixture(scope="package")
def rolling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkBroker]:
    """A broker whose segments are full soon, and compressed if their topic says so."""
    settings = {
        **SETTINGS,
        "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB",
        "IGGY_SYSTEM_COMPRESSION_ALLOW_OVERRIDE": "true",
    }
    process = BrokerProcess(tmp_path_factory.mktemp("rolling") / "data", settings)
    process.start()
    yield SparkBroker(process)
    process.close()


class Queries:
    """Reads and writes of one test, with a directory of its own."""

    def __init__(self, spark: SparkSession, broker: SparkBroker, directory: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.directory = directory

    def read(self, topic: str, **options: str) -> DataFrame:
        reader = self.spark.read.format("iggy").options(**self.broker.options, topic=topic)
        return reader.options(**options).load()

    def stream(self, topic: str, **options: str) -> DataFrame:
        reader = self.spark.readStream.format("iggy").options(**self.broker.options, topic=topic)
        return reader.options(**options).load()

    def run(self, frame: DataFrame, name: str = "rows", **options: str) -> list[dict[str, Any]]:
        """All there is now, into Parquet; the progress of its batches."""
        query = (
            frame.writeStream.format(options.pop("format", "parquet"))
            .option("checkpointLocation", str(self.directory / f"{name}.checkpoint"))
            .options(**(options or {"path": str(self.directory / name)}))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(120), "the query does not end"
        finally:
            query.stop()
        return [progress for progress in query.recentProgress if progress["numInputRows"]]

    def rows(self, name: str = "rows") -> list[tuple[int, int]]:
        """Partition and offset of what is in Parquet."""
        found = self.spark.read.parquet(str(self.directory / name)).select("partition", "offset")
        return sorted((row.partition, row.offset) for row in found.collect())


@pytest.fixture
def queries(spark: SparkSession, broker: SparkBroker, tmp_path: Path) -> Queries:
    return Queries(spark, broker, tmp_path)
