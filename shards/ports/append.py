"""Appending a batch to a partition, wherever it lives.

The port for every door: it needs no session and no buffer of the arena. A partition of this shard
gets the batch at once (`OwnAppends`); the owner on another shard is lent it over its ring, and
appends it there in the same way. Only what lies in our arena can be lent, so a batch in private
memory is copied there first, and only then.

Always: a batch is stamped in place, ids, offsets and checksums, by the time its outcome is known.
"""

import time

from borzoi.protocol.batch import (
    clear_first_checksum,
    first_stamped_offset,
    matching_messages,
    message_start,
)
from borzoi.protocol.errors import BrokerError, ShardCommunicationError
from borzoi.router.buffer import Buffer
from borzoi.router.pool import MemoryPool
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.partitions.deduplication import Deduplication
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.partitions.resubmission import stored_since
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import Append, AppendAt, Done
from borzoi.shares import user_taker


class OwnAppends:
    """Appends to the partitions of this shard: staged here, written at the end of the turn."""

    def __init__(
        self,
        partitions: Partitions,
        commit: GroupCommit,
        readers: PartitionReaders,
        durability: Durability,
        deduplication: Deduplication | None = None,
    ) -> None:
        self.partitions = partitions
        self._owned = partitions.by_namespace
        self._commit = commit
        self._readers = readers
        self._durability = durability
        self._is_buffered = durability is Durability.BUFFERED
        self._deduplication = deduplication

    def append(
        self,
        target: Target,
        batch: memoryview,
        message_count: int,
        resubmitted: bool,
        done: Done,
        expected: int | None = None,
    ) -> None:
        """Append a checked batch. It is stamped in place; the caller keeps it until `done`.

        InvalidOffset is its status if its first message would not get the offset `expected`.
        """
        partition = self._owned.get(target.namespace)
        try:
            if partition is None or partition.target.birth != target.birth:
                partition = self.partitions.find(target)
            if self._deduplication is not None:
                self._deduplication.append(
                    partition, batch, message_count, resubmitted, done, expected
                )
                return
            if resubmitted:
                stored = self._already_stored(partition, batch, message_count)
                if stored == message_count:
                    fsync = self._durability is Durability.FSYNC
                    self._commit.flush(partition, done, fsync=fsync)
                    return
                batch = batch[message_start(batch, stored) :]
                message_count -= stored
            if expected is not None or partition.is_protected:
                partition.check_append(expected)
            now_us = time.time_ns() // 1000
            if self._is_buffered:
                # The journal outlives the request, the lent buffer does not.
                journal = memoryview(bytearray(batch))
                partition.log.stage(journal, message_count, now_us)
                # Stamped like its copy: recognised if it is submitted again after our death.
                batch[:] = journal
            else:
                partition.log.stage(batch, message_count, now_us)
        except BrokerError as error:
            done(error.status)
            return
        partition.appends.append(done)
        self._commit.touch(partition)

    def _already_stored(
        self, partition: OwnedPartition, batch: memoryview, message_count: int
    ) -> int:
        """How many messages of a batch the dead owner had written: the leading ones, or none."""
        stored = stored_since(self._readers, partition, batch, message_count)
        return 0 if stored is None else matching_messages(batch, stored)


class Appends:
    """The way of a batch to the owner of its partition. Stateless."""

    def __init__(
        self,
        owners: PartitionOwners,
        own: OwnAppends,
        metadata: MetadataService,
        peers: Peers,
        pool: MemoryPool,
    ) -> None:
        self.shard = owners.shard
        self._owners = owners
        self._own = own
        self._metadata = metadata
        self._peers = peers
        self._pool = pool

    def owner(self, target: Target) -> int:
        """The shard that owns the partition."""
        return self._owners.owner(target)

    async def offset_of(self, user: int, target: Target, batch: memoryview, count: int) -> int:
        """Append `count` messages for a user; where the first new one lies. Errors are raised.

        The batch is writable memory of the caller, in the layout of the log. Its messages are
        checked, and the user may send there. If all are duplicates: where the first one lies.
        """
        clear_first_checksum(batch)
        owner = self.owner(target)
        await asked(lambda done: self.append(user, target, owner, batch, count, None, 0, done))
        first = first_stamped_offset(batch)
        assert first is not None, "an answered batch is stamped"
        return first

    async def append_at(self, user: int, target: Target, batch: memoryview, expected: int) -> None:
        """Append one message, if it gets this offset. InvalidOffset says that it would not.

        The owner of the partition compares, in the turn in which it appends.
        """
        clear_first_checksum(batch)
        owner = self.owner(target)
        if owner == self.shard:
            await asked(lambda done: self._own.append(target, batch, 1, False, done, expected))
            return
        copied, position = self._copied(user, batch)
        request = AppendAt(target.namespace, target.birth, expected, 0, position, batch.nbytes)
        try:
            await asked(lambda done: self._peers.ask(owner, request, done, copied))
        finally:
            copied.release()

    def append(
        self,
        user: int,
        target: Target,
        owner: int,
        batch: memoryview,
        message_count: int,
        buffer: Buffer | None,
        position: int,
        done: Done,
    ) -> None:
        """Append a checked batch, whose first checksum is cleared; `done` gets the status.

        It lies at `position` of our arena, inside `buffer`; or in private memory, if that is None.
        The caller keeps the bytes until `done`.
        """
        if owner == self.shard:
            self._own.append(target, batch, message_count, False, done)
        elif buffer is not None:
            self._lend(target, owner, batch.nbytes, message_count, buffer, position, done)
        else:
            self._lend_copy(user, target, owner, batch, message_count, done)

    def serve(self, _shard: int, request: Append, lent: memoryview, done: Done) -> None:
        """Append the batch that a peer lends."""
        target = self._wanted(request.namespace, request.birth, done)
        if target is not None:
            is_resubmitted = request.is_resubmitted != 0
            self._own.append(target, lent, request.message_count, is_resubmitted, done)

    def serve_at(self, _shard: int, request: AppendAt, lent: memoryview, done: Done) -> None:
        """Append the message that a peer lends, if it gets the offset that it expects."""
        target = self._wanted(request.namespace, request.birth, done)
        if target is not None:
            is_resubmitted = request.is_resubmitted != 0
            self._own.append(target, lent, 1, is_resubmitted, done, request.expected)

    def _wanted(self, namespace: int, birth: int, done: Done) -> Target | None:
        self._metadata.refresh()
        target = self._own.partitions.known_target(namespace, birth)
        if target is None:
            try:
                target = self._owners.wanted(namespace, birth)
            except BrokerError as error:
                done(error.status)
        return target

    def _lend(
        self,
        target: Target,
        owner: int,
        length: int,
        message_count: int,
        buffer: Buffer,
        position: int,
        done: Done,
    ) -> None:
        request = Append(target.namespace, target.birth, message_count, 0, position, length)
        self._peers.ask(owner, request, done, buffer)

    def _lend_copy(
        self,
        user: int,
        target: Target,
        owner: int,
        batch: memoryview,
        message_count: int,
        done: Done,
    ) -> None:
        try:
            copied, position = self._copied(user, batch)
        except ShardCommunicationError as error:
            done(error.status)
            return

        def appended(status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
            if status == 0:
                batch[:] = copied.view
            copied.release()
            done(status, first, second, third)

        self._lend(target, owner, batch.nbytes, message_count, copied, position, appended)

    def _copied(self, user: int, batch: memoryview) -> tuple[Buffer, int]:
        """A copy of a batch in our arena, where it can be lent from, and its position."""
        copied = self._pool.take(batch.nbytes, user_taker(user))
        if copied is None or copied.position is None:
            raise ShardCommunicationError(f"no buffer of {batch.nbytes} bytes is free")
        copied.view[:] = batch
        return copied, copied.position
