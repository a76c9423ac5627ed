"""Durability `replicated`: a turn is committed by the store, and only then written here.

Owned by the worker's loop. What is touched in a turn goes to the lane of its partition
(lane_commit.py). Everything that would write what is staged waits for the lane instead.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

from borzoi.cluster.slots import Entry, EntryKind
from borzoi.protocol.errors import CannotSaveMessagesToSegment, PartitionNotFound
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.board import Board
from borzoi.router.placement import shard_of
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.shards.partitions.recovery_saves import said_of_failed_sync
from borzoi.shards.replication.lane_commit import LaneCommit, log_of
from borzoi.storage.published import Published
from borzoi.storage.replicated_log import ReplicatedLog
from borzoi.storage.replicated_offsets import ReplicatedOffsets
from borzoi.storage.staging import StagedGroup


class ReplicatedCommit(GroupCommit):
    """Commits through lanes. They are given to it before anything is served."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        board: Board,
        disk: Executor,
        cannot_go_on: Callable[[str], None],
    ) -> None:
        super().__init__(
            loop,
            board,
            disk,
            Durability.REPLICATED,
            journal_messages_max=1,
            journal_size_max=1,
        )
        self.cannot_go_on = cannot_go_on
        self.lanes: dict[int, LaneCommit] = {}
        self.lanes_of_cluster = 1

    def lane(self, partition: OwnedPartition) -> LaneCommit:
        """The lane that a partition belongs to."""
        return self.lanes[shard_of(partition.target.namespace, self.lanes_of_cluster)]

    def stored(self, partition: OwnedPartition, taken: StagedGroup) -> None:
        """Write what is in the lane now to the local log, and publish it."""
        log = log_of(partition)
        log.write_taken(taken)
        counts = self.counts
        counts.messages += taken.message_count
        counts.size_bytes += taken.size_bytes
        counts.writes += 1
        super().publish(partition, log.written)
        if log.sealed_unsynced and not partition.sync_waiters:
            self._wait_for_sync(partition, said_of_failed_sync(partition))

    def publish(self, partition: OwnedPartition, published: Published) -> None:
        """As GroupCommit; the lane is to know of segments that go."""
        before = partition.published.first_offset
        super().publish(partition, published)
        if published.first_offset > before and partition.target.birth == published.birth:
            self._add(partition, EntryKind.DROPPED, published.first_offset)

    def wire(self, partitions: Partitions) -> None:
        """Have partitions made as those of lanes, and their offsets wait for these."""
        partitions.log_class = ReplicatedLog
        partitions.offsets_class = ReplicatedOffsets
        partitions.when_committed = self.when_committed
        partitions.on_offset_deleted = self.offset_deleted

    def write_offset(self, partition: OwnedPartition) -> int:
        """As GroupCommit; the lane gets to know with its next object."""
        offsets = partition.offsets
        assert isinstance(offsets, ReplicatedOffsets), "partitions of this shard are made with them"
        refusal = self.lane(partition).refusal
        if refusal:
            offsets.take_back()
            return refusal
        changed = offsets.changed()
        status = super().write_offset(partition)
        if status == 0:
            for kind, consumer, offset in changed:
                self._add(partition, EntryKind.OFFSET_STORED, offset, consumer, kind)
        return status

    def when_committed(self, partition: OwnedPartition, ended: Ended) -> None:
        """Ends once the lane has every offset that was stored."""
        self.flush(partition, ended, fsync=False)

    def offset_deleted(
        self, partition: OwnedPartition, kind: ConsumerKind, consumer: int, ended: Ended
    ) -> None:
        """Ends once the lane knows that the offset is gone."""
        self._add(partition, EntryKind.OFFSET_DELETED, 0, consumer, kind)
        self.when_committed(partition, ended)

    def roll(self, partition: OwnedPartition, ended: Ended) -> None:
        """Seal the active segment behind what is staged; ends when it is sealed and synced."""
        log_of(partition).seal_staged()
        self.flush(partition, ended, fsync=True)

    def flush(self, partition: OwnedPartition, ended: Ended, *, fsync: bool) -> None:
        """Ends when everything that is staged now is stored and written; or also synced here."""

        def written(status: int) -> None:
            if status or not fsync:
                ended(status)
            elif not partition.alive:
                ended(PartitionNotFound.status)
            else:
                self._wait_for_sync(partition, ended)

        if self.lane(partition).is_level(partition):
            written(0)
        else:
            partition.appends.append(written)
            self.touch(partition)

    def _commit_turn(self) -> None:
        touched, self._touched = self._touched, {}
        for partition in touched:
            if partition.alive:
                self.lane(partition).want(partition)

    def _write(self, partition: OwnedPartition) -> None:
        raise CannotSaveMessagesToSegment(f"partition {partition.target} is written by its lane")

    def _add(
        self,
        partition: OwnedPartition,
        kind: EntryKind,
        first: int,
        number: int = 0,
        consumer_kind: int = 0,
    ) -> None:
        target = partition.target
        entry = Entry(
            kind,
            target.namespace,
            target.birth,
            first=first,
            number=number,
            consumer_kind=consumer_kind,
        )
        # An offset that is deleted and one that is stored say the last about the same.
        key = consumer_kind << 32 | number
        self.lane(partition).extra.setdefault(partition, {})[key] = entry
        self.touch(partition)
