"""df.write.format("iggy") and df.writeStream.format("iggy"): rows become messages.

A message that was sent cannot be taken back, so a task that fails half-way and is repeated sends
its rows again: at least once. Streams give every message an id that follows from query, batch,
task, row number and rows. In a batch write the option writeId stands for query and batch. A
repeated task sends the same ids to the same partitions. A broker with message deduplication drops
them if its window covers the rows of one batch in one partition. That is effectively once, as long
as the rows of a task come in the same order each time and the topic has as many partitions. Behind
a shuffle they may come in another order, and on more cores a batch may have more tasks. Then it is
at least once, and no row is lost.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from borzoi.protocol import commands
from borzoi.protocol.errors import StreamIdNotFound, TopicIdNotFound
from borzoi.protocol.identifiers import Identifier, PartitionId
from borzoi.protocol.responses import TopicDetails
from borzoi.protocol.send_messages import PreparedBatch, encode_prepared_messages
from borzoi.spark.failures import InvalidRow, InvalidSchema, NotFound
from borzoi.spark.freed_memory import keep_freed_memory
from borzoi.spark.options import WriteOptions
from borzoi.spark.sending import Sending
from borzoi.spark.wire import ask

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from borzoi.spark.encode import Numbers

NS_PER_US: Final = 1_000
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"
NO_MESSAGES: Final = b""
TYPES: Final = {
    "payload": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "key": ("binary", "string"),
    "id": ("binary",),
    "origin_timestamp": ("timestamp",),
    "headers": (
        "map<string,binary>",
        "map<string,string>",
        "array<struct<key:binary,key_kind:int,value:binary,value_kind:int>>",
    ),
}


@dataclass
class Written(WriterCommitMessage):
    """What one task sent."""

    message_count: int


class IggyWriter(DataSourceArrowWriter):
    """A batch write: each task sends its rows and waits for the answers."""

    def __init__(self, options: WriteOptions, schema: "StructType", overwrite: bool) -> None:
        check_columns(schema, has_topic=options.topic is not None)
        if overwrite:
            raise InvalidSchema("messages cannot be overwritten; use mode append")
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Sends the rows of one task.

        With a write id, messages of a repeated task have equal ids.
        """
        write_id = self._options.write_id
        seed = None if write_id is None else (write_id,)
        return send_all(self._options, iterator, seed, _context().partitionId())


class IggyStreamWriter(DataSourceStreamArrowWriter):
    """A streaming write: each task sends its rows of a batch."""

    def __init__(self, options: WriteOptions, schema: "StructType") -> None:
        check_columns(schema, has_topic=options.topic is not None)
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """Sends the rows of one task; query and batch make the ids of the messages."""
        context = _context()
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        # Nothing promises these properties. Without them ids are the broker's: at least once.
        seed = (query, batch) if query and batch else None
        return send_all(self._options, iterator, seed, context.partitionId())


def check_columns(schema: "StructType", *, has_topic: bool) -> None:
    """Raises InvalidSchema unless the columns are those of messages."""
    names = schema.names
    for field in schema.fields:
        found, known = field.dataType.simpleString(), TYPES.get(field.name)
        if known is None:
            raise InvalidSchema(
                f"column {field.name} means nothing here; {', '.join(TYPES)} do. Select the others"
            )
        if found not in known:
            raise InvalidSchema(f"column {field.name} is {found}; {' or '.join(known)} is needed")
    if "payload" not in names:
        raise InvalidSchema("there is no column payload")
    if has_topic == ("topic" in names):
        raise InvalidSchema("the topic is named by the option topic or by the column, not both")


def send_all(
    options: WriteOptions,
    batches: "Iterator[pa.RecordBatch]",
    seed: tuple[object, ...] | None,
    task: int,
) -> Written:
    """The rows of one task; the same ones have the same seed."""
    from borzoi.spark.encode import chunks_of, first_id, first_turn

    keep_freed_memory()
    # Without a seed there is no retry that could be recognised, yet ids are unique.
    source = seed if seed is not None else (time.time_ns(), os.urandom(8).hex())
    turn = first_turn(seed, task)
    counts = PartitionCounts(options)
    count = 0
    with Sending(options.access) as sending:
        for batch in batches:
            if len(batch) == 0:
                continue
            now_us = time.time_ns() // NS_PER_US
            for topic, rows, numbers in _by_topic(batch, options.topic, count):
                first = first_id(*source, task, topic)
                for chunk in chunks_of(rows, counts[topic], first, numbers, now_us, turn):
                    target = encode_prepared_messages(
                        options.stream,
                        topic,
                        PartitionId(chunk.partition),
                        PreparedBatch(chunk.message_count, NO_MESSAGES),
                    )
                    sending.send(target, chunk.entries, chunk.messages)
            count += len(batch)
    return Written(count)


class PartitionCounts(dict[Identifier, int]):
    """How many partitions topics have; each is asked for once."""

    def __init__(self, options: WriteOptions) -> None:
        super().__init__()
        self._options = options

    def __missing__(self, topic: Identifier) -> int:
        try:
            details: TopicDetails | None = ask(
                self._options.access, commands.GetTopic(self._options.stream, topic)
            )
        except (StreamIdNotFound, TopicIdNotFound):
            details = None
        if details is None or not details.partitions:
            raise NotFound(f"topic {topic} of stream {self._options.stream}, or its partitions")
        self[topic] = len(details.partitions)
        return self[topic]


def _by_topic(
    batch: "pa.RecordBatch", topic: Identifier | None, first_number: int
) -> "Iterator[tuple[Identifier, pa.RecordBatch, Numbers]]":
    """The rows of each topic, with their numbers within the task."""
    import numpy as np

    numbers = np.arange(first_number, first_number + len(batch))
    if topic is not None:
        yield topic, batch, numbers
        return
    import pyarrow.compute as pc

    column = batch.column("topic")
    if column.null_count:
        raise InvalidRow("a topic is null")
    for name in sorted(column.unique().to_pylist()):
        is_its = pc.equal(column, name)
        yield name, batch.filter(is_its), numbers[is_its.to_numpy(zero_copy_only=False)]


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "writers run in tasks"
    return context
