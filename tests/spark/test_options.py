"""Options: each one is read, and every mistake is named."""

from pathlib import Path
from typing import Any

import pytest

from borzoi.client.address import Login
from borzoi.spark.boundaries import EARLIEST, LATEST, Ago, AtOffset, AtTime, LastRows, Word
from borzoi.spark.failures import InvalidOption
from borzoi.spark.option_table import read_options, write_options
from borzoi.spark.options import ReadOptions, SegmentFiles

MINIMAL = {"server": "h:1", "username": "u", "password": "pppp", "stream": "s", "topic": "t"}


def batch(**more: str) -> ReadOptions:
    return read_options({**MINIMAL, **more}, streaming=False, environ={})


def stream(**more: str) -> ReadOptions:
    return read_options({**MINIMAL, **more}, streaming=True, environ={})


def test_defaults() -> None:
    options = stream()
    assert options.access.server.login == Login("u", "pppp")
    assert (options.access.timeout_s, options.access.retries) == (30.0, 8)
    assert options.access.retry_interval_s == 0.1
    assert options.topics.stream == "s"
    assert options.topics.names == ("t",)
    assert options.start.boundary("t", 0) == LATEST
    assert batch().start.boundary("t", 0) == EARLIEST
    assert batch().end.boundary("t", 0) == LATEST
    assert options.fail_on_data_loss
    assert (options.limits.rows_max, options.limits.bytes_max) == (1_000_000, 256 * 2**20)
    assert (options.limits.rows_min, options.limits.delay_max_s) == (0, 900.0)
    assert (options.tasks.count_min, options.tasks.rows_max, options.tasks.rows_min) == (
        1,
        None,
        100_000,
    )
    assert not options.include_headers
    assert options.columns is None
    assert options.consumer is None
    assert not options.commit_offsets
    assert options.metadata_ttl_s == 5.0


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("failOnDataLoss", "false", lambda o: not o.fail_on_data_loss),
        ("maxOffsetsPerTrigger", "7", lambda o: o.limits.rows_max == 7),
        ("maxOffsetsPerTrigger", "none", lambda o: o.limits.rows_max is None),
        ("maxBytesPerTrigger", "64m", lambda o: o.limits.bytes_max == 64 * 2**20),
        ("maxBytesPerTrigger", "2 GiB", lambda o: o.limits.bytes_max == 2 * 2**30),
        ("maxBytesPerTrigger", "3 kb", lambda o: o.limits.bytes_max == 3 * 2**10),
        ("maxBytesPerTrigger", "3TI", lambda o: o.limits.bytes_max == 3 * 2**40),
        ("maxBytesPerTrigger", "none", lambda o: o.limits.bytes_max is None),
        ("minOffsetsPerTrigger", "9", lambda o: o.limits.rows_min == 9),
        ("maxTriggerDelay", "2m", lambda o: o.limits.delay_max_s == 120.0),
        ("minPartitions", "5", lambda o: o.tasks.count_min == 5),
        ("maxPartitions", "5", lambda o: o.tasks.count_max == 5),
        ("maxPartitions", "none", lambda o: o.tasks.count_max is None),
        ("maxRecordsPerPartition", "5", lambda o: o.tasks.rows_max == 5),
        ("minRowsPerTask", "0", lambda o: o.tasks.rows_min == 0),
        ("includeHeaders", "TRUE", lambda o: o.include_headers),
        ("headersFormat", "struct", lambda o: o.headers_as_structs),
        ("columns", "offset, payload", lambda o: o.columns == ("offset", "payload")),
        ("consumer", "c", lambda o: o.consumer == "c" and o.commit_offsets),
        ("commitOffsets", "false", lambda o: not o.commit_offsets),
        ("consumer", "17", lambda o: o.consumer == 17),
        ("requestTimeout", "500", lambda o: o.access.timeout_s == 0.5),
        ("retries", "0", lambda o: o.access.retries == 0),
        ("retryInterval", "1s", lambda o: o.access.retry_interval_s == 1.0),
        ("metadataTtl", "0", lambda o: o.metadata_ttl_s == 0.0),
        ("pollCount", "10", lambda o: o.poll_count == 10),
        ("verifyChecksums", "true", lambda o: o.verify_checksums),
        ("dataDir", "/data", lambda o: o.segments == SegmentFiles("/data", required=False)),
        ("transport", "TCP", lambda o: o.segments is None),
        ("startingOffsets", "earliest", lambda o: o.start.boundary("t", 0) == EARLIEST),
        ("startingOffsets", "stored", lambda o: o.start.boundary("t", 0) == Word.STORED),
        ("startingOffsets", "-1000", lambda o: o.start.boundary("t", 0) == LastRows(1000)),
        ("startingOffsets", "last 1", lambda o: o.start.boundary("t", 0) == LastRows(1)),
        ("startingOffsets", "-10m", lambda o: o.start.boundary("t", 0) == Ago(600_000_000)),
        ("startingTimestamp", "1000", lambda o: o.start.boundary("t", 0) == AtTime(1_000_000)),
        (
            "startingTimestamp",
            "1970-01-01T00:00:02Z",
            lambda o: o.start.boundary("t", 0) == AtTime(2_000_000),
        ),
        (
            "startingOffsetsByTimestamp",
            '{"t": {"0": 1}}',
            lambda o: o.start.boundary("t", 0) == AtTime(1_000),
        ),
        (
            "startingOffsetsByTimestampStrategy",
            "error",
            lambda o: not o.start.missing_is_latest,
        ),
    ],
)
def test_an_option_is_read_whatever_its_case(name: str, text: str, found: Any) -> None:
    assert found(stream(**{name: text}))
    assert found(stream(**{name.lower(): text}))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("endingOffsets", '{"t": {"0": 5}}'),
        ("endingTimestamp", "5"),
        ("endingOffsetsByTimestamp", '{"t": {"0": 5}}'),
    ],
)
def test_ends_are_for_batches(name: str, text: str) -> None:
    assert batch(**{name: text}).end.boundary("t", 0) in (AtOffset(5), AtTime(5_000))
    with pytest.raises(InvalidOption, match=f"{name} is for batch reads"):
        stream(**{name: text})


def test_partial_offsets_leave_the_rest_to_the_default() -> None:
    options = stream(startingOffsets='{"t": {"0": 23, "1": -2, "2": -1, "3": "-10"}}')
    found = [options.start.boundary("t", number) for number in range(5)]
    assert found == [AtOffset(23), EARLIEST, LATEST, LastRows(10), LATEST]
    options = stream(startingOffsets='{"0": 23}', startingOffsetsDefault="earliest")
    assert options.start.boundary("t", 0) == AtOffset(23)
    assert options.start.boundary("t", 1) == EARLIEST


def test_one_time_for_all_wins_over_times_and_offsets() -> None:
    times = {"startingOffsetsByTimestamp": '{"t": {"0": 2}}', "startingOffsets": "earliest"}
    assert stream(**times, startingTimestamp="1").start.boundary("t", 0) == AtTime(1_000)
    assert stream(**times).start.boundary("t", 0) == AtTime(2_000)


def test_ways_to_choose_topics() -> None:
    without = {name: text for name, text in MINIMAL.items() if name != "topic"}
    chosen = read_options({**without, "topics": "a, b,7"}, streaming=True).topics
    assert chosen.names == ("a", "b", 7)
    chosen = read_options({**without, "topicPattern": "a.*"}, streaming=True).topics
    assert chosen.pattern == "a.*"
    chosen = read_options({**without, "assign": '{"a": [2, 0]}'}, streaming=True).topics
    assert chosen.assigned == {"a": (0, 2)}
    del without["stream"]
    chosen = read_options({**without, "path": "a/b/c"}, streaming=True).topics
    assert (chosen.stream, chosen.names) == ("a", ("b/c",))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"maxOffsetPerTrigger": "1"}, "is maxOffsetsPerTrigger meant"),
        ({"subscribe": "t"}, "called topic"),
        ({"kafka.bootstrap.servers": "t"}, "called server"),
        ({"zzz": "t"}, "known are server"),
        ({"server": None}, "server is missing"),
        ({"server": "h:x"}, "server: "),
        ({"password": None}, "password .* is missing"),
        ({"username": None, "password": None}, "there is no login"),
        ({"token": "x"}, "given twice"),
        ({"passwordEnv": "X"}, "password and passwordEnv"),
        ({"password": None, "passwordEnv": "NOT_SET"}, "NOT_SET, which is not set"),
        ({"password": None, "passwordFile": "not/there"}, "cannot be read"),
        ({"stream": None}, "stream is missing"),
        ({"topic": None}, "none is given"),
        ({"topics": "a"}, "topic and topics are given"),
        ({"path": "a/b"}, "the path names"),
        ({"topic": None, "topicPattern": "("}, "no regular expression"),
        ({"topic": None, "assign": "[]"}, "an object such as"),
        ({"topic": None, "assign": '{"a": [-1]}'}, "an object such as"),
        ({"startingOffsets": "-1"}, 'write "latest"'),
        ({"startingOffsets": "soon"}, "earliest, latest, stored"),
        ({"startingOffsets": '{"t": 1'}, "no JSON"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, "'x' is no partition"),
        ({"startingOffsets": '{"t": {"0": 1.5}}'}, "neither a number nor a text"),
        ({"startingOffsets": '{"t": {"0": -5}}'}, 'write "last 5"'),
        ({"startingTimestamp": "2030-01-01T00:00:00"}, "no zone"),
        ({"startingTimestamp": "soon"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "error or latest"),
        ({"failOnDataLoss": "yes"}, "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
        ({"maxBytesPerTrigger": "1x"}, "a size such as"),
        ({"maxBytesPerTrigger": "1.5g"}, "a size such as"),
        ({"maxBytesPerTrigger": "1 ib"}, "a size such as"),
        ({"maxBytesPerTrigger": "0 MiB"}, "a size such as"),
        ({"minPartitions": "-1"}, "a whole number"),
        ({"maxPartitions": "0"}, "at least 1"),
        ({"minPartitions": "3", "maxPartitions": "2"}, "more than maxPartitions, 2"),
        ({"transport": "disk"}, "auto, tcp or segments"),
        ({"transport": "segments"}, "needs dataDir"),
        ({"transport": "segments", "dataDir": "data"}, "has to begin with /"),
        ({"maxTriggerDelay": "1 x"}, "no duration"),
        ({"headersFormat": "list"}, "map or struct"),
        ({"commitOffsets": "true"}, "needs consumer"),
        ({"consumer": "x" * 256}, "consumer is"),
    ],
)
def test_mistakes_are_named(changes: dict[str, str | None], says: str) -> None:
    raw = {name: text for name, text in {**MINIMAL, **changes}.items() if text is not None}
    with pytest.raises(InvalidOption, match=f"^IGGY_INVALID_OPTION: .*{says}"):
        read_options(raw, streaming=True, environ={})


def test_secrets_from_elsewhere_and_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("from-file\n")
    raw = {name: text for name, text in MINIMAL.items() if name != "password"}
    found = read_options({**raw, "passwordFile": str(file)}, streaming=True)
    assert found.access.server.login == Login("u", "from-file")
    found = read_options({**raw, "passwordEnv": "P"}, streaming=True, environ={"P": "in-env"})
    assert found.access.server.login == Login("u", "in-env")
    assert "in-env" not in repr(found)
    del raw["username"]
    found = read_options({**raw, "tokenEnv": "P"}, streaming=True, environ={"P": "in-env"})
    assert found.access.token == "in-env"
    assert "in-env" not in repr(found)
    found = read_options({**raw, "tokenFile": str(file)}, streaming=True)
    assert found.access.token == "from-file"
    assert "from-file" not in repr(found)


def test_offsets_are_only_stored_for_those_who_want_it() -> None:
    assert stream(consumer="c").commit_offsets
    assert not stream(consumer="c", commitOffsets="false").commit_offsets


def test_options_of_writes() -> None:
    options = write_options({**MINIMAL, "checkpointLocation": "x", "writeId": "w"})
    assert (options.stream, options.topic, options.write_id) == ("s", "t", "w")
    with pytest.raises(InvalidOption, match="startingOffsets is no option"):
        write_options({**MINIMAL, "startingOffsets": "earliest"})
    with pytest.raises(InvalidOption, match="stream is missing"):
        write_options({"server": "h:1", "token": "x"})
