"""A worker: one shard, its parts wired once, from boot to an orderly end.

This is where everything meets: it maps the shared memory it was given, opens the metadata and
its partitions, and only then lets anybody in. Boot steps, in this order:

    map memory, link to the peers
    shard 0: open the metadata log, make the root user on a first boot, publish
    others: wait for that
    recover the partitions we own, publish them, answer the peers from now on
    listen

The process around it is worker_process.py.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import msgspec

from borzoi.protocol.batch import ENTRIES_MAX
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.responses.clients import Transport
from borzoi.router.arena import Arena, PeerArena
from borzoi.router.board import METADATA_SLOT, Board
from borzoi.router.control import ControlLayout, OwnControl, SharedControl
from borzoi.router.fds import BadMessage, ChannelClosed, FdChannel
from borzoi.router.placement import shard_of, unpack_namespace
from borzoi.router.pool import MemoryPool
from borzoi.router.receive import ReceiveBlocks
from borzoi.router.wake import Wake
from borzoi.shards.archive_store import open_store
from borzoi.shards.archiving import Archiver
from borzoi.shards.caches import Caches
from borzoi.shards.cannot_boot import CannotBoot
from borzoi.shards.cleaner import Cleaner
from borzoi.shards.clients import Clients, Connected
from borzoi.shards.clock import BrokerClock
from borzoi.shards.cluster import Cluster
from borzoi.shards.compressing import Compressing, InForce, in_force, low_priority_thread
from borzoi.shards.config import Config, from_json
from borzoi.shards.config.durations import seconds
from borzoi.shards.config.schema import archives
from borzoi.shards.deduplication import Deduplication
from borzoi.shards.deleting import Deleting
from borzoi.shards.describe import Describer
from borzoi.shards.descriptors import GROUP_KINDS, Done, Request, RequestKind
from borzoi.shards.durability import Durability
from borzoi.shards.file_limits import affordable, open_files_bound
from borzoi.shards.group_commit import GroupCommit
from borzoi.shards.groups.claim_owners import ClaimOwners
from borzoi.shards.groups.claims import Claims
from borzoi.shards.groups.coordinator import Coordinator
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.service import Groups
from borzoi.shards.hashing import Hashing
from borzoi.shards.heartbeats import Heartbeats
from borzoi.shards.listener import Listener, check_port_is_free
from borzoi.shards.log_lines import LineHandler
from borzoi.shards.login_failures import Attempt, LoginFailures
from borzoi.shards.logins import Logins, Note, failure_limits
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.follower import MetadataCopy, open_copy
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.metadata.writer import MetadataWriter
from borzoi.shards.metadata_boot import open_metadata
from borzoi.shards.metadata_service import MetadataService
from borzoi.shards.metadata_writing import METADATA_SHARD, MetadataWriting, RemoteProposer
from borzoi.shards.migration import Migration
from borzoi.shards.owned_partition import Ended
from borzoi.shards.owners import Owners
from borzoi.shards.partitions import Partitions
from borzoi.shards.peers import DeathRule, Peers
from borzoi.shards.polls import Polls
from borzoi.shards.readers import Readers
from borzoi.shards.recovering import MetadataIsBehind, recover_partitions
from borzoi.shards.repairing import Repairing
from borzoi.shards.root_account import forget_root_password
from borzoi.shards.sends import Sends
from borzoi.shards.services import Services
from borzoi.shards.session import Link as SessionLink
from borzoi.shards.session import Session, client_id_of
from borzoi.shards.snapshots import Snapshots
from borzoi.shards.statistics import Statistics
from borzoi.shards.target import Target
from borzoi.shards.tasks import Tasks
from borzoi.shards.token_cleaner import TokenCleaner
from borzoi.shards.usage import UsageMeter
from borzoi.shards.warm_reads import WarmReads
from borzoi.shards.worker_spec import (
    Event,
    Order,
    WorkerSpec,
)
from borzoi.storage.clean_stop import CleanStop
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
from borzoi.storage.wal import LogEnd

LOG: Final = logging.getLogger(__name__)

APPEND: Final = int(RequestKind.APPEND)
TICK_S: Final = 1.0
LET_GO_INTERVAL_S: Final = 2.0
DISK_THREADS: Final = 4
WINDOWS_MAX: Final = 32
IDLE_POOL_BYTES_MAX: Final = 64 * 1024 * 1024
STOP_TASKS_TIMEOUT_S: Final = 1.0
STOP_SYNC_TIMEOUT_S: Final = 3.0


class Worker:
    """One shard and its parts, wired once."""

    def __init__(
        self,
        spec: WorkerSpec,
        loop: asyncio.AbstractEventLoop,
        log_handler: LineHandler,
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self._spec = spec
        self._loop = loop
        self._log_handler = log_handler
        self._config: Config = from_json(bytes(spec.config))
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._stop_ordered = asyncio.Event()
        config = self._config
        system = config.system

        self._disk = ThreadPoolExecutor(DISK_THREADS, "disk")
        self._hashing = Hashing(ThreadPoolExecutor(1, "hashing"), config.limits.logins_waiting_max)
        self._clock = BrokerClock(spec.broker_start)
        self._snapshotting = ThreadPoolExecutor(1, "snapshot")
        self._measuring = ThreadPoolExecutor(1, "measuring")
        self._tasks = Tasks(on_broken)
        self._files = Files()
        self._layout = DataLayout(
            Path(system.path), system.stream.path, system.topic.path, system.partition.path
        )
        self._durability = Durability(system.partition.durability)

        # Shared memory.
        own_generation = spec.generations[spec.shard]
        self._control_layout = ControlLayout(spec.shard_count)
        self._control = OwnControl(
            spec.control_fds[spec.shard], self._control_layout, spec.shard, own_generation
        )
        self._board = Board(spec.board_fd, spec.board_slots)
        arena = Arena(spec.arena_fds[spec.shard], spec.arena_size, spec.shard)
        self._pool = MemoryPool(
            arena, spec.budget, system.memory_pool.bucket_capacity, own_generation
        )
        self._receive = ReceiveBlocks(self._pool)
        self._peers = Peers(
            loop,
            self._control,
            Wake(spec.wake_fds[spec.shard]),
            self._serve,
            seconds(config.limits.request_timeout),
        )
        for shard in range(spec.shard_count):
            if shard != spec.shard:
                control = SharedControl(
                    spec.control_fds[shard], self._control_layout, shard, spec.generations[shard]
                )
                self._peers.add(
                    control,
                    PeerArena(
                        spec.arena_fds[shard], spec.arena_size, shard, spec.generations[shard]
                    ),
                    Wake(spec.wake_fds[shard]),
                )

        # Storage.
        self._encryption: Encryption | None = None
        if spec.encryption_key:
            key = EncryptionKey(spec.encryption_key)
            self._encryption = Encryption(key, encrypts=system.encryption.enabled)
        copy_memory = CopyMemory(config.limits.copied_size_max)
        self._index_caching = IndexCaching(system.segment.cache_indexes)
        self._settings = LogSettings(system.segment.size)
        self._open_files = OpenFiles(self._files, open_files_bound())
        self._readers = Readers(
            self._board,
            self._layout,
            WindowCache(WINDOWS_MAX),
            self._files,
            system.partition.validate_checksum,
            PlainBlocks(copy_memory),
            self._index_caching,
            self._encryption,
        )
        self._commit = GroupCommit(
            loop,
            self._board,
            self._disk,
            self._durability,
            journal_messages_max=system.partition.messages_required_to_save,
            journal_size_max=system.partition.size_of_messages_required_to_save,
        )
        self._warm_reads = WarmReads(loop, self._disk, self._files, copy_memory)
        self._deduplication = self._new_deduplication()
        self._partitions = Partitions(
            self._layout,
            self._files,
            self._open_files,
            self._settings,
            self._durability,
            self._commit,
            self._readers,
            self._warm_reads,
            consumers_max=config.limits.consumers_per_partition_max,
            response_size_max=config.limits.response_size_max,
            deduplication=self._deduplication,
            encryption=self._encryption,
        )
        self._deleting = Deleting(
            loop, self._disk, self._files, self._layout.trash, self._partitions, self._commit
        )
        self._repairing = Repairing(loop, self._disk, self._partitions, self._commit)
        self._archiver = self._new_archiver() if archives(config) else None
        channel = socket.socket(fileno=spec.channel_fd)
        self._channel = FdChannel(loop, channel, self._take_message, self._supervisor_gone)

    def _new_deduplication(self) -> Deduplication | None:
        wanted = self._config.system.message_deduplication
        if not wanted.enabled:
            return None
        return Deduplication(
            self._loop,
            self._disk,
            self._files,
            self._commit,
            self._readers,
            self._durability,
            entries_max=wanted.max_entries or ENTRIES_MAX,
            expiry_us=wanted.expiry,
        )

    def _new_archiver(self) -> Archiver:
        config = self._config
        archiver = Archiver(
            self._loop,
            self._tasks,
            ThreadPoolExecutor(1, "archive"),
            self._files,
            self._layout,
            lambda: open_store(config, self._files),
            self._partitions,
            self._commit,
            self._clock,
            lambda: LogEnd(*self._board.read(METADATA_SLOT)[:2]),
            shard=self._spec.shard,
            shard_count=self._spec.shard_count,
            interval_s=seconds(config.data_maintenance.archiver.interval),
            every_segment=config.data_maintenance.archiver.enabled,
        )
        if config.system.segment.archive_expired:
            self._deleting.may_go = archiver.archived_count
        return archiver

    # Booting.

    async def run(self) -> None:
        """From birth to an orderly end."""
        if self._spec.shard == METADATA_SHARD:
            writer = self._open_metadata()
            copy = writer.copy
        else:
            if not self._spec.tcp_address:
                await self._wait_for_order("recover")
            writer = None
            copy = open_copy(
                self._layout.state_log, self._layout.state_snapshot, self._files, self._encryption
            )
        if copy.snapshot_problem is not None:
            LOG.warning("%s", copy.snapshot_problem)
        self._wire(copy, writer)
        self._recover()
        self._load_indexes()
        self._deleting.remove_leftovers(
            lambda namespace: shard_of(namespace, self._spec.shard_count) == self._spec.shard
        )
        self._control.beat(time.monotonic_ns())
        self._peers.start()
        if self._writing is not None:
            # A predecessor may have died between an entry and its barrier.
            # A peer that has stopped by now answers nothing any more.
            if not await self._unless_stopped(self._writing.barrier(copy.applied_index)):
                await self._stop()
                return
            self._writing.empty_trash()
        if self._coordinator is not None and not await self._unless_stopped(
            self._coordinator.adopt()
        ):
            await self._stop()
            return
        self.tell(Event("recovered"))
        address = self._spec.tcp_address
        if not address:
            address = (await self._wait_for_order("listen")).address
            if self._spec.shard == METADATA_SHARD:
                self._check_port(address)
        await self._listen(address)
        self._loop.call_later(TICK_S, self._tick)
        self._loop.call_later(LET_GO_INTERVAL_S, self._let_go_of_deleted)
        if self._config.heartbeat.enabled:
            interval_s = seconds(self._config.heartbeat.interval)
            Heartbeats(self._loop, self._clients, interval_s, self._client_evicted).start()
        saver = self._config.message_saver
        if saver.enabled:
            self._loop.call_later(seconds(saver.interval), self._save)
        if self._deduplication is not None:
            self._deduplication.keep_trimmed(self._partitions)
        cleaner = self._config.personal_access_token.cleaner
        if self._writing is not None and cleaner.enabled:
            TokenCleaner(
                self._loop, self._metadata, self._clock, self._tasks, seconds(cleaner.interval)
            ).start()
        if self._config.data_maintenance.messages.cleaner_enabled:
            self._cleaner.start()
        if self._archiver is not None:
            self._archiver.start()
        self._compressing.start()
        await self._stop_ordered.wait()
        await self._stop()

    def _open_metadata(self) -> MetadataWriter:
        writer, root_created = open_metadata(
            self._config,
            self._layout,
            self._files,
            self._spec.root,
            published_position=self._board.read(METADATA_SLOT)[1],
            slots_max=self._spec.board_slots,
            encryption=self._encryption,
        )
        end = writer.end
        self._board.publish(METADATA_SLOT, (end.index, end.position, 0, 0, 0, 0, 0, 0))
        self.tell(Event("metadata_ready", root_created=root_created))
        return writer

    def _wire(self, copy: MetadataCopy, writer: MetadataWriter | None) -> None:
        config = self._config
        self._metadata = MetadataService(copy, self._board, self._take_effects)
        self._sends = Sends(self._metadata)
        self._writing: MetadataWriting | None = None
        if writer is not None:
            self._writing = MetadataWriting(
                writer,
                self._board,
                self._peers,
                self._partitions,
                self._disk,
                self._tasks,
                self._layout,
                self._files,
                self._clock,
                sync=config.system.state.enforce_fsync,
                names_are_secret=config.system.encryption.enabled,
            )
            self._writing.on_effects = self._take_effects
            self._metadata.proposer = self._writing
        else:
            self._metadata.proposer = RemoteProposer(self._peers, self._pool)
        spec = self._spec
        self._owners = Owners(
            spec.shard,
            spec.shard_count,
            self._partitions,
            self._deleting,
            self._repairing,
            self._peers,
            self._pool,
            self._metadata,
        )
        self._readers.ask_owner = self._owners.check_index
        local = LocalMembers(self._metadata, lambda client_id: self._clients.knows(client_id))
        self._clients = Clients(self._peers, self._pool, local.groups_of)
        self._groups = self._wire_groups(local)
        self._logins = Logins(
            self._metadata,
            self._hashing,
            LoginFailures(failure_limits(config.limits), time.monotonic),
            config.limits.login_failures_free,
            self._tell_login_note,
        )
        self._caches = Caches(self._readers, self._peers, self._pool)
        describer = Describer(self._readers)
        self._cleaner = Cleaner(
            self._loop,
            self._tasks,
            self._metadata,
            self._partitions,
            self._deleting,
            self._owners,
            describer,
            self._clock.now_us,
            interval_s=seconds(config.data_maintenance.messages.interval),
            unread_until_full=config.system.segment.protect_unread == "until_full",
        )
        self._compressing = Compressing(
            self._loop,
            low_priority_thread(),
            self._files,
            self._layout.trash,
            lambda: list(self._partitions),
            self._codec_of,
            self._tell_replaced,
        )
        self._commit.on_sealed = self._compressing.sealed
        self._cluster = Cluster(config, spec.follower)
        self._services = Services(
            clients=self._clients,
            clock=self._clock,
            cluster=self._cluster,
            describer=describer,
            durability=self._durability,
            groups=self._groups,
            logins=self._logins,
            metadata=self._metadata,
            migration=Migration(
                self._peers,
                config.tcp.socket_migration,
                lambda event, fds: self._channel.send(msgspec.json.encode(event), fds),
            ),
            owners=self._owners,
            polls=Polls(
                self._readers,
                self._owners,
                self._warm_reads,
                self._durability,
                config.limits.response_size_max,
            ),
            pool=self._pool,
            sends=self._sends,
            snapshots=Snapshots(config, self._layout, spec.supervisor_pid, self._snapshotting),
            statistics=Statistics(
                self._metadata,
                describer,
                self._clients,
                self._caches,
                self._clock,
                spec.supervisor_pid,
                UsageMeter(spec.supervisor_pid, Path(self._layout.root)),
                self._measuring,
            ),
            tasks=self._tasks,
        )
        self._listener = Listener(
            self._loop,
            self._receive,
            self._pool,
            self._clients,
            affordable(config.limits),
            self._new_session,
            lambda link, state: Session.adopt(self._services, link, state),
            lambda state: self._groups.lost(client_id_of(state.address), state.seats),
        )

    def _wire_groups(self, local: LocalMembers) -> Groups:
        claims = Claims(
            self._partitions, self._metadata, lambda *what: self._groups.released(*what)
        )
        claim_owners = ClaimOwners(self._owners, claims, self._peers)
        spec, timing = self._spec, self._config.consumer_group
        self._coordinator: Coordinator | None = None
        if spec.shard == METADATA_SHARD:
            self._coordinator = Coordinator(
                self._loop,
                spec.generations[spec.shard],
                self._metadata,
                self._owners,
                claim_owners,
                local,
                self._peers,
                self._pool,
                self._tasks,
                revocation_timeout_s=seconds(timing.rebalancing_timeout),
                check_interval_s=seconds(timing.rebalancing_check_interval),
            )
        return Groups(spec.shard, self._peers, self._pool, local, claim_owners, self._coordinator)

    def _recover(self) -> None:
        began = time.monotonic()
        self._metadata.refresh()
        clean = None
        if not self._spec.tcp_address:
            record = os.pread(
                self._spec.clean_stop_fd, os.fstat(self._spec.clean_stop_fd).st_size, 0
            )
            clean = CleanStop.decode(record)
        try:
            recovery = recover_partitions(
                self._spec.shard,
                self._spec.shard_count,
                self._layout,
                self._files,
                self._open_files,
                self._settings,
                self._durability,
                self._metadata,
                self._partitions,
                self._readers,
                clean,
                self._config.limits.consumers_per_partition_max,
                self._encryption,
            )
        except MetadataIsBehind as error:
            raise CannotBoot(str(error)) from error
        LOG.info(
            "recovered %d partitions in %.3f s, %d old directories went to the trash",
            recovery.opened,
            time.monotonic() - began,
            recovery.removed,
        )

    def _load_indexes(self) -> None:
        """With `cache_indexes = all`: bring the indexes of our partitions into memory, aside."""
        directories = [partition.log.directory for partition in self._partitions]

        def load() -> None:
            try:
                size = load_indexes(directories, self._files)
            except OSError as error:
                LOG.warning("not all indexes are in memory: %s", error)
            else:
                LOG.info("%d bytes of indexes are in memory", size)

        if self._index_caching is IndexCaching.ALL:
            self._disk.submit(load)

    def _check_port(self, address: str) -> None:
        """The shards share their port, and would share it with another broker without a word."""
        if self._config.tcp.enabled:
            try:
                check_port_is_free(address)
            except OSError as error:
                raise CannotBoot(f"cannot listen on {address}: {error}") from error

    async def _listen(self, address: str) -> None:
        if self._config.tcp.enabled:
            try:
                address = await self._listener.listen(address, self._config.tcp.socket)
            except OSError as error:
                raise CannotBoot(f"cannot listen on {address}: {error}") from error
        self._cluster.tcp_address = address
        # The supervisor watches from now on, and the slowest shard may have taken minutes.
        self._control.beat(time.monotonic_ns())
        self.tell(Event("listening", address=address))

    def _new_session(self, link: SessionLink, address: str, transport: Transport) -> Session:
        return Session(self._services, link, address, transport)

    # Serving peers.

    def _serve(self, shard: int, request: Request, lent: memoryview, done: Done) -> None:
        if request.kind == APPEND:
            self._owners.serve_append(request, lent, done)
            return
        match request.kind:
            case RequestKind.PROPOSE:
                assert self._writing is not None, "only shard 0 is asked to write metadata"
                self._writing.serve(request, lent, done)
            case RequestKind.BARRIER:
                self._metadata.refresh()
                done(0, 0, 0, 0)
            case RequestKind.CLIENTS:
                # Those of a user who was removed do not count any more.
                self._metadata.refresh()
                self._clients.serve(lent, done)
            case RequestKind.LOGIN_NOTE:
                self._logins.serve(request)
                done(0, 0, 0, 0)
            case kind if kind in GROUP_KINDS:
                self._groups.serve(shard, request, lent, done)
            case RequestKind.CACHE_METRICS:
                self._caches.serve(lent, done)
            case RequestKind.SEGMENT_REPLACED:
                self._readers.replaced(request.namespace, request.birth, request.first)
                done(0, 0, 0, 0)
            case _:
                self._owners.serve(request, lent, done)

    def _codec_of(self, target: Target) -> InForce | None:
        stream_id, topic_id, _ = unpack_namespace(target.namespace)
        topic = self._metadata.refresh().find_topic(stream_id, topic_id)
        return None if topic is None else in_force(self._config.system.compression, topic)

    def _tell_replaced(self, target: Target, segment: int) -> None:
        """Let every shard unmap the plain log of a segment that was compressed."""
        self._readers.replaced(target.namespace, target.birth, segment)
        for shard in self._peers.shards():
            self._peers.ask(
                shard, RequestKind.SEGMENT_REPLACED, _nothing_more, namespace=target.namespace,
                birth=target.birth, first=segment, rule=DeathRule.COMPLETE,
            )  # fmt: skip

    def _take_effects(self, effects: Effects) -> None:
        self._partitions.apply_effects(effects)
        self._sends.forget(effects)
        self._readers.forget(effects)
        self._groups.take_effects(effects)
        for client_id in self._clients.apply_effects(effects):
            self._groups.client_gone(client_id)
        if self._spec.shard == METADATA_SHARD and ROOT_USER_ID in effects.passwords_changed:
            forget_root_password(Path(self._layout.root))

    def _tell_login_note(self, note: Note, attempt: Attempt) -> None:
        for shard in self._peers.shards():
            self._peers.ask(
                shard, RequestKind.LOGIN_NOTE, _nothing_more, option=note,
                first=attempt.pair, second=attempt.host, namespace=attempt.name,
                rule=DeathRule.COMPLETE,
            )  # fmt: skip

    # The supervisor.

    def tell(self, event: Event) -> None:
        """Let the supervisor know."""
        self._channel.send(msgspec.json.encode(event))

    def _take_message(self, payload: bytes, fds: list[int]) -> None:
        order = msgspec.json.decode(payload, type=Order)
        if order.order == "stop":
            self._stop_ordered.set()
        elif order.order == "replace_peer":
            self._replace_peer(order, fds)
        elif order.order == "adopt":
            assert order.session is not None
            arrived = socket.socket(fileno=fds[0])
            self._tasks.start(self._listener.adopt(arrived, order.session))
        else:
            self._orders.put_nowait(order)

    def _replace_peer(self, order: Order, fds: list[int]) -> None:
        control_fd, arena_fd = fds
        control = SharedControl(control_fd, self._control_layout, order.shard, order.generation)
        arena = PeerArena(arena_fd, self._spec.arena_size, order.shard, order.generation)
        self._peers.replace(control, arena)
        self._groups.shard_died(order.shard)
        os.close(control_fd)
        os.close(arena_fd)
        self.tell(Event("peer_replaced", shard=order.shard, generation=order.generation))

    def _supervisor_gone(self, reason: ChannelClosed | BadMessage) -> None:
        LOG.error("the supervisor is gone (%s): stopping", reason)
        self._stop_ordered.set()

    async def _wait_for_order(self, wanted: str) -> Order:
        getting = asyncio.ensure_future(self._orders.get())
        stopping = asyncio.ensure_future(self._stop_ordered.wait())
        await asyncio.wait({getting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not getting.done():
            getting.cancel()
            raise SystemExit(0)
        stopping.cancel()
        order = getting.result()
        assert order.order == wanted, f"expected the order {wanted}, got {order.order}"
        return order

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Wait for something that other shards have a part in; False if told to stop first."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stop_ordered.wait())
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if working.done():
            working.result()
            return True
        working.cancel()
        return False

    # Periodic work.

    def _tick(self) -> None:
        self._control.beat(time.monotonic_ns())
        self._listener.check_deadlines()
        self._pool.trim(IDLE_POOL_BYTES_MAX)
        self._loop.call_later(TICK_S, self._tick)

    def _client_evicted(self, session: Connected) -> None:
        """A silent client does not count as connected any more, although it is."""
        LOG.info(
            "client %d of %s is stale: its last ping was %.1f s ago",
            session.client_id,
            session.address,
            time.monotonic() - session.last_heartbeat,
        )
        self._groups.client_gone(session.client_id)

    def _let_go_of_deleted(self) -> None:
        self._readers.let_go_of_deleted()
        self._loop.call_later(LET_GO_INTERVAL_S, self._let_go_of_deleted)

    def _save(self) -> None:
        if self._config.message_saver.enforce_fsync:
            self._commit.sync_dirty(self._partitions)
        else:
            self._partitions.flush_journals()
        self._log_handler.sweep()
        self._loop.call_later(seconds(self._config.message_saver.interval), self._save)

    # The end.

    async def _stop(self) -> None:
        """Stop serving, bring everything to the disk, and note that it was a clean stop."""
        self._listener.close()
        if self._archiver is not None:
            self._archiver.stop()
        self._compressing.stop()
        await self._tasks.drain(STOP_TASKS_TIMEOUT_S)
        self._peers.stop()
        await self._sync_all()
        rows = {
            one.target.namespace: one.log.clean_partition(one.offsets.digest())
            for one in self._partitions
            if one.log.is_synced and not one.log.staged_messages
        }
        CleanStop(rows).write(self._layout, self._files, self._spec.shard)
        self._partitions.close()
        LOG.info("stopped, %d partitions are on the disk", len(rows))

    async def _sync_all(self) -> None:
        waiting = []
        for partition in self._partitions:
            ended: asyncio.Future[int] = self._loop.create_future()
            self._commit.flush(partition, _set_once(ended), fsync=True)
            waiting.append(ended)
        if waiting:
            await asyncio.wait(waiting, timeout=STOP_SYNC_TIMEOUT_S)
        await self._loop.run_in_executor(self._disk, self._sync_offsets)

    def _sync_offsets(self) -> None:
        for partition in self._partitions:
            try:
                partition.offsets.sync()
            except BrokerError as error:
                LOG.error("offsets of %s are not on the disk: %s", partition.target, error)


def _nothing_more(_status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
    """What to do when a shard was told something that needs no answer."""


def _set_once(future: asyncio.Future[int]) -> Ended:
    def ended(status: int) -> None:
        if not future.done():
            future.set_result(status)

    return ended
