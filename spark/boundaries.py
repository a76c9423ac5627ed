"""Where reading begins and ends, as a user says it: words, offsets, last N, points in time.

A boundary is what stands in an option. A Plan holds the boundaries of all partitions, with one for
those that the JSON does not name. Turning boundaries into offsets needs what the broker knows,
which comes in as values (`resolve`): nothing here asks the broker.

In JSON, numbers are Kafka's: an offset, -1 for latest, -2 for earliest. Texts are ours, in JSON
and alone: "earliest", "latest", "stored", "last 1000" or "-1000", "-10m".
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from borzoi.protocol.identifiers import Identifier
from borzoi.spark.failures import OffsetOutOfRange
from borzoi.spark.option_texts import duration_us

OFFSET_MAX: Final = 2**63 - 1  # of a Spark bigint
KAFKA_LATEST: Final = -1
KAFKA_EARLIEST: Final = -2
LAST: Final = re.compile(r"last[\s-]*(\d+)", re.IGNORECASE)


class Word(Enum):
    """The boundaries that are named by a word."""

    EARLIEST = "earliest"
    LATEST = "latest"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class AtOffset:
    """A boundary at an offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastRows:
    """A boundary so many rows before the end."""

    count: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """Microseconds since 1970."""

    time_us: int


@dataclass(frozen=True, slots=True)
class Ago:
    """Microseconds before the query is planned."""

    age_us: int


Boundary: TypeAlias = Word | AtOffset | LastRows | AtTime | Ago
EARLIEST: Final = Word.EARLIEST
LATEST: Final = Word.LATEST


@dataclass(frozen=True, slots=True)
class Plan:
    """One boundary per partition; `default` for those that are not named.

    `missing_is_latest`: a time behind the last message means the end, and is no error.
    """

    default: Boundary
    by_topic: Mapping[str, Mapping[int, Boundary]] = field(default_factory=dict)
    missing_is_latest: bool = True

    def boundary(self, topic: str, partition: int) -> Boundary:
        """Returns the boundary of a partition."""
        return self.by_topic.get(topic, {}).get(partition, self.default)


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets a partition holds: from `first` up to, not including, `next`."""

    first: int
    next: int


def resolve(
    boundary: Boundary,
    extent: Extent,
    now_us: int,
    *,
    missing_is_latest: bool,
    find_time: Callable[[int], int | None],
    find_stored: Callable[[], int | None],
    where: str,
) -> int:
    """The offset a boundary stands for; explicit offsets are left to the caller's judgement.

    `find_time` gives the first offset at or after a time, None where all are older. `find_stored`
    gives the offset a consumer has stored, None where it has none.
    """
    match boundary:
        case Word.EARLIEST:
            return extent.first
        case Word.LATEST:
            return extent.next
        case Word.STORED:
            stored = find_stored()
            return extent.first if stored is None else stored + 1
        case AtOffset(offset):
            return offset
        case LastRows(count):
            return max(extent.first, extent.next - count)
        case Ago(age_us):
            # An age is a way to say "recent": a partition without recent rows is no mistake.
            found = find_time(max(0, now_us - age_us))
        case AtTime(time_us):
            found = find_time(time_us)
            if found is None and not missing_is_latest:
                shown = datetime.fromtimestamp(time_us / 1e6, UTC).isoformat()
                raise OffsetOutOfRange(
                    f"{where} has no message at or after {shown}; with"
                    " startingOffsetsByTimestampStrategy=latest it would be read from its end"
                )
    return extent.next if found is None else found


def parse_boundary(value: str | int) -> Boundary:
    """Returns the boundary of a word, an offset, last N or an age; else raises ValueError."""
    return _of_number(value) if isinstance(value, int) else _of_text(value.strip())


def _of_number(number: int) -> Boundary:
    if number == KAFKA_LATEST:
        return LATEST
    if number == KAFKA_EARLIEST:
        return EARLIEST
    if not 0 <= number <= OFFSET_MAX:
        raise ValueError(f'{number} is no offset; for the last rows write "last {-number}"')
    return AtOffset(number)


def _of_text(text: str) -> Boundary:
    if text.lower() in Word._value2member_map_:
        return Word(text.lower())
    found = LAST.fullmatch(text)
    if found:
        return LastRows(int(found[1]))
    if text.startswith("-") and text[1:].isascii() and text[1:].isdigit():
        count = int(text[1:])
        if -count in (KAFKA_LATEST, KAFKA_EARLIEST):
            raise ValueError(f'write "latest" or "earliest", or "last {count}" for the last rows')
        return LastRows(count)
    if text.startswith("-"):
        return Ago(duration_us(text[1:]))
    if text.isascii() and text.isdigit():
        return AtOffset(int(text))
    raise ValueError(
        'earliest, latest, stored, an offset, "last 1000", an age such as "-10m", or a JSON'
        " object by topic and partition is needed"
    )


def parse_instant(value: str | int) -> Boundary:
    """A time as Kafka's connector has it (milliseconds), an age, or ISO 8601."""
    text = str(value).strip()
    if text.isascii() and text.isdigit():
        return AtTime(int(text) * 1_000)
    if text.startswith("-"):
        return Ago(duration_us(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            "milliseconds since 1970, an age such as -10m, or a time such as"
            " 2030-01-31T12:00:00Z is needed"
        ) from error
    if moment.tzinfo is None:
        raise ValueError("the time has no zone; append Z for UTC")
    return AtTime(round(moment.timestamp() * 1e6))


def parse_by_topic(
    text: str, parse: Callable[[str | int], Boundary], only: Identifier | None = None
) -> Mapping[str, Mapping[int, Boundary]]:
    """`{"events": {"0": 23, "1": -2}}`, with one topic also `{"0": 23}`; not all must be named."""
    wanted = 'an object such as {"events": {"0": 23, "1": -2}} is needed'
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"no JSON: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(wanted)
    if value and not any(isinstance(inner, dict) for inner in value.values()):
        if not isinstance(only, str):
            raise ValueError(wanted)
        value = {only: value}
    found: dict[str, dict[int, Boundary]] = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, dict):
            raise ValueError(wanted)
        found[topic] = {}
        for partition, boundary in partitions.items():
            if not (partition.isascii() and partition.isdigit()):
                raise ValueError(f"{partition!r} is no partition")
            if type(boundary) not in (int, str):
                raise ValueError(f"{boundary!r} is neither a number nor a text")
            found[topic][int(partition)] = parse(boundary)
    return found
