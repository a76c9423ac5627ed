"""The owner's side of groups: polls and commits in the name of a group, and giving partitions up.

Owned by the worker's loop, like the partitions. A poll of a group is decided here as one step. It
is checked against the fence of the partition's cursor, resolved, committed if asked to, and noted
as polled. Commits of a group and its polls are thereby in one order, whichever shards they come
from.
"""

# Callbacks are made for every poll: their types are not looked up each time.
from __future__ import annotations

from collections.abc import Callable

from borzoi.protocol.errors import BrokerError, ConsumerGroupIdNotFound
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.partitions.group_cursor import Claim, Cursor, Watch
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.ports.reads import Ended, F, Reads, measured
from borzoi.shards.rings.poll import UNKNOWN_USER, Poll
from borzoi.shards.rings.requests import Done
from borzoi.storage.outcome import Slices

GROUP = ConsumerKind.GROUP

Released = Callable[[Target, int, int, int], None]
"""Called when a partition is closed to its holder: target, group, birth of the group, ticket."""


class Claims:
    """Groups at the partitions of this shard."""

    def __init__(
        self, reads: Reads, partitions: Partitions, metadata: MetadataService, released: Released
    ) -> None:
        self._reads = reads
        self._partitions = partitions
        self._metadata = metadata
        self._released = released

    def poll(self, target: Target, poll: Poll, claim: Claim, ended: Ended[Slices]) -> None:
        """The messages that a member on this shard gets."""
        self._poll(target, poll, claim, self._reads.read, ended)

    def measure(self, target: Target, poll: Poll, claim: Claim, done: Done) -> None:
        """What a member on another shard gets: first offset, message count, current offset."""
        self._poll(target, poll, claim, self._reads.measure, measured(done))

    def _poll(
        self,
        target: Target,
        poll: Poll,
        claim: Claim,
        find: Callable[[OwnedPartition, Poll, Ended[F]], None],
        ended: Ended[F],
    ) -> None:
        try:
            partition = self._partitions.find(target)
            cursor = self._cursor(partition, claim)
            cursor.begin_poll(claim)
        except BrokerError as error:
            ended(error.status, 0, None)
            return

        def found(status: int, current: int, messages: F | None) -> None:
            last = None
            if status or messages is None or not messages.message_count:
                messages = None
            else:
                last = messages.first_offset + messages.message_count - 1
                if poll.auto_commit:
                    # It is ours: the group may be gone by the time cold bytes have been fetched.
                    status = self._commit(partition, cursor, claim, last)
                    if status:
                        last = messages = None
            cursor.end_poll(claim.epoch, last)
            self._close_if_settled(partition, cursor, claim.group_id)
            ended(status, current, messages)

        find(partition, poll, found)

    def store_offset(self, target: Target, claim: Claim, offset: int, done: Done) -> None:
        """Commit for the group."""
        try:
            partition = self._partitions.find(target)
            cursor = self._cursor(partition, claim)
            cursor.admit(claim)
        except BrokerError as error:
            done(error.status)
            return

        status = self._commit(partition, cursor, claim, offset)
        if status:
            done(status)
            return
        self._close_if_settled(partition, cursor, claim.group_id)
        self._partitions.when_committed(partition, done)

    def delete_offset(self, target: Target, claim: Claim, done: Done) -> None:
        """Forget what the group has committed."""
        try:
            partition = self._partitions.find(target)
            self._cursor(partition, claim).admit(claim)
        except BrokerError as error:
            done(error.status)
            return
        self._partitions.delete_offset(target, GROUP, claim.group_id, done)

    def release(self, target: Target, group_id: int, birth: int, watch: Watch, done: Done) -> None:
        """Closes the partition to its holder: 1 if it is closed now, 0 if Released follows.

        Where nothing can be polled there is nothing to wait for.
        """
        try:
            partition = self._partitions.find(target)
            cursor = self._cursor(partition, Claim(group_id, birth, watch.ticket))
        except BrokerError:
            done(0, 1)
            return
        cursor.revoke(watch)
        cursor.close_if_settled(partition.offsets.get(GROUP, group_id))
        done(0, cursor.fence >= watch.ticket)

    def _commit(self, partition: OwnedPartition, cursor: Cursor, claim: Claim, offset: int) -> int:
        """The status of a commit for the group."""
        group_id = claim.group_id
        if partition.cursors.get(group_id) is not cursor:
            return ConsumerGroupIdNotFound.status
        status = self._partitions.commit_offset(partition, GROUP, group_id, offset, UNKNOWN_USER)
        if status == 0:
            cursor.committed(offset)
        return status

    def _cursor(self, partition: OwnedPartition, claim: Claim) -> Cursor:
        """The cursor of a group that exists."""
        cursor = partition.cursors.get(claim.group_id)
        if cursor is not None and cursor.birth == claim.birth:
            # It leaves with its group (Partitions.apply_effects).
            return cursor
        stream_id, topic_id, _ = unpack_namespace(partition.target.namespace)
        topic = self._metadata.state.find_topic(stream_id, topic_id)
        group = None if topic is None else topic.groups.get(claim.group_id)
        if group is None or group.birth != claim.birth:
            raise ConsumerGroupIdNotFound(f"{claim} is not a group of partition {partition.target}")
        cursor = partition.cursors[claim.group_id] = Cursor(claim.birth)
        return cursor

    def _close_if_settled(self, partition: OwnedPartition, cursor: Cursor, group_id: int) -> None:
        if cursor.watch is None:
            return
        ticket = cursor.close_if_settled(partition.offsets.get(GROUP, group_id))
        if ticket is not None:
            self._released(partition.target, group_id, cursor.birth, ticket)
