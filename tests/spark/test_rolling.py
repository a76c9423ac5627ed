"""Spark and a broker whose segments roll: read from its files, and deleted before they are read."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from borzoi.client import BorzoiClient
from tests.spark.conftest import STREAM, Queries, SparkBroker

pytestmark = pytest.mark.slow


@pytest.fixture
def rolled(spark: SparkSession, rolling: SparkBroker, tmp_path: Path) -> Queries:
    return Queries(spark, rolling, tmp_path)


def send_rows(broker: SparkBroker, topic: str, count: int) -> None:
    """In batches of ten: a segment is only full between two of them."""
    for first in range(0, count, 10):
        broker.send(topic, 0, *(f"{first + at}".encode() * 30 for at in range(10)))


def from_disk(queries: Queries) -> dict[str, str]:
    return {"transport": "segments", "dataDir": str(queries.broker.process.data)}


def test_rows_from_sealed_segments_are_the_rows(rolled: Queries) -> None:
    topic = rolled.broker.topic(1)
    send_rows(rolled.broker, topic, 300)
    segments = from_disk(rolled)
    found = sorted(rolled.read(topic, **segments).collect())
    assert found == sorted(rolled.read(topic).collect())
    assert [row.offset for row in found] == list(range(300))
    with pytest.raises(PySparkException, match="IGGY_SEGMENTS_UNUSABLE: dataDir is no data dir"):
        rolled.read(topic, **{**segments, "dataDir": str(rolled.directory)}).count()


def test_retention_that_ran_past_the_checkpoint(rolled: Queries) -> None:
    topic = rolled.broker.topic(1)
    send_rows(rolled.broker, topic, 20)
    segments = from_disk(rolled)
    frame = rolled.stream(topic, startingOffsets="earliest", **segments)
    rolled.run(frame)
    send_rows(rolled.broker, topic, 200)

    async def delete(client: BorzoiClient) -> int:
        await client.delete_segments(STREAM, topic, 0, 3)
        details = await client.get_topic(STREAM, topic)
        assert details is not None
        return details.topic.messages_count

    first = 220 - rolled.broker.call(delete)
    assert first > 20, "the checkpoint has to be behind"
    lost = (
        f"partition 0 of topic {topic} begins at offset {first}: {first - 20} rows from offset 20"
    )
    with pytest.raises(PySparkException, match="IGGY_DATA_LOSS") as caught:
        rolled.run(frame)
    assert lost in str(caught.value)
    assert rolled.rows() == [(0, at) for at in range(20)], "nothing of the failed batch is there"
    rolled.run(rolled.stream(topic, startingOffsets="earliest", failOnDataLoss="false", **segments))
    assert rolled.rows() == [(0, at) for at in [*range(20), *range(first, 220)]]
    send_rows(rolled.broker, topic, 10)
    rolled.run(frame)
    assert rolled.rows()[-1] == (0, 229), "and goes on as before"
