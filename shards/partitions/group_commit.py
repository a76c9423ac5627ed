"""One write per partition and loop turn, in the configured durability mode.

Owned by the worker's loop. `touch` marks a partition; the first mark of a turn schedules the
commit with `call_soon`. The loop runs that after all sockets of this turn have been read: it is the
end of the turn. Then, per partition: write, publish, answer. In mode fsync one fdatasync
is in flight per partition, in a thread; what arrives meanwhile forms the next group.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from time import monotonic, perf_counter_ns
from typing import Final

from borzoi.protocol.errors import BrokerError, CannotSyncFile
from borzoi.router.board import Board
from borzoi.shards.loop.slow_requests import SlowRequests
from borzoi.shards.partitions.commit_counts import CommitCounts
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.shards.partitions.recovery_saves import RecoverySaves, said_of_failed_sync
from borzoi.storage.log import SyncPlan
from borzoi.storage.published import Published
from borzoi.storage.write_faults import WriteFaults, Written

LOG: Final = logging.getLogger(__name__)


class GroupCommit:
    """Writes what a turn has staged."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        board: Board,
        disk: Executor,
        durability: Durability,
        *,
        journal_messages_max: int,
        journal_size_max: int,
    ) -> None:
        self._loop = loop
        self._board = board
        self._disk = disk
        self._durability = durability
        self._journal_messages_max = journal_messages_max
        self._journal_size_max = journal_size_max
        self.counts = CommitCounts()
        self.faults = WriteFaults(Written.MESSAGES, Written.SYNC, Written.OFFSETS)
        # Called when a segment was sealed and has reached the disk; the worker wires it.
        self.on_sealed: Callable[[OwnedPartition], None] | None = None
        self.saves = RecoverySaves(loop, disk)
        self.slow: SlowRequests | None = None
        """Watches how long writes take, if that is wanted."""
        self._touched: dict[OwnedPartition, None] = {}
        self._commit_appends = {
            Durability.BUFFERED: self._commit_journal,
            Durability.WRITTEN: self._commit_written,
            Durability.FSYNC: self._commit_synced,
        }.get(durability, self._commit_written)

    def touch(self, partition: OwnedPartition) -> None:
        """Commit this partition at the end of the turn."""
        if not self._touched:
            self._loop.call_soon(self._commit_turn)
        self._touched[partition] = None

    def write_offset(self, partition: OwnedPartition) -> int:
        """Make the offset count that was just stored; the status of that.

        At once: each consumer has a file of its own, so waiting for others would save no write.
        """
        try:
            partition.offsets.write()
        except BrokerError as error:
            LOG.error("offsets of partition %s: %s", partition.target, error)
            self.faults.note(Written.OFFSETS, error)
            return error.status
        return 0

    def publish(self, partition: OwnedPartition, published: Published) -> None:
        """Let every shard see what is written (mode fsync: what is on the disk)."""
        partition.published = published
        self._board.publish(partition.target.slot, published)

    def publish_trust(self, partition: OwnedPartition) -> None:
        """Let every shard know from where on bytes need no check, and nothing else that is new."""
        trusted_from = partition.log.written.trusted_from
        self.publish(partition, partition.published._replace(trusted_from=trusted_from))

    def roll(self, partition: OwnedPartition, ended: Ended) -> None:
        """Seal the active segment, with all that is staged; ends when it is sealed and synced."""
        try:
            self._write(partition)
            partition.log.roll()
        except BrokerError as error:
            ended(error.status)
            return
        if self._durability is not Durability.FSYNC:
            self.publish(partition, partition.log.written)
        self._wait_for_sync(partition, ended)

    def flush(self, partition: OwnedPartition, ended: Ended, *, fsync: bool) -> None:
        """Write everything that is staged now; with `fsync` also bring it to the disk."""
        try:
            self._write(partition)
        except BrokerError as error:
            ended(error.status)
            return
        if fsync:
            self._wait_for_sync(partition, ended)
        else:
            ended(0)

    def sync_dirty(self, partitions: Iterable[OwnedPartition]) -> None:
        """The saver's round: write journals, bring to the disk what changed since the last."""
        for partition in partitions:
            log = partition.log
            if log.staged_messages or not (log.is_synced and partition.offsets.is_synced):
                self.flush(partition, self.saves.after_sync(partition), fsync=True)
            elif not log.is_point_saved:
                # The last sync was not this one's: it was of a sealed segment, or each send's own.
                self.saves.after_sync(partition)(0)

    def _commit_turn(self) -> None:
        touched, self._touched = self._touched, {}
        for partition in touched:
            if partition.alive:
                if partition.appends:
                    self._commit_appends(partition)
                if self.slow is not None:
                    self.slow.written_s = 0.0

    def _commit_written(self, partition: OwnedPartition) -> None:
        appends, partition.appends = partition.appends, []
        status = 0
        try:
            self._write(partition)
        except BrokerError as error:
            status = error.status
        for ended in appends:
            ended(status)

    def _commit_synced(self, partition: OwnedPartition) -> None:
        if partition.syncing:
            # The sync that runs takes the batches staged meanwhile along when it ends.
            return
        appends, partition.appends = partition.appends, []
        log = partition.log
        messages, size = log.staged_messages, log.staged_bytes
        try:
            log.write()
        except BrokerError as error:
            self._report_failed_write(partition, error)
            for ended in appends:
                ended(error.status)
            return
        counts = self.counts
        counts.messages += messages
        counts.size_bytes += size
        counts.writes += 1
        partition.sync_waiters.extend(appends)
        self._start_sync(partition)

    def _commit_journal(self, partition: OwnedPartition) -> None:
        log = partition.log
        if (
            log.staged_messages >= self._journal_messages_max
            or log.staged_bytes >= self._journal_size_max
        ):
            # Before the answers: no more than the limit is ever acknowledged from memory alone.
            try:
                self._write(partition)
            except BrokerError:
                # Earlier batches were acknowledged from memory: that is what this mode means.
                LOG.error("partition %s lost its journal", partition.target)
                return
        appends, partition.appends = partition.appends, []
        for ended in appends:
            ended(0)

    def _write(self, partition: OwnedPartition) -> None:
        """Write and publish; in mode fsync only write, the publication follows the sync."""
        log = partition.log
        messages = log.staged_messages
        if not messages:
            return
        began = monotonic() if self.slow is not None else 0.0
        size = log.staged_bytes
        try:
            log.write()
        except BrokerError as error:
            self._report_failed_write(partition, error)
            # The whole group is gone, for every caller: also batches of this turn that wait
            # for its end and would find nothing left to write there.
            appends, partition.appends = partition.appends, []
            for ended in appends:
                ended(error.status)
            raise
        if self.slow is not None:
            self.slow.written_s = monotonic() - began
        counts = self.counts
        counts.messages += messages
        counts.size_bytes += size
        counts.writes += 1
        if self._durability is not Durability.FSYNC:
            self.publish(partition, log.written)
            if log.sealed_unsynced and not partition.sync_waiters:
                # Otherwise a sync that will cover it is due already.
                self._wait_for_sync(partition, said_of_failed_sync(partition))

    def _wait_for_sync(self, partition: OwnedPartition, ended: Ended) -> None:
        partition.sync_waiters.append(ended)
        if not partition.syncing:
            self._start_sync(partition)

    def _start_sync(self, partition: OwnedPartition) -> None:
        waiters, partition.sync_waiters = partition.sync_waiters, []
        log = partition.log
        try:
            plan = log.plan_sync()
        except BrokerError as error:
            for ended in waiters:
                ended(error.status)
            return
        partition.syncing = True
        written = log.written
        began = monotonic()

        def finished(error: BrokerError | None, took_ns: int) -> None:
            self.counts.synced(took_ns)
            if self.slow is not None:
                self.slow.written_s = monotonic() - began
            self._sync_finished(partition, plan, written, waiters, error)
            if self.slow is not None:
                self.slow.written_s = 0.0

        def run() -> None:
            failed: BrokerError | None = None
            started = perf_counter_ns()
            try:
                if plan is not None:
                    log.run_sync(plan)
            except BrokerError as error:
                failed = error
            except Exception as error:
                # A fault of ours, but sends that wait get a status, and in the loop's thread.
                LOG.exception("the sync of partition %s broke", partition.target)
                failed = CannotSyncFile(str(error))
            self._loop.call_soon_threadsafe(finished, failed, perf_counter_ns() - started)

        self._disk.submit(run)

    def _sync_finished(
        self,
        partition: OwnedPartition,
        plan: SyncPlan | None,
        written: Published,
        waiters: list[Ended],
        error: BrokerError | None,
    ) -> None:
        partition.syncing = False
        if plan is not None and error is None:
            partition.log.finish_sync(plan)
        status = 0
        if error is not None and not partition.alive:
            # Purged or deleted while it was being synced: those bytes are needed no more.
            LOG.info("partition %s ended before it was synced", partition.target)
        elif error is not None:
            status = CannotSyncFile.status
            self._report_failed_sync(partition, error)
        elif partition.alive and self._durability is Durability.FSYNC:
            # Not log.written: that may have grown since this sync began. Or shrunk, at the front.
            self.publish(partition, partition.log.segments.without_oldest(written, 0))
        for ended in waiters:
            ended(status)
        if not partition.alive:
            return
        if plan is not None and plan.sealed and status == 0 and self.on_sealed is not None:
            self.on_sealed(partition)
        if partition.appends:
            self.touch(partition)
        if partition.sync_waiters and not partition.syncing:
            self._start_sync(partition)

    def _report_failed_sync(self, partition: OwnedPartition, error: BrokerError) -> None:
        if self._durability is Durability.FSYNC:
            # Sends that wait get an error, so what they appended must not show until the restart.
            partition.log.refuse_writes()
        until = "it is read-only until restart" if partition.log.read_only else "tried again"
        LOG.error("partition %s did not reach the disk, %s: %s", partition.target, until, error)
        self.faults.note(Written.SYNC, error)

    def _report_failed_write(self, partition: OwnedPartition, error: BrokerError) -> None:
        LOG.error("partition %s: nothing was appended: %s", partition.target, error)
        self.faults.note(Written.MESSAGES, error)
