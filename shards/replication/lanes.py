"""The lanes of one shard: taken over at the start, and kept short by checkpoints.

Owned by the worker's loop. Opening a lane fences its writer of before, reads what the lane comes
to, and brings the directories of its partitions level with it; recovery opens them then as always.

A checkpoint moves the bytes of all slots since the last one into a pack, read from the local files.
One at a time per shard. None of a lane of which a partition is refused: its bytes would be lost.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final

from borzoi.cluster.checkpoints import (
    CHECKPOINT_SIZE_MAX,
    LaneCheckpoint,
    PackedPiece,
    PartitionState,
    StoredOffset,
    encode_checkpoint,
)
from borzoi.cluster.driver import Driver
from borzoi.cluster.identity import ClusterFacts, Membership, newest_node
from borzoi.cluster.keys import Checkpoint, pack_key
from borzoi.cluster.lane import LaneDamaged
from borzoi.cluster.lane_log import LaneLog, open_lane
from borzoi.cluster.local_copy import LocalLife
from borzoi.cluster.operations import Get
from borzoi.cluster.packs import (
    Addition,
    PackDamaged,
    SegmentRun,
    opened_pack,
    pieces_of,
    plan_packing,
    sealed_pack,
)
from borzoi.cluster.replay import LaneReplay, LifeKey, PlacedPiece
from borzoi.cluster.stores import SlotStore, StoreRefused, StoreUnreachable
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.quantities import seconds
from borzoi.router.board import Board
from borzoi.router.placement import shard_of, unpack_namespace
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.replication.commit import ReplicatedCommit
from borzoi.shards.replication.lane_commit import LaneCommit, LaneRules
from borzoi.shards.replication.metadata import MetaLane, open_meta
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import Replication
from borzoi.storage.archive.manifest import ManifestDamaged
from borzoi.storage.files import Files
from borzoi.storage.layout import DataLayout, log_path

LOG: Final = logging.getLogger(__name__)

CHECKPOINT_SLOTS: Final = 512
LOOK_INTERVAL_S: Final = 0.25
SWEEP_INTERVAL_S: Final = 3600.0
RETRY_AFTER_S: Final = 60.0
DRAIN_TIMEOUT_S: Final = 10.0
NAME_TIMEOUT_S: Final = 2.0


class ShardLanes:
    """All lanes of this shard."""

    def __init__(
        self,
        shard: int,
        shard_count: int,
        settings: Replication,
        store: SlotStore,
        member: Membership,
        loop: asyncio.AbstractEventLoop,
        board: Board,
        disk: Executor,
        files: Files,
        layout: DataLayout,
    ) -> None:
        self._shard = shard
        self._shard_count = shard_count
        self._settings = settings
        self._member = member
        self._facts: ClusterFacts = member.cluster
        self._store = store
        self.driver = Driver(store)
        self._loop = loop
        self._files = files
        self._layout = layout
        self._disk = disk
        self.commit = ReplicatedCommit(loop, board, disk, self._cannot_go_on)
        self.commit.lanes_of_cluster = self._facts.lanes
        self.meta: MetaLane | None = None
        """The lane of the metadata, on shard 0."""
        self._tasks: Tasks | None = None
        self.tell: Callable[[str], None] = LOG.critical
        """Has the broker stop; the worker wires it."""
        self._is_stopping = False
        self._stopping: asyncio.Task[None] | None = None
        self._partitions: Partitions | None = None
        self._metadata: MetadataService | None = None
        self._pieces: dict[LifeKey, tuple[PackedPiece, ...]] = {}
        self._replayed: dict[LifeKey, dict[tuple[int, int], int]] = {}
        self._work = Periodic(loop, LOOK_INTERVAL_S, self._look)
        self._checkpointing = False
        self._swept_at: dict[int, float] = {}

    # At the start.

    async def open_meta(self, tasks: Tasks) -> None:
        """Shard 0: take over the lane of the metadata, and bring the local log level with it."""
        try:
            opened, replay = await open_meta(
                self.driver, self._facts.window, self._layout, self._files
            )
        except (LaneDamaged, ManifestDamaged, StoreRefused) as error:
            raise ConfigError(f"the lane of the metadata: {error}") from error
        self.meta = MetaLane(self.driver, opened, replay, tasks, self._cannot_go_on)

    async def open(self, metadata: MetadataService) -> None:
        """Take over the lanes of this shard and bring the directories level with them.

        ConfigError if that cannot be done, however often it is tried.
        """
        metadata.refresh()
        self._metadata = metadata
        began = time.monotonic()
        for number in range(self._shard, self._facts.lanes, self._shard_count):
            try:
                await self._open(number, metadata)
            except (LaneDamaged, ManifestDamaged, PackDamaged, StoreRefused) as error:
                raise ConfigError(f"lane {number}: {error}") from error
        LOG.info(
            "%d lanes of %s are open after %.3f s",
            len(self.commit.lanes),
            self._store.name,
            time.monotonic() - began,
        )

    async def _open(self, number: int, metadata: MetadataService) -> None:
        replay = LaneReplay(number)
        opened = await open_lane(self.driver, number, self._facts.window, replay)
        lives = {key: life for key, life in replay.lives.items() if _is_living(metadata, key)}
        local = {key: self._local(key, replay) for key in lives}
        await self._bring_level(number, list(local.values()))
        for key, life in lives.items():
            self._pieces[key] = tuple(placed.piece for placed in life.pieces)
            self._replayed[key] = life.offsets
        settings = self._settings
        lane = LaneCommit(
            number,
            self._loop,
            self.commit,
            LaneRules(
                seconds(settings.linger),
                settings.object_size,
                seconds(settings.store_timeout),
                seconds(settings.checkpoint_interval),
            ),
        )
        lane.log = LaneLog(self.driver, opened, lane.ended, lane.lost)
        self.commit.lanes[number] = lane

    def _local(self, key: LifeKey, replay: LaneReplay) -> LocalLife:
        directory = self._layout.partition(*unpack_namespace(key.namespace))
        life = replay.lives[key]
        return LocalLife(directory, key.birth, life, self._files, self._layout.trash)

    async def _bring_level(self, lane: int, lives: list[LocalLife]) -> None:
        """Write what these directories lack; all of it if what was there is damaged."""
        await self._write(lane, lives)
        damaged = [life for life in lives if not await asyncio.to_thread(life.is_level)]
        for life in damaged:
            life.start_over("its messages are not sound")
        await self._write(lane, damaged)
        for life in damaged:
            if not await asyncio.to_thread(life.is_level):
                raise LaneDamaged(f"{life.directory} is not what the lane says")
        for line in [line for life in lives for line in life.report]:
            LOG.warning("%s", line)

    async def _write(self, lane: int, lives: list[LocalLife]) -> None:
        missing: dict[Checkpoint, list[tuple[LocalLife, PlacedPiece]]] = {}
        for life in lives:
            for placed in await asyncio.to_thread(life.begin):
                missing.setdefault(placed.piece.pack, []).append((life, placed))
        # Pieces of one segment lie in packs in the order of the packs.
        for pack in sorted(missing):
            body = await self._pack(lane, pack)
            for life, placed in missing[pack]:
                await asyncio.to_thread(life.write_piece, placed, body)
        for life in lives:
            await asyncio.to_thread(life.finish)

    async def _pack(self, lane: int, pack: Checkpoint) -> memoryview:
        body = await self.driver.carry_out(Get(pack_key(lane, pack)))
        if not isinstance(body, bytes):
            raise LaneDamaged(f"pack {pack} is named by a checkpoint and cannot be read")
        return opened_pack(body)

    def begin(self, partitions: Partitions, tasks: Tasks) -> None:
        """Serve: from now on checkpoints are made."""
        self._partitions, self._tasks = partitions, tasks
        for partition in partitions:
            key = _key_of(partition)
            kept = {(kind, consumer) for kind, consumer, _ in partition.offsets.items()}
            for kind, consumer in self._replayed.get(key, {}):
                if (ConsumerKind(kind), consumer) not in kept:
                    # Of a group that is gone. Its number may be given out again.
                    self.commit.offset_deleted(partition, ConsumerKind(kind), consumer, _ignored)
        self._replayed.clear()
        self._work.start()

    # Now and then.

    def _look(self) -> None:
        for lane in self.commit.lanes.values():
            lane.look()
        if self._checkpointing or self._tasks is None:
            return
        for lane in self.commit.lanes.values():
            if self._is_due(lane):
                self._checkpointing = True
                self._tasks.start(self._checkpoint(lane))
                return

    def _is_due(self, lane: LaneCommit) -> bool:
        now = self._loop.time()
        return (
            lane.stored_slots > 0
            and now >= lane.retry_at
            and (
                lane.stored_slots >= CHECKPOINT_SLOTS
                or lane.unpacked >= self._settings.checkpoint_size
                or now >= lane.checkpoint_at
            )
        )

    async def _checkpoint(self, lane: LaneCommit) -> None:
        try:
            await self._store_checkpoint(lane)
            if time.monotonic() - self._swept_at.get(lane.number, -SWEEP_INTERVAL_S) >= (
                SWEEP_INTERVAL_S
            ):
                self._swept_at[lane.number] = time.monotonic()
                if removed := await lane.log.sweep(time.time()):
                    LOG.info(
                        "lane %d: removed %d objects that were left over", lane.number, removed
                    )
        except OSError as error:
            # A segment went meanwhile. The slots have it all.
            lane.retry_at = self._loop.time() + RETRY_AFTER_S
            LOG.warning("lane %d has no new checkpoint: %s", lane.number, error)
        except StoreRefused as error:
            self._cannot_go_on(f"lane {lane.number}: {error}")
        finally:
            self._checkpointing = False

    async def _store_checkpoint(self, lane: LaneCommit) -> None:
        name = lane.log.next_checkpoint()
        assert self._partitions is not None
        if name is None or self._has_refused(lane):
            lane.retry_at = self._loop.time() + RETRY_AFTER_S
            return
        states: list[PartitionState] = []
        parts: list[tuple[str, Addition]] = []
        pieces: dict[LifeKey, tuple[PackedPiece, ...]] = {}
        at = 0
        # One turn of the loop: exactly what is stored up to `name`.
        for partition in self._partitions:
            if self.commit.lane(partition) is lane:
                key = _key_of(partition)
                packing = plan_packing(self._pieces.get(key, ()), _segments(partition))
                pieces[key], at = pieces_of(packing, name, at)
                parts += [(partition.log.directory, one) for one in packing.additions]
                states.append(_state_of(partition, pieces[key]))
        assert self._metadata is not None
        checkpoint = LaneCheckpoint(
            lane=lane.number,
            next=name.next,
            fence=name.fence,
            entry=self._metadata.applied_index,
            partitions=tuple(states),
        )
        body = encode_checkpoint(checkpoint)
        if len(body) > CHECKPOINT_SIZE_MAX:
            raise OSError(f"a checkpoint of {len(body)} bytes could not be read back")
        lane.begin_checkpoint()
        pack = await self._loop.run_in_executor(self._disk, self._read, parts)
        await lane.log.checkpoint(name, body, pack, checkpoint.packs)
        old = [key for key in self._pieces if self._lane_of(key) == lane.number]
        for key in old:
            del self._pieces[key]
        self._pieces.update(pieces)

    def _has_refused(self, lane: LaneCommit) -> bool:
        assert self._partitions is not None
        refused = [
            one
            for one in self._partitions.refused
            if shard_of(one, self._facts.lanes) == lane.number
        ]
        if refused:
            LOG.error(
                "lane %d grows: %d of its partitions are not served", lane.number, len(refused)
            )
        return bool(refused)

    def _lane_of(self, key: LifeKey) -> int:
        return shard_of(key.namespace, self._facts.lanes)

    def _read(self, parts: Iterable[tuple[str, Addition]]) -> bytes:
        found: list[bytes] = []
        for directory, one in parts:
            fd = self._files.open(log_path(directory, one.segment), os.O_RDONLY)
            try:
                body = self._files.pread(fd, one.length, one.position)
            finally:
                self._files.close(fd)
            if len(body) != one.length:
                raise OSError(f"segment {one.segment} of {directory} is too short")
            found.append(body)
        return sealed_pack(found)

    # The end.

    async def close(self) -> None:
        """Wait a while until everything is stored; what is not then is answered as unknown."""
        self._is_stopping = True
        self._work.stop()
        deadline = self._loop.time() + DRAIN_TIMEOUT_S
        lanes = self.commit.lanes.values()
        while any(not one.is_idle for one in lanes) and self._loop.time() < deadline:
            if all(one.refusal for one in lanes if not one.is_idle):
                break
            await asyncio.sleep(0.01)
        for lane in lanes:
            lane.end()
            lane.give_up()
            lane.log.close()

    def _cannot_go_on(self, why: str) -> None:
        if self._is_stopping:
            return
        self._is_stopping = True
        for lane in self.commit.lanes.values():
            lane.end()
        self._stopping = self._loop.create_task(self._stop_broker(why))

    async def _stop_broker(self, why: str) -> None:
        node = ""
        try:
            async with asyncio.timeout(NAME_TIMEOUT_S):
                node = await newest_node(self._store)
        except (TimeoutError, StoreUnreachable, StoreRefused):
            LOG.info("which node began last is not known")
        said = f" (node {node} began last)" if node and node != self._member.node else ""
        text = f"this broker cannot go on: {why}{said}"
        LOG.error("%s", text)
        self.tell(text)


def _is_living(metadata: MetadataService, key: LifeKey) -> bool:
    if key.birth > metadata.applied_index:
        raise LaneDamaged(
            f"it has messages of a partition that metadata entry {key.birth} made, and the"
            f" metadata ends with entry {metadata.applied_index}"
        )
    try:
        return metadata.target_of(key.namespace).birth == key.birth
    except BrokerError:
        return False


def _key_of(partition: OwnedPartition) -> LifeKey:
    return LifeKey(partition.target.namespace, partition.target.birth)


def _segments(partition: OwnedPartition) -> list[SegmentRun]:
    written = partition.log.written
    sealed = partition.log.sealed
    active = written.active_segment
    return [
        *(SegmentRun(one.first_offset, one.message_count, one.size_bytes) for one in sealed),
        SegmentRun(active, written.next_offset - active, written.end_position),
    ]


def _state_of(partition: OwnedPartition, pieces: tuple[PackedPiece, ...]) -> PartitionState:
    written = partition.log.written
    return PartitionState(
        *_key_of(partition),
        written.first_offset,
        written.next_offset,
        written.active_segment,
        written.end_position,
        partition.log.timestamp_at(0),
        written.size_bytes,
        pieces,
        tuple(StoredOffset(*one) for one in partition.offsets.items()),
    )


def _ignored(_status: int) -> None:
    """The lane takes the entry when it can; nothing waits for it."""
