"""What a batch costs when it arrives at one shard and belongs to another.

Eight connections that all arrive at the same shard send to a partition of that shard, then to a
partition of the other one. Compared is the CPU time of both shards together per message, which does
not depend on what else shares the cores with them. Both send the same number of messages, fewer
than fill a segment or the pages touched before. The sync of a full segment and the first use of a
page cost several times what is measured here. They would hit one side or the other by chance.
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
MESSAGES_PER_CONNECTION: Final = 50_000
WARMUP_NS: Final = 100_000_000


def crossing_run(bed: Bed, *, other_first: bool) -> Run:
    """CPU per message to the own shard (reference) and to the other one."""
    ids = bed.stream(PARTITIONS)
    try:
        owners = {number: owner_of(bed, ids, number) for number in range(PARTITIONS)}
        receiver = bed.workers["shard 0"]
        own = next((number for number, pid in owners.items() if pid == receiver), None)
        other = next((number for number, pid in owners.items() if pid != receiver), None)
        if own is None or other is None:
            raise BenchFailed(f"all {PARTITIONS} partitions belong to one shard")
        # The second run finds the machine as the first has left it: they take turns.
        order = (other, own) if other_first else (own, other)
        costs = {number: _us_per_message(bed, ids, number, receiver) for number in order}
    finally:
        bed.drop_stream()
    return Run(costs[own], costs[other])


def owner_of(bed: Bed, ids: tuple[int, int], partition_id: int) -> int:
    """The process that writes this partition: the one whose file writes grow when it is sent to."""
    before = {pid: written_bytes(pid) for pid in bed.workers.values()}
    bed.fill(ids, PROBE_MESSAGES, partition_id=partition_id, messages_per_batch=PROBE_MESSAGES)
    return max(before, key=lambda pid: written_bytes(pid) - before[pid])


def _us_per_message(bed: Bed, ids: tuple[int, int], partition_id: int, receiver: int) -> float:
    actors = [
        replace(
            actor,
            partition_id=partition_id,
            messages_per_batch=Range(MESSAGES_PER_BATCH, MESSAGES_PER_BATCH),
            server_pid=receiver,
        )
        for actor in bed.producers(
            ids,
            Goal(messages=MESSAGES_PER_CONNECTION),
            connections=CONNECTIONS,
            partitions=1,
            message_size=1000,
            messages_per_batch=MESSAGES_PER_BATCH,
        )
    ]
    # Fresh pages cost the first writer (bed.py), which neither side should be.
    bed.touch_pages(PAGES_TOUCHED)
    bed.settle()
    return bed.rate(actors, warmup_ns=WARMUP_NS).server_us_per_message
