"""spark.readStream.format("iggy"): batch after batch, planned on the driver.

One object per query lives in a Python process of the driver and plans. Copies of it read, on the
executors, and know nothing of what the planning one learnt later. How far the query has come is in
Spark's checkpoint alone. The broker gets a copy after each batch, for tools that show lags. The
copy is never read back, except by startingOffsets=stored in a query that is new.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    SupportsTriggerAvailableNow,
)

from borzoi.protocol.errors import BrokerError
from borzoi.spark.admission import admit, capped, holds_back
from borzoi.spark.broker import US_PER_S, BrokerView
from borzoi.spark.columns import chosen_columns
from borzoi.spark.data_loss import judge, rows_to_compare
from borzoi.spark.failures import DataLoss, IggyError, OffsetOutOfRange
from borzoi.spark.options import ReadOptions
from borzoi.spark.positions import (
    Known,
    Partition,
    Positions,
    advanced,
    beginning,
    from_json,
    held,
    last_rows,
    out_of_range,
    ranges_between,
    stamped,
    to_json,
    within,
)
from borzoi.spark.rows import RangeTask, RowReading
from borzoi.spark.splitting import plan_tasks
from borzoi.spark.wire import close_idle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

LOG: Final = logging.getLogger(__name__)
LOOKS_MAX: Final = 3  # at a broker where rows go away while a batch is planned


class IggyStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming read: planned batch by batch on the driver, read by the executors."""

    def __init__(self, options: ReadOptions, schema: "StructType") -> None:
        columns = chosen_columns(schema, options.headers_as_structs)
        self._options = options
        self._reading = RowReading.of(options, columns)
        self._planning: _Planning | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planning": None}  # the driver's own

    def initialOffset(self) -> dict[str, Any]:
        """Returns the positions at which a new query begins."""
        return to_json(self._planner().initial())

    def prepareForTriggerAvailableNow(self) -> None:
        """Fixes the end: rows that come later are not read."""
        self._planner().freeze()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Returns no limit; the options bound the batches."""
        # The options say it all; limits cannot be combined in Spark's words.
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Returns the end of the next batch; commits `start`, which is done."""
        planner = self._planner()
        if self._options.commit_offsets:
            # All before `start` is done. commit() says so one batch later, or never.
            planner.store(from_json(start))
        return to_json(planner.next_end(from_json(start)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Returns the end of all partitions, for Spark's progress report."""
        return self._planner().latest()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Returns the tasks of a batch."""
        ranges = ranges_between(from_json(start), from_json(end))
        tasks = plan_tasks(ranges, self._options.tasks)
        ids = self._planner().view.ids
        return [RangeTask(ids, task) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Returns the rows of one task. Runs on an executor."""
        return self._reading.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Commits the end of a batch, if the options ask for it."""
        if self._options.commit_offsets:
            self._planner().store(from_json(end))

    def stop(self) -> None:
        """Closes the connections that are kept for reuse."""
        close_idle()

    def _planner(self) -> "_Planning":
        if self._planning is None:
            self._planning = _Planning(self._options)
        return self._planning


class _Planning:
    """The driver's part: what it saw last, and when it let a batch through."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self.view = BrokerView(options.access, options.topics, options.metadata_ttl_s)
        self._initial: Positions | None = None
        self._known: dict[Partition, Known] = {}
        self._targets: dict[Partition, int] | None = None
        self._last_batch_s = time.monotonic()
        self._stored: dict[Partition, int] = {}

    def initial(self) -> Positions:
        """Asked for twice by Spark, and `latest` must not move in between."""
        if self._initial is None:
            known = self.view.known()
            now_us = time.time_ns() * US_PER_S // 1_000_000_000
            offsets = self.view.offsets(self._options.start, known, self._options.consumer, now_us)
            losses = out_of_range(offsets, known)
            if losses and self._options.fail_on_data_loss:
                raise OffsetOutOfRange(
                    f"{'; '.join(losses)}. With failOnDataLoss=false the nearest row is taken"
                )
            for loss in losses:
                LOG.warning("%s: %s", OffsetOutOfRange.code, loss)
            positions = beginning(within(offsets, known), known)
            self._initial = stamped(positions, self.view.times(last_rows({}, positions)))
        return self._initial

    def freeze(self) -> None:
        """Nothing that comes from now on is read in this run."""
        self._targets = {
            partition: one.next for partition, one in self.view.known(required=False).items()
        }

    def next_end(self, start: Positions) -> Positions:
        """Where the batch that begins at `start` ends; `start` itself if there is none."""
        for _ in range(LOOKS_MAX):
            known = self._known = self.view.known(required=False)
            begins, _ = judge(start, known, {})
            end = self._limited(start, begins, known)
            new_rows = held(last_rows(start, end), known)
            old_rows = rows_to_compare(start, known)
            # In this order: if the rows that were read last are the same afterwards, the new ends
            # are of the same life. Tasks compare what they read with them.
            ends, times = self.view.times(new_rows), self.view.times(old_rows)
            if len(ends) == len(new_rows) and len(times) == len(old_rows):
                break  # nothing went away meanwhile
        really, losses = judge(start, known, times)
        self._report(losses)
        if really != begins:
            end = self._limited(start, really, known)
            ends = self.view.times(held(last_rows(start, end), known))
        if end != start:
            self._last_batch_s = time.monotonic()
        return stamped(end, ends)

    def _limited(
        self, start: Positions, begins: Mapping[Partition, int], known: Mapping[Partition, Known]
    ) -> Positions:
        """The end of the next batch by the limits; `start` where it is too early for one."""
        limits = self._options.limits
        readable = capped(known, self._targets)
        begins = {partition: begin for partition, begin in begins.items() if partition in readable}
        waiting = sum(
            max(0, readable[partition].next - begin) for partition, begin in begins.items()
        )
        if self._targets is None and waiting:
            waited_s = time.monotonic() - self._last_batch_s
            if holds_back(waiting, limits.rows_min, waited_s, limits.delay_max_s):
                return start
        ends = admit(begins, readable, limits.rows_max, limits.bytes_max)
        return advanced(start, begins, ends, known)

    def latest(self) -> dict[str, Any] | None:
        """How far the broker was when the last batch was planned, for progress reports."""
        if not self._known:
            return None
        ends = {partition: one.next for partition, one in self._known.items()}
        return to_json(beginning(ends, self._known))

    def store(self, end: Positions) -> None:
        """Commits the offsets for the consumer. A failure is logged: no query depends on it."""
        assert self._options.consumer is not None
        offsets = {
            partition: position.next - 1
            for partition, position in end.items()
            if position.begin < position.next
        }
        changed = {
            partition: offset
            for partition, offset in offsets.items()
            if self._stored.get(partition) != offset
        }
        try:
            self.view.store(self._options.consumer, changed)
        except (BrokerError, IggyError) as error:
            LOG.warning("the offsets of %s were not stored: %s", self._options.consumer, error)
            return
        self._stored.update(changed)

    def _report(self, losses: list[str]) -> None:
        if losses and self._options.fail_on_data_loss:
            raise DataLoss(
                f"{'; '.join(losses)}. With failOnDataLoss=false the query goes on with what"
                " there is"
            )
        for loss in losses:
            LOG.warning("%s: %s", DataLoss.code, loss)
