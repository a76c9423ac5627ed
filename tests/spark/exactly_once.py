"""Exactly once into files, while queries are stopped and processes are killed.

    python -m tests.spark.exactly_once --rounds 200

A producer sends all the time, and a query writes what it sent to Parquet; strikes.py says what
happens to them meanwhile. In the end the partitions, offsets and payloads in the files are those
that the broker holds, each once, and what was acknowledged is among them.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.crash.ledger import judge
from tests.crash.load import read_all
from tests.shard_wires import connect
from tests.spark.strikes import Event, Rounds, run_command

ROWS_PER_BATCH: Final = 100


class Outcomes(NamedTuple):
    """`within_batches`: how many rounds left a batch behind that was planned and not done."""

    row_count: int
    within_batches: int


class IntoFiles(Rounds[Outcomes]):
    def __init__(self, spark: SparkSession, directory: Path, seed: int) -> None:
        super().__init__(spark, directory, seed, settings={})
        self._files = str(directory / "rows")

    def started(self, *, endless: bool) -> StreamingQuery:
        rows = self.sent(ROWS_PER_BATCH, endless=endless)
        writer = rows.writeStream.format("parquet").option("path", self._files)
        return self.write(writer, endless=endless)

    def outcome(self) -> Outcomes:
        """What the broker holds is in the files, each row once."""
        with connect(self._broker) as wire:
            held = read_all(wire)
        verdict = judge([self._producer.book], held)
        found = self._spark.read.parquet(self._files)
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
        return Outcomes(len(rows), self.within_batches)


@click.command()
@click.option("--rounds", default=20, show_default=True)
@click.option("--seed", type=int, help="Default: another one each time; it is printed.")
def main(rounds: int, seed: int | None) -> None:
    """Stop and kill the parts of a stream into files, and see that nothing is lost or doubled."""

    def work(spark: SparkSession, directory: Path, events: Sequence[Event], seed: int) -> str:
        found = IntoFiles(spark, directory, seed).run(events)
        times = f"{found.within_batches} times a batch was cut off"
        return f"{found.row_count} rows, each once; {times}"

    run_command(rounds, seed, work)


if __name__ == "__main__":
    main()
