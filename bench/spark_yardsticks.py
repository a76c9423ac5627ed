"""What the format `iggy` is held to in Spark: the same rows by other ways.

Rows through tuples are what a source without Arrow would do; an Arrow writer that only counts is
the least a sink can cost.
"""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

TUPLES: Final = "iggy-tuples"
COUNTING: Final = "iggy-counting"


class TupleSource(DataSource):
    """The same rows, one tuple at a time, over the same wire."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return TUPLES

    def schema(self) -> str:
        """Returns the columns as DDL."""
        return (
            "stream string, topic string, partition int, offset bigint, timestamp long,"
            " origin_timestamp long, id binary, payload binary"
        )

    def reader(self, schema: Any) -> "TupleReader":
        """Returns the reader of a batch."""
        return TupleReader(dict(self.options))


class TupleReader(DataSourceReader):
    """Reads the rows without Arrow."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """Returns one task per partition."""
        return [InputPartition(number) for number in range(int(self._options["partitions"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Returns the rows of a partition as tuples. Runs on an executor."""
        from borzoi.protocol.message import decode_messages
        from borzoi.spark.option_table import read_options
        from borzoi.spark.polling import Polling, runs_of
        from borzoi.spark.positions import Range

        names = ("server", "username", "password", "stream", "topic")
        options = read_options({name: self._options[name] for name in names}, streaming=False)
        stream, topic = self._options["stream"], self._options["topic"]
        wanted = Range(topic, partition.value, 0, int(self._options["rows"]))
        polling = Polling(options.access, stream, options.poll_count, fail_on_data_loss=True)
        for run in runs_of(polling, wanted):
            for one in decode_messages(run.messages):
                identity = one.id.to_bytes(16, "big")
                yield (
                    *(stream, topic, partition.value, one.offset, one.timestamp),
                    *(one.origin_timestamp, identity, one.payload),
                )


class CountingSink(DataSource):
    """A sink that takes rows and does nothing with them."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return COUNTING

    def writer(self, schema: Any, overwrite: bool) -> "CountingWriter":
        """Returns the writer of a batch."""
        return CountingWriter()


class CountingWriter(DataSourceArrowWriter):
    """Looks at each batch of rows."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Takes all rows of a task. Runs on an executor."""
        for batch in iterator:
            batch.num_rows  # noqa: B018 - to have looked at it is all this sink does
        return WriterCommitMessage()
