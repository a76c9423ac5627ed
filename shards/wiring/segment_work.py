"""What a shard does to sealed segments by itself: compression, archive, retention, other keys.

Made of parts of the shard. Begun by the worker once it serves, and stopped before the storage is
closed. Always: what is sealed or repaired reaches compression, and a segment that is to be archived
before it goes is not deleted earlier.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from borzoi.quantities import seconds
from borzoi.router.board import Board
from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService, published_log
from borzoi.shards.changes.writing import MetadataWriting
from borzoi.shards.config import Config
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.observing.upkeep_report import UpkeepStats
from borzoi.shards.orders.spec import Event, WorkerSpec
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.reading.describe import Describer
from borzoi.shards.reading.readers import SegmentReplaced
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rotation.metadata_keys import MetadataKeys
from borzoi.shards.rotation.reencryption import Reencrypting
from borzoi.shards.settings.schema import archives
from borzoi.shards.tallies.traffic import CompressionBacklog, KeyExchange
from borzoi.shards.upkeep.archive_store import open_store
from borzoi.shards.upkeep.archiver import Archiver
from borzoi.shards.upkeep.compression import Compressing, InForce, in_force, low_priority_thread
from borzoi.shards.upkeep.retention import Cleaner
from borzoi.shards.wiring.storage import ShardStorage
from borzoi.storage.retention import Protection


class SegmentWork:
    """Compressor, archiver, cleaner and reencryptor of one shard, as far as they are wanted."""

    def __init__(
        self,
        spec: WorkerSpec,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        storage: ShardStorage,
        board: Board,
        metadata: MetadataService,
        owners: PartitionOwners,
        peers: Peers,
        describer: Describer,
        clock: BrokerClock,
        writing: MetadataWriting | None,
        tell_supervisor: Callable[[Event], None],
    ) -> None:
        self._spec = spec
        self._config = config
        self._loop = loop
        self._tasks = tasks
        self._storage = storage
        self._board = board
        self._metadata = metadata
        self._owners = owners
        self._peers = peers
        self._describer = describer
        self._clock = clock
        self._began = time.monotonic()
        self.archiver = self._new_archiver() if archives(config) else None
        # One for both that write segments once more: they take turns.
        self._thread = low_priority_thread()
        self._compressing = self._new_compressing()
        self._reencrypting = self._new_reencrypting(writing, tell_supervisor)

    def start(self) -> None:
        """Begin; each comes first after an interval."""
        if self._config.data_maintenance.messages.cleaner_enabled:
            self._new_cleaner().start()
        if self.archiver is not None:
            self.archiver.start()
        self._compressing.start()
        if self._reencrypting is not None:
            self._reencrypting.look()

    def stop(self) -> None:
        """Begin nothing more."""
        if self.archiver is not None:
            self.archiver.stop()
        self._compressing.stop()
        if self._reencrypting is not None:
            self._reencrypting.stop()

    def key_exchanged(self) -> None:
        """The encryption has another key: what needs the one of before is encrypted again."""
        if self._reencrypting is not None:
            self._reencrypting.look()

    def stats(self) -> UpkeepStats:
        """What was deleted, archived and compressed since the start."""
        archived = None if self.archiver is None else self.archiver.stats()
        counted_s = time.monotonic() - self._began
        deleted, compressed = self._storage.deleting.stats(), self._compressing.stats()
        return UpkeepStats(counted_s, deleted, archived, compressed)

    def compression_backlog(self) -> CompressionBacklog:
        """What waits to be compressed."""
        return self._compressing.last_measured()

    def key_exchange(self) -> KeyExchange:
        """What needs an encryption key of before."""
        return KeyExchange() if self._reencrypting is None else self._reencrypting.figures()

    def _new_archiver(self) -> Archiver:
        spec, config, storage = self._spec, self._config, self._storage
        archiver = Archiver(
            self._loop,
            self._tasks,
            ThreadPoolExecutor(1, "archive"),
            storage.files,
            storage.layout,
            lambda: open_store(config, storage.files),
            storage.partitions,
            storage.commit,
            self._clock,
            lambda: published_log(self._board),
            shard=spec.shard,
            shard_count=spec.shard_count,
            interval_s=seconds(config.data_maintenance.archiver.interval),
            every_segment=config.data_maintenance.archiver.enabled,
        )
        if config.system.segment.archive_expired:
            storage.deleting.may_go = archiver.archived_count
        return archiver

    def _new_compressing(self) -> Compressing:
        storage = self._storage
        compressing = Compressing(
            self._loop,
            self._thread,
            storage.files,
            storage.layout.trash,
            lambda: list(storage.partitions),
            self._codec_of,
            self._tell_replaced,
        )
        storage.commit.on_sealed = compressing.sealed
        storage.repairing.on_repaired = compressing.repaired
        return compressing

    def _new_reencrypting(
        self, writing: MetadataWriting | None, tell_supervisor: Callable[[Event], None]
    ) -> Reencrypting | None:
        storage = self._storage
        encryption = storage.encryption
        if encryption is None:
            return None
        metadata = None
        if writing is not None:
            metadata = MetadataKeys(
                writing, storage.layout, storage.files, encryption, storage.disk
            )
        return Reencrypting(
            self._loop,
            self._tasks,
            self._thread,
            storage.files,
            encryption,
            lambda: list(storage.partitions),
            storage.commit,
            metadata,
            self._tell_replaced,
            lambda key_id: tell_supervisor(Event("reencrypted", reason=key_id.hex())),
        )

    def _codec_of(self, target: Target) -> InForce | None:
        stream_id, topic_id, _ = unpack_namespace(target.namespace)
        topic = self._metadata.refresh().find_topic(stream_id, topic_id)
        return None if topic is None else in_force(self._config.system.compression, topic)

    def _tell_replaced(self, target: Target, segment: int) -> None:
        """Let every shard unmap the file of a segment that has another one now."""
        self._storage.readers.replaced(target, segment)
        self._peers.tell_all(SegmentReplaced(target, segment))

    def _new_cleaner(self) -> Cleaner:
        return Cleaner(
            self._loop,
            self._tasks,
            self._metadata,
            self._storage.partitions,
            self._storage.deleting,
            self._owners,
            self._describer,
            self._clock.now_us,
            interval_s=seconds(self._config.data_maintenance.messages.interval),
            protection=Protection(self._config.system.segment.protect_unread),
        )
