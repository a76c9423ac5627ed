"""spark.readStream: batches, limits, resuming, lost data, lag; through Spark and a real broker."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.errors import PySparkException

from borzoi.client import BorzoiClient
from borzoi.spark import ProgressListener, lag
from tests.broker import wait_for
from tests.spark.conftest import STREAM, Queries

pytestmark = pytest.mark.slow


def all_rows(*counts: int) -> list[tuple[int, int]]:
    return [(number, at) for number, rows in enumerate(counts) for at in range(rows)]


def test_batches_are_limited_and_a_restart_goes_on(
    queries: Queries, caplog: pytest.LogCaptureFixture
) -> None:
    topic = queries.broker.filled(60, 40)
    frame = queries.stream(
        topic, startingOffsets="earliest", maxOffsetsPerTrigger="50", consumer="watched"
    )
    with listening(caplog, queries):
        progress = queries.run(frame)
    assert [one["numInputRows"] for one in progress] == [50, 50]
    assert [lag(one).total for one in progress] == [50, 0]
    said = [record.message for record in caplog.records if " 50 rows in " in record.message]
    assert [text.split(":")[0] for text in said] == ["batch 0", "batch 1"]
    assert [text.split(", ")[-1] for text in said] == ["50 waiting", "0 waiting"]
    assert queries.rows() == all_rows(60, 40)

    async def add(client: BorzoiClient) -> None:
        await client.create_partitions(STREAM, topic, 1)

    queries.broker.call(add)
    queries.broker.send(topic, 1, *(b"more" for _ in range(7)))
    queries.broker.send(topic, 2, b"a", b"b")
    assert [one["numInputRows"] for one in queries.run(frame)] == [9]
    assert queries.rows() == all_rows(60, 47, 2), "a new partition is read from its first row"
    assert _stored(queries, topic) == {0: 59, 1: 46}, "the lag can be seen in the broker"


@contextmanager
def listening(caplog: pytest.LogCaptureFixture, queries: Queries) -> Iterator[None]:
    """A listener logs what queries do meanwhile, to the end of one."""
    listener = ProgressListener()
    queries.spark.streams.addListener(listener)
    try:
        with caplog.at_level(logging.INFO, "borzoi.spark"):
            yield
            wait_for(lambda: " ended" in caplog.text, 60)
    finally:
        queries.spark.streams.removeListener(listener)


def test_lost_data_is_an_error_or_passed_over(queries: Queries) -> None:
    names = {
        loss: queries.broker.filled(5)
        for loss in ("recreated", "regrown", "purged", "deleted", "grown")
    }
    shrunk = queries.broker.filled(5, 3)
    new_rows = {"recreated": 8, "regrown": 9, "purged": 2, "deleted": 0, "grown": 0}
    options = {**queries.broker.options, "topics": ",".join([*names.values(), shrunk])}
    options["startingOffsets"] = "earliest"
    reader = queries.spark.readStream.format("iggy").options(**options)
    queries.run(reader.load())

    async def lose(client: BorzoiClient) -> None:
        for loss in ("regrown", "purged"):
            await client.purge_topic(STREAM, names[loss])
        for loss in ("recreated", "deleted"):
            await client.delete_topic(STREAM, names[loss])
        await client.create_topic(STREAM, names["recreated"], partitions_count=1)
        await client.delete_partitions(STREAM, shrunk, 1)
        await client.create_partitions(STREAM, names["grown"], 1)

    queries.broker.call(lose)
    for loss, count in new_rows.items():
        if count:
            queries.broker.send(names[loss], 0, *(b"new" for _ in range(count)))
    queries.broker.send(names["grown"], 1, b"new", b"new")
    with pytest.raises(PySparkException, match="IGGY_DATA_LOSS") as caught:
        queries.run(reader.load())
    for loss, says in {
        "recreated": "was deleted and created again",
        "regrown": "has another row at offset 4 than was read there",
        "purged": "ends at offset 2 and was read up to 5",
        "deleted": "is gone; it was read up to offset 5",
    }.items():
        assert f"partition 0 of topic {names[loss]} {says}" in str(caught.value)
    gone = f"partition 1 of topic {shrunk} is gone; it was read up to offset 3"
    assert gone in str(caught.value)
    assert f"of topic {names['grown']} " not in str(caught.value), "more partitions are no loss"
    queries.run(reader.option("failOnDataLoss", "false").load())
    found = queries.spark.read.parquet(str(queries.directory / "rows")).collect()
    for loss, count in (new_rows | {"grown": 2}).items():
        mine = sorted(row.offset for row in found if row.topic == names[loss])
        assert mine == sorted([*range(5), *range(count)]), loss
    assert sorted(row.offset for row in found if row.topic == shrunk) == [0, 0, 1, 1, 2, 2, 3, 4]


def _stored(queries: Queries, topic: str) -> dict[int, int]:
    async def stored(client: BorzoiClient) -> dict[int, int]:
        found = {}
        for partition in range(2):
            info = await client.get_consumer_offset(STREAM, topic, partition, consumer="watched")
            assert info is not None
            found[partition] = info.stored_offset
        return found

    return queries.broker.call(stored)
