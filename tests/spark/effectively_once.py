"""Effectively once into a topic, while queries are stopped and processes are killed.

    python -m tests.spark.effectively_once --rounds 200 [--deduplication off]

A producer sends all the time, and a query makes COPIES rows of each message, some with a key, and
writes them to another topic of the same broker, slowly, so that strikes (strikes.py) come while
a batch is being sent. In the end each row is in that topic once, in any partition. With
deduplication off none is missing, and those that are there more than once are counted.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from borzoi.protocol.commands.topics import CreateTopic, GetTopic
from tests.crash.ledger import sender_of
from tests.crash.load import STREAM, read_all
from tests.shard_wires import connect
from tests.spark.strikes import Event, Rounds, run_command

TARGET: Final = "copies"
TARGET_PARTITIONS: Final = 3
MESSAGES_PER_BATCH: Final = 500
COPIES: Final = 5  # so that a task has more rows than go to one partition in a row
PIECE_ROWS: Final = 50  # that the writer gets at once
WINDOW: Final = {
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
    # More than one batch sends to one partition, and longer than a restart takes.
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_MAX_ENTRIES": "100000",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_EXPIRY": "10m",
}
FILLING: Final = "."  # Spark passes rows on when it has 64 KiB of them
NAME: Final = "regexp_extract(cast(payload as string), '^p/[0-9]+/', 0)"
COPY: Final = f"rpad(concat({NAME}, copy), 300, '{FILLING}')"
# Those without a key go where their number says.
KEY: Final = "if(offset % 2 = 0, concat('key ', offset % 7), null)"
# Two milliseconds, as an empty text that is part of a row: else Spark would leave it out.
PAUSE: Final = "substr(java_method('java.lang.Thread', 'sleep', 2L), 1, 0)"


class Outcomes(NamedTuple):
    """`repeated_count`: rows beyond the first of a payload. `within_batches` as for files."""

    row_count: int
    repeated_count: int
    within_batches: int


class IntoTopic(Rounds[Outcomes]):
    pause_s: ClassVar[float] = 0.2
    batch_sizes: ClassVar[tuple[int, ...]] = (60,)  # more than is read, so batches are full
    batch_s: ClassVar[float] = 0.2  # from its first row in the topic on

    def __init__(
        self, spark: SparkSession, directory: Path, seed: int, *, deduplication: bool
    ) -> None:
        # The writer gets its rows in small pieces in this session alone.
        own = spark.newSession()
        own.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(PIECE_ROWS))
        super().__init__(own, directory, seed, WINDOW if deduplication else {})
        self._batch = -1
        self._row_count = 0  # in the topic, when the batch was first seen

    def begin(self) -> None:
        super().begin()
        with connect(self._broker) as wire:
            wire.ask(CreateTopic(STREAM, TARGET_PARTITIONS, 1, 0, 0, 1, TARGET))

    def started(self, *, endless: bool) -> StreamingQuery:
        rows = copies_of(self.sent(MESSAGES_PER_BATCH, endless=endless), slowly=endless)
        writer = rows.writeStream.format("iggy").options(**self.login, topic=TARGET)
        return self.write(writer, endless=endless)

    def is_at_work(self) -> bool:
        """Rows of the batch have come, and more are on their way."""
        with connect(self._broker) as wire:
            row_count = wire.ask(GetTopic(STREAM, TARGET)).topic.messages_count
        if self._batch != self._checkpoint.planned:
            self._batch, self._row_count = self._checkpoint.planned, row_count
        return bool(row_count > self._row_count)

    def outcome(self) -> Outcomes:
        with connect(self._broker) as wire:
            sent = [payload for payloads in read_all(wire).values() for payload in payloads]
            found = Counter(
                message.payload.rstrip(FILLING.encode())
                for partition in range(TARGET_PARTITIONS)
                for message in wire.read(STREAM, TARGET, partition)
            )
        wanted = {
            f"{producer}/{number}/{copy}".encode()
            for producer, number in map(sender_of, sent)
            for copy in range(COPIES)
        }
        missing, strange = wanted - found.keys(), found.keys() - wanted
        assert not missing, f"{len(missing)} of {len(wanted)} rows are missing: {_some(missing)}"
        assert not strange, f"{len(strange)} rows that were never written: {_some(strange)}"
        repeated_count = found.total() - len(wanted)
        return Outcomes(len(wanted), repeated_count, self.within_batches)


def copies_of(messages: DataFrame, *, slowly: bool) -> DataFrame:
    """Slowly is two milliseconds for each message."""
    numbers = f"explode(sequence(0, {COPIES - 1})) as copy"
    copied = messages.selectExpr("payload", "offset", numbers)
    payload = f"concat({COPY}, if(copy = 0, {PAUSE}, ''))" if slowly else COPY
    return copied.selectExpr(f"{payload} as payload", f"{KEY} as key")


def _some(payloads: set[bytes]) -> list[bytes]:
    return sorted(payloads)[:5]


@click.command()
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", type=int, help="Default: another one each time; it is printed.")
@click.option("--deduplication", type=click.Choice(["on", "off"]), default="on", show_default=True)
def main(rounds: int, seed: int | None, deduplication: str) -> None:
    """Stop and kill the parts of a stream into a topic, and see what arrives."""

    def work(spark: SparkSession, directory: Path, events: Sequence[Event], seed: int) -> str:
        is_on = deduplication == "on"
        found = IntoTopic(spark, directory, seed, deduplication=is_on).run(events)
        assert not is_on or found.repeated_count == 0, f"{found.repeated_count} rows are repeated"
        once = "each once" if is_on else f"none missing, {found.repeated_count} more than once"
        return f"{found.row_count} rows, {once}; {found.within_batches} times a batch was cut off"

    run_command(rounds, seed, work)


if __name__ == "__main__":
    main()
