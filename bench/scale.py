"""How the cost of a message grows: one parameter at a time, everything else fixed.

Cost is CPU time of all shards per message. Each sweep yields one point per value; a sweep that
needs more CPUs than there are stops where they end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.bench import flatness
from borzoi.bench.admin import Admin
from borzoi.bench.bed import PAGES_TOUCHED, Bed
from borzoi.bench.cpus import available_cpus
from borzoi.bench.plans import Goal, Role
from borzoi.bench.quantities import MB
from borzoi.bench.rates import Rate

MESSAGE_SIZES: Final = (10, 100, 1_000, 10_000, 100_000)
BATCH_SIZES: Final = (1, 10, 100, 1_000)
PARTITION_COUNTS: Final = (1, 10, 100, 1_000)
SEGMENT_COUNTS: Final = (1, 50, 100, 200)
CONNECTION_COUNTS: Final = (1, 8, 32, 128)
IDLE_COUNTS: Final = (1, 50, 500)
FIXED_BATCH: Final = 100


class ScalePoint(NamedTuple):
    """What a message costs at one value of the parameter."""

    value: int
    us_per_message: float
    messages_per_s: float
    megabytes_per_s: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """`points` measures; it is given how long each point may take and where files may lie."""

    title: str
    axis: str
    points: Callable[[int, Path | None], Iterator[ScalePoint]]


def prepare(bed: Bed) -> Bed:
    """The same start for every point: pages that were touched before, and nothing left to do."""
    bed.touch_pages(PAGES_TOUCHED)
    bed.settle()
    return bed


def by_message_size(duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Measures producers with messages of different sizes."""
    with Bed(1, directory=directory) as bed:
        for size in MESSAGE_SIZES:
            rate = prepare(bed).produce(
                duration_ns, message_size=size, messages_per_batch=FIXED_BATCH
            )
            yield _point(size, rate)


def by_batch_size(duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Measures producers with batches of different lengths."""
    with Bed(1, directory=directory) as bed:
        for count in BATCH_SIZES:
            yield _point(count, prepare(bed).produce(duration_ns, messages_per_batch=count))


def by_partitions(duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Measures one producer that goes round different numbers of partitions."""
    with Bed(1, directory=directory) as bed:
        for count in PARTITION_COUNTS:
            ids = bed.stream(count)
            flatness.touch_partitions(bed, ids, count)
            goal = Goal(duration_ns=duration_ns)
            actor = replace(bed.actor(Role.PRODUCER, 1, ids, goal), partition_count=count)
            yield _point(count, prepare(bed).rate([actor]))
            bed.drop_stream()


def by_segments(_duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Enough batches for some segments, behind the segments that are there already."""
    with Bed(1, flatness.SMALL_SEGMENTS, directory=directory) as bed:
        ids = bed.stream()
        there = 0
        for count in SEGMENT_COUNTS:
            flatness.fill_segments(bed, ids, max(0, count - there))
            batches = flatness.SEGMENTS_MEASURED * flatness.BATCHES_PER_SEGMENT
            actor = bed.actor(Role.PRODUCER, 1, ids, Goal(requests=batches))
            rate = prepare(bed).rate([actor])
            there = max(there, count) + flatness.SEGMENTS_MEASURED
            yield _point(count, rate)


def by_connections(duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Measures different numbers of producers."""
    with Bed(1, directory=directory) as bed:
        for count in CONNECTION_COUNTS:
            rate = prepare(bed).produce(
                duration_ns, connections=count, messages_per_batch=FIXED_BATCH
            )
            yield _point(count, rate)


def by_idle_connections(duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Measures one producer beside different numbers of silent connections."""
    with Bed(1, directory=directory) as bed:
        broker = bed.broker
        silent: list[Admin] = []
        for count in IDLE_COUNTS:
            while len(silent) < count:
                silent.append(Admin.connect(broker.host, broker.port, broker.credentials))
            yield _point(count, prepare(bed).produce(duration_ns))
        for connection in silent:
            connection.close()


def by_shards(duration_ns: int, directory: Path | None) -> Iterator[ScalePoint]:
    """Measures sixteen producers on different numbers of shards."""
    for shards in range(1, len(available_cpus()) + 1):
        with Bed(shards, directory=directory) as bed:
            rate = prepare(bed).produce(
                duration_ns, connections=16, partitions=16, messages_per_batch=FIXED_BATCH
            )
            yield _point(shards, rate)


SWEEPS: Final = {
    "message-size": Sweep("Cost by message size", "bytes per message", by_message_size),
    "batch-size": Sweep("Cost by batch size", "messages of 1 KB per batch", by_batch_size),
    "partitions": Sweep("Cost by partitions", "partitions sent to in turn", by_partitions),
    "segments": Sweep("Cost by segments", "segments there before", by_segments),
    "connections": Sweep("Cost by connections", "producers at once", by_connections),
    "idle": Sweep("Cost by idle connections", "silent connections", by_idle_connections),
    "shards": Sweep("Cost by shards", "shards", by_shards),
}


def _point(value: int, rate: Rate) -> ScalePoint:
    return ScalePoint(value, rate.server_us_per_message, rate.messages_per_s, rate.bytes_per_s / MB)
