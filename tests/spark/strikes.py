"""A query that is struck within its batches, always on the same checkpoint.

A strike waits until a batch is planned and not done, and comes within it: the query is stopped,
or SIGKILL goes to Spark's Python processes, to one worker of the broker or to all of the broker,
or to everything at once. What has ended is started again. What must be true afterwards is for
those who strike: exactly_once.py and effectively_once.py.
"""

import os
import random
import signal
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeVar

import click
import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from borzoi.spark import session
from tests.broker import BrokerProcess, wait_for
from tests.crash.ledger import Outcome
from tests.crash.load import BATCH_SIZES, STREAM, TOPIC, Producer, create_topic
from tests.shard_wires import connect
from tests.wire import Wire

ROOT: Final = {"IGGY_ROOT_USERNAME": "iggy", "IGGY_ROOT_PASSWORD": "iggy"}
CODES: Final = "IGGY_"  # how the texts of our own errors begin
ROUND_TIMEOUT_S: Final = 120.0

Found = TypeVar("Found")


class Event(Enum):
    STOP = "stop"
    KILL_TASKS = "kill tasks"
    KILL_WORKER = "kill worker"
    KILL_BROKER = "kill broker"
    EVERYTHING = "everything"


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
    """Pauses between two sends: batches stay small, and there is always a next one."""

    def __init__(
        self, broker: BrokerProcess, seed: int, pause_s: float, batch_sizes: tuple[int, ...]
    ) -> None:
        super().__init__(broker, "p", f"{seed}", reconnect=True, batch_sizes=batch_sizes)
        self._pause_s = pause_s

    def send_one(self, wire: Wire, partition: int | None = None) -> Outcome:
        outcome = super().send_one(wire, partition)
        time.sleep(self._pause_s)
        return outcome


class Rounds(ABC, Generic[Found]):
    """A broker, a producer that sends all the time, and a query that reads what it sent."""

    pause_s: ClassVar[float] = 0.05  # of the producer
    batch_sizes: ClassVar[tuple[int, ...]] = BATCH_SIZES  # of the producer
    batch_s: ClassVar[float] = 0.25  # about; the strike comes within it

    def __init__(
        self, spark: SparkSession, directory: Path, seed: int, settings: Mapping[str, str]
    ) -> None:
        self._spark = spark
        self._checkpoint = Checkpoint(directory / "checkpoint")
        self._chance = random.Random(seed)
        self._broker = BrokerProcess(directory / "data", {**ROOT, **settings})
        self._producer = PacedProducer(self._broker, seed, self.pause_s, self.batch_sizes)
        self._query: StreamingQuery | None = None
        self._may_have_failed = False
        self.within_batches = 0
        """How many strikes left a batch behind that was planned and not done."""

    @abstractmethod
    def started(self, *, endless: bool) -> StreamingQuery:
        """The query, on the checkpoint; it ends when all is read, unless it is endless."""

    @abstractmethod
    def outcome(self) -> Found:
        """What has come of it; no more is sent, and all that was sent went through."""

    def is_at_work(self) -> bool:
        """Whether a strike now would hit what is to be hit, in a batch that is not done."""
        return True

    def run(self, events: Iterable[Event]) -> Found:
        tried: list[Event] = []
        try:
            self.begin()
            for event in events:
                tried.append(event)
                self.strike(event)
            self._finish()
            return self.outcome()
        except BaseException as error:
            error.add_note(f"after {[event.value for event in tried]}")
            raise
        finally:
            self._close()

    def begin(self) -> None:
        self._broker.start()
        with connect(self._broker) as wire:
            create_topic(wire)
        self._producer.start()

    def strike(self, event: Event) -> None:
        """The event, within the first batch that is not done, or within the one behind it."""
        at_least = self._checkpoint.done + self._chance.randint(0, 1)
        wait_for(lambda: self._is_within_a_batch(at_least), ROUND_TIMEOUT_S)
        # Not waiting for a condition: the moment of the strike is the experiment.
        time.sleep(self._chance.uniform(0, self.batch_s))
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

    @property
    def login(self) -> dict[str, str]:
        """Options of the format: where the broker is. It may be away for a while."""
        server = {"server": self._broker.address, "username": "iggy", "password": "iggy"}
        return {**server, "stream": STREAM, "retries": "20"}

    def sent(self, rows_per_batch: int, *, endless: bool) -> DataFrame:
        """What the producer sends, in batches of two tasks; all at once where there is an end."""
        return (
            self._spark.readStream.format("iggy")
            .options(**self.login, topic=TOPIC, startingOffsets="earliest", minPartitions="2")
            .option("maxOffsetsPerTrigger", str(rows_per_batch) if endless else "none")
            .load()
        )

    def write(self, writer: DataStreamWriter, *, endless: bool) -> StreamingQuery:
        writer = writer.option("checkpointLocation", str(self._checkpoint.directory))
        return (writer if endless else writer.trigger(availableNow=True)).start()

    def _is_within_a_batch(self, at_least: int) -> bool:
        if self._query is None or not self._query.isActive:
            failure = None if self._query is None else self._query.exception()
            # A killed task may end a query. What we ourselves complain of is no excuse.
            if failure is not None and (not self._may_have_failed or CODES in str(failure)):
                raise AssertionError("the query has failed") from failure
            self._may_have_failed = False
            self._query = self.started(endless=True)
        is_within = self._checkpoint.planned > self._checkpoint.done >= at_least
        return is_within and self.is_at_work()

    def _finish(self) -> None:
        self._producer.finish()
        self._stop()
        self._query = self.started(endless=False)
        assert self._query.awaitTermination(int(ROUND_TIMEOUT_S)), "the last batches do not end"

    def _stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._query = None
            self.within_batches += self._checkpoint.planned > self._checkpoint.done

    def _close(self) -> None:
        self._producer.stop()
        if self._query is not None:
            self._query.stop()
        self._broker.close()


def run_command(
    rounds: int, seed: int | None, work: Callable[[SparkSession, Path, Sequence[Event], int], str]
) -> None:
    """For commands: `rounds` events in a session of their own, and what came of them."""
    seed = random.randrange(2**32) if seed is None else seed
    click.echo(f"seed {seed}")
    spark = session("local[2]", short_lived=True, config={"spark.log.level": "OFF"})
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        said = work(spark, Path(directory), shuffled_events(rounds, seed), seed)
    click.echo(f"{rounds} rounds in {time.monotonic() - started:.0f} s: {said}")
    spark.stop()


def python_workers() -> list[int]:
    """The processes in which Spark runs our code, without the one that they are forked from."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            if parent is not None and all(
                "pyspark.daemon" in p.cmdline() for p in (process, parent)
            ):
                found.append(process.pid)
    return found


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
