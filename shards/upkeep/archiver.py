"""The archiver of a shard: sealed segments, committed offsets and (shard 0) the metadata.

Every shard has one, for the partitions it owns. The loop decides what is next and a thread copies
it, one object at a time. So a shard sends at most one segment at once and a broker one for each
shard. Rounds follow each other in the configured interval. When the store fails the next round
waits longer, up to BACKOFF_MAX_S, and begins with what is missing.

What is archived is known by the manifests in the archive alone: nothing is noted here that could
be wrong after a crash. A start reads them once for each partition.

With `archive_expired` retention asks `archived_count` before it deletes anything.
"""

import asyncio
import logging
import secrets
import threading
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Executor
from itertools import takewhile
from typing import Final, NamedTuple, Protocol, TypeVar

from borzoi.protocol.errors import BrokerError
from borzoi.router.placement import unpack_namespace
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.rings.asking import asked
from borzoi.shards.upkeep.archived_state import PublishedEnd, archive_state
from borzoi.storage.archive.catalogue import archived_segments, offset_keys, read_identity
from borzoi.storage.archive.copying import CopyingStopped, put_bytes
from borzoi.storage.archive.manifest import (
    IDENTITY_KEY,
    Identity,
    Life,
    ManifestDamaged,
    OffsetsManifest,
    PartitionOffsets,
    encode,
    offsets_key,
)
from borzoi.storage.archive.segments import SegmentGone, archive_segment
from borzoi.storage.archive.store import ArchiveStore, StoreFailed
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.segment import SealedSegment

LOG: Final = logging.getLogger(__name__)

ID_SIZE: Final = 32
BACKOFF_MIN_S: Final = 1.0
BACKOFF_MAX_S: Final = 60.0
PARTITIONS_PER_TURN: Final = 64
"""So many partitions are looked at before the loop gets its turn."""

T = TypeVar("T")


class ArchivingStats(NamedTuple):
    """What was archived since the start, and how often rounds failed: in a row, and in all."""

    segments: int
    size_bytes: int
    failures: int
    failures_total: int


class ForeignArchive(Exception):
    """The archive belongs to another data directory: to write there could destroy its history."""


class WaitingForOwner(Exception):
    """Shard 0 has not said yet whose the archive is."""


class Clock(Protocol):
    """The time that archived segments are stamped with."""

    def now_us(self) -> int:
        """Returns microseconds since the epoch."""


def backoff_s(failures: int) -> float:
    """How long to wait after so many failures in a row."""
    return min(BACKOFF_MIN_S * 2.0 ** min(failures - 1, 16), BACKOFF_MAX_S)


class Archiver:
    """Archives what this shard owns, again and again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        thread: Executor,
        files: Files,
        layout: DataLayout,
        open_store: Callable[[], ArchiveStore],
        partitions: Partitions,
        commit: GroupCommit,
        clock: Clock,
        published_end: PublishedEnd,
        *,
        shard: int,
        shard_count: int,
        interval_s: float,
        every_segment: bool,
    ) -> None:
        self._loop = loop
        self._tasks = tasks
        self._thread = thread
        self._files = files
        self._layout = layout
        self._open_store = open_store
        self._partitions = partitions
        self._commit = commit
        self._clock = clock
        self._published_end = published_end
        self._shard = shard
        self._shard_count = shard_count
        self._interval_s = interval_s
        self._every_segment = every_segment

        self._store: ArchiveStore | None = None
        self._archived: dict[Life, set[int]] = {}
        self._wanted: dict[Life, int] = {}  # only up to this offset, if not every segment
        self._state_entry = 0
        self._offsets: tuple[PartitionOffsets, ...] | None = None
        self._stopped = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_running = False
        self._is_urgent = False
        self._failures = 0
        self._failures_total = 0
        self._segments = 0
        self._size_bytes = 0

    def stats(self) -> ArchivingStats:
        """The figures of this moment."""
        return ArchivingStats(
            self._segments, self._size_bytes, self._failures, self._failures_total
        )

    def start(self) -> None:
        """Begin with the first round at once: it tells what is archived already."""
        self._schedule(0.0)

    def stop(self) -> None:
        """Begin nothing more; what is being copied is given up at the next piece."""
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def archived_count(self, partition: OwnedPartition, oldest: Sequence[SealedSegment]) -> int:
        """Returns how many of these oldest segments of a partition are in the archive.

        The others are archived soon; a later call counts them.
        """
        life = life_of(partition)
        archived: Set[int] = self._archived.get(life, set())
        count = sum(1 for _ in takewhile(lambda one: one.first_offset in archived, oldest))
        if count < len(oldest):
            self._wanted[life] = max(self._wanted.get(life, 0), oldest[-1].end_offset)
            self._hurry()
        return count

    def waiting_count(self, partition: OwnedPartition) -> int:
        """How many sealed segments of a partition have yet to be archived."""
        sealed, life = partition.log.sealed, life_of(partition)
        if not sealed or not (self._every_segment or life in self._wanted):
            return 0
        archived: Set[int] = self._archived.get(life, set())
        end_offset = sealed[-1].end_offset if self._every_segment else self._wanted[life]
        return sum(
            one.first_offset not in archived and one.end_offset <= end_offset for one in sealed
        )

    def _hurry(self) -> None:
        """Begins the next round at once, because a caller waits for it; not after failures."""
        if self._is_running:
            self._is_urgent = True
        elif self._failures == 0:
            self._schedule(0.0)

    def _schedule(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._stopped.is_set():
            self._timer = self._loop.call_later(delay_s, self._begin)

    def _begin(self) -> None:
        if self._is_running:
            return
        self._is_running, self._is_urgent = True, False
        self._tasks.start(self._round())

    async def _round(self) -> None:
        delay_s = self._interval_s
        try:
            await self._archive_all()
        except CopyingStopped:
            return
        except WaitingForOwner:
            delay_s = BACKOFF_MIN_S
        except (StoreFailed, ForeignArchive, ManifestDamaged, OSError) as error:
            self._failures += 1
            self._failures_total += 1
            delay_s = backoff_s(self._failures)
            LOG.warning("archiving goes on in %.0f s, the archive failed: %s", delay_s, error)
        else:
            if self._failures:
                LOG.info("the archive works again")
            self._failures = 0
        finally:
            self._is_running = False
        self._schedule(0.0 if self._is_urgent and not self._failures else delay_s)

    async def _archive_all(self) -> None:
        store = self._store
        if store is None:
            store = await self._in_thread(self._open)
            self._store = store
        if self._shard == 0:
            # First: segments of a partition that no archived state knows cannot be restored.
            await self._archive_state(store)
        problem = await self._archive_partitions(store)
        if problem is not None:
            raise problem

    async def _archive_partitions(self, store: ArchiveStore) -> OSError | None:
        """Archives segments and offsets; returns the last failure of our own disk."""
        living: set[Life] = set()
        offsets: list[PartitionOffsets] = []
        problem: OSError | None = None
        for number, partition in enumerate(self._partitions):
            if number % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            if not partition.alive:
                continue
            life = life_of(partition)
            living.add(life)
            if committed := partition.offsets.items():
                rows = tuple((int(kind), id, offset) for kind, id, offset in committed)
                offsets.append(PartitionOffsets(*life, rows))
            try:
                await self._archive_partition(store, partition, life)
            except OSError as error:
                # Our own disk, and here only: the other partitions need not wait for it.
                LOG.error("partition %s is not archived: %s", partition.target, error)
                problem = error
        for gone in self._archived.keys() - living:
            del self._archived[gone]
        for gone in self._wanted.keys() - living:
            del self._wanted[gone]
        await self._archive_offsets(store, tuple(offsets))
        return problem

    async def _archive_partition(
        self, store: ArchiveStore, partition: OwnedPartition, life: Life
    ) -> None:
        log = partition.log
        if not log.sealed or not (self._every_segment or life in self._wanted):
            return
        archived = self._archived.get(life)
        if archived is None:
            local = {segment.first_offset for segment in log.sealed}
            archived = await self._in_thread(
                lambda: archived_segments(store, life, local.__contains__)
            )
            self._archived[life] = archived
        if log.sealed_unsynced:
            try:
                await asked(lambda done: self._commit.flush(partition, done, fsync=True))
            except BrokerError as error:
                raise OSError(f"it cannot be synced: {error!r}") from error
        end_offset = None if self._every_segment else self._wanted[life]
        for segment in log.segments.deletable(partition.published):
            if segment.first_offset in archived:
                continue
            if not partition.alive or (end_offset is not None and segment.end_offset > end_offset):
                break
            await self._archive_segment(store, partition, life, segment, archived)
        archived &= {segment.first_offset for segment in log.sealed}

    async def _archive_segment(
        self,
        store: ArchiveStore,
        partition: OwnedPartition,
        life: Life,
        segment: SealedSegment,
        archived: set[int],
    ) -> None:
        directory = partition.log.directory
        now_us = self._clock.now_us()

        def copy() -> int:
            manifest = archive_segment(
                store, life, directory, segment, self._files, now_us, self._go_on
            )
            return sum(record.size for record in manifest.files)

        try:
            size = await self._in_thread(copy)
        except SegmentGone as error:
            # Retention was faster, or the partition ended.
            LOG.info("partition %s: not archived: %s", partition.target, error)
            return
        archived.add(segment.first_offset)
        self._segments += 1
        self._size_bytes += size
        LOG.info(
            "partition %s: archived the segment at offset %d, %d bytes",
            partition.target,
            segment.first_offset,
            size,
        )

    async def _archive_offsets(
        self, store: ArchiveStore, offsets: tuple[PartitionOffsets, ...]
    ) -> None:
        if offsets == self._offsets:
            return
        manifest = OffsetsManifest(
            shard_count=self._shard_count, archived_at=self._clock.now_us(), partitions=offsets
        )

        def put() -> None:
            put_bytes(store, offsets_key(self._shard), encode(manifest))
            if self._shard == 0:
                ours = {offsets_key(shard) for shard in range(self._shard_count)}
                for key in offset_keys(store):
                    if key not in ours:
                        store.delete(key)

        await self._in_thread(put)
        self._offsets = offsets

    async def _archive_state(self, store: ArchiveStore) -> None:
        if self._published_end().last_index == self._state_entry:
            return
        now_us = self._clock.now_us()
        self._state_entry = await self._in_thread(
            lambda: archive_state(
                store, self._layout, self._files, self._published_end, now_us, self._go_on
            )
        )

    def _open(self) -> ArchiveStore:
        """The store, once it is known to be ours."""
        store = self._open_store()
        data = self._files.read_all(self._layout.archive_id, ID_SIZE)
        found = read_identity(store)
        if (data is None or found is None) and self._shard != 0:
            raise WaitingForOwner
        if data is None:
            data = secrets.token_hex(ID_SIZE // 2).encode()
            self._files.write_atomically(self._layout.archive_id, data)
        own = Identity(id=data.decode(errors="replace"))
        if found is None:
            put_bytes(store, IDENTITY_KEY, encode(own))
        elif found.id != own.id:
            raise ForeignArchive(
                f"{store.name} is the archive of another data directory ({found.id}, this one is"
                f" {own.id}): choose another path or prefix"
            )
        LOG.info("archiving to %s", store.name)
        return store

    def _go_on(self) -> bool:
        return not self._stopped.is_set()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._stopped.is_set():
            raise CopyingStopped
        return await self._loop.run_in_executor(self._thread, work)


def life_of(partition: OwnedPartition) -> Life:
    """Returns the life of a partition, which names it in the archive."""
    target = partition.target
    return Life(*unpack_namespace(target.namespace), target.birth)
