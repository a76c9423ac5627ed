"""One shard as its clients and peers meet it: everything that needs the metadata, wired once.

Below it lie its memory (memory.py), its storage (storage.py) and the rings to its peers.
Around it is the worker, which decides when what of it begins and ends (run/worker.py). Here is only
which part is made with what. Handlers get their part of it as Services.

Always: a change in the metadata reaches every part that depends on it in one call (`take_effects`),
before anything else is done with the new state.
"""

import asyncio
import logging
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from borzoi.quantities import seconds
from borzoi.shards.changes.fair_changes import FairChanges
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.changes.writing import METADATA_SHARD, MetadataWriting, RemoteProposer
from borzoi.shards.config import Config
from borzoi.shards.faults.in_work import InWork
from borzoi.shards.groups.claims import Claims
from borzoi.shards.groups.coordinator import Coordinator
from borzoi.shards.groups.local_members import LocalMembers
from borzoi.shards.groups.service import Groups
from borzoi.shards.handlers.services import Services
from borzoi.shards.host.file_limits import affordable
from borzoi.shards.identity.clear_text import ClearText
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
from borzoi.shards.loop.slow_requests import SlowRequests
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
from borzoi.shards.observing.upkeep_report import Upkeep
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
from borzoi.shards.rings.gather import Gather, answers
from borzoi.shards.rings.peers import Peers
from borzoi.shards.rings.requests import At, Request, Serve
from borzoi.shards.serving.session import Session, client_id_of
from borzoi.shards.tallies.consumer_names import NAMES_MAX, ConsumerNames
from borzoi.shards.tallies.lag import LoopLag
from borzoi.shards.tallies.meters import Meters
from borzoi.shards.tallies.traffic import Traffic, kernel_figures
from borzoi.shards.web.door import HttpApi, WebSettings
from borzoi.shards.web_groups.members import LeasedMembers
from borzoi.shards.web_tokens.revocations import Revocations
from borzoi.shards.websocket.rules import websocket_rules
from borzoi.shards.wiring.memory import ShardMemory
from borzoi.shards.wiring.ring_table import ring_table
from borzoi.shards.wiring.segment_work import SegmentWork
from borzoi.shards.wiring.storage import ShardStorage
from borzoi.shards.wiring.topic_defaults import topic_defaults
from borzoi.shares import ShareFigures, Shares

if TYPE_CHECKING:
    from borzoi.shards.bridge.door import BridgeDoor
    from borzoi.shards.quic.door import QuicDoor

LOG: Final = logging.getLogger(__name__)

REVOKED_KEPT_S: Final = 300
"""So long a withdrawn access token is remembered after its end."""


class RepeatedWork(Protocol):
    """Something that comes again and again once it was started."""

    def start(self) -> None:
        """Begin; the first time comes after an interval."""


class Shard:
    """The parts of one shard. `writing` exists on shard 0 alone."""

    bridge: "BridgeDoor | None" = None
    """The door of Liftbridge, where that is enabled."""

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
        self._slow = self._new_slow_requests()
        self._clock = BrokerClock(spec.broker_start)
        self._describer = Describer(storage.readers, topic_defaults(config))
        self._meters = Meters()
        self._loop_lag = LoopLag(loop)
        # For metrics, and for the console, which comes over HTTP.
        are_names_wanted = config.metrics.names or config.http.enabled
        self._consumer_names = ConsumerNames(NAMES_MAX if are_names_wanted else 0)
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
        self._send_targets = SendTargets(self.metadata, spec.shard_count)
        self._owners = self._new_owners()
        self._appends = Appends(self._owners, storage.appends, self.metadata, peers, memory.pool)
        gather = Gather(peers, memory.pool)
        local = LocalMembers(self.metadata, lambda client_id: self._clients.knows(client_id))
        self._clients = Clients(gather, local.groups_of)
        self._reads = self._new_reads()
        self.groups = self._new_groups(local)
        self._logins = self._new_logins()
        self._numbers = RequestNumbers(memory.requests, peers)
        self._caches = Caches(storage.readers, gather)
        self.segment_work = self._new_segment_work()
        self._upkeep = Upkeep(spec.shard, self.segment_work.stats, gather)
        figures = Figures(spec.shard, self._own_figures, gather, tasks)
        self._http_counts = HttpCounts()
        self.revocations = self._new_revocations()
        self._members = LeasedMembers(spec.shard, self._clients, self.groups, peers, tasks)
        self.ring_table = self._new_ring_table(figures)
        self.cluster = Cluster(config, spec.follower)
        services = self._new_services()
        self.listener = self._new_listener(services)
        exposition = self._new_exposition(figures)
        self.metrics_door = HttpDoor(
            loop, tasks, config.http.metrics.endpoint, exposition.text, self._http_counts
        )
        self.web = self._new_web(services, exposition)
        self._open_bridge(services)

    # What it is made of.

    def _new_slow_requests(self) -> SlowRequests | None:
        slowest = self._config.limits.slow_request
        slow = SlowRequests(self._loop, seconds(slowest)) if slowest else None
        self._peers.slow = self._storage.commit.slow = slow
        return slow

    def _new_writing(self, writer: MetadataWriter) -> MetadataWriting:
        storage = self._storage
        lane = None if storage.replication is None else storage.replication.meta
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
            # What the store has comes back from there.
            sync=self._config.system.state.enforce_fsync and lane is None,
            names_are_secret=self._config.system.encryption.enabled,
            lane=lane,
        )

    def _new_change_turns(self) -> FairTurns:
        limits = self._config.limits
        # A connection has one change at a time in work: twice as many places, and no rule for the
        # shares of them ever refuses one.
        places = Shares("changes of metadata", 2 * limits.connections_max)
        self._share("changes", places)
        return FairTurns(places, Pace(limits.changes_per_second, limits.changes_burst))

    def _new_owners(self) -> PartitionOwners:
        spec, storage = self._spec, self._storage
        owners = PartitionOwners(
            spec.shard,
            spec.shard_count,
            Owned(storage.partitions, storage.deleting, storage.repairing),
            self._peers,
            self._memory.pool,
            self.metadata,
        )
        storage.readers.ask_owner = lambda target, segment, done: owners.do(
            CheckIndex(target, segment), done
        )
        return owners

    def _owners_of(self, at: At) -> Owners[At]:
        """The way to whichever shard decides about a partition."""
        spec = self._spec
        return Owners(spec.shard, spec.shard_count, self._peers, self.metadata, at)

    def _new_reads(self) -> Reads:
        spec, storage = self._spec, self._storage
        return Reads(
            spec.shard,
            spec.shard_count,
            storage.partitions,
            storage.commit,
            storage.readers,
            storage.warm_reads,
            self._peers,
            storage.durability,
            self._config.limits.response_size_max,
        )

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

    def _new_groups(self, local: LocalMembers) -> Groups:
        """Those of shard 0 have the coordinator."""
        claims = Claims(
            self._reads,
            self._storage.partitions,
            self.metadata,
            lambda *what: self.groups.released(*what),
        )
        claim_owners = self._owners_of(claims)
        return Groups(
            self._spec.shard,
            self._peers,
            self._memory.pool,
            local,
            self._reads,
            claims,
            claim_owners,
            None if self.writing is None else self._new_coordinator(local, claim_owners),
        )

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

    def _new_ring_table(self, figures: Figures) -> dict[type[Request], Serve]:
        storage = self._storage
        return ring_table(
            self._appends,
            self._owners,
            self._owners_of(self._reads),
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
            self._members,
        )

    def _new_listener(self, services: Services) -> Listener:
        config, memory = self._config, self._memory
        listener = Listener(
            self._loop,
            memory.receive,
            memory.pool,
            self._clients,
            affordable(config.limits),
            InWork(memory.control.in_work),
            lambda link, address, transport: Session(services, link, address, transport),
            lambda link, state: Session.adopt(services, link, state),
            lambda state: self.groups.lost(client_id_of(state.address), state.seats),
            self._tasks,
            websocket_rules(config.websocket, config.http.cors),
            services.clear_text,
            self._meters,
            self._slow,
        )
        self._share("connections", listener.places.shares)
        self._share("before_login", listener.places.before_login)
        return listener

    def _new_services(self) -> Services:
        spec, config, storage = self._spec, self._config, self._storage
        return Services(
            appends=self._appends,
            clear_text=ClearText(config.limits.plain_login, warns=spec.shard == METADATA_SHARD),
            clients=self._clients,
            clock=self._clock,
            cluster=self.cluster,
            compression=config.system.compression,
            consumer_names=self._consumer_names,
            describer=self._describer,
            doubtful_sends=DoubtfulSends(
                self._owners,
                storage.partitions.by_namespace,
                storage.readers,
                storage.durability,
            ),
            durability=storage.durability,
            groups=self.groups,
            logins=self._logins,
            meters=self._meters,
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

    def _new_segment_work(self) -> SegmentWork:
        return SegmentWork(
            self._spec,
            self._config,
            self._loop,
            self._tasks,
            self._storage,
            self._memory.board,
            self.metadata,
            self._owners,
            self._peers,
            self._describer,
            self._clock,
            self.writing,
            self._supervisor.tell,
        )

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
        self.quic = self._new_quic() if self._spec.shard == METADATA_SHARD else None
        web = HttpApi(
            self._loop,
            services,
            WebSettings(config, affordable(config.limits), self._storage.layout),
            self.revocations,
            self._members,
            exposition.text,
            exposition.consumer_names,
            self._http_counts,
        )
        self._share("http_connections", web.connections.places.shares)
        self._share("http_bodies", web.bodies)
        return web

    def _new_quic(self) -> "QuicDoor | None":
        if not self._config.quic.enabled:
            return None
        # 18 MB and a tenth of a second: imported where the door is open, and nowhere else.
        from borzoi.shards.quic.door import QuicDoor

        return QuicDoor(
            self._loop,
            self.listener,
            self._memory.pool,
            self._config.quic,
            shares_port=self._spec.shares_port,
        )

    def _open_bridge(self, services: Services) -> None:
        if not self._config.liftbridge.enabled:
            return
        # Here and not above: grpclib and protobuf are for those who want them.
        from borzoi.shards.bridge.wiring import new_door

        door = new_door(self._spec.shard, self._config, self._loop, services, self._peers)
        self.ring_table |= door.ring_table
        self._share("liftbridge_connections", door.places.shares)
        self._share("liftbridge_calls", door.shares.calls)
        self._share("liftbridge_windows", door.shares.windows)
        self._share("liftbridge_unread", door.shares.unread)
        self._share("liftbridge_bytes", door.shares.memory.shares)
        self.bridge = door

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
        if self.bridge is not None:
            work.append(self.bridge.members)
        return [*work, self.segment_work, self._loop_lag]

    # What concerns more than one part.

    def take_effects(self, effects: Effects) -> None:
        """Makes every part forget what is not true any more, after a change of the metadata."""
        self._storage.partitions.apply_effects(effects)
        self._send_targets.forget(effects)
        self._storage.readers.forget(effects)
        self.groups.take_effects(effects)
        for client_id in self._clients.apply_effects(effects):
            self.groups.client_gone(client_id)
        if effects.attachments_changed and self.bridge is not None:
            self.bridge.streams_changed()
        if self._spec.shard == METADATA_SHARD and ROOT_USER_ID in effects.passwords_changed:
            forget_root_password(Path(self._storage.layout.root))

    async def _own_figures(self) -> ShardFigures:
        sources = FigureSources(
            self.metadata,
            self._storage.partitions,
            self._storage.deleting,
            self.segment_work.archiver,
            self._storage.deduplication,
            self.writing,
            self._storage.commit.faults,
            self._clients,
            self.listener,
            self._http_counts,
            self._shared,
            lambda: None if self.bridge is None else self.bridge.nats_figures(),
            lambda: None if self._slow is None else self._slow.figures(),
            self._storage.residency.mapped,
            self._traffic,
        )
        # All shards together tell of no more than was asked for, where each may tell one.
        rows_max = max(1, self._config.metrics.series_max // self._spec.shard_count)
        return await own_figures(sources, rows_max, resident_memory)

    def _traffic(self, rows_max: int) -> Traffic:
        storage, pool = self._storage, self._memory.pool
        return Traffic(
            requests=self._meters.times(),
            errors=self._meters.failed(),
            polled=self._meters.polled(),
            written=storage.commit.counts.written(),
            syncs=storage.commit.counts.syncs(),
            loop_lag=self._loop_lag.times(),
            backlog=self.segment_work.compression_backlog(),
            key_exchange=self.segment_work.key_exchange(),
            pool_bytes=pool.budget_bytes,
            pool_free_bytes=pool.budget_bytes - pool.in_use_bytes,
            kernel=kernel_figures(),
            descriptors_max=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            consumer_names=self._consumer_names.first(rows_max),
        )

    def _generations(self) -> dict[int, int]:
        """Which life every shard is in."""
        lives = {shard: self._peers.generation(shard) for shard in self._peers.shards()}
        lives[self._spec.shard] = self._spec.generations[self._spec.shard]
        return dict(sorted(lives.items()))

    def _client_evicted(self, session: Connected) -> None:
        """A silent client does not count as connected any more, although it is."""
        LOG.info(
            "client %d of %s is stale: its last ping was %.1f s ago",
            session.client_id,
            session.address,
            time.monotonic() - session.last_heartbeat,
        )
        self.groups.client_gone(session.client_id)
