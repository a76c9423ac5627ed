"""spark.read.format("iggy"): the rows between two boundaries, planned once.

Boundaries that a partition does not hold (any more) are a loss of data; without failOnDataLoss
what is there is read.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from borzoi.spark.broker import US_PER_S, BrokerView
from borzoi.spark.columns import chosen_columns
from borzoi.spark.failures import DataLoss, OffsetOutOfRange
from borzoi.spark.options import ReadOptions
from borzoi.spark.positions import Known, Partition, Range, out_of_range, within, witnessed
from borzoi.spark.rows import RangeTask, RowReading
from borzoi.spark.splitting import plan_tasks

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

LOG: Final = logging.getLogger(__name__)


class IggyReader(DataSourceReader):
    """A batch read: planned on the driver, read by the executors."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        columns = chosen_columns(schema, options.headers_as_structs)
        self._options = options
        self._reading = RowReading.of(options, columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the tasks of the read; raises OffsetOutOfRange if rows are missing."""
        options = self._options
        view = BrokerView(options.access, options.topics, options.metadata_ttl_s)
        known = view.known()
        now_us = time.time_ns() * US_PER_S // 1_000_000_000
        begins = view.offsets(options.start, known, options.consumer, now_us)
        ends = view.offsets(options.end, known, options.consumer, now_us)
        losses = out_of_range(begins, known) + out_of_range(ends, known)
        if losses and options.fail_on_data_loss:
            raise OffsetOutOfRange(
                f"{'; '.join(losses)}. With failOnDataLoss=false what is there is read"
            )
        for loss in losses:
            LOG.warning("%s: %s", DataLoss.code, loss)
        ranges = bounded(begins, ends, known)
        last_rows = [(Partition(one.topic, one.partition), one.end - 1) for one in ranges]
        tasks = plan_tasks(witnessed(ranges, view.times(last_rows)), options.tasks)
        return [RangeTask(view.ids, task) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Returns the rows of one task. Runs on an executor."""
        return self._reading.rows(partition)


def bounded(
    begins: Mapping[Partition, int], ends: Mapping[Partition, int], known: Mapping[Partition, Known]
) -> list[Range]:
    """What of the boundaries can be read."""
    begins, ends = within(begins, known), within(ends, known)
    return [
        Range(partition.topic, partition.number, begins[partition], ends[partition])
        for partition in sorted(known)
        if begins[partition] < ends[partition]
    ]
