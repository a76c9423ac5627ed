"""The recovery of a shard's partitions: what becomes of each directory before requests are served.

Always: a directory belongs to a partition only if its birth file says so. One of an older life, or
of a partition that the metadata does not know, is moved to the trash. So a crash between a delete's
log entry and its unlink resurrects nothing.
"""

import logging
import os
from dataclasses import dataclass
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError
from borzoi.router.placement import pack_namespace, shard_of, unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.message_ids import RANDOM_IDS
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.storage.birth import BirthDamaged, mend_birth, read_birth
from borzoi.storage.clean_stop import CleanPartition, CleanStop
from borzoi.storage.encrypted import Encryption, cipher_of
from borzoi.storage.files import Files
from borzoi.storage.layout import OFFSET_DIRECTORIES, DataLayout, PartitionDirectory
from borzoi.storage.log import PartitionLog
from borzoi.storage.offsets import ConsumerOffsets, forget_groups
from borzoi.storage.open_files import OpenFiles
from borzoi.storage.trash import retire_directory

LOG: Final = logging.getLogger(__name__)


class MetadataIsBehind(Exception):
    """The disk holds partitions of entries that the metadata log does not have: it is too short."""


class RecoveredCounts(NamedTuple):
    """How many partitions were opened, and how many directories went to the trash."""

    opened: int
    removed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionRecovery:
    """The recovery of one shard: every directory is opened, moved to the trash, or not served.

    Runs once, before the worker serves any request. A partition that is not served is logged, and
    requests for it are refused with the reason.
    """

    shard: int
    shard_count: int
    layout: DataLayout
    files: Files
    open_files: OpenFiles
    durability: Durability
    metadata: MetadataService
    partitions: Partitions
    readers: PartitionReaders
    clean: CleanStop | None
    last_stop: CleanStop
    consumers_max: int
    share_weight: int
    encryption: Encryption | None = None

    def run(self) -> RecoveredCounts:
        """Opens and publishes every partition of this shard that has a directory.

        Raises MetadataIsBehind if a directory is younger than the metadata.
        """
        opened = removed = 0
        for found in self.layout.partition_directories(self.files):
            try:
                namespace = pack_namespace(found.stream_id, found.topic_id, found.partition_id)
            except ValueError as error:
                LOG.warning("%s is left alone, it is not ours: %s", found.path, error)
                continue
            target = _living(self.metadata, namespace)
            if not self._owns(namespace):
                if self.shard == METADATA_SHARD and target is not None:
                    # Its owner may be dead, and the next command may give such an id out again.
                    self._forget_dead_groups(found)
                continue
            try:
                birth, is_birth_lost = self._birth(found, namespace, target)
            except BirthDamaged as error:
                self._refuse(found, target, str(error))
                continue
            if target is not None and birth == target.birth:
                opened += self._open(found, namespace, target, is_birth_lost=is_birth_lost)
                continue
            now = "that of any partition" if target is None else target.birth
            LOG.info("moved %s to the trash: its birth is %s, not %s", found.path, birth, now)
            retire_directory(found.path, self.layout.trash, f"old-{birth}-{namespace}", self.files)
            removed += 1
        self._refuse_missing()
        return RecoveredCounts(opened, removed)

    def _owns(self, namespace: int) -> bool:
        return shard_of(namespace, self.shard_count) == self.shard

    def _birth(
        self, found: PartitionDirectory, namespace: int, target: Target | None
    ) -> tuple[int | None, bool]:
        """Returns the birth of a directory, and whether only the last clean stop knows it.

        Raises BirthDamaged, and MetadataIsBehind if the metadata does not know so late a birth.
        """
        birth = read_birth(found.path, self.files)
        stop = self.last_stop.get(namespace)
        is_birth_lost = False
        if birth is None and target is not None and stop and stop.birth == target.birth:
            # It was durable when the broker stopped: this is no directory that was never finished.
            LOG.warning("%s lost its birth, the last clean stop says %d", found.path, stop.birth)
            birth, is_birth_lost = stop.birth, True
        if birth is not None and birth > self.metadata.applied_index:
            # Not old but younger than all we know: to remove it would be to lose it.
            raise MetadataIsBehind(
                f"{found.path} was made by metadata entry {birth}, but {self.layout.state_log} ends"
                f" with entry {self.metadata.applied_index}: restore that file from a backup, or"
                " move the directory away to go on without it"
            )
        return birth, is_birth_lost

    def _open(
        self, found: PartitionDirectory, namespace: int, target: Target, *, is_birth_lost: bool
    ) -> bool:
        """Recovers and publishes one partition; returns False if it is not served."""
        self._forget_dead_groups(found)
        record = self.clean.get(namespace) if self.clean is not None else None
        try:
            if is_birth_lost:
                mend_birth(found.path, target.birth, self.files)
            log = self._log(found, namespace, target, record)
            offsets = self._offsets(found, log)
        except OSError as error:
            # The disk cannot be read here: that is no torn tail, nothing may be cut.
            self._refuse(found, target, str(error))
            return False
        if self.encryption is None and log.is_encrypted:
            # Only where encryption-check was lost: else nothing starts without a key.
            self._refuse(found, target, "it holds encrypted segments, and no key is configured")
            log.close()
            return False
        for line in offsets.report:
            LOG.warning("partition %s: %s", found.path, line)
        if record is not None and record.offsets_digest != offsets.digest():
            LOG.warning("partition %s: its offset files changed while stopped", found.path)
        if self.durability is Durability.FSYNC:
            # Complete messages that were found may not have reached the disk; soon they are seen.
            log.sync()
        self.partitions.adopt(target, log, offsets)
        return True

    def _log(
        self,
        found: PartitionDirectory,
        namespace: int,
        target: Target,
        record: CleanPartition | None,
    ) -> PartitionLog:
        for name in OFFSET_DIRECTORIES.values():
            # Copies of a data directory may lack what was empty, and a sync needs it.
            self.files.makedirs(os.path.join(found.path, name))
        board = self.readers.published(target.slot)
        log = self.partitions.log_class.recover(
            found.path,
            target.birth,
            self.partitions.settings_of(target),
            self.files,
            record,
            # After a worker's death the board still says what readers may rely on.
            board=board if board.birth == target.birth else None,
            last_stop=self.last_stop.get(namespace),
            open_files=self.open_files,
            random_bytes=RANDOM_IDS,
            cipher=cipher_of(self.encryption, namespace, target.birth),
        )
        for line in log.recovery.report:
            LOG.warning("partition %s: %s", found.path, line)
        return log

    def _offsets(self, found: PartitionDirectory, log: PartitionLog) -> ConsumerOffsets:
        next_offset = log.written.next_offset
        return self.partitions.offsets_class.load(
            found.path,
            self.files,
            next_offset - 1 if next_offset else None,
            open_files=self.open_files,
            consumers_max=self.consumers_max,
            share_weight=self.share_weight,
        )

    def _refuse(self, found: PartitionDirectory, target: Target | None, reason: str) -> None:
        LOG.error("%s is not served: %s", found.path, reason)
        if target is not None:
            self.partitions.refuse(target, reason)

    def _refuse_missing(self) -> None:
        """Refuses partitions that the last clean stop knows and whose directories are gone.

        To begin at offset 0 would hide it: a disk that is not mounted, another path.
        """
        for namespace, stop in self.last_stop.partitions.items():
            target = _living(self.metadata, namespace)
            if (
                self._owns(namespace)
                and target is not None
                and stop.birth == target.birth
                and stop.next_offset
                and not os.path.isdir(path := self.layout.partition(*unpack_namespace(namespace)))
            ):
                text = (
                    f"{path} is missing, although the last clean stop left {stop.next_offset}"
                    " offsets there: put it back, or purge the topic to start it empty"
                )
                LOG.error("not served: %s", text)
                self.partitions.refuse(target, text)

    def _forget_dead_groups(self, found: PartitionDirectory) -> None:
        topic = self.metadata.state.topic(found.stream_id, found.topic_id)
        try:
            forgotten = forget_groups(found.path, self.files, topic.groups)
        except OSError as error:
            LOG.error("%s: offsets of deleted groups are still there: %s", found.path, error)
            return
        if forgotten:
            LOG.info("%s: forgot the offsets of deleted groups %s", found.path, forgotten)


def _living(metadata: MetadataService, namespace: int) -> Target | None:
    try:
        return metadata.target_of(namespace)
    except BrokerError:
        return None
