"""The owner's side of groups: polls and commits in the name of a group, and giving partitions up.

Owned by the worker's loop, like the partitions. A poll of a group is decided here as one step. It
is checked against the fence of the partition's cursor, resolved, committed if asked to, and noted
as polled. Commits of a group and its polls are thereby in one order, whichever shards they come
from.
"""

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

        def answer(status: int, current: int, messages: F | None, last: int | None) -> None:
            cursor.end_poll(claim.epoch, last if status == 0 else None)
            self._close_if_settled(partition, cursor, claim.group_id)
            ended(status, current, None if status else messages)

        def found(status: int, current: int, messages: F | None) -> None:
            if status or messages is None or not messages.message_count:
                answer(status, current, None, None)
                return
            last = messages.first_offset + messages.message_count - 1
            if not poll.auto_commit:
                answer(0, current, messages, last)
                return

            def committed(status: int, *_nothing: int) -> None:
                answer(status, current, messages, last)

            # The commit is ours: the group may be gone by the time cold bytes have been fetched.
            self._commit(partition, cursor, claim, last, committed)

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

        def stored(status: int, *_nothing: int) -> None:
            if status == 0:
                self._close_if_settled(partition, cursor, claim.group_id)
            done(status)

        self._commit(partition, cursor, claim, offset, stored)

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

    def _commit(
        self, partition: OwnedPartition, cursor: Cursor, claim: Claim, offset: int, done: Done
    ) -> None:
        if partition.cursors.get(claim.group_id) is not cursor:
            done(ConsumerGroupIdNotFound.status)
            return

        def stored(status: int, *_nothing: int) -> None:
            if status == 0:
                cursor.committed(offset)
            done(status)

        self._partitions.store_offset(
            partition.target, GROUP, claim.group_id, offset, UNKNOWN_USER, stored
        )

    def _cursor(self, partition: OwnedPartition, claim: Claim) -> Cursor:
        """The cursor of a group that exists."""
        stream_id, topic_id, _ = unpack_namespace(partition.target.namespace)
        topic = self._metadata.state.find_topic(stream_id, topic_id)
        group = None if topic is None else topic.groups.get(claim.group_id)
        if group is None or group.birth != claim.birth:
            raise ConsumerGroupIdNotFound(f"{claim} is not a group of partition {partition.target}")
        cursor = partition.cursors.get(claim.group_id)
        if cursor is None or cursor.birth != claim.birth:
            cursor = partition.cursors[claim.group_id] = Cursor(claim.birth)
        return cursor

    def _close_if_settled(self, partition: OwnedPartition, cursor: Cursor, group_id: int) -> None:
        ticket = cursor.close_if_settled(partition.offsets.get(GROUP, group_id))
        if ticket is not None:
            self._released(partition.target, group_id, cursor.birth, ticket)
