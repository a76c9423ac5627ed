"""One shard as its clients and peers meet it: everything that needs the metadata, wired once.

Below it lie its memory (run/memory.py), its storage (run/storage.py) and the rings to its peers.
Around it is the worker, which decides when what of it begins and ends (worker.py). Here is only
which part is made with what. Handlers get their part of it as Services.

Always: a change in the metadata reaches every part that depends on it in one call (`take_effects`),
before anything else is done with the new state.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from borzoi.quantities import seconds
from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.fair_changes import FairChanges
from borzoi.shards.changes.service import MetadataService, published_log
from borzoi.shards.changes.writing import METADATA_SHARD, MetadataWriting, RemoteProposer
from borzoi.shards.config import Config
from borzoi.shards.faults.in_work import InWork
from borzoi.shards.groups.claims import Claims
from borzoi.shards.groups.coordinator import Coordinator
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.service import Groups
from borzoi.shards.handlers.services import Services
from borzoi.shards.host.file_limits import affordable
from borzoi.shards.identity.clients import Clients, Connected
from borzoi.shards.identity.hashing import Hashing, hashing_thread
from borzoi.shards.identity.heartbeats import Heartbeats
from borzoi.shards.identity.login_failures import LoginFailures
from borzoi.shards.identity.logins import Logins, failure_limits
from borzoi.shards.identity.request_numbers import RequestNumbers
from borzoi.shards.identity.root_account import forget_root_password
from borzoi.shards.identity.token_cleaner import TokenCleaner
from borzoi.shards.listening.http import HttpCounts, HttpDoor
from borzoi.shards.listening.listener import Listener
from borzoi.shards.loop.clock import BrokerClock
from borzoi.shards.loop.pace import Pace
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.loop.turns import FairTurns
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.metadata_log.follower import MetadataCopy
from borzoi.shards.metadata_log.writer import MetadataWriter
from borzoi.shards.metrics.exposition import Exposition
from borzoi.shards.metrics.figures import Figures
from borzoi.shards.metrics.own_figures import FigureSources, own_figures, resident_memory
from borzoi.shards.metrics.shard_figures import ShardFigures
from borzoi.shards.observing.cluster import Cluster
from borzoi.shards.observing.read_hits import Caches
from borzoi.shards.observing.snapshots import Snapshots
from borzoi.shards.observing.statistics import Statistics
from borzoi.shards.observing.upkeep_report import Upkeep, UpkeepStats
from borzoi.shards.observing.usage import UsageMeter
from borzoi.shards.orders.link import SupervisorLink
from borzoi.shards.orders.migration import Migration
from borzoi.shards.orders.spec import WorkerSpec
from borzoi.shards.partitions.large_batches import LargeBatches
from borzoi.shards.ports.append import Appends
from borzoi.shards.ports.doubtful_sends import DoubtfulSends
from borzoi.shards.ports.owners import Owners, PartitionOwners
from borzoi.shards.ports.partitioning import SendTargets
from borzoi.shards.ports.reads import Reads
from borzoi.shards.ports.requests import CheckIndex, Owned
from borzoi.shards.reading.describe import Describer
from borzoi.shards.reading.readers import SegmentReplaced
from borzoi.shards.rings.gather import Gather, answers
from borzoi.shards.rings.peers import Peers
from borzoi.shards.run.memory import ShardMemory
from borzoi.shards.run.ring_table import ring_table
from borzoi.shards.run.storage import ShardStorage
from borzoi.shards.run.topic_defaults import topic_defaults
from borzoi.shards.serving.session import Session, client_id_of
from borzoi.shards.settings.schema import archives
from borzoi.shards.upkeep.archive_store import open_store
from borzoi.shards.upkeep.archiver import Archiver
from borzoi.shards.upkeep.compression import Compressing, InForce, in_force, low_priority_thread
from borzoi.shards.upkeep.retention import Cleaner
from borzoi.shards.web.door import HttpApi, WebSettings
from borzoi.shards.web_tokens.revocations import Revocations
from borzoi.shards.websocket.rules import websocket_rules
from borzoi.shares import ShareFigures, Shares
from borzoi.storage.retention import Protection

LOG: Final = logging.getLogger(__name__)

REVOKED_KEPT_S: Final = 300
"""So long a withdrawn access token is remembered after its end."""


class RepeatedWork(Protocol):
    """Something that comes again and again once it was started."""

    def start(self) -> None:
        """Begin; the first time comes after an interval."""


class Shard:
    """The parts of one shard. `writing` and `coordinator` exist on shard 0 alone."""

    def __init__(
        self,
        spec: WorkerSpec,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        memory: ShardMemory,
        peers: Peers,
        storage: ShardStorage,
        supervisor: SupervisorLink,
        copy: MetadataCopy,
        writer: MetadataWriter | None,
    ) -> None:
        self._spec = spec
        self._config = config
        self._loop = loop
        self._tasks = tasks
        self._memory = memory
        self._peers = peers
        self._storage = storage
        self._supervisor = supervisor
        self._began = time.monotonic()
        self._clock = BrokerClock(spec.broker_start)
        self._describer = Describer(storage.readers, topic_defaults(config))
        self._shared: dict[str, Callable[[], ShareFigures]] = {}
        """By name, whatever is scarce here and shared by a rule; each has its rows of metrics."""
        self._share("receive", memory.pool.shares)
        self._share("copied", storage.copy_memory.shares)
        self._shared["offsets"] = storage.partitions.offset_figures

        self.metadata = MetadataService(copy, memory.board, self.take_effects)
        self.writing = None if writer is None else self._new_writing(writer)
        self.metadata.proposer = FairChanges(
            self.writing or RemoteProposer(peers, memory.pool), self._new_change_turns()
        )
        storage.partitions.on_large_batch = LargeBatches(
            loop, self.metadata, config.system.segment.size
        ).note
        self._send_targets = SendTargets(self.metadata)
        self._owners = PartitionOwners(
            spec.shard,
            spec.shard_count,
            Owned(storage.partitions, storage.deleting, storage.repairing),
            peers,
            memory.pool,
            self.metadata,
        )
        self._appends = Appends(self._owners, storage.appends, self.metadata, peers, memory.pool)
        storage.readers.ask_owner = lambda target, segment, done: self._owners.do(
            CheckIndex(target, segment), done
        )
        gather = Gather(peers, memory.pool)
        local = LocalMembers(self.metadata, lambda client_id: self._clients.knows(client_id))
        self._clients = Clients(gather, local.groups_of)
        self._reads = Reads(
            spec.shard,
            spec.shard_count,
            storage.partitions,
            storage.commit,
            storage.readers,
            storage.warm_reads,
            peers,
            storage.durability,
            config.limits.response_size_max,
        )
        claims = Claims(
            self._reads,
            storage.partitions,
            self.metadata,
            lambda *what: self.groups.released(*what),
        )
        claim_owners = Owners(spec.shard, spec.shard_count, peers, self.metadata, claims)
        self.coordinator = None if writer is None else self._new_coordinator(local, claim_owners)
        self.groups = Groups(
            spec.shard,
            peers,
            memory.pool,
            local,
            self._reads,
            claims,
            claim_owners,
            self.coordinator,
        )
        self._logins = self._new_logins()
        self._numbers = RequestNumbers(memory.requests, peers)
        self._caches = Caches(storage.readers, gather)
        self._upkeep = Upkeep(spec.shard, self._upkeep_stats, gather)
        figures = Figures(spec.shard, self._own_figures, gather, tasks)
        self._http_counts = HttpCounts()
        self.revocations = self._new_revocations()
        self.ring_table = ring_table(
            self._appends,
            self._owners,
            Owners(spec.shard, spec.shard_count, peers, self.metadata, self._reads),
            storage.partitions,
            self.metadata,
            self.writing,
            self._clients,
            self._logins,
            self._numbers,
            self.groups,
            self._caches,
            storage.readers,
            self._upkeep,
            figures,
            self.revocations,
        )
        self.cluster = Cluster(config, spec.follower)
        services = self._new_services()
        self.listener = Listener(
            loop,
            memory.receive,
            memory.pool,
            self._clients,
            affordable(config.limits),
            InWork(memory.control.in_work),
            lambda link, address, transport: Session(services, link, address, transport),
            lambda link, state: Session.adopt(services, link, state),
            lambda state: self.groups.lost(client_id_of(state.address), state.seats),
            tasks,
            websocket_rules(config.websocket, config.http.cors),
        )
        self._share("connections", self.listener.places.shares)
        self._share("before_login", self.listener.places.before_login)
        self.archiver = self._new_archiver() if archives(config) else None
        self.compressing = self._new_compressing()
        exposition = self._new_exposition(figures)
        self.metrics_door = HttpDoor(
            loop, tasks, config.http.metrics.endpoint, exposition.text, self._http_counts
        )
        self.web = self._new_web(services, exposition)

    # What it is made of.

    def _new_writing(self, writer: MetadataWriter) -> MetadataWriting:
        storage = self._storage
        return MetadataWriting(
            writer,
            self._memory.board,
            self._peers,
            self.take_effects,
            storage.disk,
            self._tasks,
            storage.layout,
            storage.files,
            self._clock,
            sync=self._config.system.state.enforce_fsync,
            names_are_secret=self._config.system.encryption.enabled,
        )

    def _new_change_turns(self) -> FairTurns:
        limits = self._config.limits
        # A connection has one change at a time in work: twice as many places, and no rule for the
        # shares of them ever refuses one.
        places = Shares("changes of metadata", 2 * limits.connections_max)
        self._share("changes", places)
        return FairTurns(places, Pace(limits.changes_per_second, limits.changes_burst))

    def _new_logins(self) -> Logins:
        settings = self._config.limits
        places = Shares("places to log in", settings.logins_waiting_max, settings.share_weight)
        self._share("logins", places)
        limits = failure_limits(settings)
        return Logins(
            self.metadata,
            Hashing(hashing_thread(), FairTurns(places)),
            LoginFailures(limits, time.monotonic),
            limits,
            self._peers.tell_all,
        )

    def _share(self, name: str, shares: Shares) -> None:
        """Have metrics tell how something scarce is shared."""
        self._shared[name] = shares.figures

    def _new_coordinator(self, local: LocalMembers, claim_owners: Owners[Claims]) -> Coordinator:
        timing = self._config.consumer_group
        return Coordinator(
            self._loop,
            self._spec.generations[self._spec.shard],
            self.metadata,
            claim_owners,
            local,
            self._peers,
            self._memory.pool,
            self._tasks,
            revocation_timeout_s=seconds(timing.rebalancing_timeout),
            check_interval_s=seconds(timing.rebalancing_check_interval),
        )

    def _new_services(self) -> Services:
        spec, config, storage = self._spec, self._config, self._storage
        return Services(
            appends=self._appends,
            clients=self._clients,
            clock=self._clock,
            cluster=self.cluster,
            compression=config.system.compression,
            describer=self._describer,
            doubtful_sends=DoubtfulSends(self._owners, storage.readers, storage.durability),
            durability=storage.durability,
            groups=self.groups,
            logins=self._logins,
            metadata=self.metadata,
            migration=Migration(self._peers, config.tcp.socket_migration, self._supervisor.tell),
            numbers=self._numbers,
            owners=self._owners,
            reads=self._reads,
            send_targets=self._send_targets,
            snapshots=Snapshots(
                config,
                storage.layout,
                spec.supervisor_pid,
                ThreadPoolExecutor(1, "snapshot"),
                self._upkeep.report,
            ),
            statistics=Statistics(
                self.metadata,
                self._describer,
                self._clients,
                self._caches,
                self._clock,
                spec.supervisor_pid,
                UsageMeter(spec.supervisor_pid, Path(storage.layout.root)),
                ThreadPoolExecutor(1, "measuring"),
            ),
            tasks=self._tasks,
            topic_defaults=topic_defaults(config),
        )

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
            lambda: published_log(self._memory.board),
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
            low_priority_thread(),
            storage.files,
            storage.layout.trash,
            lambda: list(storage.partitions),
            self._codec_of,
            self._tell_replaced,
        )
        storage.commit.on_sealed = compressing.sealed
        storage.repairing.on_repaired = compressing.repaired
        return compressing

    def _new_revocations(self) -> Revocations:
        storage, peers = self._storage, self._peers
        return Revocations(
            self._spec.shard,
            storage.layout.revoked_tokens,
            storage.files,
            self._tasks,
            lambda request, done: peers.ask(METADATA_SHARD, request, done),
            lambda request: answers(peers, request),
            ThreadPoolExecutor(1, "tokens"),
            REVOKED_KEPT_S + int(seconds(self._config.http.jwt.clock_skew)),
        )

    def _new_exposition(self, figures: Figures) -> Exposition:
        settings = self._config.metrics
        return Exposition(
            figures,
            self.metadata,
            self._describer,
            self._clock,
            self._generations,
            self._storage.layout.root,
            ThreadPoolExecutor(1, "metrics"),
            names=settings.names,
            rows_max=settings.series_max,
        )

    def _new_web(self, services: Services, exposition: Exposition) -> HttpApi:
        config = self._config
        web = HttpApi(
            self._loop,
            services,
            WebSettings(config.http, affordable(config.limits), self._storage.layout),
            self.revocations,
            exposition.text,
            self._http_counts,
        )
        self._share("http_connections", web.connections.places.shares)
        self._share("http_bodies", web.bodies)
        return web

    def periodic_work(self) -> list[RepeatedWork]:
        """What is done now and then as long as the shard serves, if it is wanted."""
        config = self._config
        work: list[RepeatedWork] = []
        if config.heartbeat.enabled:
            interval_s = seconds(config.heartbeat.interval)
            work.append(Heartbeats(self._loop, self._clients, interval_s, self._client_evicted))
        tokens = config.personal_access_token.cleaner
        if self.writing is not None and tokens.enabled:
            interval_s = seconds(tokens.interval)
            work.append(
                TokenCleaner(self._loop, self.metadata, self._clock, self._tasks, interval_s)
            )
        if config.data_maintenance.messages.cleaner_enabled:
            work.append(self._new_cleaner())
        if self.archiver is not None:
            work.append(self.archiver)
        work.append(self.compressing)
        return work

    def _new_cleaner(self) -> Cleaner:
        return Cleaner(
            self._loop,
            self._tasks,
            self.metadata,
            self._storage.partitions,
            self._storage.deleting,
            self._owners,
            self._describer,
            self._clock.now_us,
            interval_s=seconds(self._config.data_maintenance.messages.interval),
            protection=Protection(self._config.system.segment.protect_unread),
        )

    # What concerns more than one part.

    def take_effects(self, effects: Effects) -> None:
        """Makes every part forget what is not true any more, after a change of the metadata."""
        self._storage.partitions.apply_effects(effects)
        self._send_targets.forget(effects)
        self._storage.readers.forget(effects)
        self.groups.take_effects(effects)
        for client_id in self._clients.apply_effects(effects):
            self.groups.client_gone(client_id)
        if self._spec.shard == METADATA_SHARD and ROOT_USER_ID in effects.passwords_changed:
            forget_root_password(Path(self._storage.layout.root))

    def _upkeep_stats(self) -> UpkeepStats:
        archived = None if self.archiver is None else self.archiver.stats()
        counted_s = time.monotonic() - self._began
        deleted, compressed = self._storage.deleting.stats(), self.compressing.stats()
        return UpkeepStats(counted_s, deleted, archived, compressed)

    async def _own_figures(self) -> ShardFigures:
        sources = FigureSources(
            self.metadata,
            self._storage.partitions,
            self._storage.deleting,
            self.archiver,
            self._storage.deduplication,
            self.writing,
            self._storage.commit.faults,
            self._clients,
            self.listener,
            self._http_counts,
            self._shared,
        )
        # All shards together tell of no more than was asked for, where each may tell one.
        rows_max = max(1, self._config.metrics.series_max // self._spec.shard_count)
        return await own_figures(sources, rows_max, resident_memory)

    def _generations(self) -> dict[int, int]:
        """Which life every shard is in."""
        lives = {shard: self._peers.generation(shard) for shard in self._peers.shards()}
        lives[self._spec.shard] = self._spec.generations[self._spec.shard]
        return dict(sorted(lives.items()))

    def _codec_of(self, target: Target) -> InForce | None:
        stream_id, topic_id, _ = unpack_namespace(target.namespace)
        topic = self.metadata.refresh().find_topic(stream_id, topic_id)
        return None if topic is None else in_force(self._config.system.compression, topic)

    def _tell_replaced(self, target: Target, segment: int) -> None:
        """Let every shard unmap the plain log of a segment that was compressed."""
        self._storage.readers.replaced(target, segment)
        self._peers.tell_all(SegmentReplaced(target, segment))

    def _client_evicted(self, session: Connected) -> None:
        """A silent client does not count as connected any more, although it is."""
        LOG.info(
            "client %d of %s is stale: its last ping was %.1f s ago",
            session.client_id,
            session.address,
            time.monotonic() - session.last_heartbeat,
        )
        self.groups.client_gone(session.client_id)
