"""Options that only mean something with a broker: which partitions, who asks, from where, when."""

import json
import time
from collections.abc import Sequence

import pytest
from pyspark.errors import PySparkException

from borzoi.client import FIRST, BorzoiClient, new_message
from borzoi.protocol.message import Message
from tests.broker import wait_for
from tests.spark.conftest import STREAM, Queries

pytestmark = pytest.mark.slow


def places(queries: Queries, **options: str) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of all rows that such a read finds."""
    chosen = {**queries.broker.options, **options}
    frame = queries.spark.read.format("iggy").options(**chosen).load()
    rows = frame.select("topic", "partition", "offset").collect()
    return sorted((row.topic, row.partition, row.offset) for row in rows)


def test_topics_by_pattern_by_list_and_single_partitions(queries: Queries) -> None:
    one, two = queries.broker.filled(1, 2), queries.broker.filled(0, 1)
    prefix = f"pattern-{one}"
    for number in range(2):
        name = queries.broker.topic(1, f"{prefix}-{number}")
        queries.broker.send(name, 0, b"x")
    assert places(queries, topicPattern=f"{prefix}-.") == [
        (f"{prefix}-0", 0, 0),
        (f"{prefix}-1", 0, 0),
    ]
    assert places(queries, topics=f"{one},{two}") == sorted(
        [(one, 0, 0), (one, 1, 0), (one, 1, 1), (two, 1, 0)]
    )
    assert places(queries, assign=json.dumps({one: [1]})) == [(one, 1, 0), (one, 1, 1)]


def test_a_token_and_checked_rows_from_where_a_consumer_was(queries: Queries) -> None:
    topic = queries.broker.filled(5, 3)

    async def prepare(client: BorzoiClient) -> str:
        await client.store_consumer_offset(STREAM, topic, 0, 2, consumer="billing")
        return (await client.create_personal_access_token(f"for-{topic}")).token

    token = queries.broker.call(prepare)
    chosen = {
        "server": queries.broker.process.address,
        "stream": STREAM,
        "topic": topic,
        "token": token,
        "startingOffsets": "stored",
        "consumer": "billing",
        "verifyChecksums": "true",
    }
    rows = queries.spark.read.format("iggy").options(**chosen).load().collect()
    found = sorted((row.partition, row.offset, bytes(row.payload)) for row in rows)
    # It has read up to 2 in the first partition and nothing in the second.
    assert found == [
        *((0, at, f"0:{at}".encode()) for at in (3, 4)),
        *((1, at, f"1:{at}".encode()) for at in range(3)),
    ]


def test_times_choose_where_to_begin_and_to_end(queries: Queries) -> None:
    topic = queries.broker.filled(3)
    middle_ms = time.time_ns() // 1_000_000 + 2
    wait_for(lambda: time.time_ns() // 1_000_000 > middle_ms)
    queries.broker.send(topic, 0, *(b"late" for _ in range(4)))
    times = json.dumps({topic: {"0": middle_ms}})
    old, new = ([(topic, 0, at) for at in offsets] for offsets in (range(3), range(3, 7)))
    assert places(queries, topic=topic, startingOffsetsByTimestamp=times) == new
    assert places(queries, topic=topic, endingTimestamp=str(middle_ms)) == old
    assert places(queries, topic=topic, endingOffsetsByTimestamp=times) == old
    with pytest.raises(PySparkException, match="IGGY_OFFSET_OUT_OF_RANGE"):
        queries.read(
            topic,
            startingTimestamp="2200-01-01T00:00:00Z",
            startingOffsetsByTimestampStrategy="error",
        ).count()


def test_bytes_per_batch_records_per_task_and_nothing_stored(queries: Queries) -> None:
    topic = queries.broker.filled(40)
    frame = queries.stream(
        topic,
        startingOffsets="earliest",
        maxBytesPerTrigger="1400",  # 20 messages of some 70 bytes
        maxRecordsPerPartition="15",
        minRowsPerTask="0",
        consumer="quiet",
        commitOffsets="false",
    )
    assert [one["numInputRows"] for one in queries.run(frame)] == [20, 20]
    assert queries.rows() == [(0, at) for at in range(40)]
    files = list((queries.directory / "rows").glob("*.parquet"))
    assert len(files) == 4, "20 rows are two tasks"

    async def stored(client: BorzoiClient) -> object:
        return await client.get_consumer_offset(STREAM, topic, 0, consumer="quiet")

    assert queries.broker.call(stored) is None


def test_headers_as_structs_keep_their_kinds_on_the_way_back(queries: Queries) -> None:
    source, target = queries.broker.topic(1), queries.broker.topic(1)
    queries.broker.send(source, 0, new_message("a", headers={"n": 7, "t": "x", "b": True}), "b")
    frame = queries.read(source, includeHeaders="true", headersFormat="struct")
    chosen = {**queries.broker.options, "topic": target}
    copied = frame.select("payload", "headers", "id", "origin_timestamp").orderBy("offset")
    copied.coalesce(1).write.format("iggy").mode("append").options(**chosen).save()

    async def polled(client: BorzoiClient, topic: str) -> Sequence[Message]:
        found = await client.poll_messages(STREAM, topic, partition_id=0, strategy=FIRST, count=9)
        return found.messages

    async def look(client: BorzoiClient) -> list[tuple[object, ...]]:
        return [
            (one.payload, one.headers, one.id, one.origin_timestamp)
            for topic in (source, target)
            for one in await polled(client, topic)
        ]

    before, plain, *after = queries.broker.call(look)
    assert [before, plain] == after
    assert len(before[1]) == 3  # type: ignore[arg-type]  # the headers


def test_a_batch_waits_for_enough_rows(queries: Queries) -> None:
    topic = queries.broker.filled(3)
    frame = queries.stream(
        topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="1h"
    )
    checkpoint = str(queries.directory / "rows.checkpoint")
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        query.processAllAvailable()
        assert sum(one["numInputRows"] for one in query.recentProgress) == 0
        queries.broker.send(topic, 0, b"more", b"more")
        query.processAllAvailable()
        assert sum(one["numInputRows"] for one in query.recentProgress) == 5
    finally:
        query.stop()
    queries.broker.send(topic, 0, b"last")
    rows = [one["numInputRows"] for one in queries.run(frame, format="noop")]
    assert rows == [1], "what is available now does not wait"


def test_a_batch_does_not_wait_for_ever(queries: Queries) -> None:
    topic = queries.broker.filled(3)
    frame = queries.stream(
        topic, startingOffsets="earliest", minOffsetsPerTrigger="5", maxTriggerDelay="3s"
    )
    checkpoint = str(queries.directory / "rows.checkpoint")
    started = time.monotonic()
    query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
    try:
        wait_for(lambda: any(one["numInputRows"] for one in query.recentProgress), 120)
        # The delay begins after `started`, so this holds on any machine.
        assert time.monotonic() - started >= 3, "it was held back"
        assert sum(one["numInputRows"] for one in query.recentProgress) == 3
    finally:
        query.stop()
