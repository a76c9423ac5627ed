"""What a batch costs when it arrives at one shard and belongs to another.

Eight connections that all arrive at the same shard send to a partition of that shard, then to a
partition of the other one. Compared is the CPU time of both shards together per message, which
does not depend on who shares the cores with them.
"""

from dataclasses import replace
from typing import Final

from borzoi.bench.bed import PAGES_TOUCHED, Bed
from borzoi.bench.failures import BenchFailed
from borzoi.bench.plans import Goal
from borzoi.bench.quantities import Range
from borzoi.bench.sockets import written_bytes
from borzoi.bench.target_rows import Run

CONNECTIONS: Final = 8
MESSAGES_PER_BATCH: Final = 100
PARTITIONS: Final = 16
PROBE_MESSAGES: Final = 200


def crossing_run(bed: Bed, duration_ns: int) -> Run:
    """CPU per message to the own shard (reference) and to the other one."""
    ids = bed.stream(PARTITIONS)
    try:
        owners = {number: owner_of(bed, ids, number) for number in range(PARTITIONS)}
        receiver = bed.workers["shard 0"]
        own = next((number for number, pid in owners.items() if pid == receiver), None)
        other = next((number for number, pid in owners.items() if pid != receiver), None)
        if own is None or other is None:
            raise BenchFailed(f"all {PARTITIONS} partitions belong to one shard")
        costs = [
            _us_per_message(bed, ids, partition, receiver, duration_ns)
            for partition in (own, other)
        ]
    finally:
        bed.drop_stream()
    return Run(costs[0], costs[1])


def owner_of(bed: Bed, ids: tuple[int, int], partition_id: int) -> int:
    """The process that writes this partition: the one whose file writes grow when it is sent to."""
    before = {pid: written_bytes(pid) for pid in bed.workers.values()}
    bed.fill(ids, PROBE_MESSAGES, partition_id=partition_id, messages_per_batch=PROBE_MESSAGES)
    return max(before, key=lambda pid: written_bytes(pid) - before[pid])


def _us_per_message(
    bed: Bed, ids: tuple[int, int], partition_id: int, receiver: int, duration_ns: int
) -> float:
    actors = [
        replace(
            actor,
            partition_id=partition_id,
            messages_per_batch=Range(MESSAGES_PER_BATCH, MESSAGES_PER_BATCH),
            server_pid=receiver,
        )
        for actor in bed.producers(
            ids,
            Goal(duration_ns=duration_ns),
            connections=CONNECTIONS,
            partitions=1,
            message_size=1000,
            messages_per_batch=MESSAGES_PER_BATCH,
        )
    ]
    # Fresh pages cost whoever writes first (bed.py); neither side should.
    bed.touch_pages(PAGES_TOUCHED)
    bed.settle()
    return bed.rate(actors).server_us_per_message
