"""Spark beside itself: the source and sink `iggy` against what else Spark can do with the rows.

One session, local[2], one broker of one's own; the cases take turns. All sources do the same: every
column of every row goes to Spark's `noop`. Payloads are random: of repeated ones Parquet keeps each
once, and has next to nothing to read. The broker, the JVM and the Python workers share the machine.
So they do in the streams that are measured last: from a send to the end of the batch that has read
it.

Before anything is measured, each way has to give the rows that were sent. A sink writes to a new
stream each time, as all producers of these benchmarks do, into memory that the one before it gave
back. Pages that a virtual machine touches for the first time cost several times as much.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from borzoi.bench import spark_yardsticks as yardsticks
from borzoi.bench.admin import TOPIC, Admin, make_stream
from borzoi.bench.broker import OwnBroker
from borzoi.bench.failures import BenchFailed
from borzoi.bench.plans import Credentials
from borzoi.bench.spark_rates import (
    COUNTING,
    PARQUET,
    SEGMENTS,
    SINK,
    TCP,
    TUPLES,
    SparkFigures,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.framing import encode_request
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import MESSAGE_HEADER_SIZE, Message
from borzoi.protocol.send_messages import encode_send_messages
from borzoi.spark.spark_session import own_session

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
SETTLE_S: Final = 0.3  # what a run leaves behind, such as deleted files, is not the next one's
SEGMENT_SIZE_STEP: Final = 512
SEGMENT_SIZE_MAX: Final = 1024**3
SEGMENTS_PER_PARTITION: Final = 16  # all but the last one are sealed


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured, and what has to be done before each time."""

    run: Callable[[], None]
    prepare: Callable[[], object] = lambda: None


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
    """Measures all cases in turn on a broker of our own; `say` gets the steps."""
    settings = {"IGGY_SYSTEM_SEGMENT_SIZE": str(segment_size(rows // partitions, payload_size))}
    with OwnBroker("all", settings, directory) as broker:
        admin = Admin.connect(broker.host, broker.port, broker.credentials)
        per_partition = rows // partitions
        say(f"sending {rows:,} messages of {payload_size} B to {partitions} partitions")
        fill(admin, partitions, per_partition, payload_size)
        with own_session("local[2]", config=QUIET) as spark:
            spark.dataSource.register(yardsticks.TupleSource)
            spark.dataSource.register(yardsticks.CountingSink)
            options = options_of(broker.host, broker.port, broker.credentials)
            expected = expected_sums(partitions, per_partition, payload_size)
            frames = sources_of(spark, options, partitions, per_partition, broker.data, directory)
            check_rows(frames, expected)
            cases = cases_of(frames, options, admin, partitions)
            times = times_of(cases, warm_ups, runs, say)
            latencies = measure_latencies(
                spark, admin, options, directory, 2 * warm_ups, samples, say
            )
        admin.close()
    return SparkFigures.of(times, rows, latencies)


def fill(admin: Admin, partitions: int, rows: int, payload_size: int) -> None:
    """Creates the stream and sends the rows that all cases read."""
    make_stream(admin, STREAM, partitions)
    chance = random.Random(SEED)
    for partition in range(partitions):
        for first in range(0, rows, BATCH):
            count = min(BATCH, rows - first)
            send(admin, STREAM, partition, [chance.randbytes(payload_size) for _ in range(count)])


def send(admin: Admin, stream: str, partition: int, payloads: list[bytes]) -> None:
    """Sends one batch to a partition."""
    messages = [Message(payload) for payload in payloads]
    body = encode_send_messages(stream, TOPIC, PartitionId(partition), messages)
    admin.send_raw(encode_request(Code.SEND_MESSAGES, body))


def options_of(host: str, port: int, credentials: Credentials) -> dict[str, str]:
    """Returns the options of the format `iggy` for the stream of the bench."""
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
    tuples = spark.read.format(yardsticks.TUPLES).options(
        **options, partitions=str(partitions), rows=str(rows)
    )
    segments = {"transport": "segments", "dataDir": str(data)}
    return {
        TUPLES: tuples.load(),
        TCP: source,
        SEGMENTS: spark.read.format("iggy").options(**options, **segments).load(),
        PARQUET: spark.read.parquet(parquet),
    }


def expected_sums(partitions: int, rows: int, payload_size: int) -> tuple[int, ...]:
    """Of what fill() sends: the rows, their offsets, the bytes of their payloads."""
    count = partitions * rows
    return count, partitions * rows * (rows - 1) // 2, count * payload_size


def check_rows(frames: dict[str, DataFrame], expected: tuple[int, ...]) -> None:
    """Raises BenchFailed unless every frame has exactly the expected rows."""
    for name, frame in frames.items():
        sums = frame.selectExpr("count(*)", "sum(offset)", "sum(length(payload))")
        found = tuple(sums.collect()[0])
        if found != expected:
            raise BenchFailed(f"{name}: rows, offsets and bytes are {found}, not {expected}")


def cases_of(
    frames: dict[str, DataFrame], options: dict[str, str], admin: Admin, partitions: int
) -> dict[str, Case]:
    """Returns the cases by name: reads of all frames, and the sinks."""

    def discard(frame: DataFrame) -> Case:
        return Case(lambda: frame.write.format("noop").mode("overwrite").save())

    def sink(name: str, **more: str) -> Callable[[], None]:
        chosen = frames[PARQUET].select("payload")
        return lambda: chosen.write.format(name).mode("append").options(**more).save()

    return {
        **{name: discard(frame) for name, frame in frames.items()},
        COUNTING: Case(sink(yardsticks.COUNTING)),
        SINK: Case(
            sink("iggy", **{**options, "stream": TARGET}),
            prepare=lambda: make_stream(admin, TARGET, partitions),
        ),
    }


def times_of(
    cases: dict[str, Case], warm_ups: int, runs: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Seconds of each run; the cases take turns, so that all meet the same disturbances."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(1 - warm_ups, runs + 1):
        say(f"run {number} of {runs}" if number > 0 else "warming up")
        for name, case in cases.items():
            case.prepare()
            time.sleep(SETTLE_S)
            started = time.perf_counter()
            case.run()
            if number > 0:
                found[name].append(time.perf_counter() - started)
    return found


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
