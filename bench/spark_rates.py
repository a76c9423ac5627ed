"""Spark beside itself: the source and sink `iggy` against what else Spark can do with the rows.

One session, local[2], one broker of one's own; the cases take turns, the best run of each counts.
All sources do the same: every column of every row goes to Spark's `noop`. Payloads are random: of
repeated ones Parquet keeps each once, and has next to nothing to read. Rows through tuples are
what a source without Arrow would do, snappy Parquet is Spark's own format on a local disk, and an
Arrow writer that only counts is the least a sink can cost. The broker, the JVM and the Python
workers share the machine, as in the streams that are measured last: from a send to the end of the
batch that has read it.

Before anything is measured, each way has to give the rows that were sent.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from borzoi.bench.admin import TOPIC, Admin, make_stream
from borzoi.bench.broker import OwnBroker
from borzoi.bench.failures import BenchFailed
from borzoi.bench.plans import Credentials
from borzoi.protocol.codes import Code
from borzoi.protocol.frame import encode_request
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import MESSAGE_HEADER_SIZE, Message
from borzoi.protocol.send_messages import encode_send_messages
from borzoi.spark.starting import own_session

QUIET: Final = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
STREAM: Final = "bench-spark"
TARGET: Final = "bench-spark-target"
BATCH: Final = 1000
SAMPLE_ROWS: Final = 100
SAMPLE_TIMEOUT_S: Final = 60.0
SEED: Final = 1
SEGMENT_SIZE_STEP: Final = 512
SEGMENT_SIZE_MAX: Final = 1024**3
SEGMENTS_PER_PARTITION: Final = 16  # all but the last one are sealed
PARQUET: Final = "Parquet, snappy"
WANTED: Final = {
    "source / tuples": 3.0,
    "source / parquet": 0.55,
    "segments / parquet": 0.65,
    "sink / no-op": 0.5,
}


@dataclass(frozen=True, slots=True)
class SparkRate:
    """`ratio` is against what the case is held to; None where it is itself the measure."""

    case: str
    rows_per_s: float
    ratio: float | None = None
    wanted: float | None = None

    @property
    def met(self) -> bool | None:
        return None if self.ratio is None or self.wanted is None else self.ratio >= self.wanted

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "met": self.met}


@dataclass(frozen=True, slots=True)
class SparkFigures:
    rates: tuple[SparkRate, ...]
    latencies_ms: tuple[float, ...]

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class TupleSource(DataSource):
    """The same rows, one tuple at a time, over the same wire."""

    @classmethod
    def name(cls) -> str:
        return "iggy-tuples"

    def schema(self) -> str:
        return (
            "stream string, topic string, partition int, offset bigint, timestamp long,"
            " origin_timestamp long, id binary, payload binary"
        )

    def reader(self, schema: Any) -> "TupleReader":
        return TupleReader(dict(self.options))


class TupleReader(DataSourceReader):
    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["partitions"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from borzoi.protocol.message import decode_messages
        from borzoi.spark.options import read_options
        from borzoi.spark.polling import Polling, runs_of
        from borzoi.spark.positions import Range

        names = ("server", "username", "password", "stream", "topic")
        options = read_options({name: self._options[name] for name in names}, streaming=False)
        wanted = Range(TOPIC, partition.value, 0, int(self._options["rows"]))
        polling = Polling(options.access, STREAM, options.poll_count, fail_on_data_loss=True)
        for run in runs_of(polling, wanted):
            for one in decode_messages(run.messages):
                identity = one.id.to_bytes(16, "big")
                yield (
                    *(STREAM, TOPIC, partition.value, one.offset, one.timestamp),
                    *(one.origin_timestamp, identity, one.payload),
                )


class CountingSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "iggy-counting"

    def writer(self, schema: Any, overwrite: bool) -> "CountingWriter":
        return CountingWriter()


class CountingWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        for batch in iterator:
            batch.num_rows  # noqa: B018  # to have looked at it is all this sink does
        return WriterCommitMessage()


def measure_spark(
    rows: int,
    partitions: int,
    payload_size: int,
    warm_ups: int,
    runs: int,
    samples: int,
    directory: Path,
    say: Callable[[str], None],
) -> SparkFigures:
    settings = {"IGGY_SYSTEM_SEGMENT_SIZE": str(segment_size(rows // partitions, payload_size))}
    with OwnBroker("all", settings, directory) as broker:
        admin = Admin.connect(broker.host, broker.port, broker.credentials)
        per_partition = rows // partitions
        say(f"sending {rows:,} messages of {payload_size} B to {partitions} partitions")
        fill(admin, partitions, per_partition, payload_size)
        make_stream(admin, TARGET, partitions)
        with own_session("local[2]", config=QUIET) as spark:
            spark.dataSource.register(TupleSource)
            spark.dataSource.register(CountingSink)
            options = options_of(broker.host, broker.port, broker.credentials)
            expected = expected_sums(partitions, per_partition, payload_size)
            frames = sources_of(spark, options, partitions, per_partition, broker.data, directory)
            check_rows(frames, expected)
            cases = cases_of(frames, options)
            best = best_times(cases, warm_ups, runs, say)
            latencies = measure_latencies(
                spark, admin, options, directory, 2 * warm_ups, samples, say
            )
        admin.close()
    return SparkFigures(tuple(rates_of(best, rows)), latencies)


def fill(admin: Admin, partitions: int, rows: int, payload_size: int) -> None:
    make_stream(admin, STREAM, partitions)
    chance = random.Random(SEED)
    for partition in range(partitions):
        for first in range(0, rows, BATCH):
            count = min(BATCH, rows - first)
            send(admin, STREAM, partition, [chance.randbytes(payload_size) for _ in range(count)])


def send(admin: Admin, stream: str, partition: int, payloads: list[bytes]) -> None:
    messages = [Message(payload) for payload in payloads]
    body = encode_send_messages(stream, TOPIC, PartitionId(partition), messages)
    admin.send_raw(encode_request(Code.SEND_MESSAGES, body))


def options_of(host: str, port: int, credentials: Credentials) -> dict[str, str]:
    return {
        "server": f"{host}:{port}",
        "username": credentials.username,
        "password": credentials.password,
        "stream": STREAM,
        "topic": TOPIC,
    }


def segment_size(rows: int, payload_size: int) -> int:
    """So that a partition of these rows has some sealed segments; in steps that brokers take."""
    wanted = rows * (MESSAGE_HEADER_SIZE + payload_size) // SEGMENTS_PER_PARTITION
    return min(max(1, wanted // SEGMENT_SIZE_STEP) * SEGMENT_SIZE_STEP, SEGMENT_SIZE_MAX)


def sources_of(
    spark: SparkSession,
    options: dict[str, str],
    partitions: int,
    rows: int,
    data: Path,
    directory: Path,
) -> dict[str, DataFrame]:
    """The rows by each way there is."""
    parquet = str(directory / "snappy.parquet")
    source = spark.read.format("iggy").options(**options).load()
    source.write.mode("overwrite").option("compression", "snappy").parquet(parquet)
    tuples = spark.read.format("iggy-tuples").options(
        **options, partitions=str(partitions), rows=str(rows)
    )
    segments = {"transport": "segments", "dataDir": str(data)}
    return {
        "source, tuples": tuples.load(),
        "source, TCP": source,
        "source, segments": spark.read.format("iggy").options(**options, **segments).load(),
        PARQUET: spark.read.parquet(parquet),
    }


def expected_sums(partitions: int, rows: int, payload_size: int) -> tuple[int, ...]:
    """Of what fill() sends: the rows, their offsets, the bytes of their payloads."""
    count = partitions * rows
    return count, partitions * rows * (rows - 1) // 2, count * payload_size


def check_rows(frames: dict[str, DataFrame], expected: tuple[int, ...]) -> None:
    for name, frame in frames.items():
        sums = frame.selectExpr("count(*)", "sum(offset)", "sum(length(payload))")
        found = tuple(sums.collect()[0])
        if found != expected:
            raise BenchFailed(f"{name}: rows, offsets and bytes are {found}, not {expected}")


def cases_of(
    frames: dict[str, DataFrame], options: dict[str, str]
) -> dict[str, Callable[[], None]]:
    def discard(frame: DataFrame) -> Callable[[], None]:
        return lambda: frame.write.format("noop").mode("overwrite").save()

    def sink(name: str, **more: str) -> Callable[[], None]:
        chosen = frames[PARQUET].select("payload")
        return lambda: chosen.write.format(name).mode("append").options(**more).save()

    return {
        **{name: discard(frame) for name, frame in frames.items()},
        "sink, no-op": sink("iggy-counting"),
        "sink, TCP": sink("iggy", **{**options, "stream": TARGET}),
    }


def best_times(
    cases: dict[str, Callable[[], None]], warm_ups: int, runs: int, say: Callable[[str], None]
) -> dict[str, float]:
    """The shortest of each case; they take turns, so that all meet the same disturbances."""
    best: dict[str, float] = {}
    for number in range(1 - warm_ups, runs + 1):
        say(f"run {number} of {runs}" if number > 0 else "warming up")
        for name, run in cases.items():
            started = time.perf_counter()
            run()
            elapsed = time.perf_counter() - started
            if number > 0:
                best[name] = min(elapsed, best.get(name, elapsed))
    return best


def rates_of(best: dict[str, float], rows: int) -> Iterator[SparkRate]:
    rates = {name: rows / elapsed for name, elapsed in best.items()}
    held_to = {
        "source, TCP": ("source, tuples", WANTED["source / tuples"]),
        "sink, TCP": ("sink, no-op", WANTED["sink / no-op"]),
    }
    for name, rate in rates.items():
        against, wanted = held_to.get(name, (None, None))
        yield SparkRate(name, rate, rate / rates[against] if against else None, wanted)
    for name, wanted in (
        ("source, TCP", WANTED["source / parquet"]),
        ("source, segments", WANTED["segments / parquet"]),
    ):
        ratio = rates[name] / rates[PARQUET]
        yield SparkRate(f"{name}, against Parquet", rates[name], ratio, wanted)


def measure_latencies(
    spark: SparkSession,
    admin: Admin,
    options: dict[str, str],
    directory: Path,
    warm_ups: int,
    samples: int,
    say: Callable[[str], None],
) -> tuple[float, ...]:
    """Milliseconds from a send to the end of the batch with it."""
    say("streaming: from a send to the end of its batch")
    query = (
        spark.readStream.format("iggy")
        .options(**options, startingOffsets="latest")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    found = []
    try:
        seen = wait_rows(query, 0, at_least=0)
        for number in range(warm_ups + samples):
            started = time.perf_counter()
            send(admin, STREAM, number % 2, [b"x" * 200] * SAMPLE_ROWS)
            seen = wait_rows(query, seen, at_least=SAMPLE_ROWS)
            if number >= warm_ups:
                found.append((time.perf_counter() - started) * 1000)
    finally:
        query.stop()
    return tuple(found)


def wait_rows(query: Any, before: int, at_least: int) -> int:
    """How many rows the query has read, once that many more are done."""
    deadline = time.monotonic() + SAMPLE_TIMEOUT_S
    while True:
        progress = query.recentProgress
        total: int = sum(one["numInputRows"] for one in progress)
        if progress and total >= before + at_least:
            return total
        if time.monotonic() > deadline:
            raise TimeoutError(f"no batch within {SAMPLE_TIMEOUT_S} s")
        time.sleep(0.005)
