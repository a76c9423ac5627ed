"""Replaces an index that a reader found to be wrong; the owner of the partition does it.

Owned by the worker's loop. The log is the truth: a thread reads the segment and rebuilds its index.
If the file differs, the loop replaces it by rename and publishes, so that readers map the new one.
If the index was right, the messages are damaged or lost, and that is the answer to the client.

Always: the thread only reads, and the loop checks again before it writes. Meanwhile a partition may
be purged or a segment deleted, and their names given to others.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError, PartitionNotFound
from borzoi.router.target import Target
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.rings.requests import Done
from borzoi.storage.index_check import CheckedIndex

LOG: Final = logging.getLogger(__name__)

CHECK_AGAIN_S: Final = 60.0
"""An index is not looked at more often, however many clients ask for a damaged message."""

CHECKED_MAX: Final = 4096


class SegmentKey(NamedTuple):
    """One segment in one life of its partition."""

    namespace: int
    birth: int
    segment: int


class Repairing:
    """Looks after the indexes of the partitions this shard owns."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Executor,
        partitions: Partitions,
        commit: GroupCommit,
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._partitions = partitions
        self._commit = commit
        # Called when an index was replaced; the worker wires it.
        self.on_repaired: Callable[[OwnedPartition, int], None] | None = None
        self._checked: dict[SegmentKey, float] = {}
        self._waiting: dict[SegmentKey, list[Done]] = {}

    def check_index(self, target: Target, segment: int, done: Done) -> None:
        """Make sure that the index of a segment is what its log says; then `done`."""
        try:
            partition = self._partitions.find(target)
        except BrokerError as error:
            done(error.status)
            return
        key = SegmentKey(target.namespace, target.birth, segment)
        checked_at = self._checked.get(key)
        if checked_at is not None and self._loop.time() - checked_at < CHECK_AGAIN_S:
            done(0)
            return
        if key in self._waiting:
            self._waiting[key].append(done)
            return
        self._waiting[key] = [done]
        if segment != partition.log.written.active_segment:
            self._check(partition, key)
            return

        def sealed(status: int) -> None:
            if status:
                self._end(key, status)
            elif not partition.alive:
                self._end(key, PartitionNotFound.status)
            else:
                self._check(partition, key)

        # Its index is being written: sealed, it holds still.
        self._commit.roll(partition, sealed)

    def _check(self, partition: OwnedPartition, key: SegmentKey) -> None:
        log = partition.log

        def run() -> None:
            try:
                checked: CheckedIndex | BrokerError = log.segments.check_index(key.segment)
            except BrokerError as error:
                checked = error
            self._loop.call_soon_threadsafe(self._finish, partition, key, checked)

        self._disk.submit(run)

    def _finish(
        self, partition: OwnedPartition, key: SegmentKey, checked: CheckedIndex | BrokerError
    ) -> None:
        if not partition.alive:
            self._end(key, PartitionNotFound.status)
            return
        if isinstance(checked, BrokerError):
            LOG.error("partition %s: its index cannot be checked: %s", partition.target, checked)
            self._end(key, checked.status)
            return
        for line in checked.report:
            LOG.warning("partition %s: %s", partition.target, line)
        status = 0
        if checked.entries is not None:
            try:
                if partition.log.segments.replace_index(key.segment, checked.entries):
                    self._commit.publish_trust(partition)
                    if self.on_repaired is not None:
                        self.on_repaired(partition, key.segment)
            except BrokerError as error:
                LOG.error("partition %s: its index stays wrong: %s", partition.target, error)
                status = error.status
        if len(self._checked) >= CHECKED_MAX:
            self._checked.clear()
        if status == 0:
            self._checked[key] = self._loop.time()
        self._end(key, status)

    def _end(self, key: SegmentKey, status: int) -> None:
        for done in self._waiting.pop(key):
            done(status)
