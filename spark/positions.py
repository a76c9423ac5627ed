"""How far a stream has come, as Spark keeps it in its checkpoint.

    {"events": {"0": {"begin": 0, "next": 40, "timestamp": 1700000000000000, "created": 169...}}}

`next` is the first offset that was not read. `begin` is where the batch that ended here began with
this partition. After a loss, or with a partition that is new, that is not where the batch before
ended. A batch that is repeated must read the same rows. `timestamp` is that of the last row, and
`created` that of the partition. They distinguish the partition that was read from one that was
purged or created again and has grown since.

Always: the same positions are the same text, because Spark compares texts; a partition that was
once in the positions stays in them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from borzoi.spark.failures import InvalidOption


class Partition(NamedTuple):
    """A partition of the stream, by topic and number."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number} of topic {self.topic}"


class Position(NamedTuple):
    """Times are microseconds since 1970; `timestamp` is 0 where no row stands before `next`."""

    begin: int
    next: int
    timestamp: int
    created: int


class Known(NamedTuple):
    """What the broker says about a partition: it holds offsets from `first` up to `next`."""

    first: int
    next: int
    size_bytes: int
    created: int

    @property
    def mean_size(self) -> int:
        """Of a message, rounded up."""
        count = self.next - self.first
        return -(-self.size_bytes // count) if count else 0


class RowTime(NamedTuple):
    """A row, and when it was written."""

    offset: int
    timestamp: int


class Range(NamedTuple):
    """Rows to read: offsets from `begin` up to, not including, `end`.

    `witness` is the last row of the range, or of the one that this is a piece of, as it was when
    the range was planned. None where that is not known.
    """

    topic: str
    partition: int
    begin: int
    end: int
    witness: RowTime | None = None

    @property
    def row_count(self) -> int:
        """The number of offsets in the range."""
        return self.end - self.begin


class StreamIds(NamedTuple):
    """The numbers under which a stream and its topics lie on disk, when the task was planned."""

    name: str
    id: int
    topics: Mapping[str, int]


Positions: TypeAlias = Mapping[Partition, Position]


def to_json(positions: Positions) -> dict[str, dict[str, dict[str, int]]]:
    """For Spark, which turns it into text in the order that is given here."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for partition, position in sorted(positions.items()):
        found.setdefault(partition.topic, {})[str(partition.number)] = position._asdict()
    return found


def from_json(value: Mapping[str, Any]) -> dict[Partition, Position]:
    """Returns the positions of a checkpoint; raises InvalidOption if they are of another source."""
    try:
        return {
            Partition(topic, int(number)): Position(**fields)
            for topic, partitions in value.items()
            for number, fields in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidOption(
            f"the checkpoint holds offsets that this source did not write: {error}"
        ) from error


def ranges_between(start: Positions, end: Positions) -> list[Range]:
    """What the batch from `start` to `end` reads."""
    return [
        Range(
            partition.topic,
            partition.number,
            position.begin,
            position.next,
            RowTime(position.next - 1, position.timestamp) if position.timestamp else None,
        )
        for partition, position in sorted(end.items())
        if position != start.get(partition) and position.begin < position.next
    ]


def witnessed(ranges: Iterable[Range], times: Mapping[Partition, int]) -> list[Range]:
    """The ranges with the times of their last rows, where they are known."""
    return [
        one._replace(witness=RowTime(one.end - 1, times[place])) if place in times else one
        for one in ranges
        for place in [Partition(one.topic, one.partition)]
    ]


def out_of_range(offsets: Mapping[Partition, int], known: Mapping[Partition, Known]) -> list[str]:
    """Which offsets a partition neither holds nor will hold next, as sentences."""
    return [
        f"{partition} holds offsets from {known[partition].first} up to {known[partition].next};"
        f" {offset} was asked for"
        for partition, offset in sorted(offsets.items())
        if not known[partition].first <= offset <= known[partition].next
    ]


def within(
    offsets: Mapping[Partition, int], known: Mapping[Partition, Known]
) -> dict[Partition, int]:
    """The offsets, or the nearest ones that their partitions have."""
    return {
        partition: min(max(offset, known[partition].first), known[partition].next)
        for partition, offset in offsets.items()
    }


def beginning(offsets: Mapping[Partition, int], known: Mapping[Partition, Known]) -> Positions:
    """Positions of a query that has read nothing; the times of rows are added by stamped()."""
    return {
        partition: Position(offset, offset, 0, known[partition].created)
        for partition, offset in offsets.items()
    }


def advanced(
    start: Positions,
    begins: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    known: Mapping[Partition, Known],
) -> Positions:
    """Where the next batch ends. Partitions from which it takes nothing stay as they are."""
    positions = dict(start)
    for partition, end in ends.items():
        begin = begins[partition]
        before = start.get(partition)
        created = known[partition].created
        has_moved = before is None or before.created != created or before.next != begin
        if end > begin or has_moved:
            positions[partition] = Position(begin, end, 0, created)
    return positions


def last_rows(before: Positions, after: Positions) -> list[tuple[Partition, int]]:
    """The rows whose times stamped() needs."""
    return [
        (partition, position.next - 1)
        for partition, position in sorted(after.items())
        if position != before.get(partition) and position.next > 0
    ]


def held(
    rows: Iterable[tuple[Partition, int]], known: Mapping[Partition, Known]
) -> list[tuple[Partition, int]]:
    """Those of the rows that their partitions have."""
    return [
        (partition, offset)
        for partition, offset in rows
        if partition in known and known[partition].first <= offset < known[partition].next
    ]


def stamped(positions: Positions, times: Mapping[Partition, int]) -> Positions:
    """Returns the positions with the times of their last rows, where these are known."""
    return {
        partition: position._replace(timestamp=times[partition]) if partition in times else position
        for partition, position in positions.items()
    }


def row_count(ranges: Iterable[Range]) -> int:
    """Returns the number of offsets in all ranges."""
    return sum(one.row_count for one in ranges)
