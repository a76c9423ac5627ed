"""The partitions this shard owns: which there are, their lives, and their committed offsets.

Messages come into them by ports/append.py and leave them by ports/reads.py, which find them here.
Owned by the worker's loop. A partition is found by its Target; an older birth than the one in
the metadata is answered with "not found". So nothing that was sent before a purge or a delete
can touch what came after it. Directories are made at the first append.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from borzoi.protocol.errors import (
    BrokerError,
    CannotReadPartitions,
    ConsumerOffsetNotFound,
    InvalidOffset,
    PartitionNotFound,
)
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.placement import pack_namespace, unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.metadata.effects import Effects, Protection
from borzoi.shards.metadata.state import Run
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.message_ids import RANDOM_IDS
from borzoi.shards.partitions.partition import Ended, OwnedPartition
from borzoi.shards.rings.requests import Done
from borzoi.shares import ShareFigures
from borzoi.storage.encrypted import Encryption, cipher_of
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout
from borzoi.storage.log import LogSettings, PartitionLog
from borzoi.storage.offsets import ConsumerOffsets
from borzoi.storage.open_files import OpenFiles
from borzoi.storage.staging import LargeBatch
from borzoi.storage.trash import retire_directory

LOG: Final = logging.getLogger(__name__)

WhenCommitted = Callable[[OwnedPartition, Ended], None]
OnOffsetDeleted = Callable[[OwnedPartition, ConsumerKind, int, Ended], None]

EAGER_FILES_MAX: Final = 32
"""A purge of more partitions than this leaves their files to the first appends: a thousand at
once would hold the loop for a second."""


class Partitions:
    """Everything this shard owns, by namespace."""

    def __init__(
        self,
        layout: DataLayout,
        files: Files,
        open_files: OpenFiles,
        settings: LogSettings,
        durability: Durability,
        commit: GroupCommit,
        *,
        consumers_max: int,
        share_weight: int,
        encryption: Encryption | None = None,
    ) -> None:
        self._layout = layout
        self._files = files
        self._open_files = open_files
        self._durability = durability
        self._commit = commit
        self._consumers_max = consumers_max
        self._share_weight = share_weight
        self._encryption = encryption
        self.by_namespace: dict[int, OwnedPartition] = {}
        """Those that are open. Only this class changes it."""
        self._refused: dict[int, str] = {}
        self.log_class = PartitionLog
        self.offsets_class = ConsumerOffsets
        self.when_committed: WhenCommitted = _at_once
        """Ends a request once the offset that it has stored cannot be lost."""
        self.on_offset_deleted: OnOffsetDeleted = _end_deletion
        """Called when an offset is gone here; it ends the request."""
        self.settings_of: Callable[[Target], LogSettings] = lambda _target: settings
        """A topic may have segments of another size (decisions/topic_options.py)."""
        self.is_protected: Callable[[Target], bool] = lambda _target: False
        """Whether a partition is read-only when it is opened; later changes are effects."""
        self.on_large_batch: Callable[[Target, LargeBatch], None] = lambda _target, _batch: None

    def __iter__(self) -> Iterator[OwnedPartition]:
        return iter(list(self.by_namespace.values()))

    def adopt(self, target: Target, log: PartitionLog, offsets: ConsumerOffsets) -> None:
        """Take over a partition that recovery has opened, and publish it."""
        partition = OwnedPartition(target, log, offsets, log.written)
        partition.is_protected = self.is_protected(target)
        self.by_namespace[target.namespace] = partition
        log.tell_large_batches(lambda batch: self.on_large_batch(target, batch))
        self._commit.publish(partition, log.written)

    def refuse(self, target: Target, reason: str) -> None:
        """Serve nothing of a partition whose files cannot be trusted, and overwrite nothing."""
        self._refused[target.namespace] = reason

    @property
    def refused(self) -> list[int]:
        """The namespaces of partitions that are not served."""
        return list(self._refused)

    def find(self, target: Target) -> OwnedPartition:
        """The partition, in the life that `target` means."""
        partition = self.by_namespace.get(target.namespace)
        if partition is None:
            if target.namespace in self._refused:
                raise CannotReadPartitions(self._refused[target.namespace])
            partition = self._open_new(target)
        elif partition.target.birth != target.birth:
            raise PartitionNotFound(
                f"partition {target}: birth {target.birth} asked for, birth"
                f" {partition.target.birth} is what lives there now"
            )
        return partition

    def known_target(self, namespace: int, birth: int) -> Target | None:
        """The partition of that birth if it is open here; None: look it up in the metadata."""
        partition = self.by_namespace.get(namespace)
        if partition is None or partition.target.birth != birth:
            return None
        return partition.target

    def store_offset(
        self, target: Target, kind: int, consumer: int, offset: int, user: int, done: Done
    ) -> None:
        """Set the committed offset of a consumer, for a user; backwards is allowed."""
        try:
            partition = self.find(target)
        except BrokerError as error:
            done(error.status)
            return
        status = self.commit_offset(partition, ConsumerKind(kind), consumer, offset, user)
        if status:
            done(status)
        else:
            self.when_committed(partition, done)

    def commit_offset(
        self, partition: OwnedPartition, kind: ConsumerKind, consumer: int, offset: int, user: int
    ) -> int:
        """Set the committed offset of a consumer; it counts when this returns 0, the status."""
        try:
            end = self.visible_end(partition)
            if offset >= end:
                raise InvalidOffset(
                    f"offset {offset} of partition {partition.target}, whose next offset is {end}"
                )
            partition.offsets.store(kind, consumer, offset, user)
        except BrokerError as error:
            return error.status
        return self._commit.write_offset(partition)

    def get_offset(self, target: Target, kind: int, consumer: int, done: Done) -> None:
        """Answer whether something is stored, what, and the partition's current offset."""
        try:
            partition = self.find(target)
        except BrokerError as error:
            done(error.status)
            return
        stored = partition.offsets.get(ConsumerKind(kind), consumer)
        current = max(0, self.visible_end(partition) - 1)
        done(0, stored is not None, stored or 0, current)

    def delete_offset(self, target: Target, kind: int, consumer: int, done: Done) -> None:
        """Forget the committed offset of a consumer, in memory and on disk."""
        try:
            partition = self.find(target)
            if not partition.offsets.delete(ConsumerKind(kind), consumer):
                raise ConsumerOffsetNotFound(f"consumer {consumer} of partition {target}")
        except BrokerError as error:
            done(error.status)
            return
        self.on_offset_deleted(partition, ConsumerKind(kind), consumer, done)

    def offset_figures(self) -> ShareFigures:
        """How stored offsets are shared: the fullest partition's, and the refusals of all."""
        found = [one for partition in self if (one := partition.offsets.figures()) is not None]
        if not found:
            return ShareFigures(self._consumers_max, 0, 0, 0, 0, 0)
        refusals = sum(one.refusals for one in found)
        return max(found, key=lambda one: one.taken)._replace(refusals=refusals)

    def flush(self, target: Target, fsync: bool, done: Done) -> None:
        """Write what is in memory, with `fsync` bring it to the disk."""
        try:
            partition = self.find(target)
        except BrokerError as error:
            done(error.status)
            return
        self._commit.flush(partition, done, fsync=fsync)

    def flush_journals(self) -> None:
        """Mode buffered: make the board show everything that was acknowledged."""
        for partition in self:
            if partition.log.staged_messages:
                self._commit.flush(partition, _ignore_status, fsync=False)

    def apply_effects(self, effects: Effects) -> None:
        """Carry out what a metadata entry removed or purged here. Files leave by one rename."""
        for stream_id, topic_id, run in effects.removed:
            self._forget_refused(stream_id, topic_id, run)
            for partition in self._owned_of(stream_id, topic_id, run):
                self._end(partition, PartitionNotFound.status)
        for stream_id, topic_id, old, new in effects.purged:
            self._forget_refused(stream_id, topic_id, old)
            ended = self._owned_of(stream_id, topic_id, old)
            for partition in ended:
                # Appends that this turn has staged came before the purge: they are answered OK.
                if self._end(partition, 0) and len(ended) <= EAGER_FILES_MAX:
                    self._begin_again(partition.target._replace(birth=new.birth))
        for protection in effects.protected:
            self._protect(protection)
        for stream_id, topic_id, group_id in effects.groups_removed:
            for partition in self._owned_of_topic(stream_id, topic_id):
                partition.cursors.pop(group_id, None)
                if partition.offsets.delete(ConsumerKind.GROUP, group_id):
                    self.on_offset_deleted(partition, ConsumerKind.GROUP, group_id, _ignore_status)

    def _protect(self, changed: Protection) -> None:
        for number in changed.partitions:
            namespace = pack_namespace(changed.stream_id, changed.topic_id, number)
            if (partition := self.by_namespace.get(namespace)) is not None:
                partition.is_protected = changed.is_set

    def visible_end(self, partition: OwnedPartition) -> int:
        """The next offset as clients know it: what was acknowledged, in each mode."""
        if self._durability is Durability.BUFFERED:
            return partition.log.written.next_offset + partition.log.staged_messages
        return partition.published.next_offset

    def _open_new(self, target: Target) -> OwnedPartition:
        stream, topic, number = unpack_namespace(target.namespace)
        directory = self._layout.partition(stream, topic, number)
        log = self.log_class.create(
            directory,
            target.birth,
            self.settings_of(target),
            self._files,
            open_files=self._open_files,
            random_bytes=RANDOM_IDS,
            cipher=cipher_of(self._encryption, target.namespace, target.birth),
        )
        offsets = self.offsets_class(
            directory, self._files, self._open_files, self._consumers_max, self._share_weight
        )
        self.adopt(target, log, offsets)
        return self.by_namespace[target.namespace]

    def _end(self, partition: OwnedPartition, status: int) -> bool:
        """End a life; whether its directory is out of the way of the next one."""
        target = partition.target
        partition.offsets.close()
        partition.log.close()
        del self.by_namespace[target.namespace]
        moved = self._retire(target.namespace, f"{target.birth}-{target.namespace}")
        # Last: a waiter may ask again at once, and must not find the old life.
        partition.end(status)
        return moved

    def _retire(self, namespace: int, name: str) -> bool:
        directory = self._layout.partition(*unpack_namespace(namespace))
        try:
            retire_directory(directory, self._layout.trash, name, self._files)
        except OSError as error:
            LOG.error("%s cannot be moved away, nothing is served from there: %s", directory, error)
            self._refused[namespace] = f"{directory} holds what was removed: {error}"
            return False
        return True

    def _forget_refused(self, stream_id: int, topic_id: int, run: Run) -> None:
        """A damaged partition that is deleted or purged makes room for a sound one."""
        for namespace in list(self._refused):
            stream, topic, number = unpack_namespace(namespace)
            first = run.first_partition
            if (stream, topic) == (stream_id, topic_id) and first <= number < first + run.count:
                del self._refused[namespace]
                self._retire(namespace, f"refused-{run.birth}-{namespace}")

    def _begin_again(self, target: Target) -> None:
        """After a purge: an empty first segment, as clients of the files expect to find it."""
        partition = self._open_new(target)
        try:
            partition.log.make_files()
        except BrokerError as error:
            LOG.warning("partition %s has no files until the first append: %s", target, error)

    def _owned_of(self, stream_id: int, topic_id: int, run: Run) -> list[OwnedPartition]:
        if run.count < len(self.by_namespace):
            numbers = range(run.first_partition, run.first_partition + run.count)
            spaces = (pack_namespace(stream_id, topic_id, number) for number in numbers)
            found = (self.by_namespace.get(namespace) for namespace in spaces)
            return [one for one in found if one is not None and one.target.birth == run.birth]
        return [
            one
            for one in self._owned_of_topic(stream_id, topic_id)
            if one.target.birth == run.birth
            and run.first_partition <= one.target.partition_id < run.first_partition + run.count
        ]

    def _owned_of_topic(self, stream_id: int, topic_id: int) -> list[OwnedPartition]:
        return [
            one
            for one in self.by_namespace.values()
            if unpack_namespace(one.target.namespace)[:2] == (stream_id, topic_id)
        ]


def _at_once(_partition: OwnedPartition, ended: Ended) -> None:
    ended(0)


def _end_deletion(
    _partition: OwnedPartition, _kind: ConsumerKind, _consumer: int, ended: Ended
) -> None:
    ended(0)


def _ignore_status(_status: int) -> None:
    """For flushes without a waiter, whose failure GroupCommit has reported."""
