"""The collection of this shard's figures for metrics.

Every figure is either counted anyway or looked up on request; sends and polls do nothing for it.
Partitions are walked in turns: after STEPS_PER_TURN of them, of their segments and of their
consumers the loop serves all other work first. So figures of different partitions may be some
milliseconds apart.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from borzoi.router.placement import unpack_namespace
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import MetadataWriting
from borzoi.shards.identity.clients import Clients
from borzoi.shards.lifecycle.deleting import Deleting
from borzoi.shards.loop.slow_requests import SlowFigures
from borzoi.shards.metrics.shard_figures import (
    LAG,
    ArchiveFigures,
    BlockedSince,
    BlockerFigures,
    CompressedTopic,
    Cut,
    Lags,
    NatsFigures,
    Resident,
    ShardFigures,
    cut,
)
from borzoi.shards.partitions.deduplication import Deduplication
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.tallies.traffic import Traffic
from borzoi.shards.upkeep.archiver import Archiver
from borzoi.shares import ShareFigures
from borzoi.storage.ratio import Ratio
from borzoi.storage.write_faults import FaultCount, WriteFaults

STEPS_PER_TURN: Final = 256
PROCESS_STATUS: Final = Path("/proc/self/status")


class OpenConnections(Protocol):
    """A door that counts its connections."""

    @property
    def open_count(self) -> int:
        """How many are open."""


class HttpRequests(Protocol):
    """A door that counts its requests, since the start of this worker."""

    requests: int
    refused: int


@dataclass(frozen=True, slots=True)
class FigureSources:
    """The parts of a shard that have something to tell."""

    metadata: MetadataService
    partitions: Partitions
    deleting: Deleting
    archiver: Archiver | None
    deduplication: Deduplication | None
    writing: MetadataWriting | None
    faults: WriteFaults
    clients: Clients
    listener: OpenConnections
    http: HttpRequests
    shared: Mapping[str, Callable[[], ShareFigures]]
    nats: Callable[[], NatsFigures | None]
    slow: Callable[[], SlowFigures | None]
    mapped: Callable[[], int]
    traffic: Callable[[int], Traffic]
    """With lists that are no longer than so many rows."""


class Walk:
    """What is added up over the partitions of a shard."""

    def __init__(
        self,
        partitions: Partitions,
        archiver: Archiver | None,
        rows_max: int,
        steps_per_turn: int = STEPS_PER_TURN,
    ) -> None:
        self._partitions = partitions
        self._archiver = archiver
        self._rows_max = rows_max
        self._steps_per_turn = steps_per_turn
        self._lags = bytearray()
        self._lag_count = 0
        self._lag_total = 0
        self._read_only: list[int] = []
        self._compressed: dict[tuple[int, int, str], Ratio] = defaultdict(Ratio)
        self.codecs: dict[str, Ratio] = defaultdict(Ratio)
        self.archive_waiting = 0

    async def run(self) -> None:
        """Look at all partitions, in turns."""
        steps = 0
        for partition in self._partitions:
            if steps >= self._steps_per_turn:
                steps = 0
                await asyncio.sleep(0)
            if partition.alive:
                steps += 1 + self._add(partition)

    def _add(self, partition: OwnedPartition) -> int:
        """Add one partition; what it took, in steps."""
        namespace = partition.target.namespace
        if partition.log.read_only:
            self._read_only.append(namespace)
        self._add_lags(partition)
        sealed = partition.log.sealed
        stream_id, topic_id, _ = unpack_namespace(namespace)
        for segment in sealed:
            if segment.compressed is not None:
                codec = segment.codec.label
                place = stream_id, topic_id, codec
                self._compressed[place] = self._compressed[place].with_segment(segment)
                self.codecs[codec] = self.codecs[codec].with_segment(segment)
        if self._archiver is not None:
            self.archive_waiting += self._archiver.waiting_count(partition)
        return len(sealed) + len(partition.offsets)

    def _add_lags(self, partition: OwnedPartition) -> None:
        self._lag_total += len(partition.offsets)
        room = self._rows_max - self._lag_count
        if room <= 0 or not len(partition.offsets):
            return
        end = self._partitions.visible_end(partition)
        begin = partition.published.first_offset
        # Backwards: groups stand behind consumers, and matter more if there are too many.
        for kind, consumer, offset in partition.offsets.items()[: -room - 1 : -1]:
            # What was deleted unread is nothing to catch up with.
            unread = max(0, end - max(offset + 1, begin))
            self._lags += LAG.pack(partition.target.namespace, kind, consumer, unread)
            self._lag_count += 1

    @property
    def lags(self) -> Lags:
        """The lags found so far, and how many were left out."""
        return Lags(bytes(self._lags), self._lag_total - self._lag_count)

    @property
    def read_only(self) -> Cut[int]:
        """Namespaces of partitions that take nothing until a restart, cut to the bound."""
        return cut(self._read_only, len(self._read_only), self._rows_max)

    @property
    def compressed(self) -> Cut[CompressedTopic]:
        """The compressed bytes of each topic and codec, cut to the bound."""
        rows = (CompressedTopic(*place, *found) for place, found in self._compressed.items())
        return cut(rows, len(self._compressed), self._rows_max)


async def own_figures(
    sources: FigureSources, rows_max: int, resident: Callable[[], Resident]
) -> ShardFigures:
    """The figures of this shard, no list longer than `rows_max`."""
    walk = Walk(sources.partitions, sources.archiver, rows_max)
    await walk.run()
    # From here on nothing waits.
    sources.metadata.refresh()  # clients of users who were removed do not count any more
    deleted = sources.deleting.stats()
    blocked = (BlockerFigures(*blocker, times) for blocker, times in deleted.blocked.items())
    standing = deleted.blocked_since_us
    blocked_since = (BlockedSince(*blocker, since_us) for blocker, since_us in standing.items())
    return ShardFigures(
        connections=sources.listener.open_count,
        clients=sources.clients.here_count,
        cpu_seconds=time.process_time(),
        resident=resident(),
        mapped_bytes=sources.mapped(),
        http_requests=sources.http.requests,
        http_refused=sources.http.refused,
        deleted_segments=deleted.segments,
        deleted_bytes=deleted.size_bytes,
        deleted_unread_segments=deleted.unread_segments,
        blocked=cut(blocked, len(deleted.blocked), rows_max),
        blocked_since=cut(blocked_since, len(standing), rows_max),
        archive=_archive_figures(sources.archiver, walk.archive_waiting),
        codecs=walk.codecs,
        compressed=walk.compressed,
        read_only=walk.read_only,
        refused_partitions=len(sources.partitions.refused),
        faults=_faults(sources),
        metadata_is_read_only=sources.writing is not None and sources.writing.is_read_only,
        duplicates=0 if sources.deduplication is None else sources.deduplication.dropped,
        lags=walk.lags,
        shared={name: figures() for name, figures in sources.shared.items()},
        nats=sources.nats(),
        slow=sources.slow(),
        traffic=sources.traffic(rows_max),
    )


def resident_memory() -> Resident:
    """What this process has in memory, as the kernel tells it in kB."""
    found = dict(line.split(":", 1) for line in PROCESS_STATUS.read_text().splitlines())
    return Resident(
        *(int(found[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile", "RssShmem"))
    )


def _archive_figures(archiver: Archiver | None, waiting: int) -> ArchiveFigures | None:
    if archiver is None:
        return None
    stats = archiver.stats()
    return ArchiveFigures(stats.segments, stats.size_bytes, stats.failures_total, waiting)


def _faults(sources: FigureSources) -> list[FaultCount]:
    """Shard 0 writes the metadata as well."""
    of_metadata = [] if sources.writing is None else sources.writing.faults.counts()
    return sources.faults.counts() + of_metadata
