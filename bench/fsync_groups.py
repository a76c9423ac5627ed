"""How many acknowledgements one fdatasync carries in fsync mode.

The calls are counted from outside while the load runs (sync_counter.py), and the acknowledgements
that arrived in the same time are counted from the samples.
"""

import time
from dataclasses import dataclass
from typing import Final

from borzoi.bench.bed import WARMUP_NS, Bed
from borzoi.bench.load import run_load
from borzoi.bench.plans import Goal
from borzoi.bench.quantities import NS_PER_S
from borzoi.bench.sync_counter import SyncCounter, SyncCounterMissing

__all__ = ["FSYNC", "Groups", "SyncCounterMissing", "acks_per_sync"]

FSYNC: Final = {"IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC": "true"}
CONNECTIONS: Final = 64
# The counter needs a moment to attach and one to say its result.
MARGIN_NS: Final = 500_000_000


@dataclass(frozen=True, slots=True)
class Groups:
    """How many sends were acknowledged, and by how many syncs."""

    acks: int
    syncs: int
    note: str


def acks_per_sync(bed: Bed, duration_ns: int) -> Groups:
    """Count both for `duration_ns` while 64 connections send single messages."""
    ids = bed.stream()
    actors = bed.producers(
        ids,
        Goal(duration_ns=duration_ns + 2 * MARGIN_NS),
        connections=CONNECTIONS,
        partitions=1,
        message_size=1000,
        messages_per_batch=1,
    )
    window = [0, 0]
    counters: list[SyncCounter] = []

    def count() -> None:
        counters.append(SyncCounter(bed.workers["shard 0"]))
        window[0] = time.monotonic_ns()
        time.sleep(duration_ns / NS_PER_S)
        window[1] = time.monotonic_ns()
        counters[0].request_stop()

    try:
        result = run_load(
            actors, bed.cpus.generator_cpus, warmup_ns=WARMUP_NS, while_measuring=count
        )
    finally:
        bed.drop_stream()
    counted = counters[0].result()
    acks = sum(
        window[0] <= end < window[1]
        for actor in result.actors
        for end in memoryview(actor.ends).cast("q")
    )
    rate = counted.calls * NS_PER_S / max(1, window[1] - window[0])
    return Groups(acks, counted.calls, f"{rate:,.0f} fdatasync/s, by {counted.counted_with}")
