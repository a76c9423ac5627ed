"""The claims of the architecture and storage pages, measured here: one loop against many shards.

First the latency of one event loop against one pinned shard per CPU, at 8, 16 and 32 partitions
with one producer each. Both get the same load, half of what one shard can take, and latency is
counted from the planned send. Then what paths without copies are worth: bare programs with copies
and without. What the pages say stands in the last column; their machine had many cores and NVMe.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from borzoi.bench.bed import Bed
from borzoi.bench.cpus import available_cpus
from borzoi.bench.limits import append_limit, slices_limit
from borzoi.bench.measures import percentiles_of
from borzoi.bench.pacing import interval_ns
from borzoi.bench.plans import Goal
from borzoi.bench.quantities import GB, NS_PER_S

PARTITIONS: Final = (8, 16, 32)
PERCENTILES: Final = (95.0, 99.0, 99.99)
NAMES: Final = ("p95", "p99", "p99.99")
# Change of latency from one work-stealing runtime to a loop per core, as the page gives it.
PAGE_CHANGES: Final = {
    (8, "p99.99"): -0.81,
    (16, "p95"): -0.28,
    (16, "p99"): -0.32,
    (16, "p99.99"): -0.92,
    (32, "p95"): -0.57,
    (32, "p99"): -0.60,
}
MESSAGE_SIZE: Final = 1_000
MESSAGES_PER_BATCH: Final = 100
LOAD_SHARE: Final = 0.5
NO_MIGRATION: Final = {"IGGY_TCP_SOCKET_MIGRATION": "false"}


@dataclass(frozen=True, slots=True)
class Claim:
    """One figure before and after; `page` is what the seed pages say of the same change."""

    what: str
    unit: str
    before: float
    after: float
    page: str

    @property
    def change(self) -> float:
        """The relative change, 0 if there was nothing before."""
        return self.after / self.before - 1.0 if self.before else 0.0

    def as_json(self) -> dict[str, object]:
        """Returns the members of a JSON object."""
        return {**asdict(self), "change": self.change}


def measure_latencies(
    duration_ns: int, directory: Path | None, say: Callable[[str], None]
) -> Iterator[Claim]:
    """One shard against one per CPU."""
    shards = len(available_cpus())
    for partitions in PARTITIONS:
        say(f"{partitions} partitions: what one shard can take")
        rate = int(_capacity(partitions, duration_ns, directory) * LOAD_SHARE)
        say(f"{partitions} partitions at {rate / 1e6:.0f} MB/s: 1 shard, then {shards}")
        one = _latencies(1, partitions, rate, duration_ns, directory)
        many = _latencies(shards, partitions, rate, duration_ns, directory)
        for name, before, after in zip(NAMES, one, many, strict=True):
            page = PAGE_CHANGES.get((partitions, name))
            yield Claim(
                what=f"{partitions} partitions {name}, 1 shard -> {shards} shards",
                unit="ms",
                before=before,
                after=after,
                page="" if page is None else f"{page:+.0%}",
            )


def measure_copies(
    duration_ns: int, directory: Path | None, say: Callable[[str], None]
) -> Iterator[Claim]:
    """Bare programs, with copies and without."""
    page = "1.7 -> 2.4 GB/s (+40%)"
    with Bed(1, directory=directory) as bed:
        say("receiving and appending, with copies and without")
        shape = (bed.cpus, 1000, 1000, duration_ns, bed.directory)
        copied = append_limit(*shape, variants=("append-copies",)).bytes_per_s / GB
        direct = append_limit(*shape, variants=("append-uvloop",)).bytes_per_s / GB
        yield Claim("bare producer path, copies -> none", "GB/s", copied, direct, page)
        say("serving polls, with copies and without")
        copied = slices_limit(*shape, variants=("slices-copies",)).bytes_per_s / GB
        direct = slices_limit(*shape, variants=("slices-uvloop",)).bytes_per_s / GB
        polls_page = "2.1 -> 4.0 GB/s (+90%)"
        yield Claim("bare consumer path, copies -> none", "GB/s", copied, direct, polls_page)


def measure_migration(
    duration_ns: int, directory: Path | None, say: Callable[[str], None]
) -> Iterator[Claim]:
    """Connections that stay against connections that move to the owner of their partition."""
    shards = len(available_cpus())
    if shards == 1:
        say("one CPU: there is no other shard to move a connection to")
        return
    say("connections that stay, and connections that move to their partition's shard")
    stay = _latencies(shards, PARTITIONS[0], None, duration_ns, directory, NO_MIGRATION)
    move = _latencies(shards, PARTITIONS[0], None, duration_ns, directory)
    for name, before, after in zip(NAMES, stay, move, strict=True):
        yield Claim(f"socket migration off -> on, {name}", "ms", before, after, "")


def _capacity(partitions: int, duration_ns: int, directory: Path | None) -> float:
    with Bed(1, directory=directory) as bed:
        return bed.produce(
            duration_ns,
            connections=partitions,
            partitions=partitions,
            message_size=MESSAGE_SIZE,
            messages_per_batch=MESSAGES_PER_BATCH,
        ).bytes_per_s


def _latencies(
    shards: int,
    partitions: int,
    rate: int | None,
    duration_ns: int,
    directory: Path | None,
    settings: dict[str, str] | None = None,
) -> tuple[float, ...]:
    """Milliseconds at PERCENTILES, over all requests of all producers."""
    interval = interval_ns(rate, partitions, MESSAGE_SIZE * MESSAGES_PER_BATCH)
    with Bed(shards, settings, directory=directory) as bed:
        ids = bed.stream(partitions)
        producers = bed.producers(
            ids,
            Goal(duration_ns=duration_ns),
            connections=partitions,
            partitions=partitions,
            message_size=MESSAGE_SIZE,
            messages_per_batch=MESSAGES_PER_BATCH,
        )
        result = bed.run([replace(actor, interval_ns=interval) for actor in producers])
        bed.drop_stream()
    samples = np.concatenate([np.frombuffer(one.latencies, np.int64) for one in result.actors])
    return tuple(value * 1000 / NS_PER_S for value in percentiles_of(samples, PERCENTILES))
