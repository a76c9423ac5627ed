"""The options of the format `iggy`: one row each, read and judged together, on the driver.

Names are Spark's Kafka connector's where it has such an option, and mean the same. Spark hands
option names over in lower case, or as the user wrote them, so they are compared without case. An
unknown one is refused with the nearest that exists: an option that is silently ignored costs its
user a day.
"""

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from borzoi.client.address import Login, parse_address
from borzoi.client.arguments import InvalidArgument
from borzoi.protocol.identifiers import Identifier
from borzoi.spark.boundaries import (
    EARLIEST,
    LATEST,
    Boundary,
    Plan,
    parse_boundary,
    parse_by_topic,
    parse_instant,
)
from borzoi.spark.cores import known_cores
from borzoi.spark.failures import InvalidOption
from borzoi.spark.option_texts import (
    assigned,
    boolean,
    count,
    duration_us,
    headers_format,
    identifier,
    identifiers,
    limit,
    names,
    pattern,
    positive,
    size_limit,
    transport,
)
from borzoi.spark.options import (
    Access,
    Limits,
    ReadOptions,
    SegmentFiles,
    Tasks,
    Topics,
    WriteOptions,
)


class Option(NamedTuple):
    """How the text of an option is read, and its value without one."""

    parse: Callable[[str], Any] = str
    default: Any = None


CONNECTION: Final[Mapping[str, Option]] = {
    "server": Option(),
    "username": Option(),
    "password": Option(),
    "passwordEnv": Option(),
    "passwordFile": Option(),
    "token": Option(),
    "tokenEnv": Option(),
    "tokenFile": Option(),
    "requestTimeout": Option(duration_us, 30_000_000),
    "retries": Option(count, 8),
    "retryInterval": Option(duration_us, 100_000),
}
READ: Final[Mapping[str, Option]] = {
    **CONNECTION,
    "path": Option(),
    "stream": Option(identifier),
    "topic": Option(identifier),
    "topics": Option(identifiers),
    "topicPattern": Option(pattern),
    "assign": Option(assigned),
    "startingOffsets": Option(parse_boundary),
    "startingOffsetsDefault": Option(parse_boundary),
    "startingTimestamp": Option(parse_instant),
    "startingOffsetsByTimestamp": Option(),
    "startingOffsetsByTimestampStrategy": Option(),
    "endingOffsets": Option(parse_boundary),
    "endingTimestamp": Option(parse_instant),
    "endingOffsetsByTimestamp": Option(),
    "failOnDataLoss": Option(boolean, True),
    "maxOffsetsPerTrigger": Option(limit, 1_000_000),
    "maxBytesPerTrigger": Option(size_limit, 256 * 1024 * 1024),
    "minOffsetsPerTrigger": Option(count, 0),
    "maxTriggerDelay": Option(duration_us, 15 * 60 * 1_000_000),
    "minPartitions": Option(positive, 1),
    "maxPartitions": Option(limit),  # without it no more than cores, where these are known
    "maxRecordsPerPartition": Option(positive),
    "minRowsPerTask": Option(count, 100_000),  # to begin a task costs as much as 65,000 rows
    "includeHeaders": Option(boolean, False),
    "headersFormat": Option(headers_format, False),
    "columns": Option(names),
    "consumer": Option(identifier),
    "commitOffsets": Option(boolean),  # without it: if there is a consumer
    "metadataTtl": Option(duration_us, 5_000_000),
    "pollCount": Option(positive, 8192),
    "verifyChecksums": Option(boolean, False),
    "transport": Option(transport, "auto"),
    "dataDir": Option(),
}
WRITE: Final[Mapping[str, Option]] = {
    **CONNECTION,
    "path": Option(),
    "stream": Option(identifier),
    "topic": Option(identifier),
    "writeId": Option(),
}
# What Spark itself puts among the options of a stream; it is none of ours.
SPARKS: Final = frozenset({"checkpointlocation", "queryname"})
ENDINGS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
# Kafka's names for what is called otherwise here: these are guessed wrongly by likeness.
KAFKAS: Final = {
    "kafka.bootstrap.servers": "server",
    "subscribe": "topic, or topics with commas between them",
    "subscribepattern": "topicPattern",
    "kafka.group.id": "consumer",
    "groupidprefix": "consumer",
}


def read_options(
    raw: Mapping[str, str], *, streaming: bool, environ: Mapping[str, str] = os.environ
) -> ReadOptions:
    """Returns the options of a read; raises InvalidOption if one is unknown or does not fit."""
    given = _Given(raw, READ)
    if streaming:
        for name in ENDINGS:
            if given.has(name):
                raise InvalidOption(f"{name} is for batch reads; a stream has no end")
    topics = _topics(given)
    consumer = given.value("consumer")
    start_default = LATEST if streaming else EARLIEST
    return ReadOptions(
        access=_access(given, environ),
        topics=topics,
        start=_plan(given, "starting", start_default, topics),
        end=_plan(given, "ending", LATEST, topics),
        fail_on_data_loss=given.value("failOnDataLoss"),
        limits=Limits(
            rows_max=given.value("maxOffsetsPerTrigger"),
            bytes_max=given.value("maxBytesPerTrigger"),
            rows_min=given.value("minOffsetsPerTrigger"),
            delay_max_s=given.value("maxTriggerDelay") / 1e6,
        ),
        tasks=_tasks(given, environ),
        include_headers=given.value("includeHeaders"),
        headers_as_structs=given.value("headersFormat"),
        columns=given.value("columns"),
        consumer=consumer,
        commit_offsets=_commits(given),
        metadata_ttl_s=given.value("metadataTtl") / 1e6,
        poll_count=given.value("pollCount"),
        verify_checksums=given.value("verifyChecksums"),
        segments=_segments(given),
    )


def write_options(
    raw: Mapping[str, str], *, environ: Mapping[str, str] = os.environ
) -> WriteOptions:
    """Returns the options of a write; raises InvalidOption if one is unknown or does not fit."""
    given = _Given(raw, WRITE)
    stream, topic = _place(given)
    if stream is None:
        raise InvalidOption("stream is missing: the name or id of the stream to write to")
    return WriteOptions(_access(given, environ), stream, topic, given.text("writeId"))


class _Given:
    """The options as they came, by their proper names."""

    def __init__(self, raw: Mapping[str, str], known: Mapping[str, Option]) -> None:
        self._known = known
        proper = {name.lower(): name for name in known}
        self._texts: dict[str, str] = {}
        for name, text in raw.items():
            if name.lower() in SPARKS:
                continue
            if name.lower() not in proper:
                raise InvalidOption(f"{name} is no option{_suggestion(name, proper)}")
            self._texts[proper[name.lower()]] = text.strip()

    def has(self, name: str) -> bool:
        return name in self._texts

    def text(self, name: str) -> str | None:
        return self._texts.get(name)

    def value(self, name: str) -> Any:
        """The option read as its row says, or the default of the row."""
        option = self._known[name]
        return self.read(name, option.parse) if name in self._texts else option.default

    def read(self, name: str, parse: Callable[[str], Any]) -> Any:
        """An option that was given, read in another way."""
        text = self._texts[name]
        try:
            return parse(text)
        except (ValueError, InvalidArgument) as error:
            raise InvalidOption(f"{name} is {text!r}: {error}") from error


def _suggestion(name: str, proper: Mapping[str, str]) -> str:
    kafkas = KAFKAS.get(name.lower())
    if kafkas is not None:
        return f"; it is called {kafkas} here"
    near = difflib.get_close_matches(name.lower(), proper, n=1)
    return f"; is {proper[near[0]]} meant?" if near else f"; known are {', '.join(proper.values())}"


def _tasks(given: _Given, environ: Mapping[str, str]) -> Tasks:
    """Without a word from the user there are no more tasks than cores, where these are known."""
    count_min = given.value("minPartitions")
    is_limited = given.has("maxPartitions")
    count_max = given.value("maxPartitions") if is_limited else known_cores(environ)
    if is_limited and count_max is not None and count_max < count_min:
        raise InvalidOption(f"minPartitions is {count_min}, more than maxPartitions, {count_max}")
    return Tasks(
        count_min=count_min,
        count_max=count_max,
        rows_max=given.value("maxRecordsPerPartition"),
        rows_min=given.value("minRowsPerTask"),
    )


def _access(given: _Given, environ: Mapping[str, str]) -> Access:
    text = given.text("server")
    if text is None:
        raise InvalidOption("server is missing: host:port or iggy://username:password@host:port")
    try:
        server = parse_address(text)
    except InvalidArgument as error:
        raise InvalidOption(f"server: {error}") from error
    if server.transport != "tcp" or server.tls is not None:
        raise InvalidOption("server: only plain TCP is supported, iggy:// or iggy+tcp://")
    username = given.text("username")
    password = _secret(given, "password", environ)
    token = _secret(given, "token", environ)
    if (username is None) != (password is None):
        missing = "username" if username is None else "password (or passwordEnv, passwordFile)"
        raise InvalidOption(f"{missing} is missing; username and password are given together")
    logins = [one is not None for one in (server.login, server.token, username, token)]
    if sum(logins) > 1:
        raise InvalidOption("the login is given twice: in server, by username, or by token")
    if not any(logins):
        raise InvalidOption(
            "there is no login: give username and password (better passwordEnv or passwordFile),"
            " token (tokenEnv, tokenFile), or both within server"
        )
    if username is not None and password is not None:
        server = replace(server, login=Login(username, password))
    return Access(
        server,
        token or server.token,
        timeout_s=given.value("requestTimeout") / 1e6,
        retries=given.value("retries"),
        retry_interval_s=given.value("retryInterval") / 1e6,
    )


def _secret(given: _Given, name: str, environ: Mapping[str, str]) -> str | None:
    """As it is, from a variable or from a file of the driver; read once, here."""
    ways = [way for way in (name, f"{name}Env", f"{name}File") if given.has(way)]
    if len(ways) > 1:
        raise InvalidOption(f"{' and '.join(ways)} are both given; one is enough")
    if not ways:
        return None
    text = given.text(ways[0])
    assert text is not None
    if ways[0].endswith("Env"):
        if text not in environ:
            raise InvalidOption(f"{ways[0]} names the variable {text}, which is not set")
        return environ[text]
    if ways[0].endswith("File"):
        try:
            return Path(text).read_text().strip()
        except OSError as error:
            raise InvalidOption(f"{ways[0]} cannot be read: {error}") from error
    return text


def _place(given: _Given) -> tuple[Identifier | None, Identifier | None]:
    """Stream and topic, by their options or as the path `stream/topic` of load() and save()."""
    path = given.text("path")
    if path is None:
        return given.value("stream"), given.value("topic")
    if given.has("stream") or given.has("topic"):
        raise InvalidOption("the path names stream and topic, and so do options; one is enough")
    stream, _, topic = path.partition("/")
    if not stream or not topic:
        raise InvalidOption(f"the path {path!r} is not stream/topic")
    return identifier(stream), identifier(topic)


def _topics(given: _Given) -> Topics:
    stream, topic = _place(given)
    if stream is None:
        raise InvalidOption("stream is missing: the name or id of the stream to read")
    several = given.value("topics")
    pattern = given.value("topicPattern")
    assigned = given.value("assign")
    if topic is not None:
        several = (topic,) if several is None else (*several, topic)
    ways = {
        "topic": topic is not None,
        "topics": given.has("topics"),
        "topicPattern": pattern is not None,
        "assign": assigned is not None,
    }
    chosen = [name for name, is_given in ways.items() if is_given]
    if len(chosen) != 1:
        found = f"{' and '.join(chosen)} are given" if chosen else "none is given"
        raise InvalidOption(f"exactly one of {', '.join(ways)} is needed; {found}")
    return Topics(stream, several, pattern, assigned)


def _plan(given: _Given, which: str, default: Boundary, topics: Topics) -> Plan:
    """Kafka's order: one time for all, then times by partition, then offsets."""
    missing_is_latest = which == "ending"
    strategy = given.text("startingOffsetsByTimestampStrategy") if which == "starting" else None
    if strategy is not None:
        if strategy.lower() not in ("error", "latest"):
            raise InvalidOption(
                f"startingOffsetsByTimestampStrategy is {strategy!r}: error or latest is needed"
            )
        missing_is_latest = strategy.lower() == "latest"
    if which == "starting" and given.has("startingOffsetsDefault"):
        default = given.value("startingOffsetsDefault")
    only = topics.names[0] if topics.names and len(topics.names) == 1 else None
    offsets, time, times = f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"
    by_topic: Mapping[str, Mapping[int, Boundary]] = {}
    if given.has(time):
        default = given.value(time)
    elif given.has(times):
        by_topic = given.read(times, lambda text: parse_by_topic(text, parse_instant, only))
    elif (given.text(offsets) or "").startswith("{"):
        by_topic = given.read(offsets, lambda text: parse_by_topic(text, parse_boundary, only))
    elif given.has(offsets):
        default = given.value(offsets)
    return Plan(default, by_topic, missing_is_latest)


def _commits(given: _Given) -> bool:
    has_consumer = given.has("consumer")
    commits: bool = given.value("commitOffsets") if given.has("commitOffsets") else has_consumer
    if commits and not has_consumer:
        raise InvalidOption("commitOffsets needs consumer, the name under which offsets are kept")
    return commits


def _segments(given: _Given) -> SegmentFiles | None:
    transport = given.value("transport")
    data_dir = given.text("dataDir")
    if transport == "tcp":
        return None
    if data_dir is None:
        if transport == "segments":
            raise InvalidOption("transport=segments needs dataDir, the broker's data directory")
        return None
    if not os.path.isabs(data_dir):
        raise InvalidOption(f"dataDir is {data_dir!r}: it has to begin with /, for the executors")
    return SegmentFiles(data_dir, required=transport == "segments")
