"""The options of the format `iggy`, parsed and judged once, on the driver.

Names are Spark's Kafka connector's where it has such an option, and mean the same. Spark hands
option names over in lower case, or as the user wrote them, so they are compared without case. An
unknown one is refused with the nearest that exists: an option that is silently ignored costs its
user a day.

Always: a parsed value is complete and consistent; nobody looks at the raw text afterwards.
"""

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from borzoi.client.address import Login, ServerAddress, parse_address
from borzoi.client.arguments import InvalidArgument, check_identifier
from borzoi.protocol.identifiers import Identifier
from borzoi.spark.cores import known_cores
from borzoi.spark.failures import InvalidOption
from borzoi.spark.starts import (
    EARLIEST,
    LATEST,
    Boundary,
    Plan,
    duration_us,
    parse_boundary,
    parse_by_topic,
    parse_instant,
)

Value = TypeVar("Value")
Default = TypeVar("Default")

ROWS_PER_TRIGGER: Final = 1_000_000
BYTES_PER_TRIGGER: Final = 256 * 1024 * 1024
ROWS_PER_TASK_MIN: Final = 100_000  # to begin a task costs as much as 65,000 rows
TIMEOUT_US: Final = 30_000_000
RETRIES: Final = 8
RETRY_INTERVAL_US: Final = 100_000
METADATA_TTL_US: Final = 5_000_000
TRIGGER_DELAY_US: Final = 15 * 60 * 1_000_000
POLL_COUNT: Final = 8192
SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True)
class Access:
    """Where the broker is, who asks, and how patiently. Travels to the executors."""

    server: ServerAddress
    token: str | None
    timeout_s: float
    retries: int
    retry_interval_s: float

    def __repr__(self) -> str:
        return f"Access({self.server.host}:{self.server.port})"  # nothing that must stay secret


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions of one stream: exactly one of the last three is not None.

    `assigned` maps a topic to its partitions; `pattern` has to match the whole name.
    """

    stream: Identifier
    names: tuple[Identifier, ...] | None
    pattern: str | None
    assigned: Mapping[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one batch of a stream takes; None is no limit."""

    rows_max: int | None
    bytes_max: int | None
    rows_min: int
    delay_max_s: float


@dataclass(frozen=True, slots=True)
class Tasks:
    """How ranges become tasks; None is no limit."""

    count_min: int
    count_max: int | None
    rows_max: int | None
    rows_min: int


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """Sealed segments are read from the broker's data directory, seen from the executors.

    If that is not `required`, a directory that is not there or not of this broker is passed over.
    """

    data_dir: str
    required: bool


@dataclass(frozen=True, slots=True)
class ReadOptions:
    access: Access
    topics: Topics
    start: Plan
    end: Plan
    fail_on_data_loss: bool
    limits: Limits
    tasks: Tasks
    include_headers: bool
    headers_as_structs: bool
    columns: tuple[str, ...] | None
    consumer: Identifier | None
    commit_offsets: bool
    metadata_ttl_s: float
    poll_count: int
    verify_checksums: bool
    segments: SegmentFiles | None


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`topic` is None where a column names it. `write_id` makes the ids of a batch write."""

    access: Access
    stream: Identifier
    topic: Identifier | None
    write_id: str | None


CONNECTION: Final = (
    "server",
    "username",
    "password",
    "passwordEnv",
    "passwordFile",
    "token",
    "tokenEnv",
    "tokenFile",
    "requestTimeout",
    "retries",
    "retryInterval",
)
READ: Final = (
    *CONNECTION,
    "path",
    "stream",
    "topic",
    "topics",
    "topicPattern",
    "assign",
    "startingOffsets",
    "startingOffsetsDefault",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxPartitions",
    "maxRecordsPerPartition",
    "minRowsPerTask",
    "includeHeaders",
    "headersFormat",
    "columns",
    "consumer",
    "commitOffsets",
    "metadataTtl",
    "pollCount",
    "verifyChecksums",
    "transport",
    "dataDir",
)
WRITE: Final = (*CONNECTION, "path", "stream", "topic", "writeId")
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
    given = _Given(raw, READ)
    if streaming:
        for name in ENDINGS:
            if given.has(name):
                raise InvalidOption(f"{name} is for batch reads; a stream has no end")
    topics = _topics(given)
    consumer = given.parsed("consumer", _identifier, None)
    start_default = LATEST if streaming else EARLIEST
    return ReadOptions(
        access=_access(given, environ),
        topics=topics,
        start=_plan(given, "starting", start_default, topics),
        end=_plan(given, "ending", LATEST, topics),
        fail_on_data_loss=given.parsed("failOnDataLoss", _boolean, True),
        limits=Limits(
            rows_max=given.parsed("maxOffsetsPerTrigger", _limit, ROWS_PER_TRIGGER),
            bytes_max=given.parsed("maxBytesPerTrigger", _size_limit, BYTES_PER_TRIGGER),
            rows_min=given.parsed("minOffsetsPerTrigger", _count, 0),
            delay_max_s=given.parsed("maxTriggerDelay", duration_us, TRIGGER_DELAY_US) / 1e6,
        ),
        tasks=_tasks(given, environ),
        include_headers=given.parsed("includeHeaders", _boolean, False),
        headers_as_structs=given.parsed("headersFormat", _headers_format, False),
        columns=given.parsed("columns", _names, None),
        consumer=consumer,
        commit_offsets=_commits(given, consumer),
        metadata_ttl_s=given.parsed("metadataTtl", duration_us, METADATA_TTL_US) / 1e6,
        poll_count=given.parsed("pollCount", _positive, POLL_COUNT),
        verify_checksums=given.parsed("verifyChecksums", _boolean, False),
        segments=_segments(given),
    )


def write_options(
    raw: Mapping[str, str], *, environ: Mapping[str, str] = os.environ
) -> WriteOptions:
    given = _Given(raw, WRITE)
    stream, topic = _place(given)
    if stream is None:
        raise InvalidOption("stream is missing: the name or id of the stream to write to")
    return WriteOptions(_access(given, environ), stream, topic, given.text("writeId"))


class _Given:
    """The options as they came, by their proper names."""

    def __init__(self, raw: Mapping[str, str], known: tuple[str, ...]) -> None:
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

    def parsed(self, name: str, parse: Callable[[str], Value], default: Default) -> Value | Default:
        text = self._texts.get(name)
        if text is None:
            return default
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
    count_min = given.parsed("minPartitions", _positive, 1)
    count_max = given.parsed("maxPartitions", _limit, known_cores(environ))
    if given.has("maxPartitions") and count_max is not None and count_max < count_min:
        raise InvalidOption(f"minPartitions is {count_min}, more than maxPartitions, {count_max}")
    return Tasks(
        count_min=count_min,
        count_max=count_max,
        rows_max=given.parsed("maxRecordsPerPartition", _positive, None),
        rows_min=given.parsed("minRowsPerTask", _count, ROWS_PER_TASK_MIN),
    )


def _access(given: _Given, environ: Mapping[str, str]) -> Access:
    text = given.text("server")
    if text is None:
        raise InvalidOption("server is missing: host:port or iggy://username:password@host:port")
    try:
        server = parse_address(text)
    except InvalidArgument as error:
        raise InvalidOption(f"server: {error}") from error
    username = given.text("username")
    password = _secret(given, "password", environ)
    token = _secret(given, "token", environ)
    if (username is None) != (password is None):
        missing = "username" if username is None else "password (or passwordEnv, passwordFile)"
        raise InvalidOption(f"{missing} is missing; username and password are given together")
    logins = [server.login is not None, username is not None, token is not None]
    if sum(logins) > 1:
        raise InvalidOption("the login is given twice: in server, by username, or by token")
    if not any(logins):
        raise InvalidOption(
            "there is no login: give username and password (better passwordEnv or passwordFile),"
            " token (tokenEnv, tokenFile), or both within server"
        )
    if username is not None and password is not None:
        server = ServerAddress(server.host, server.port, Login(username, password))
    return Access(
        server,
        token,
        timeout_s=given.parsed("requestTimeout", duration_us, TIMEOUT_US) / 1e6,
        retries=given.parsed("retries", _count, RETRIES),
        retry_interval_s=given.parsed("retryInterval", duration_us, RETRY_INTERVAL_US) / 1e6,
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
        return given.parsed("stream", _identifier, None), given.parsed("topic", _identifier, None)
    if given.has("stream") or given.has("topic"):
        raise InvalidOption("the path names stream and topic, and so do options; one is enough")
    stream, _, topic = path.partition("/")
    if not stream or not topic:
        raise InvalidOption(f"the path {path!r} is not stream/topic")
    return _identifier(stream), _identifier(topic)


def _topics(given: _Given) -> Topics:
    stream, topic = _place(given)
    if stream is None:
        raise InvalidOption("stream is missing: the name or id of the stream to read")
    names = given.parsed("topics", _identifiers, None)
    pattern = given.parsed("topicPattern", _pattern, None)
    assigned = given.parsed("assign", _assigned, None)
    if topic is not None:
        names = (topic,) if names is None else (*names, topic)
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
    return Topics(stream, names, pattern, assigned)


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
    if which == "starting":
        default = given.parsed("startingOffsetsDefault", parse_boundary, default)
    only = topics.names[0] if topics.names and len(topics.names) == 1 else None
    by_topic: Mapping[str, Mapping[int, Boundary]] = {}
    if given.has(f"{which}Timestamp"):
        default = given.parsed(f"{which}Timestamp", parse_instant, default)
    elif given.has(f"{which}OffsetsByTimestamp"):
        by_topic = given.parsed(
            f"{which}OffsetsByTimestamp", lambda text: parse_by_topic(text, parse_instant, only), {}
        )
    elif given.has(f"{which}Offsets"):
        text = given.text(f"{which}Offsets") or ""
        if text.startswith("{"):
            by_topic = given.parsed(
                f"{which}Offsets", lambda text: parse_by_topic(text, parse_boundary, only), {}
            )
        else:
            default = given.parsed(f"{which}Offsets", parse_boundary, default)
    return Plan(default, by_topic, missing_is_latest)


def _commits(given: _Given, consumer: Identifier | None) -> bool:
    commits = given.parsed("commitOffsets", _boolean, consumer is not None)
    if commits and consumer is None:
        raise InvalidOption("commitOffsets needs consumer, the name under which offsets are kept")
    return commits


def _segments(given: _Given) -> SegmentFiles | None:
    transport = given.parsed("transport", _transport, "auto")
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


def _identifier(text: str) -> Identifier:
    """Digits are an id, everything else is a name."""
    identifier = int(text) if text.isascii() and text.isdigit() else text
    check_identifier("it", identifier)
    return identifier


def _identifiers(text: str) -> tuple[Identifier, ...]:
    return tuple(_identifier(part.strip()) for part in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return text


def _assigned(text: str) -> Mapping[str, tuple[int, ...]]:
    wanted = 'an object such as {"events": [0, 1]} is needed'
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(value, dict) or not value:
        raise ValueError(wanted)
    found = {}
    for topic, partitions in value.items():
        is_list = isinstance(partitions, list) and partitions
        if not is_list or not all(type(one) is int and one >= 0 for one in partitions):
            raise ValueError(wanted)
        found[topic] = tuple(sorted(set(partitions)))
    return found


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false is needed")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError("a whole number is needed")
    return int(text)


def _positive(text: str) -> int:
    number = _count(text)
    if number == 0:
        raise ValueError("at least 1 is needed")
    return number


def _limit(text: str) -> int | None:
    return None if text.lower() == "none" else _positive(text)


def _size_limit(text: str) -> int | None:
    if text.lower() == "none":
        return None
    found = SIZE.fullmatch(text)
    if found is None or int(found[1]) == 0 or (found[3] and not found[2]):
        raise ValueError("a size such as 1000000, 64m or 64 MiB is needed, or none")
    # As Spark has it, k and m are powers of two with and without the i.
    return int(found[1]) * int(1024 ** POWERS[found[2].lower()])


def _transport(text: str) -> str:
    if text.lower() not in ("auto", "tcp", "segments"):
        raise ValueError("auto, tcp or segments is needed")
    return text.lower()


def _headers_format(text: str) -> bool:
    if text.lower() not in ("map", "struct"):
        raise ValueError("map or struct is needed")
    return text.lower() == "struct"
