"""Does a message cost the same when there is much else? Partitions, segments, connections.

Each function makes one Run: the cost in the plain case and in the crowded one. Both are CPU time of
the shard, which does not depend on how fast the disk or the generator is. Files that do not exist
yet are made before anything is measured: making a partition's first file is not a message's cost.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from borzoi.bench.admin import Admin
from borzoi.bench.batches import U32, build_send_frames, single_consumer
from borzoi.bench.bed import Bed
from borzoi.bench.plans import Goal, Role
from borzoi.bench.quantities import Range
from borzoi.bench.target_rows import Run
from borzoi.protocol import commands
from borzoi.protocol.identifiers import PollingStrategy, StrategyKind
from borzoi.protocol.responses import PolledMessages

PARTITIONS_MAX: Final = 1_000
BATCHES: Final = 1_000  # of 1.06 MB: just less than one segment
WARM_NS: Final = 300_000_000
SEGMENT_SIZE: Final = 4_000_000
SEGMENTS_MAX: Final = 200
SEGMENTS_MEASURED: Final = 25
BATCH_MESSAGES: Final = 1_000
MESSAGE_SIZE: Final = 1_000
# A segment takes the batch that crosses its limit, so it holds one more than fits.
BATCHES_PER_SEGMENT: Final = 4
IDLE_MAX: Final = 500
POLLED_MESSAGES: Final = 100
POLLED_RANGE: Final = 2_000

SMALL_SEGMENTS: Final = {"IGGY_SYSTEM_SEGMENT_SIZE": f"{SEGMENT_SIZE // 512 * 512} B"}


def partitions_run(directory: Path | None, partitions: int = PARTITIONS_MAX) -> Run:
    """One producer that takes turns over 1 partition and over many."""
    with Bed(1, directory=directory) as bed:
        bed.produce(WARM_NS)
        costs = [produce_over_partitions(bed, count) for count in (1, partitions)]
    return Run(costs[0], costs[1])


def produce_over_partitions(bed: Bed, partitions: int, batches: int = BATCHES) -> float:
    """Returns the CPU time per message, in us."""
    ids = bed.stream(partitions)
    try:
        touch_partitions(bed, ids, partitions)
        actor = replace(
            bed.actor(Role.PRODUCER, 1, ids, Goal(requests=batches)), partition_count=partitions
        )
        return bed.settled_us_per_message([actor])
    finally:
        bed.drop_stream()


def touch_partitions(bed: Bed, ids: tuple[int, int], partitions: int) -> None:
    """One message into each, so that all files exist."""
    one = Range(1, 1)
    frame = build_send_frames(ids[0], ids[1], 0, one, one, seed=1)[0]
    assert frame.partition_at is not None
    for partition_id in range(partitions):
        U32.pack_into(frame.frame, frame.partition_at, partition_id)
        bed.admin.send_raw(frame.frame)


def segments_run(directory: Path | None) -> Run:
    """The first segments of a partition, and those behind 175 others."""
    with Bed(1, SMALL_SEGMENTS, directory=directory) as bed:
        bed.produce(WARM_NS)
        ids = bed.stream()
        batches = SEGMENTS_MEASURED * BATCHES_PER_SEGMENT
        actor = bed.actor(Role.PRODUCER, 1, ids, Goal(requests=batches))
        first = bed.settled_us_per_message([actor])
        fill_segments(bed, ids, SEGMENTS_MAX - 2 * SEGMENTS_MEASURED)
        last = bed.settled_us_per_message([actor])
    return Run(first, last)


def fill_segments(bed: Bed, ids: tuple[int, int], segments: int) -> int:
    """Produce so many segments; the number of messages."""
    return bed.fill(ids, segments * BATCHES_PER_SEGMENT * BATCH_MESSAGES)


def idle_run(duration_ns: int, directory: Path | None, idle: int = IDLE_MAX) -> Run:
    """One producer, alone and beside many connections that are logged in and silent."""
    with Bed(1, directory=directory) as bed:
        bed.produce(WARM_NS)
        alone = bed.produce(duration_ns).server_us_per_message
        broker = bed.broker
        silent = [Admin.connect(broker.host, broker.port, broker.credentials) for _ in range(idle)]
        try:
            crowded = bed.produce(duration_ns).server_us_per_message
        finally:
            for connection in silent:
                connection.close()
    return Run(alone, crowded)


def oldest_runs(
    runs: int, duration_ns: int, directory: Path | None, *, by_time: bool
) -> tuple[Run, ...]:
    """Polls in the newest segment (reference) and in the oldest of 200."""
    with Bed(1, SMALL_SEGMENTS, directory=directory) as bed:
        ids = bed.stream()
        last = fill_segments(bed, ids, SEGMENTS_MAX)
        found = []
        for _ in range(runs):
            newest, oldest = (
                _us_per_poll(bed, ids, start, duration_ns, by_time=by_time)
                for start in (last - POLLED_RANGE, 0)
            )
            found.append(Run(newest, oldest))
    return tuple(found)


def _us_per_poll(
    bed: Bed, ids: tuple[int, int], start: int, duration_ns: int, *, by_time: bool
) -> float:
    actor = replace(
        bed.actor(Role.CONSUMER, 1, ids, Goal(duration_ns=duration_ns)),
        messages_per_batch=Range(POLLED_MESSAGES, POLLED_MESSAGES),
        strategy=StrategyKind.TIMESTAMP if by_time else StrategyKind.OFFSET,
        value=_timestamp_at(bed, ids, start) if by_time else start,
        wraps_at=None if by_time else start + POLLED_RANGE,
    )
    return bed.rate([actor]).server_us_per_request


def _timestamp_at(bed: Bed, ids: tuple[int, int], offset: int) -> int:
    polled: PolledMessages = bed.admin.ask(
        commands.PollMessages(
            consumer=single_consumer(1),
            stream=ids[0],
            topic=ids[1],
            partition_id=0,
            strategy=PollingStrategy(StrategyKind.OFFSET, offset),
            count=1,
            auto_commit=False,
        )
    )
    return polled.messages[0].timestamp
