"""Appending only those messages that a partition has not seen lately, by their ids.

The window of a partition is the last `entries_max` messages of its log that have not expired on
the partition's own clock: what the log stamps, which never goes back. It follows from the log
alone. So it is read back from there, by a thread and at the first append, whenever it is not
known: after a start, after a death, and after a write that failed and took its messages along.
Appends that come meanwhile wait, in their order.

Always: a window is used only while it ends where the log does, staged messages included.

A batch is never changed but in its headers, because it may be lent: the lender shows it again to
our successor. What is left of a batch with duplicates is a copy, and gets its stamps first. The
first message of the batch then says where the first new one lies, or its own original if none is.
Duplicates are answered with the group that is being written: it may hold their originals.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from borzoi.protocol.batch import SeenIds, copy_stamps, stamp_duplicates, without_stored
from borzoi.protocol.errors import (
    BrokerError,
    CannotReadFile,
    CannotSaveMessagesToSegment,
    PartitionNotFound,
)
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.message_ids import RANDOM_IDS
from borzoi.shards.partitions.partition import Delayed, OwnedPartition, Window
from borzoi.shards.partitions.resubmission import stored_since
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.shards.rings.requests import Done
from borzoi.storage.files import Files
from borzoi.storage.recent_ids import remember_tail

LOG: Final = logging.getLogger(__name__)

STALE: Final = -1  # no log ends there
TRIM_INTERVAL_S: Final = 30.0


def wall_clock_us() -> int:
    """Microseconds since 1970 by the clock of the machine."""
    return time.time_ns() // 1000


class Deduplication:
    """The windows of the partitions of one shard."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Executor,
        files: Files,
        commit: GroupCommit,
        readers: PartitionReaders,
        durability: Durability,
        *,
        entries_max: int,
        expiry_us: int,
        now_us: Callable[[], int] = wall_clock_us,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._files = files
        self._commit = commit
        self._readers = readers
        self._durability = durability
        self._entries_max = entries_max
        self._expiry_us = expiry_us
        self._now_us = now_us
        self.dropped = 0
        """Messages that were duplicates, since this worker started."""

    def append(
        self,
        partition: OwnedPartition,
        batch: memoryview,
        message_count: int,
        resubmitted: bool,
        done: Done,
        expected: int | None = None,
    ) -> None:
        """Append what is new of a checked batch; `done` is called unless BrokerError is raised.

        The caller keeps the batch until then.
        """
        log = partition.log
        if log.read_only:
            raise CannotSaveMessagesToSegment(f"{log.directory} is read-only until a restart")
        window = self._window(partition)
        if window is None:
            partition.delayed.append(Delayed(batch, message_count, resubmitted, done, expected))
            if len(partition.delayed) == 1:
                self._load(partition)
            return
        if resubmitted:
            stored = stored_since(self._readers, partition, batch, message_count)
            if stored is not None:
                rest, left_count = without_stored(batch, message_count, stored)
                if left_count < message_count:
                    # Otherwise other messages lie there, and the batch gets new stamps itself.
                    batch, message_count = memoryview(rest), left_count
            if message_count == 0:
                self._commit.flush(
                    partition,
                    done,
                    fsync=self._durability is Durability.FSYNC,
                )
                return
        partition.check_append(expected)
        self._stage(partition, window, batch, message_count)
        partition.appends.append(done)
        self._commit.touch(partition)

    def keep_trimmed(self, partitions: Iterable[OwnedPartition]) -> None:
        """Trim now and from time to time; `partitions` is looked through each time."""
        trims = Periodic(self._loop, TRIM_INTERVAL_S, lambda: self.forget_expired(partitions))
        trims.start_at_once()

    def forget_expired(self, partitions: Iterable[OwnedPartition]) -> None:
        """Give back the memory of windows without an append for a while."""
        now_us = self._now_us()
        for partition in partitions:
            if partition.window is not None:
                partition.window.seen.forget_expired(partition.log.timestamp_at(now_us))

    def _stage(
        self, partition: OwnedPartition, window: Window, batch: memoryview, message_count: int
    ) -> None:
        log = partition.log
        now_us = self._now_us()
        survivors = window.seen.admit(batch, message_count, log.timestamp_at(now_us), RANDOM_IDS)
        window.next_offset = STALE  # until the log has them too
        if survivors is None:
            if self._durability is Durability.BUFFERED:
                # The journal outlives the request, the lent buffer does not.
                journal = memoryview(bytearray(batch))
                log.stage(journal, message_count, now_us)
                batch[:] = journal
            else:
                log.stage(batch, message_count, now_us)
        else:
            if survivors.message_count:
                kept = memoryview(survivors.batch)
                log.stage(kept, survivors.message_count, now_us)
                copy_stamps(batch, kept, survivors.starts)
            else:
                stamp_duplicates(batch, log.staged_end - window.seen.back_to_first(batch))
            self.dropped += message_count - survivors.message_count
        window.next_offset = log.staged_end

    def _window(self, partition: OwnedPartition) -> Window | None:
        """The window, if it is known."""
        window, log = partition.window, partition.log
        if window is not None and window.next_offset == log.staged_end:
            return window
        if partition.delayed or log.segments.first_offset != log.staged_end:
            return None
        partition.window = Window(self._new_seen(), log.staged_end)
        return partition.window

    def _new_seen(self) -> SeenIds:
        seed = int.from_bytes(os.urandom(8), "little")
        return SeenIds(self._entries_max, self._expiry_us, seed)

    def _load(self, partition: OwnedPartition) -> None:
        """Read the window back from the log, then append what waits for it."""
        # Only the window that is lost knew what is staged; the flush answers those sends.
        self._commit.flush(partition, lambda _status: self._read_window(partition), fsync=False)

    def _read_window(self, partition: OwnedPartition) -> None:
        log = partition.log
        if not partition.alive:
            return
        window = Window(self._new_seen(), log.staged_end)
        tails = log.tail(self._entries_max)
        timestamp_min = 0
        if self._expiry_us:
            timestamp_min = max(0, log.timestamp_at(self._now_us()) - self._expiry_us + 1)
        partition.window = None

        def run() -> None:
            failed: BrokerError | None = None
            try:
                remember_tail(
                    window.seen, log.directory, tails, timestamp_min, self._files, log.cipher
                )
            except Exception as error:
                # Also a fault of ours: sends that wait get a status, and in the loop's thread.
                LOG.exception("the last ids of partition %s cannot be read", partition.target)
                failed = CannotReadFile(str(error))
            self._loop.call_soon_threadsafe(self._loaded, partition, window, failed)

        self._disk.submit(run)

    def _loaded(
        self, partition: OwnedPartition, window: Window, failed: BrokerError | None
    ) -> None:
        delayed, partition.delayed = partition.delayed, []
        if failed is None:
            partition.window = window
        for one in delayed:
            if failed is not None:
                # Appended all the same, they might be duplicates.
                one.done(failed.status)
            elif not partition.alive:
                one.done(PartitionNotFound.status)
            else:
                try:
                    self.append(partition, *one)
                except BrokerError as error:
                    one.done(error.status)
