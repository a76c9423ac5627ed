"""Another life of a partition, between planning and the last row: decided, and with a broker."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from borzoi.client import BorzoiClient
from borzoi.client.address import Login, ServerAddress
from borzoi.protocol.batch import sent_index
from borzoi.protocol.message import Message
from borzoi.protocol.responses.polled import (
    POLLED_HEADER,
    PolledMessages,
    encode_polled_messages,
)
from borzoi.spark import witness
from borzoi.spark.batch_reader import IggyReader
from borzoi.spark.failures import DataLoss
from borzoi.spark.option_table import read_options
from borzoi.spark.options import Access
from borzoi.spark.polling import Polling, Run
from borzoi.spark.positions import Range, RowTime
from borzoi.spark.rows import RangeTask
from borzoi.spark.witness import Proof, proof_by, proof_of, proved, time_of
from tests.spark.conftest import STREAM, SparkBroker

ACCESS = Access(ServerAddress("h", 1, Login("u", "p")), None, 1.0, 0, 0.0)
SCHEMA = StructType([StructField("offset", LongType()), StructField("payload", BinaryType())])


class Life(NamedTuple):
    """One life of a partition: its first offset, and when its rows were written."""

    name: bytes
    first: int
    times: tuple[int, ...]

    def run(self, begin: int, count: int) -> Run | None:
        end = min(begin + count, self.first + len(self.times))
        if begin < self.first or begin >= end:
            return None
        messages = tuple(
            Message(self.name * (at % 3 + 1), offset=at, timestamp=self.times[at - self.first])
            for at in range(begin, end)
        )
        answer = encode_polled_messages(PolledMessages(0, end - 1, messages))
        raw = memoryview(answer)[POLLED_HEADER.size :]
        return Run(raw, sent_index(raw, len(messages)), len(messages), begin)

    def row(self, offset: int) -> RowTime | None:
        """The first one at the offset or behind it, as a broker answers."""
        at = max(offset, self.first)
        if at >= self.first + len(self.times):
            return None
        return RowTime(at, self.times[at - self.first])

    def is_younger_than(self, other: "Life") -> bool:
        return bool(self.times) and min(self.times) > max(other.times)


def lives(name: bytes, count_min: int) -> st.SearchStrategy[Life]:
    # Clocks may be set back within a life and between two of them.
    times = st.lists(st.integers(1, 60), min_size=count_min, max_size=40)
    return st.builds(lambda found: Life(name, 0, tuple(found)), times)


class Change:
    """A partition whose life ends and another begins, before its run number `at`."""

    def __init__(self, old: Life, new: Life, at: int) -> None:
        self.now = old
        self.has_happened = False
        self._new, self._at = new, at

    def runs(self, begin: int, end: int, rows_max: int) -> Iterator[Run]:
        at = begin
        for number in range(40):
            if number == self._at:
                self.now, self.has_happened = self._new, True
            run = self.now.run(at, min(rows_max, end - at)) if at < end else None
            if run is None:
                return
            yield run
            at += run.message_count


@contextmanager
def log_lines() -> Iterator[list[str]]:
    """What the witness and the polling log meanwhile."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())  # type: ignore[method-assign]  # a list
    loggers = [logging.getLogger(f"borzoi.spark.{name}") for name in ("witness", "polling")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield logged
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@given(
    old=lives(b"old", 1),
    new=lives(b"new", 0),
    change_at=st.integers(0, 12),
    run_rows=st.integers(1, 9),
    fail=st.booleans(),
    data=st.data(),
)
def test_rows_of_another_life_are_never_taken_for_planned_ones(
    old: Life, new: Life, change_at: int, run_rows: int, fail: bool, data: st.DataObject
) -> None:
    planned_end = len(old.times)
    begin = data.draw(st.integers(0, planned_end - 1))
    end = data.draw(st.integers(begin + 1, planned_end))
    row = RowTime(planned_end - 1, old.times[-1])
    if new.row(row.offset) == row:
        return  # the same microsecond at the same offset: they look the same
    change = Change(old, new, change_at)
    given_away: list[bytes] = []
    how = Polling(ACCESS, "s", 10, fail)
    failed = False
    with pytest.MonkeyPatch.context() as patch, log_lines() as logged:
        patch.setattr(witness, "first_row", lambda _how, wanted: change.now.row(wanted.begin))
        try:
            runs = change.runs(begin, end, run_rows)
            for run in proved(runs, Range("t", 0, begin, end, row), how):
                given_away.append(change.now.name)
                assert run.message_count
        except DataLoss:
            failed = True
    assert fail or not failed
    if not change.has_happened:
        assert not failed, "clocks alone decide nothing"
        assert not logged
    if new.name in given_away:
        assert failed if fail else logged
    if new.is_younger_than(old) or not new.times:
        assert failed or new.name not in given_away, "it is noticed before a row is given away"


def test_what_rows_prove() -> None:
    run = Life(b"x", 5, (10, 11, 9)).run(5, 3)
    assert run is not None
    assert [time_of(run, number) for number in range(3)] == [10, 11, 9]
    assert proof_of(run, RowTime(6, 11)) is Proof.SAME
    assert proof_of(run, RowTime(6, 12)) is Proof.OTHER
    assert proof_of(run, RowTime(20, 9)) is Proof.OPEN
    assert proof_of(run, RowTime(20, 8)) is Proof.DOUBTFUL


@pytest.mark.parametrize(
    ("found", "proof"),
    [
        (RowTime(9, 5), Proof.SAME),
        (RowTime(9, 6), Proof.OTHER),
        (RowTime(12, 6), Proof.OPEN),
        (None, Proof.OTHER),
    ],
)
def test_what_a_witness_proves(found: RowTime | None, proof: Proof) -> None:
    assert proof_by(found, RowTime(9, 5)) is proof


class Planned:
    """A topic with rows 0 to 99, a read of it that was planned, and what happens meanwhile."""

    def __init__(self, broker: SparkBroker, name: str, **options: str) -> None:
        self._broker, self._name = broker, name
        raw = {**broker.options, "topic": name, "pollCount": "10", **options}
        self._reader = IggyReader(read_options(raw, streaming=False), SCHEMA)
        self.tasks = self._reader.partitions()

    def read(self, task: InputPartition) -> Iterator[tuple[int, bytes]]:
        for batch in self._reader.read(task):
            table = pa.Table.from_batches([batch])
            yield from zip(*(column.to_pylist() for column in table.columns), strict=True)

    def purge(self) -> None:
        async def purge(client: BorzoiClient) -> None:
            await client.purge_topic(STREAM, self._name)

        self._broker.call(purge)

    def recreate(self) -> None:
        async def recreate(client: BorzoiClient) -> None:
            await client.delete_topic(STREAM, self._name)
            await client.create_topic(STREAM, self._name, partitions_count=1)

        self._broker.call(recreate)

    def grow(self, count: int = 100) -> None:
        fill(self._broker, self._name, count, "new")


def fill(broker: SparkBroker, topic: str, count: int, text: str) -> None:
    """In tens: a segment is only full between two of them."""

    async def fill(client: BorzoiClient) -> None:
        for first in range(0, count, 10):
            rows = [f"{text} {first + at}".ljust(300) for at in range(10)]
            await client.send_messages(STREAM, topic, rows, partition_id=0)

    broker.call(fill)


@pytest.fixture(params=["tcp", "segments"])
def transport(request: pytest.FixtureRequest, rolling: SparkBroker) -> dict[str, str]:
    if request.param == "tcp":
        return {"transport": "tcp"}
    return {"transport": "segments", "dataDir": str(rolling.process.data)}


@pytest.fixture
def topic(rolling: SparkBroker) -> str:
    name = rolling.topic(1)
    fill(rolling, name, 100, "old")
    return name


@pytest.mark.parametrize("change", ["purge", "recreate"])
def test_a_partition_whose_life_ended_before_the_task(
    rolling: SparkBroker,
    topic: str,
    transport: dict[str, str],
    change: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    strict = Planned(rolling, topic, **transport)
    lenient = Planned(rolling, topic, failOnDataLoss="false", **transport)
    split = Planned(rolling, topic, minPartitions="2", minRowsPerTask="0", **transport)
    assert [len(one.tasks) for one in (strict, lenient, split)] == [1, 1, 2]
    assert len(list(strict.read(strict.tasks[0]))) == 100
    getattr(strict, change)()
    strict.grow(120)
    for task in [*strict.tasks, *split.tasks]:
        with pytest.raises(DataLoss, match="purged, or created again, since they were planned"):
            list(strict.read(task))
    assert list(lenient.read(lenient.tasks[0])) == [], "the next plan begins with its first row"
    assert "IGGY_DATA_LOSS: rows 0 to 99" in caplog.text
    again = Planned(rolling, topic, **transport)
    assert len(list(again.read(again.tasks[0]))) == 120


def test_a_partition_whose_life_ends_within_the_task(
    rolling: SparkBroker, topic: str, transport: dict[str, str]
) -> None:
    planned = Planned(rolling, topic, **transport)
    rows = planned.read(planned.tasks[0])
    first = next(rows)
    planned.purge()
    planned.grow()
    with pytest.raises(DataLoss, match="since they were planned"):
        list(rows)
    assert first == (0, b"old 0".ljust(300))


def test_files_that_are_held_are_still_the_ones_that_were_planned(
    rolling: SparkBroker, topic: str
) -> None:
    files = {"transport": "segments", "dataDir": str(rolling.process.data)}
    planned = Planned(rolling, topic, endingOffsets='{"0": 30}', **files)
    rows = planned.read(planned.tasks[0])
    first = next(rows)
    planned.purge()
    planned.grow()
    found = list(chain([first], rows))
    assert found == [(at, f"old {at}".encode().ljust(300)) for at in range(30)]


def test_planning_costs_one_row_per_range(rolling: SparkBroker, topic: str) -> None:
    planned = Planned(rolling, topic, minPartitions="3", minRowsPerTask="0")
    tasks = [task for task in planned.tasks if isinstance(task, RangeTask)]
    witnesses = {one.witness for task in tasks for one in task.ranges}
    assert len(tasks) == 3
    assert len(witnesses) == 1
    assert {one.offset for one in witnesses if one is not None} == {99}
