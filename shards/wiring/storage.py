"""The storage of one shard: wired once, recovered before any request is served, synced last.

Owned by the worker's loop; blocking calls run in the threads of `disk`. What is written here
belongs to this shard alone (partitions.py); readers read the partitions of every shard.

Always: nothing is served before `recover` has returned, and a clean stop is noted only of what
is on the disk by then.
"""

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import UnsetType

from borzoi.protocol.batch import ENTRIES_MAX
from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.config import Config
from borzoi.shards.decisions.topic_options import segment_size_of
from borzoi.shards.host.file_limits import open_files_bound
from borzoi.shards.host.memory import granted_memory, mapped_bound_per_shard
from borzoi.shards.lifecycle.closing import DISK_THREADS, Closed, Closing, Tell
from borzoi.shards.lifecycle.deleting import Deleting
from borzoi.shards.lifecycle.recovery import MetadataIsBehind, PartitionRecovery
from borzoi.shards.lifecycle.repairing import Repairing
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.orders.spec import WorkerSpec
from borzoi.shards.partitions.deduplication import Deduplication
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.ports.append import OwnAppends
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.shards.reading.warm_reads import WarmReads
from borzoi.shards.wiring.cannot_boot import CannotBoot
from borzoi.shards.wiring.memory import ShardMemory
from borzoi.storage.clean_stop import CleanPartition, CleanStop
from borzoi.storage.copy_memory import CopyMemory
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import EncryptionKey
from borzoi.storage.files import Files
from borzoi.storage.index_windows import IndexCaching, load_indexes
from borzoi.storage.layout import DataLayout
from borzoi.storage.log import LogSettings
from borzoi.storage.mapped import WindowCache
from borzoi.storage.open_files import OpenFiles
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.residency import Residency
from borzoi.storage.retention import Protection, Unread

if TYPE_CHECKING:
    from borzoi.shards.replication.lanes import ShardLanes

LOG: Final = logging.getLogger(__name__)

WINDOWS_MAX: Final = 32


class ShardStorage:
    """Files, logs and readers of one shard."""

    def __init__(
        self,
        spec: WorkerSpec,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        memory: ShardMemory,
    ) -> None:
        system = config.system
        self._spec = spec
        self._config = config
        self._loop = loop
        self._settings = LogSettings(system.segment.size)
        self._index_caching = IndexCaching(system.segment.cache_indexes)
        self.durability = Durability(system.partition.durability)
        self.disk = ThreadPoolExecutor(DISK_THREADS, "disk")
        self.files = Files()
        self._open_files = OpenFiles(self.files, open_files_bound())
        self.layout = DataLayout(
            Path(system.path), system.stream.path, system.topic.path, system.partition.path
        )
        self.encryption: Encryption | None = None
        if spec.encryption_keys:
            key, *old = map(EncryptionKey, spec.encryption_keys)
            self.encryption = Encryption(key, encrypts=system.encryption.enabled, old=old)
        self.copy_memory = CopyMemory(config.limits.copied_size_max, config.limits.share_weight)
        self.residency = Residency(
            mapped_bound_per_shard(config, spec.shard_count, granted_memory())
        )
        self.readers = PartitionReaders(
            memory.board,
            self.layout,
            WindowCache(WINDOWS_MAX, residency=self.residency),
            self.files,
            system.partition.validate_checksum,
            PlainBlocks(self.copy_memory),
            self._index_caching,
            self.encryption,
        )
        self.warm_reads = WarmReads(loop, self.disk, self.files, self.copy_memory)
        self.replication: ShardLanes | None = None
        if config.replication.enabled:
            self.replication = self._new_lanes(memory)
            self.commit: GroupCommit = self.replication.commit
        else:
            self.commit = GroupCommit(
                loop,
                memory.board,
                self.disk,
                self.durability,
                journal_messages_max=system.partition.messages_required_to_save,
                journal_size_max=system.partition.size_of_messages_required_to_save,
            )
        self.deduplication = self._new_deduplication()
        self.partitions = Partitions(
            self.layout,
            self.files,
            self._open_files,
            self._settings,
            self.durability,
            self.commit,
            consumers_max=config.limits.consumers_per_partition_max,
            share_weight=config.limits.share_weight,
            encryption=self.encryption,
        )
        if self.replication is not None:
            self.replication.commit.wire(self.partitions)
        self.appends = OwnAppends(
            self.partitions, self.commit, self.readers, self.durability, self.deduplication
        )
        self.deleting = Deleting(
            loop,
            self.disk,
            self.files,
            self.layout.trash,
            self.partitions,
            self.commit,
            BrokerClock(spec.broker_start).now_us,
            Unread(Protection(system.segment.protect_unread), system.segment.unread_grace),
        )
        self.repairing = Repairing(loop, self.disk, self.partitions, self.commit)

    def _new_lanes(self, memory: ShardMemory) -> "ShardLanes":
        # Here and not above: obstore is for those who replicate.
        from borzoi.shards.replication.lanes import ShardLanes
        from borzoi.shards.replication.prepare import membership, store_of

        member = membership(self.layout, self.files)
        assert member is not None, "the supervisor has prepared the directory"
        return ShardLanes(
            self._spec.shard,
            self._spec.shard_count,
            self._config.replication,
            store_of(self._config),
            member,
            self._loop,
            memory.board,
            self.disk,
            self.files,
            self.layout,
        )

    def _new_deduplication(self) -> Deduplication | None:
        wanted = self._config.system.message_deduplication
        if not wanted.enabled:
            return None
        return Deduplication(
            self._loop,
            self.disk,
            self.files,
            self.commit,
            self.readers,
            self.durability,
            entries_max=wanted.max_entries or ENTRIES_MAX,
            expiry_us=wanted.expiry,
        )

    # At the start.

    def recover(self, metadata: MetadataService) -> None:
        """Open and publish the partitions we own, as the metadata knows them."""
        began = time.monotonic()
        metadata.refresh()
        self.partitions.settings_of = partial(_settings_of, metadata, self._settings)
        self.partitions.is_protected = partial(_is_protected, metadata)
        try:
            recovery = PartitionRecovery(
                shard=self._spec.shard,
                shard_count=self._spec.shard_count,
                layout=self.layout,
                files=self.files,
                open_files=self._open_files,
                durability=self.durability,
                metadata=metadata,
                partitions=self.partitions,
                readers=self.readers,
                clean=self._clean_stop(),
                last_stop=CleanStop.last(self.layout, self.files),
                consumers_max=self._config.limits.consumers_per_partition_max,
                share_weight=self._config.limits.share_weight,
                encryption=self.encryption,
            ).run()
        except MetadataIsBehind as error:
            raise CannotBoot(str(error)) from error
        LOG.info(
            "recovered %d partitions in %.3f s, %d old directories went to the trash",
            recovery.opened,
            time.monotonic() - began,
            recovery.removed,
        )

    def _clean_stop(self) -> CleanStop | None:
        """What the last run noted at its end; None for a worker that replaces a dead one."""
        if self._spec.doors is not None:
            return None
        fd = self._spec.clean_stop_fd
        return CleanStop.decode(os.pread(fd, os.fstat(fd).st_size, 0))

    def load_indexes(self) -> None:
        """With `cache_indexes = all`: bring the indexes of our partitions into memory, aside."""
        directories = [partition.log.directory for partition in self.partitions]

        def load() -> None:
            try:
                size = load_indexes(directories, self.files)
            except OSError as error:
                LOG.warning("not all indexes are in memory: %s", error)
            else:
                LOG.info("%d bytes of indexes are in memory", size)

        if self._index_caching is IndexCaching.ALL:
            self.disk.submit(load)

    # Now and then, and at the end.

    def save(self) -> None:
        """What the message saver does at each interval."""
        if self._config.message_saver.enforce_fsync:
            self.commit.sync_dirty(self.partitions)
        else:
            self.partitions.flush_journals()

    async def close(self, tell: Tell) -> Closed:
        """Bring everything to the disk and note it as a clean stop; what could not be done."""
        if self.replication is not None:
            await self.replication.close()
        closing = Closing(
            self._loop,
            self.disk,
            self.files,
            self.partitions,
            self.commit,
            self.durability,
            self.layout.root,
            tell,
        )
        closed = await closing.run()
        rows = {
            one.target.namespace: one.log.clean_partition(one.offsets.digest())
            for one in self.partitions
            if one.log.is_synced and not one.log.staged_messages
        }
        try:
            CleanStop({**self._missing(), **rows}).write(self.layout, self.files, self._spec.shard)
        except OSError as error:
            # Nothing is lost by it: the next start looks at the files themselves.
            LOG.error("no record of a clean stop, the next start takes longer: %s", error)
        self._open_files.close()
        if closed.is_complete:
            LOG.info("stopped, %d partitions are on the disk", len(rows))
        else:
            LOG.error("stopped, not all partitions are on the disk: see above")
        return closed

    def _missing(self) -> dict[int, CleanPartition]:
        """Rows of partitions that were refused because they are not there: they may come back."""
        last = CleanStop.last(self.layout, self.files)
        return {
            namespace: row
            for namespace in self.partitions.refused
            if (row := last.get(namespace)) is not None
            and not os.path.isdir(self.layout.partition(*unpack_namespace(namespace)))
        }


def _settings_of(metadata: MetadataService, usual: LogSettings, target: Target) -> LogSettings:
    """How large the segments of a partition get: as its topic asks for, or the usual size."""
    stream_id, topic_id, _ = unpack_namespace(target.namespace)
    topic = metadata.state.find_topic(stream_id, topic_id)
    if topic is None or not topic.options:
        return usual
    return LogSettings(segment_size_of(topic.options, usual.segment_size_max))


def _is_protected(metadata: MetadataService, target: Target) -> bool:
    """Whether a partition is read-only as one of a stream of Liftbridge."""
    stream_id, topic_id, partition_id = unpack_namespace(target.namespace)
    topic = metadata.state.find_topic(stream_id, topic_id)
    if topic is None or isinstance(topic.attachment, UnsetType):
        return False
    return partition_id in topic.attachment.readonly
