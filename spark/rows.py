"""What a task does: its ranges, one after the other, as Arrow batches.

Travels to executors inside a pickle, so it holds values only; connections are found there
(wire.py). The package has to be importable there as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from borzoi.spark.columns import Column, arrow_schema
from borzoi.spark.freed_memory import keep_freed_memory
from borzoi.spark.options import ReadOptions, SegmentFiles
from borzoi.spark.polling import Polling, Run, runs_of
from borzoi.spark.positions import Range, StreamIds
from borzoi.spark.witness import proved

if TYPE_CHECKING:
    import pyarrow as pa


class RangeTask(InputPartition):
    """Ranges that one task reads."""

    def __init__(self, stream: StreamIds, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.stream = stream
        self.ranges = tuple(ranges)


@dataclass(frozen=True)
class RowReading:
    """How rows are read, in batches and in streams."""

    polling: Polling
    segments: SegmentFiles | None
    columns: tuple[Column, ...]
    headers_as_structs: bool

    @classmethod
    def of(cls, options: ReadOptions, columns: Sequence[Column]) -> "RowReading":
        """Returns the reading that the options describe."""
        return cls(
            polling=Polling(
                options.access,
                options.topics.stream,
                options.poll_count,
                options.fail_on_data_loss,
                options.verify_checksums,
            ),
            segments=options.segments,
            columns=tuple(columns),
            headers_as_structs=options.headers_as_structs,
        )

    def rows(self, task: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        """Returns the rows of a task as Arrow batches. Runs on an executor."""
        # Spark makes up a partition of its own where none was planned.
        if isinstance(task, RangeTask):
            from borzoi.spark.decode import MessageOrigin, decode_run

            keep_freed_memory()
            schema = arrow_schema(self.columns, self.headers_as_structs)
            for one in task.ranges:
                place = MessageOrigin(task.stream.name, one.topic, one.partition)
                for run in proved(self._runs(task.stream, one), one, self.polling):
                    yield from decode_run(run, place, schema)

    def _runs(self, stream: StreamIds, wanted: Range) -> Iterator[Run]:
        topic_id = stream.topics.get(wanted.topic)
        if self.segments is None or topic_id is None:
            return runs_of(self.polling, wanted)
        from borzoi.spark.segments import partition_directory, runs_with_segments

        directory = partition_directory(self.segments, stream.id, topic_id, wanted.partition)
        return runs_with_segments(self.polling, wanted, self.segments, directory)
