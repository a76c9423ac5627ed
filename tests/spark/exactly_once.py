"""Exactly once into files, while queries are stopped and brokers and workers are killed.

    python -m tests.spark.exactly_once --rounds 200

Each round sends rows to all partitions and starts the query on the same checkpoint; in the middle
of its batches, chosen by chance, it is stopped, or one worker or the whole broker is killed with
SIGKILL, and the broker started again. In the end the partitions and offsets in Parquet are those
that the broker holds, each once, and all acknowledged rows are there.
"""

import asyncio
import os
import random
import signal
import tempfile
import threading
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import click
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from borzoi.client import BorzoiClient
from borzoi.spark import session
from tests.broker import BrokerProcess, wait_for

STREAM, TOPIC, PARTITIONS = "once", "events", 3
SETTINGS = {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "iggy"}
EVENTS = ("stop", "kill worker", "kill broker", "nothing", EVERYTHING := "everything")
END_TIMEOUT_S = 180


class Rounds:
    def __init__(self, spark: SparkSession, directory: Path, seed: int) -> None:
        self.spark = spark
        self.directory = directory
        self.chance = random.Random(seed)
        self.broker = BrokerProcess(directory / "data", SETTINGS)
        self.acknowledged = 0
        self.events: list[str] = []

    def begin(self) -> None:
        self.broker.start()

        async def make() -> None:
            async with self._client() as client:
                await client.create_stream(STREAM)
                await client.create_topic(STREAM, TOPIC, partitions_count=PARTITIONS)

        asyncio.run(make())

    def round(self, event: str, rows: int) -> None:
        """Rows for every partition; then a query, and the event while it runs."""
        self.events.append(event)
        asyncio.run(self._send(rows))
        if event == "nothing":
            self._run(None)
            return
        delay_s = self.chance.uniform(0.0, 1.5)

        def strike() -> None:
            time.sleep(delay_s)
            if event in ("kill worker", EVERYTHING):
                workers = sorted(self.broker.workers().values())
                os.kill(self.chance.choice(workers), signal.SIGKILL)
            if event in ("kill broker", EVERYTHING):
                self.broker.kill()
                self.broker.start()

        striker = threading.Thread(target=strike)
        striker.start()
        try:
            self._run(
                delay_s if event == "stop" else None, striker if event == EVERYTHING else None
            )
        finally:
            striker.join()
        if event == "kill worker":
            wait_for(lambda: len(self.broker.workers()) == len(os.sched_getaffinity(0)), 60)

    def check(self) -> int:
        """How many rows are in the files: exactly those the broker holds."""
        self._run(None)
        found = self.spark.read.parquet(str(self.directory / "rows"))
        rows = sorted((row.partition, row.offset) for row in found.collect())
        held = asyncio.run(self._held())
        assert len(rows) == len(set(rows)), f"twice, after {self.events}"
        assert rows == held, f"not what the broker holds, after {self.events}"
        assert len(rows) >= self.acknowledged, f"acknowledged and lost, after {self.events}"
        return len(rows)

    def _run(self, stop_after_s: float | None, striker: threading.Thread | None = None) -> None:
        """Until all is read, or stopped after some time, or after the striker is done."""
        query = (
            self.spark.readStream.format("iggy")
            .options(server=self.broker.address, username="iggy", password="iggy")
            .options(stream=STREAM, topic=TOPIC, startingOffsets="earliest", retries="20")
            .option("maxOffsetsPerTrigger", "700")
            .load()
            .writeStream.format("parquet")
            .option("path", str(self.directory / "rows"))
            .option("checkpointLocation", str(self.directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            if striker is not None:
                striker.join()
            elif stop_after_s is None:
                assert query.awaitTermination(END_TIMEOUT_S), f"no end after {self.events}"
            else:
                time.sleep(stop_after_s)  # awaitTermination() takes whole seconds only
        except PySparkException as error:
            raise AssertionError(f"after {self.events}: {error}") from error
        finally:
            query.stop()

    async def _send(self, rows: int) -> None:
        async with self._client() as client:
            for partition in range(PARTITIONS):
                payloads = [b"row" * 10] * rows
                await client.send_messages(STREAM, TOPIC, payloads, partition_id=partition)
                self.acknowledged += rows

    async def _held(self) -> list[tuple[int, int]]:
        async with self._client() as client:
            topic = await client.get_topic(STREAM, TOPIC)
            assert topic is not None
            return [(one.id, at) for one in topic.partitions for at in range(one.messages_count)]

    def _client(self) -> AbstractAsyncContextManager[BorzoiClient]:
        return BorzoiClient.connect(self.broker.address, username="iggy", password="iggy")


def run_rounds(spark: SparkSession, directory: Path, events: list[str], seed: int) -> int:
    rounds = Rounds(spark, directory, seed)
    rounds.begin()
    try:
        for event in events:
            rounds.round(event, rows=rounds.chance.randint(200, 900))
        return rounds.check()
    finally:
        rounds.broker.close()


@click.command()
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", type=int, help="Default: another one each time; it is printed.")
def main(rounds: int, seed: int | None) -> None:
    seed = random.randrange(2**32) if seed is None else seed
    click.echo(f"seed {seed}")
    chance = random.Random(seed)
    events = [chance.choice(EVENTS) for _ in range(rounds)]
    spark = session("local[2]", short_lived=True, config={"spark.log.level": "OFF"})
    with tempfile.TemporaryDirectory() as directory:
        count = run_rounds(spark, Path(directory), events, seed)
    click.echo(f"{rounds} rounds: {count} rows, each once")
    spark.stop()


if __name__ == "__main__":
    main()
