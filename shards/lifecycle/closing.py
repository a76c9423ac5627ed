"""The end of a shard's storage: everything is written first, and only then brought to the disk.

Used once, by the worker's loop, when no request is taken any more. In mode buffered acknowledged
messages may lie in memory alone. They are with the kernel, for every partition, before the first
sync begins. So a stop that is cut short loses as little as possible. Nothing here has a time limit;
the supervisor watches `tell` and decides (orderly_stop.py).

Then the disk. For few files each is synced by itself, in threads. For many, one call syncs the
whole file system, which also waits for what other programs have written there. A sync of a file was
measured to cost about as much as 128 KiB of theirs.

Always: what could not be written is counted and named, and so is what could not be synced.
"""

import asyncio
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple, TypeVar

from borzoi.protocol.errors import BrokerError, CannotSyncFile
from borzoi.router.target import Target
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.storage.files import Files
from borzoi.storage.log import SyncPlan
from borzoi.storage.offsets import OffsetsSync
from borzoi.storage.write_faults import Written

LOG: Final = logging.getLogger(__name__)

ROUNDS_MAX: Final = 3
"""An append that waited for a thread when the stop began may be staged after the first round."""

TURN_S: Final = 0.05
"""How long the loop is held before it may turn and say that it lives."""

LOOK_INTERVAL_S: Final = 0.005
DISK_THREADS: Final = 4
SINGLE_SYNCS_MAX: Final = 64
DIRTY_BYTES_PER_SYNC: Final = 128 * 1024
NAMED_PER_LINE_MAX: Final = 50
MEMINFO: Final = "/proc/meminfo"

Work = TypeVar("Work")

Tell = Callable[[int, int], None]
"""How many partitions are left to be written, and how many to be synced. Also a sign of life."""


class Lost(NamedTuple):
    """Acknowledged messages of a partition that could not be written."""

    target: Target
    message_count: int


class Closed(NamedTuple):
    """What a stop could not do."""

    lost: list[Lost]
    unsynced: list[Target]

    @property
    def is_complete(self) -> bool:
        """Whether everything acknowledged is on the disk."""
        return not self.lost and not self.unsynced


class PendingSync(NamedTuple):
    """What one partition needs to be on the disk."""

    partition: OwnedPartition
    log: SyncPlan | None
    offsets: OffsetsSync

    def files(self) -> int:
        """Returns how many files have to be synced."""
        log = 0 if self.log is None else len(self.log.sealed_paths) + len(self.log.paths)
        return log + len(self.offsets.paths)

    def directories(self) -> tuple[str, ...]:
        """Returns the directories that have to be synced after the files."""
        log = () if self.log is None else self.log.directories
        return (*log, *self.offsets.directories)


class Closing:
    """Writes and syncs the partitions of a shard for the last time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Executor,
        files: Files,
        partitions: Iterable[OwnedPartition],
        commit: GroupCommit,
        durability: Durability,
        root: str,
        tell: Tell,
        dirty: Callable[[], int] | None = None,
    ) -> None:
        """`partitions` is looked through several times; `root` is the data directory.

        `dirty`: how many bytes of all programs a sync of the file system may have to wait for.
        """
        self._loop = loop
        self._disk = disk
        self._files = files
        self._partitions = partitions
        self._commit = commit
        self._durability = durability
        self._root = root
        self._tell = tell
        self._dirty = dirty or dirty_bytes
        self._lost: list[Lost] = []
        self._unsynced: dict[int, Target] = {}

    async def run(self) -> Closed:
        """Until everything is on the disk, as far as that can be done."""
        # Opened before the writes: it tells of every error from here on.
        root_fd = self._files.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for _ in range(ROUNDS_MAX):
                await self._write_all()
                await self._let_running_syncs_end()
                await self._sync_all(root_fd)
                if not any(one.log.staged_messages for one in self._partitions):
                    break
        finally:
            self._files.close(root_fd)
        self._tell(0, 0)
        self._report()
        return Closed(self._lost, list(self._unsynced.values()))

    # Writing.

    async def _write_all(self) -> None:
        staged = [one for one in self._partitions if one.log.staged_messages]
        to_sync = sum(1 for one in self._partitions if _needs_sync(one))
        self._tell(len(staged), to_sync)
        await self._make_directories([one for one in staged if not one.log.has_directory], to_sync)
        turn_ends = time.monotonic() + TURN_S
        for number, partition in enumerate(staged):
            self._write(partition)
            if time.monotonic() > turn_ends:
                self._tell(len(staged) - number - 1, to_sync)
                await asyncio.sleep(0)
                turn_ends = time.monotonic() + TURN_S
        self._tell(0, to_sync)

    async def _make_directories(self, without: Sequence[OwnedPartition], to_sync: int) -> None:
        """The slow part of a first write, where most of the time is the kernel's, in threads."""

        def make(part: Sequence[OwnedPartition]) -> None:
            for partition in part:
                try:
                    partition.log.make_directory()
                except OSError:
                    # The write of this partition meets it again, and tells of it.
                    continue

        await self._in_threads(make, without, lambda: (len(without), to_sync))

    def _write(self, partition: OwnedPartition) -> None:
        message_count = partition.log.staged_messages
        failed: list[int] = []
        self._commit.flush(partition, failed.append, fsync=False)
        # In the other modes these messages were not acknowledged yet.
        if any(failed) and self._durability is Durability.BUFFERED:
            self._lost.append(Lost(partition.target, message_count))

    # Syncing.

    async def _let_running_syncs_end(self) -> None:
        """Those that requests have begun: they publish and answer when they are done.

        Recovery points that are being saved, too: half a file would be left of one.
        """
        busy = list(self._partitions)
        while (
            busy := [one for one in busy if one.syncing or one.appends]
        ) or self._commit.saves.running:
            self._tell(0, len(busy) + self._commit.saves.running)
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def _sync_all(self, root_fd: int) -> None:
        by_device: dict[int, list[PendingSync]] = {}
        for pending in self._pending():
            by_device.setdefault(self._device(pending), []).append(pending)
        left = sum(map(len, by_device.values()))
        for device, group in by_device.items():
            if not await self._sync_whole(device, group, root_fd, left):
                await self._sync_each(group, left)
            left -= len(group)

    def _pending(self) -> list[PendingSync]:
        found = []
        for partition in self._partitions:
            plan = None
            try:
                plan = partition.log.plan_sync()
            except BrokerError as error:
                self._failed(partition, error)
            offsets = OffsetsSync((), ())
            if not partition.offsets.is_synced:
                offsets = partition.offsets.plan_sync()
            if plan is not None or any(offsets):
                found.append(PendingSync(partition, plan, offsets))
        return found

    def _device(self, pending: PendingSync) -> int:
        try:
            return self._files.device_of(pending.partition.log.directory)
        except OSError as error:
            LOG.warning("%s cannot be looked at: %s", pending.partition.log.directory, error)
            return -1

    async def _sync_whole(
        self, device: int, group: Sequence[PendingSync], root_fd: int, left: int
    ) -> bool:
        """The file system as a whole, if that pays; False if each file has to be synced."""
        if device == -1 or not whole_pays(_sync_count(group), self._dirty()):
            return False
        fd = root_fd
        if device != self._files.device_of(self._root):
            directory = group[0].partition.log.directory
            fd = self._files.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        syncing = self._loop.run_in_executor(self._disk, self._files.sync_file_system, fd)
        try:
            await self._watch(syncing, lambda: (0, left))
        except (OSError, AttributeError) as error:
            # Whose file it was is not said, and there may be no such call: each has to tell.
            LOG.warning("the file system cannot be synced as a whole: %s", error)
            return False
        finally:
            if fd != root_fd:
                self._files.close(fd)
        for pending in group:
            self._synced(pending)
        return True

    async def _sync_each(self, group: Sequence[PendingSync], left: int) -> None:
        shared = [
            path
            for path, times in Counter(
                path for pending in group for path in set(pending.directories())
            ).items()
            if times > 1
        ]
        done: deque[tuple[PendingSync, BrokerError | None]] = deque()

        def run(part: Sequence[PendingSync]) -> None:
            for pending in part:
                done.append((pending, run_sync(pending, known)))

        known = frozenset(await self._loop.run_in_executor(self._disk, self._sync_names, shared))
        await self._in_threads(run, group, lambda: (0, left - len(done)))
        for pending, error in done:
            if error is None:
                self._synced(pending)
            else:
                self._failed(pending.partition, error)

    def _sync_names(self, directories: Iterable[str]) -> list[str]:
        """Directories that many partitions share, once; those that are done."""
        done = []
        for path in directories:
            try:
                self._files.fsync_directory(path)
            except OSError as error:
                # Each partition tries it again, and fails with it.
                LOG.error("%s is not on the disk: %s", path, error)
            else:
                done.append(path)
        return done

    async def _in_threads(
        self,
        run: Callable[[Sequence[Work]], None],
        work: Sequence[Work],
        left: Callable[[], tuple[int, int]],
    ) -> None:
        """Share the work among the threads, and wait."""
        parts = [work[number::DISK_THREADS] for number in range(DISK_THREADS)]
        running = [self._loop.run_in_executor(self._disk, run, part) for part in parts if part]
        await self._watch(asyncio.gather(*running), left)

    async def _watch(
        self, running: asyncio.Future[Any], left: Callable[[], tuple[int, int]]
    ) -> None:
        """Wait, and say now and then that the loop turns."""
        while not running.done():
            self._tell(*left())
            await asyncio.wait((running,), timeout=TURN_S)
        running.result()

    def _synced(self, pending: PendingSync) -> None:
        if pending.log is not None:
            pending.partition.log.finish_sync(pending.log)

    def _failed(self, partition: OwnedPartition, error: BrokerError) -> None:
        LOG.error("partition %s is not on the disk: %s", partition.target, error)
        self._commit.faults.note(Written.SYNC, error)
        self._unsynced[partition.target.namespace] = partition.target

    # Telling.

    def _report(self) -> None:
        for first in range(0, len(self._lost), NAMED_PER_LINE_MAX):
            some = self._lost[first : first + NAMED_PER_LINE_MAX]
            LOG.error(
                "acknowledged messages are lost, they could not be written: %s",
                "; ".join(f"{one.message_count} of partition {one.target}" for one in some),
            )
        if self._lost:
            LOG.critical(
                "%d acknowledged messages of %d partitions are lost",
                sum(one.message_count for one in self._lost),
                len(self._lost),
            )


def run_sync(pending: PendingSync, known: Collection[str]) -> BrokerError | None:
    """For a thread: sync what one partition needs, but for directories that are done already."""
    partition = pending.partition
    try:
        if pending.log is not None:
            left = tuple(path for path in pending.log.directories if path not in known)
            partition.log.run_sync(pending.log._replace(directories=left))
        partition.offsets.run_sync(pending.offsets)
    except BrokerError as error:
        return error
    except Exception as error:
        LOG.exception("the sync of partition %s broke", partition.target)
        return CannotSyncFile(str(error))
    return None


def whole_pays(sync_count: int, dirty: int) -> bool:
    """Whether so many syncs of files cost more than a file system with so many dirty bytes."""
    return sync_count > SINGLE_SYNCS_MAX + dirty // DIRTY_BYTES_PER_SYNC


def dirty_bytes() -> int:
    """What this machine has not written to any disk yet; 0 if it does not say."""
    try:
        with open(MEMINFO, encoding="ascii") as lines:
            rows = [line.split() for line in lines]
    except OSError:
        return 0
    return sum(int(row[1]) * 1024 for row in rows if row[0] in ("Dirty:", "Writeback:"))


def _needs_sync(partition: OwnedPartition) -> bool:
    log = partition.log
    return bool(log.staged_messages) or not (log.is_synced and partition.offsets.is_synced)


def _sync_count(group: Sequence[PendingSync]) -> int:
    directories = {path for pending in group for path in pending.directories()}
    return len(directories) + sum(pending.files() for pending in group)
