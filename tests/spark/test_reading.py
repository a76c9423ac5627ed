"""spark.read: rows, columns, boundaries, errors; through Spark and a real broker."""

import json

import pytest
from pyspark.errors import PySparkException

from borzoi.client import new_message
from tests.spark.conftest import Queries

pytestmark = pytest.mark.slow


def test_rows_have_everything_a_message_has(queries: Queries) -> None:
    topic = queries.broker.topic(2)
    queries.broker.send(
        topic, 1, "plain", new_message("full", id=2**127 + 5, headers={"k": "v", "n": 7})
    )
    frame = queries.read(topic, includeHeaders="true")
    assert frame.columns == [
        *("stream", "topic", "partition", "offset", "timestamp", "origin_timestamp"),
        *("id", "payload", "headers"),
    ]
    plain, full = frame.orderBy("offset").collect()
    assert (plain.stream, plain.topic, plain.partition, plain.offset) == ("spark", topic, 1, 0)
    assert (bytes(plain.payload), plain.headers) == (b"plain", {})
    assert (full.offset, bytes(full.payload)) == (1, b"full")
    assert int.from_bytes(full.id, "big") == 2**127 + 5
    assert full.headers == {"k": b"v", "n": (7).to_bytes(8, "little")}
    assert full.timestamp >= full.origin_timestamp


def test_columns_by_schema_and_by_option(queries: Queries) -> None:
    topic = queries.broker.filled(3)
    reader = queries.spark.read.format("iggy").options(**queries.broker.options, topic=topic)
    frame = reader.schema("payload binary, offset bigint").load()
    assert [(bytes(row[0]), row[1]) for row in frame.orderBy("offset").collect()] == [
        (b"0:0", 0),
        (b"0:1", 1),
        (b"0:2", 2),
    ]
    assert queries.read(topic, columns="offset,topic").columns == ["offset", "topic"]
    with pytest.raises(PySparkException, match="IGGY_INVALID_SCHEMA: column offset is bigint"):
        reader.schema("offset int").load().count()


def test_boundaries_and_tasks(queries: Queries) -> None:
    topic = queries.broker.filled(100, 50, 0)
    offsets = queries.read(
        topic,
        startingOffsets=json.dumps({topic: {"0": 90}}),
        startingOffsetsDefault="last 5",
        endingOffsets=json.dumps({topic: {"0": 95}}),
    )
    found = sorted((row.partition, row.offset) for row in offsets.collect())
    assert found == [(0, at) for at in range(90, 95)] + [(1, at) for at in range(45, 50)]
    assert queries.read(topic).rdd.getNumPartitions() == 1
    split = queries.read(topic, minPartitions="6", minRowsPerTask="0")
    assert split.rdd.getNumPartitions() == 6
    assert split.count() == 150
    assert queries.read(topic, startingTimestamp="-1h").count() == 150
    assert queries.read(topic, startingOffsets="latest").count() == 0


def test_there_are_as_many_tasks_as_a_local_spark_has_cores(queries: Queries) -> None:
    topic = queries.broker.filled(10, 10, 10, 10)
    assert queries.read(topic, minRowsPerTask="0").rdd.getNumPartitions() == 2
    free = queries.read(topic, minRowsPerTask="0", maxPartitions="none")
    assert free.rdd.getNumPartitions() == 4
    assert queries.read(topic, minRowsPerTask="0").count() == free.count() == 40


def test_what_cannot_be_read_says_why(queries: Queries) -> None:
    topic = queries.broker.filled(5)
    beyond = json.dumps({topic: {"0": 9}})
    with pytest.raises(PySparkException, match="IGGY_OFFSET_OUT_OF_RANGE: partition 0"):
        queries.read(topic, startingOffsets=beyond).count()
    assert queries.read(topic, startingOffsets=beyond, failOnDataLoss="false").count() == 0
    with pytest.raises(PySparkException, match="IGGY_NOT_FOUND: topic nowhere"):
        queries.read("nowhere").count()
    with pytest.raises(PySparkException, match=r"IGGY_INVALID_OPTION: .*is startingOffsets meant"):
        queries.read(topic, startingOffset="earliest").count()
