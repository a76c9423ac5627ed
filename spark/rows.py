"""What a task does: its ranges, one after the other, as Arrow batches.

Travels to executors inside a pickle, so it holds values only; connections are found there
(wire.py). The package has to be importable there as well.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from borzoi.protocol.identifiers import Identifier
from borzoi.spark.columns import Column, arrow_schema
from borzoi.spark.options import Access, ReadOptions
from borzoi.spark.positions import Range

if TYPE_CHECKING:
    import pyarrow as pa


class RangeTask(InputPartition):
    """Ranges that one task reads."""

    def __init__(self, stream_name: str, ranges: Sequence[Range]) -> None:
        super().__init__(None)
        self.stream_name = stream_name
        self.ranges = tuple(ranges)


@dataclass(frozen=True)
class RowReading:
    """How rows are read, whoever plans it."""

    access: Access
    stream: Identifier
    columns: tuple[Column, ...]
    headers_as_structs: bool
    poll_count: int
    fail_on_data_loss: bool
    verify_checksums: bool

    @classmethod
    def of(cls, options: ReadOptions, columns: Sequence[Column]) -> "RowReading":
        return cls(
            access=options.access,
            stream=options.topics.stream,
            columns=tuple(columns),
            headers_as_structs=options.headers_as_structs,
            poll_count=options.poll_count,
            fail_on_data_loss=options.fail_on_data_loss,
            verify_checksums=options.verify_checksums,
        )

    def rows(self, task: InputPartition | None) -> "Iterator[pa.RecordBatch]":
        # Spark makes up a partition of its own where none was planned.
        if isinstance(task, RangeTask):
            for one in task.ranges:
                yield from self._range(task.stream_name, one)

    def _range(self, stream_name: str, wanted: Range) -> "Iterator[pa.RecordBatch]":
        from borzoi.spark.decode import Place, decode_run
        from borzoi.spark.polling import runs_of

        schema = arrow_schema(self.columns, self.headers_as_structs)
        place = Place(stream_name, wanted.topic, wanted.partition)
        runs = runs_of(
            self.access,
            self.stream,
            wanted,
            poll_count=self.poll_count,
            fail_on_data_loss=self.fail_on_data_loss,
            verify_checksums=self.verify_checksums,
        )
        for run in runs:
            yield from decode_run(run, place, schema)
