"""spark.readStream: batches, limits, resuming, lost data, lag; through Spark and a real broker."""

import pytest
from pyspark.errors import PySparkException

from borzoi.client import BorzoiClient
from borzoi.spark import lag
from tests.spark.conftest import STREAM, Queries

pytestmark = pytest.mark.slow


def all_rows(*counts: int) -> list[tuple[int, int]]:
    return [(number, at) for number, rows in enumerate(counts) for at in range(rows)]


def test_batches_are_limited_and_a_restart_goes_on(queries: Queries) -> None:
    topic = queries.broker.filled(60, 40)
    frame = queries.stream(
        topic, startingOffsets="earliest", maxOffsetsPerTrigger="50", consumer="watched"
    )
    progress = queries.run(frame)
    assert [one["numInputRows"] for one in progress] == [50, 50]
    assert [lag(one).total for one in progress] == [50, 0]
    assert queries.rows() == all_rows(60, 40)
    queries.broker.send(topic, 1, *(b"more" for _ in range(7)))
    assert [one["numInputRows"] for one in queries.run(frame)] == [7]
    assert queries.rows() == all_rows(60, 47)
    assert _stored(queries, topic) == {0: 59, 1: 46}, "the lag can be seen in the broker"


def test_partitions_that_are_added_are_read_from_their_first_row(queries: Queries) -> None:
    topic = queries.broker.filled(3)
    frame = queries.stream(topic, startingOffsets="latest")
    assert queries.run(frame) == []

    async def add(client: BorzoiClient) -> None:
        await client.create_partitions(STREAM, topic, 1)

    queries.broker.call(add)
    queries.broker.send(topic, 1, b"a", b"b")
    queries.broker.send(topic, 0, b"c")
    queries.run(frame)
    assert queries.rows() == [(0, 3), (1, 0), (1, 1)]


def test_lost_data_is_an_error_or_passed_over(queries: Queries) -> None:
    names = {
        loss: queries.broker.filled(5) for loss in ("recreated", "regrown", "purged", "deleted")
    }
    new_rows = {"recreated": 8, "regrown": 9, "purged": 2, "deleted": 0}
    options = {**queries.broker.options, "topics": ",".join(names.values())}
    options["startingOffsets"] = "earliest"
    reader = queries.spark.readStream.format("iggy").options(**options)
    queries.run(reader.load())

    async def lose(client: BorzoiClient) -> None:
        for loss in ("regrown", "purged"):
            await client.purge_topic(STREAM, names[loss])
        for loss in ("recreated", "deleted"):
            await client.delete_topic(STREAM, names[loss])
        await client.create_topic(STREAM, names["recreated"], partitions_count=1)

    queries.broker.call(lose)
    for loss, count in new_rows.items():
        if count:
            queries.broker.send(names[loss], 0, *(b"new" for _ in range(count)))
    with pytest.raises(PySparkException, match="IGGY_DATA_LOSS") as caught:
        queries.run(reader.load())
    for loss, says in {
        "recreated": "was deleted and created again",
        "regrown": "has another row at offset 4 than was read there",
        "purged": "ends at offset 2 and was read up to 5",
        "deleted": "is gone; it was read up to offset 5",
    }.items():
        assert f"partition 0 of topic {names[loss]} {says}" in str(caught.value)
    queries.run(reader.option("failOnDataLoss", "false").load())
    found = queries.spark.read.parquet(str(queries.directory / "rows")).collect()
    for loss, count in new_rows.items():
        mine = sorted(row.offset for row in found if row.topic == names[loss])
        assert mine == sorted([*range(5), *range(count)]), loss


def _stored(queries: Queries, topic: str) -> dict[int, int]:
    async def stored(client: BorzoiClient) -> dict[int, int]:
        found = {}
        for partition in range(2):
            info = await client.get_consumer_offset(STREAM, topic, partition, consumer="watched")
            assert info is not None
            found[partition] = info.stored_offset
        return found

    return queries.broker.call(stored)
