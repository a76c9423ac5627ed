"""What a worker does with the directories it finds before it serves anybody.

A directory belongs to a partition only if its birth file says so: one of an older life, or of a
partition that the metadata does not know, is moved to the trash. So a crash between a delete's
log entry and its unlink resurrects nothing.
"""

import logging
import os
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError
from borzoi.router.placement import pack_namespace, shard_of, unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.message_ids import RANDOM_IDS
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.reading.readers import Readers
from borzoi.storage.birth import BirthDamaged, mend_birth, read_birth
from borzoi.storage.clean_stop import CleanStop
from borzoi.storage.encrypted import Encryption, cipher_of
from borzoi.storage.files import Files
from borzoi.storage.layout import OFFSET_DIRECTORIES, DataLayout, PartitionDirectory
from borzoi.storage.log import LogSettings, PartitionLog
from borzoi.storage.offsets import ConsumerOffsets, forget_groups
from borzoi.storage.open_files import OpenFiles
from borzoi.storage.trash import retire_directory

LOG: Final = logging.getLogger(__name__)


class MetadataIsBehind(Exception):
    """The disk holds partitions of entries that the metadata log does not have: it is too short."""


class Recovery(NamedTuple):
    """What was found."""

    opened: int
    removed: int


def recover_partitions(
    shard: int,
    shard_count: int,
    layout: DataLayout,
    files: Files,
    open_files: OpenFiles,
    settings: LogSettings,
    durability: Durability,
    metadata: MetadataService,
    partitions: Partitions,
    readers: Readers,
    clean: CleanStop | None,
    consumers_max: int,
    share_weight: int,
    encryption: Encryption | None = None,
) -> Recovery:
    """Open every partition of ours that has a directory, and publish it."""
    opened = removed = 0
    last_stop = CleanStop.last(layout, files)
    for found in layout.partition_directories(files):
        try:
            namespace = pack_namespace(found.stream_id, found.topic_id, found.partition_id)
        except ValueError as error:
            LOG.warning("%s is left alone, it is not ours: %s", found.path, error)
            continue
        target = _living(metadata, namespace)
        if shard_of(namespace, shard_count) != shard:
            if shard == METADATA_SHARD and target is not None:
                # Its owner may be dead, and the next command may give such an id out again.
                _forget_dead_groups(metadata, found, files)
            continue
        try:
            birth = read_birth(found.path, files)
        except BirthDamaged as error:
            LOG.error("%s is not served: %s", found.path, error)
            if target is not None:
                partitions.refuse(target, str(error))
            continue
        stop = last_stop.get(namespace)
        is_birth_lost = False
        if birth is None and target is not None and stop and stop.birth == target.birth:
            # It was durable when the broker stopped: this is no directory that was never finished.
            LOG.warning("%s lost its birth, the last clean stop says %d", found.path, stop.birth)
            birth, is_birth_lost = stop.birth, True
        if birth is not None and birth > metadata.applied_index:
            # Not old but younger than all we know: to remove it would be to lose it.
            raise MetadataIsBehind(
                f"{found.path} was made by metadata entry {birth}, but {layout.state_log} ends with"
                f" entry {metadata.applied_index}: restore that file from a backup, or move the"
                " directory away to go on without it"
            )
        if target is None or birth != target.birth:
            now = "that of any partition" if target is None else target.birth
            LOG.info("moved %s to the trash: its birth is %s, not %s", found.path, birth, now)
            retire_directory(found.path, layout.trash, f"old-{birth}-{namespace}", files)
            removed += 1
            continue
        _forget_dead_groups(metadata, found, files)
        record = clean.get(namespace) if clean is not None else None
        board = readers.published(target.slot)
        try:
            if is_birth_lost:
                mend_birth(found.path, target.birth, files)
            for name in OFFSET_DIRECTORIES.values():
                # Copies of a data directory may lack what was empty, and a sync needs it.
                files.makedirs(os.path.join(found.path, name))
            log = PartitionLog.recover(
                found.path,
                target.birth,
                settings,
                files,
                record,
                # After a worker's death the board still says what readers may rely on.
                board=board if board.birth == target.birth else None,
                last_stop=stop,
                open_files=open_files,
                random_bytes=RANDOM_IDS,
                cipher=cipher_of(encryption, namespace, target.birth),
            )
            for line in log.recovery.report:
                LOG.warning("partition %s: %s", found.path, line)
            written = log.written
            offset_max = written.next_offset - 1 if written.next_offset else None
            offsets = ConsumerOffsets.load(
                found.path,
                files,
                offset_max,
                open_files=open_files,
                consumers_max=consumers_max,
                share_weight=share_weight,
            )
        except OSError as error:
            # The disk cannot be read here: that is no torn tail, nothing may be cut.
            LOG.error("%s is not served: %s", found.path, error)
            partitions.refuse(target, str(error))
            continue
        if encryption is None and log.is_encrypted:
            # Only where encryption-check was lost: else nothing starts without a key.
            text = "it holds encrypted segments, and no key is configured"
            LOG.error("%s is not served: %s", found.path, text)
            partitions.refuse(target, text)
            log.close()
            continue
        for line in offsets.report:
            LOG.warning("partition %s: %s", found.path, line)
        if record is not None and record.offsets_digest != offsets.digest():
            LOG.warning("partition %s: its offset files changed while stopped", found.path)
        if durability is Durability.FSYNC:
            # Complete messages that were found may not have reached the disk; soon they are seen.
            log.sync()
        partitions.adopt(target, log, offsets)
        opened += 1
    for namespace, stop in last_stop.partitions.items():
        target = _living(metadata, namespace)
        if (
            shard_of(namespace, shard_count) == shard
            and target is not None
            and stop.birth == target.birth
            and stop.next_offset
            and not os.path.isdir(path := layout.partition(*unpack_namespace(namespace)))
        ):
            # To begin at offset 0 would hide it: a disk that is not mounted, another path.
            text = (
                f"{path} is missing, although the last clean stop left {stop.next_offset} offsets"
                " there: put it back, or purge the topic to begin anew"
            )
            LOG.error("not served: %s", text)
            partitions.refuse(target, text)
    return Recovery(opened, removed)


def _forget_dead_groups(metadata: MetadataService, found: PartitionDirectory, files: Files) -> None:
    topic = metadata.state.topic(found.stream_id, found.topic_id)
    try:
        forgotten = forget_groups(found.path, files, topic.groups)
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
