"""`borzoi pipeline`: whole ingestions, from a topic into files and back, with defaults that work.

    borzoi pipeline to-files orders/events --to lake/events
    borzoi pipeline to-topic orders/events new/*.json

Into files it is a structured stream with a checkpoint beside the files. Stopped, killed or
restarted, every message is in the files exactly once. That holds for readers that follow Spark's
list of files (Spark itself does). Files are partitioned by topic and day. Back into a topic, rows
are sent at least once, with ids from the names and times of the files. So a broker with
deduplication drops what a repetition sends again.
"""

import json
import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from borzoi.client.cli.parameters import STREAM_AND_TOPIC
from borzoi.protocol.identifiers import Identifier
from borzoi.spark.failures import InvalidOption
from borzoi.terminal import in_json, json_option, say, say_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HELP: Final = {"help_option_names": ["-h", "--help"]}
ENVIRONMENT: Final = "BORZOI_"
CHECKPOINT: Final = "_checkpoint"  # Spark does not read what begins with an underscore
CHECKPOINT_ID: Final = "metadata"  # in every checkpoint, from the start of its query on
SINK_LOG: Final = "_spark_metadata"
HIDDEN: Final = ("_", ".")
LOOK_INTERVAL_S: Final = 1
OUR_CODE: Final = re.compile(r"(IGGY_\w+: .*)")
OUR_CLASS: Final = re.compile(r"^borzoi\.(?:\w+\.)*(\w+: .*)")  # what a broker may answer
FORMATS: Final = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv"}


@dataclass(frozen=True)
class BrokerTopic:
    """The broker, as options of the format."""

    options: dict[str, str]
    stream: Identifier
    topic: Identifier


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where a topic is, given to the command as `place`; and `master`."""

    @wraps(command)
    def function(
        topic: tuple[Identifier, Identifier],
        server: str,
        username: str,
        password: str,
        token: str | None,
        **others: Any,
    ) -> Any:
        return command(place=place_of(topic, server, username, password, token), **others)

    for option in (
        json_option,
        click.option("--master", default="local[*]", show_default=True, help="Spark's master."),
        click.option("--token", envvar=f"{ENVIRONMENT}TOKEN", help="A personal access token."),
        click.option("--password", envvar=f"{ENVIRONMENT}PASSWORD", default="iggy"),
        click.option("--username", envvar=f"{ENVIRONMENT}USERNAME", default="iggy"),
        click.option(
            "--server",
            envvar=f"{ENVIRONMENT}SERVER",
            default="127.0.0.1:8090",
            show_default=True,
            help="host:port or iggy://username:password@host:port.",
        ),
        click.argument("topic", type=STREAM_AND_TOPIC, metavar="STREAM/TOPIC"),
    ):
        function = option(function)
    return function


def place_of(
    topic: tuple[Identifier, Identifier],
    server: str,
    username: str,
    password: str,
    token: str | None,
) -> BrokerTopic:
    """Returns the topic with the options that reach it; a token wins over a password."""
    options = {"server": server}
    if token is None and "://" not in server and (username, password) == ("iggy", "iggy"):
        say(
            f"borzoi: {server} with the account of a new broker, iggy:iggy; --username and"
            f" --password, --token or {ENVIRONMENT}SERVER name another",
            err=True,
        )
    if token is not None:
        options["token"] = token
    elif "://" not in server:
        options |= {"username": username, "password": password}
    return BrokerTopic(options, *topic)


@click.group(context_settings=HELP)
def pipeline() -> None:
    """Move messages between topics and files with Spark (needs the extra `spark`)."""


@pipeline.command("to-files", context_settings=HELP)
@place_options
@click.option("--to", "target", required=True, help="Directory for the files; may be remote.")
@click.option("--checkpoint", help=f"Default: {CHECKPOINT} in that directory.")
@click.option("--payload-schema", help='Of JSON payloads, such as "id bigint, name string".')
@click.option("--from", "start", default="earliest", show_default=True, help="startingOffsets.")
@click.option("--consumer", default="borzoi-pipeline", show_default=True, help="For the lag.")
@click.option("--forever", is_flag=True, help="Go on when all is read; Ctrl-C stops.")
@click.option("--interval", default="5 seconds", show_default=True, help="Between batches.")
@click.option("--rows-per-batch", type=click.IntRange(min=1), default=1_000_000, show_default=True)
@click.option("--ignore-data-loss", is_flag=True, help="Go on where messages were deleted.")
def to_files_command(place: BrokerTopic, master: str, **how: Any) -> None:
    """From a topic into Parquet, partitioned by topic and day, each message once."""
    tell = partial(say, err=in_json())
    count = with_spark(master, lambda spark: to_files(spark, place, say=tell, **how))
    if in_json():
        say_json(json.dumps({"rows": count, "target": how["target"]}))
    else:
        say(f"{count:,} rows written to {how['target']}")


@pipeline.command("to-topic", context_settings=HELP)
@place_options
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "json", "csv"]),
    help="Default: by the ending of the first file; parquet if it has none.",
)
@click.option("--key", help="Column whose values choose the partition.")
@click.option("--write-id", help="Names this write: repeated, it has the same message ids.")
def to_topic_command(place: BrokerTopic, master: str, **how: Any) -> None:
    """Parquet, CSV or JSON lines into a topic: rows become JSON, or their `payload` column."""
    count = with_spark(master, lambda spark: to_topic(spark, place, **how))
    if in_json():
        say_json(json.dumps({"messages": count, "stream": place.stream, "topic": place.topic}))
    else:
        say(f"{count:,} messages sent")


def with_spark(master: str, work: "Callable[[SparkSession], Any]") -> Any:
    """Run with a session; what went wrong is one line."""
    from borzoi.spark.spark_session import own_session

    try:
        with own_session(
            # A failure is printed at the end; Spark would log it three times, with its stack.
            master,
            app_name="borzoi pipeline",
            config={"spark.log.level": "FATAL"},
        ) as spark:
            return work(spark)
    except Exception as error:  # Spark's own are many, and wrap ours as text
        raise click.ClickException(error_line(error)) from error


def error_line(error: Exception) -> str:
    """Returns the line of our own error within Spark's text, else the first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    for ours in (OUR_CODE, OUR_CLASS):
        for line in lines:
            if found := ours.search(line):
                return found[1]
    return lines[0]


def to_files(
    spark: "SparkSession",
    place: BrokerTopic,
    *,
    target: str,
    say: Callable[[str], None],
    checkpoint: str | None = None,
    payload_schema: str | None = None,
    start: str = "earliest",
    consumer: str = "borzoi-pipeline",
    forever: bool = False,
    interval: str = "5 seconds",
    rows_per_batch: int = 1_000_000,
    ignore_data_loss: bool = False,
) -> int:
    """How many rows this run wrote."""
    checkpoint = checkpoint or f"{target.rstrip('/')}/{CHECKPOINT}"
    check_target(target, checkpoint)
    frame = (
        spark.readStream.format("iggy")
        .options(**place.options, stream=str(place.stream), topic=str(place.topic))
        .option("startingOffsets", start)
        .option("maxOffsetsPerTrigger", str(rows_per_batch))
        .option("failOnDataLoss", str(not ignore_data_loss).lower())
        .option("consumer", consumer)
        .load()
    )
    writer = (
        with_payload(frame, payload_schema)
        .writeStream.format("parquet")
        .partitionBy("topic", "date")
        .option("path", target)
        .option("checkpointLocation", checkpoint)
    )
    writer = (
        writer.trigger(processingTime=interval) if forever else writer.trigger(availableNow=True)
    )
    return follow(writer.start(), say)


def check_target(target: str, checkpoint: str) -> None:
    """Raises InvalidOption if Spark would leave out rows, or hide what is in the target.

    Only paths on this machine are checked.
    """
    if "://" in target or "://" in checkpoint:
        return
    try:
        names = os.listdir(target)
    except FileNotFoundError:
        return
    if SINK_LOG in names:
        # It counts batches, and takes those of a new checkpoint for ones that it has already.
        if not os.path.exists(os.path.join(checkpoint, CHECKPOINT_ID)):
            raise InvalidOption(
                f"{target} was written with another checkpoint than {checkpoint}, and Spark would"
                " leave rows out; give that checkpoint, or another directory"
            )
    elif any(not name.startswith(HIDDEN) for name in names):
        raise InvalidOption(
            f"{target} has files that no stream wrote, and Spark would not show them any more;"
            " give an empty directory"
        )


def with_payload(frame: "DataFrame", schema: str | None) -> "DataFrame":
    """With the day, and the fields of JSON payloads; what is no such JSON keeps its raw payload."""
    from pyspark.sql import functions as sql

    frame = frame.withColumn("date", sql.to_date("timestamp"))
    if schema is None:
        return frame
    parsed = sql.from_json(sql.col("payload").cast("string"), schema)
    return frame.withColumn("value", parsed)


def follow(query: "StreamingQuery", say: Callable[[str], None]) -> int:
    """Prints each batch until the query ends. Ctrl-C stops it, and the next run goes on."""
    from borzoi.spark.progress import summary

    rows: dict[int, int] = {}

    def tell() -> None:
        for progress in query.recentProgress:
            batch = progress["batchId"]
            if progress["numInputRows"] and batch not in rows:
                rows[batch] = progress["numInputRows"]
                say(summary(json.loads(progress.json)))

    with interrupt_noted() as interrupted:
        while not query.awaitTermination(LOOK_INTERVAL_S):
            tell()
            if interrupted.is_set():
                say("stopping")
                query.stop()
                break
    tell()
    return sum(rows.values())


@contextmanager
def interrupt_noted() -> Iterator[Event]:
    """Notes the first Ctrl-C in the event; the second one interrupts as usual.

    PySpark's own handler talks to the JVM, and fails when another call to it is under way, which
    here is always.
    """
    noted = Event()
    if current_thread() is not main_thread():
        yield noted  # signals are none of ours
        return

    def note(number: int, frame: FrameType | None) -> None:
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)


def to_topic(
    spark: "SparkSession",
    place: BrokerTopic,
    *,
    files: Sequence[str],
    file_format: str | None = None,
    key: str | None = None,
    write_id: str | None = None,
) -> int:
    """How many messages were sent."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    known = FORMATS.get(Path(files[0]).suffix.lower(), "parquet")
    reader = spark.read.format(file_format or known)
    if (file_format or known) == "csv":
        reader = reader.option("header", "true").option("inferSchema", "true")
    frame = reader.load(list(files))
    payload = (
        sql.col("payload")
        if "payload" in frame.columns
        else sql.to_json(sql.struct(*(sql.col(f"`{name}`") for name in frame.columns)))
    )
    chosen = [payload.alias("payload")]
    if key is not None:
        chosen.append(sql.col(f"`{key}`").cast("string").alias("key"))
    sent = Observation()
    rows = frame.select(*chosen).observe(sent, sql.count(sql.lit(1)).alias("count"))
    options = {**place.options, "stream": str(place.stream), "topic": str(place.topic)}
    options["writeId"] = write_id or write_id_of(files)
    rows.write.format("iggy").mode("append").options(**options).save()
    count: int = sent.get["count"]
    return count


def write_id_of(files: Sequence[str]) -> str:
    """The same for the same files; files of this machine that were changed are others."""
    named = []
    for file in sorted(files):
        try:
            status = os.stat(file)
        except OSError:  # a pattern, or somewhere else
            named.append(file)
        else:
            named.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(named)
