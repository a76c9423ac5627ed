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


def test_a_batch_of_a_stream_that_is_run_again_adds_nothing(queries: Queries) -> None:
    source, target = queries.broker.filled(1500, 700), queries.broker.topic(4)
    frame = queries.stream(source, startingOffsets="earliest")
    options = {**queries.broker.options, "topic": target}

    def copy() -> list[int]:
        progress = queries.run(frame.select("payload"), "copy", format="iggy", **options)
        return [one["numInputRows"] for one in progress]

    assert copy() == [2200]
    # As after a crash behind the last send: the batch was planned, and is not known to be done.
    commits = queries.directory / "copy.checkpoint" / "commits"
    (commits / "0").unlink()
    (commits / ".0.crc").unlink(missing_ok=True)
    assert copy() == [2200], "Spark has run it again"
    copied = queries.read(target).collect()
    assert sorted(bytes(row.payload) for row in copied) == sorted(
        bytes(row.payload) for row in queries.read(source).collect()
    )
    assert len({row.partition for row in copied}) > 1


def test_a_write_of_one_name_counts_once(queries: Queries) -> None:
    target = queries.broker.topic(3)
    frame = queries.spark.range(2500).selectExpr("cast(id as string) as payload").coalesce(1)
    options = {**queries.broker.options, "topic": target}
    for name, count in (("one", 2500), ("one", 2500), ("two", 5000)):
        frame.write.format("iggy").mode("append").options(**options, writeId=name).save()
        assert queries.read(target).count() == count


def test_what_cannot_be_written_says_why(queries: Queries) -> None:
    topic = queries.broker.topic(1)
    write = queries.spark.range(1).write.format("iggy").mode("append")
    with pytest.raises(
        PySparkException, match="IGGY_INVALID_SCHEMA: column id is bigint"
    ) as caught:
        write.options(**queries.broker.options, topic=topic).save()
    assert "Traceback" in str(caught.value)
    assert "pyspark.zip" not in str(caught.value), "what is installed is faster to import"
    frame = queries.spark.sql("select '' as payload")
    write = frame.write.format("iggy").mode("append")
    with pytest.raises(PySparkException, match="IGGY_INVALID_ROW: payloads of 0"):
        write.options(**queries.broker.options, topic=topic).save()
