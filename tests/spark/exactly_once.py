"""Exactly once into files, while queries are stopped and whoever takes part is killed.

    python -m tests.spark.exactly_once --rounds 200

A producer sends all the time, and a query writes what it sent to Parquet, always on the same
checkpoint. Each round waits until a batch is planned and not done, and strikes within it: the
query is stopped, or SIGKILL goes to Spark's Python processes, to one worker of the broker or to
all of the broker, or to everything at once; what has ended is started again. In the end the
partitions, offsets and payloads in the files are those that the broker holds, each once, and
what was acknowledged is among them.
"""

import os
import random
import signal
import tempfile
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import click
import psutil
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from borzoi.spark import session
from tests.broker import BrokerProcess, wait_for
from tests.crash.ledger import Outcome, judge
from tests.crash.load import STREAM, TOPIC, Producer, create_topic, read_all
from tests.crash.wire import Wire, connect

SETTINGS: Final = {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "iggy"}
PAUSE_S: Final = 0.05  # between two sends: batches stay small, and there is always a next one
ROWS_PER_BATCH: Final = 100
BATCH_S: Final = 0.25  # about; the strike comes within it
CODES: Final = "IGGY_"  # how the texts of our own errors begin
ROUND_TIMEOUT_S: Final = 120.0


class Event(Enum):
    STOP = "stop"
    KILL_TASKS = "kill tasks"
    KILL_WORKER = "kill worker"
    KILL_BROKER = "kill broker"
    EVERYTHING = "everything"


class Outcomes(NamedTuple):
    """`within_batches`: how many rounds left a batch behind that was planned and not done."""

    row_count: int
    within_batches: int


class Checkpoint:
    """What Spark has written down about its batches."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def planned(self) -> int:
        """The number of the newest batch; -1 before the first."""
        return _newest(self.directory / "offsets")

    @property
    def done(self) -> int:
        return _newest(self.directory / "commits")


class PacedProducer(Producer):
    def send_one(self, wire: Wire, partition: int | None = None) -> Outcome:
        outcome = super().send_one(wire, partition)
        time.sleep(PAUSE_S)
        return outcome


class Rounds:
    def __init__(self, spark: SparkSession, directory: Path, seed: int) -> None:
        self._spark = spark
        self._files = directory / "rows"
        self._checkpoint = Checkpoint(directory / "checkpoint")
        self._chance = random.Random(seed)
        self._broker = BrokerProcess(directory / "data", SETTINGS)
        self._producer = PacedProducer(self._broker, "p", f"{seed}", reconnect=True)
        self._query: StreamingQuery | None = None
        self._may_have_failed = False
        self._within_batches = 0

    def begin(self) -> None:
        self._broker.start()
        with connect(self._broker) as wire:
            create_topic(wire)
        self._producer.start()

    def round(self, event: Event) -> None:
        """The event, within the first batch that is not done, or within the one behind it."""
        at_least = self._checkpoint.done + self._chance.randint(0, 1)
        wait_for(lambda: self._is_within_a_batch(at_least), ROUND_TIMEOUT_S)
        # Not waiting for a condition: the moment of the strike is the experiment.
        time.sleep(self._chance.uniform(0, BATCH_S))
        if event in (Event.KILL_TASKS, Event.EVERYTHING):
            self._may_have_failed = True
            for pid in python_workers():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        if event in (Event.KILL_WORKER, Event.EVERYTHING):
            workers = wait_for(self._broker.workers, ROUND_TIMEOUT_S)
            os.kill(self._chance.choice(sorted(workers.values())), signal.SIGKILL)
        if event in (Event.KILL_BROKER, Event.EVERYTHING):
            self._broker.kill()
        if event in (Event.STOP, Event.EVERYTHING):
            self._stop()
        if event in (Event.KILL_BROKER, Event.EVERYTHING):
            self._broker.start()

    def check(self) -> Outcomes:
        """No more is sent; what the broker holds then is in the files, each row once."""
        self._producer.finish()
        self._stop()
        query = self._started(rows_per_batch=None)
        assert query.awaitTermination(int(ROUND_TIMEOUT_S)), "the last batches do not end"
        with connect(self._broker) as wire:
            held = read_all(wire)
        verdict = judge([self._producer.book], held)
        found = self._spark.read.parquet(str(self._files))
        table = found.selectExpr("partition", "offset", "crc32(payload) as crc").toArrow()
        rows = sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert len(rows) == len({row[:2] for row in rows}), "a row is there twice"
        wanted = [
            (partition, offset, zlib.crc32(payload))
            for partition, payloads in held.items()
            for offset, payload in enumerate(payloads)
        ]
        assert rows == sorted(wanted), "the files are not what the broker holds"
        assert len(rows) == verdict.survivors
        return Outcomes(len(rows), self._within_batches)

    def close(self) -> None:
        self._producer.stop()
        if self._query is not None:
            self._query.stop()
        self._broker.close()

    def _is_within_a_batch(self, at_least: int) -> bool:
        if self._query is None or not self._query.isActive:
            failure = None if self._query is None else self._query.exception()
            # A killed task may end a query. What this source itself complains of is no excuse.
            if failure is not None and (not self._may_have_failed or CODES in str(failure)):
                raise AssertionError("the query has failed") from failure
            self._may_have_failed = False
            self._query = self._started(ROWS_PER_BATCH)
        return self._checkpoint.planned > self._checkpoint.done >= at_least

    def _started(self, rows_per_batch: int | None) -> StreamingQuery:
        """A query on the checkpoint; without a limit it ends when all is read."""
        writer = (
            self._spark.readStream.format("iggy")
            .options(server=self._broker.address, username="iggy", password="iggy")
            .options(stream=STREAM, topic=TOPIC, startingOffsets="earliest", retries="20")
            .option("maxOffsetsPerTrigger", str(rows_per_batch or "none"))
            .option("minPartitions", "2")
            .load()
            .writeStream.format("parquet")
            .option("path", str(self._files))
            .option("checkpointLocation", str(self._checkpoint.directory))
        )
        return (writer if rows_per_batch else writer.trigger(availableNow=True)).start()

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None
            self._within_batches += self._checkpoint.planned > self._checkpoint.done


def python_workers() -> list[int]:
    """The processes in which Spark runs our readers, without the one that they are forked from."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent is not None and all(
                "pyspark.daemon" in p.cmdline() for p in (process, parent)
            ):
                found.append(process.pid)
    return found


def run_rounds(
    spark: SparkSession, directory: Path, events: Sequence[Event], seed: int
) -> Outcomes:
    rounds = Rounds(spark, directory, seed)
    tried: list[Event] = []
    try:
        rounds.begin()
        for event in events:
            tried.append(event)
            rounds.round(event)
        return rounds.check()
    except BaseException as error:
        error.add_note(f"seed {seed}, after {[event.value for event in tried]}")
        raise
    finally:
        rounds.close()


def shuffled_events(count: int, seed: int) -> list[Event]:
    """In an order by chance; a broker that has to start again takes longest, and is rarer."""
    kinds = (*Event, Event.STOP, Event.STOP, Event.STOP, Event.KILL_TASKS, Event.KILL_WORKER)
    events = [kinds[number % len(kinds)] for number in range(count)]
    random.Random(seed).shuffle(events)
    return events


def _newest(directory: Path) -> int:
    try:
        return max((int(name) for name in os.listdir(directory) if name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


@click.command()
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", type=int, help="Default: another one each time; it is printed.")
def main(rounds: int, seed: int | None) -> None:
    """Stop and kill the parts of a stream into files, and see that nothing is lost or doubled."""
    seed = random.randrange(2**32) if seed is None else seed
    click.echo(f"seed {seed}")
    spark = session("local[2]", short_lived=True, config={"spark.log.level": "OFF"})
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        found = run_rounds(spark, Path(directory), shuffled_events(rounds, seed), seed)
    click.echo(
        f"{rounds} rounds in {time.monotonic() - started:.0f} s: {found.row_count} rows, each once;"
        f" {found.within_batches} times a batch was cut off"
    )
    spark.stop()


if __name__ == "__main__":
    main()
