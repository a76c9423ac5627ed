"""df.write and df.writeStream: rows become messages; through Spark and a real broker."""

import pytest
from pyspark.errors import PySparkException

from tests.spark.conftest import Queries

pytestmark = pytest.mark.slow


def test_a_batch_with_topics_partitions_and_headers(queries: Queries) -> None:
    one, two = queries.broker.topic(3), queries.broker.topic(2)
    rows = [
        (one, 2, "a", {"k": "v"}),
        (two, 1, "b", None),
        (one, None, "c", None),
    ]
    frame = queries.spark.createDataFrame(
        rows, "topic string, partition int, payload string, headers map<string,string>"
    )
    frame.write.format("iggy").mode("append").options(**queries.broker.options).save()
    found = {bytes(row.payload): row for row in queries.read(one, includeHeaders="true").collect()}
    assert (found[b"a"].partition, found[b"a"].headers) == (2, {"k": b"v"})
    assert set(found) == {b"a", b"c"}
    assert [(row.partition, bytes(row.payload)) for row in queries.read(two).collect()] == [
        (1, b"b")
    ]


def test_from_topic_to_topic_with_ids_that_a_repetition_would_have_again(queries: Queries) -> None:
    source, target = queries.broker.filled(1500, 700), queries.broker.topic(4)
    frame = queries.stream(source, startingOffsets="earliest", maxOffsetsPerTrigger="1200")
    options = {**queries.broker.options, "topic": target}
    queries.run(frame.select("payload"), "copy", format="iggy", **options)
    copied = queries.read(target).collect()
    assert sorted(bytes(row.payload) for row in copied) == sorted(
        bytes(row.payload) for row in queries.read(source).collect()
    )
    assert len({bytes(row.id) for row in copied}) == 2200
    assert len({row.partition for row in copied}) > 1


def test_the_same_write_twice_has_the_same_ids_in_the_same_partitions(queries: Queries) -> None:
    targets = [queries.broker.topic(3) for _ in range(2)]
    frame = queries.spark.range(2500).selectExpr("cast(id as string) as payload")
    for target in targets:
        options = {**queries.broker.options, "topic": target, "writeId": "w"}
        frame.coalesce(1).write.format("iggy").mode("append").options(**options).save()
    first, second = (
        sorted((row.partition, row.offset, bytes(row.id)) for row in queries.read(one).collect())
        for one in targets
    )
    # The topic is part of an id, as each topic has a window of its own.
    assert [row[:2] for row in first] == [row[:2] for row in second]
    assert len({row[2] for row in first}) == 2500


def test_what_cannot_be_written_says_why(queries: Queries) -> None:
    topic = queries.broker.topic(1)
    write = queries.spark.range(1).write.format("iggy").mode("append")
    with pytest.raises(PySparkException, match="IGGY_INVALID_SCHEMA: column id is bigint"):
        write.options(**queries.broker.options, topic=topic).save()
    frame = queries.spark.sql("select '' as payload")
    write = frame.write.format("iggy").mode("append")
    with pytest.raises(PySparkException, match="IGGY_INVALID_ROW: payloads of 0"):
        write.options(**queries.broker.options, topic=topic).save()
