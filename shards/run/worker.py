"""A worker: the life of one shard, from boot to an orderly end.

It maps the shared memory it was given, opens the metadata and its partitions, and only then lets
clients in. Boot steps, in this order:

    map memory, link to the peers
    shard 0: open the metadata log, make the root user on a first boot, publish
    others: wait for that
    recover the partitions we own, publish them, answer the peers from now on
    listen

What a shard is made of is said in run/memory.py, run/storage.py and shard.py; the process
around it is worker_process.py.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, TypeAlias

from borzoi.quantities import seconds
from borzoi.router.placement import shard_of
from borzoi.shards.changes.service import publish_log, published_log
from borzoi.shards.changes.writing import METADATA_SHARD
from borzoi.shards.config import Config, from_json
from borzoi.shards.directory.log_lines import LineHandler
from borzoi.shards.host.collector import made_to_stay
from borzoi.shards.listening.free_doors import cannot_listen
from borzoi.shards.listening.sockets import check_port_is_free
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata_log.follower import MetadataCopy, open_copy
from borzoi.shards.metadata_log.writer import MetadataWriter
from borzoi.shards.orders.link import SupervisorLink
from borzoi.shards.orders.spec import (
    INCOMPLETE,
    Event,
    Order,
    WorkerSpec,
    read_keys,
    read_shown,
)
from borzoi.shards.rings.peers import Peers
from borzoi.shards.run.first_boot import open_metadata
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.schema import TcpSocket
from borzoi.shards.wiring.cannot_boot import CannotBoot
from borzoi.shards.wiring.memory import ShardMemory
from borzoi.shards.wiring.shard import Shard
from borzoi.shards.wiring.storage import ShardStorage
from borzoi.storage.encryption_key import EncryptionKey
from borzoi.storage.wal import WalDamaged

LOG: Final = logging.getLogger(__name__)

TICK_S: Final = 1.0
LET_GO_INTERVAL_S: Final = 2.0
IDLE_POOL_BYTES_MAX: Final = 64 * 1024 * 1024
STOP_TASKS_TIMEOUT_S: Final = 1.0
OPEN_COPY_TRIES_MAX: Final = 500
OPEN_COPY_INTERVAL_S: Final = 0.02

Listen: TypeAlias = Callable[[str], Awaitable[str]]
"""Opens a door at an address; returns the address with the real port."""


class Worker:
    """One shard that boots, serves and stops."""

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
        self._tasks = Tasks(on_broken)
        self._saver: Periodic | None = None
        # They may be renewed before there is a door.
        self._certificates = spec.certificates
        self._is_listening = False
        self._memory = ShardMemory(
            spec,
            self._config.system.memory_pool.bucket_capacity,
            self._config.limits.share_weight,
        )
        request_timeout_s = seconds(self._config.limits.request_timeout)
        self._peers = Peers(loop, self._memory.control, self._memory.wake, request_timeout_s)
        for peer, wake in self._memory.peers():
            self._peers.add(peer.control, peer.arena, wake)
        self._storage = ShardStorage(spec, self._config, loop, self._memory)
        self._supervisor = SupervisorLink(loop, spec.channel_fd, self._carry_out)
        if self._storage.replication is not None:
            self._storage.replication.tell = self._cannot_go_on

    def tell(self, event: Event) -> None:
        """Let the supervisor know."""
        self._supervisor.tell(event)

    async def run(self) -> int:
        """From birth to an orderly end; the exit code."""
        if await self._boot():
            self._start_periodic_work()
            await self._supervisor.wait_stop()
        return await self._stop()

    def _cannot_go_on(self, reason: str) -> None:
        self.tell(Event("cannot_boot", reason=reason))

    # Booting.

    async def _boot(self) -> bool:
        """Boots until clients are let in; False if the order to stop came before that."""
        with made_to_stay():
            if not await self._recover():
                return False
        self.tell(Event("recovered"))
        await self._listen()
        return True

    async def _recover(self) -> bool:
        """Makes all that is there before a client comes; False if the order to stop came first."""
        replication = self._storage.replication
        if self._spec.shard == METADATA_SHARD:
            if replication is not None and not await self._unless_stopped(
                replication.open_meta(self._tasks)
            ):
                return False
            writer = await self._open_metadata()
            copy = writer.copy
        else:
            if self._spec.doors is None:
                await self._supervisor.wait_step("recover")
            writer = None
            copy = await self._open_copy()
        if copy.snapshot_problem is not None:
            LOG.warning("%s", copy.snapshot_problem)
        self._shard = Shard(
            self._spec,
            self._config,
            self._loop,
            self._tasks,
            self._memory,
            self._peers,
            self._storage,
            self._supervisor,
            copy,
            writer,
        )
        self._shard.listener.refuse(self._spec.refused)
        if replication is not None and not await self._unless_stopped(
            replication.open(self._shard.metadata)
        ):
            return False
        self._storage.recover(self._shard.metadata)
        if replication is not None:
            replication.begin(self._storage.partitions, self._tasks)
        self._storage.load_indexes()
        self._storage.deleting.remove_leftovers(
            lambda namespace: shard_of(namespace, self._spec.shard_count) == self._spec.shard
        )
        self._memory.control.beat(time.monotonic_ns())
        self._peers.start(self._shard.ring_table)
        return await self._take_up_metadata(copy.applied_index)

    async def _unless_stopped(self, opening: Coroutine[Any, Any, None]) -> bool:
        """Waits for lanes; False if the order to stop came first."""
        try:
            return await self._supervisor.unless_stopped(opening)
        except ConfigError as error:
            raise CannotBoot(str(error)) from error

    async def _open_copy(self) -> MetadataCopy:
        """A copy of the metadata whose log is the one that the board speaks of.

        It does not while shard 0 puts a shorter one in its place, which takes a moment. Nor does it
        if shard 0 died doing so, which its successor will mend.
        """
        storage = self._storage
        for _ in range(OPEN_COPY_TRIES_MAX):
            copy = open_copy(
                storage.layout.state_log,
                storage.layout.state_snapshot,
                storage.files,
                storage.encryption,
            )
            if copy.begin_at(published_log(self._memory.board)):
                return copy
            copy.close()
            await asyncio.sleep(OPEN_COPY_INTERVAL_S)
        raise WalDamaged(f"{storage.layout.state_log} is not the log that shard 0 has published")

    async def _open_metadata(self) -> MetadataWriter:
        board = self._memory.board
        writer, root_created = open_metadata(
            self._config,
            self._storage.layout,
            self._storage.files,
            self._spec.root,
            published=published_log(board),
            slots_max=self._spec.board_slots,
            encryption=self._storage.encryption,
            refuses_known_password=self._spec.refuses_known_password,
        )
        replication = self._storage.replication
        if replication is not None and replication.meta is not None and root_created:
            # The only entry that there is.
            entry = self._storage.files.read_whole(self._storage.layout.state_log)
            await replication.meta.put(entry or b"", writer.state)
        publish_log(board, writer.published)
        self.tell(Event("metadata_ready", root_created=root_created))
        return writer

    async def _take_up_metadata(self, applied_index: int) -> bool:
        """Shard 0: finishes what its predecessor began; False if the order to stop came meanwhile.

        The predecessor may have died between an entry and its barrier. A peer that has stopped by
        now does not answer, so only an order to stop ends the waiting then.
        """
        writing, coordinator = self._shard.writing, self._shard.groups.coordinator
        if writing is not None:
            if not await self._supervisor.unless_stopped(writing.barrier(applied_index)):
                return False
            writing.empty_trash()
        return coordinator is None or await self._supervisor.unless_stopped(coordinator.adopt())

    async def _listen(self) -> None:
        """Open the doors: where we are ordered to, or where our predecessor had them."""
        wanted = self._spec.doors
        if wanted is None:
            wanted = (await self._supervisor.wait_step("listen")).doors
        listeners: dict[str, Listen] = {
            "tcp": partial(self._listen_at, "tcp", self._config.tcp.socket),
            "websocket": partial(self._listen_at, "websocket", TcpSocket()),
            "http": self._shard.web.listen,
            "metrics": self._shard.metrics_door.listen,
        }
        if self._shard.quic is not None:
            listeners["quic"] = self._shard.quic.listen
        if self._shard.bridge is not None:
            listeners["liftbridge"] = self._shard.bridge.listen
        self._show_certificates()
        self._is_listening = True
        doors = {
            name: await self._open_door(name, wanted[name], listeners[name])
            if name in listeners
            else wanted[name]  # where shard 0 has it
            for name in wanted
        }
        self._shard.cluster.addresses.update(doors)
        # The supervisor watches from now on, and the slowest shard may have taken minutes.
        self._memory.control.beat(time.monotonic_ns())
        self.tell(Event("listening", doors))

    def _show_certificates(self) -> None:
        self._shard.listener.show(self._certificates)
        self._shard.web.show(self._certificates)
        if self._shard.quic is not None:
            self._shard.quic.show(self._certificates)
        if self._shard.bridge is not None:
            self._shard.bridge.show(self._certificates)

    async def _listen_at(self, door: str, options: TcpSocket, address: str) -> str:
        return await self._shard.listener.listen(door, address, options)

    async def _open_door(self, name: str, address: str, listen: Listen) -> str:
        """The shards share their port, and would share it with another broker without a word.

        Only a broker of its own data directory can do that: two of one directory are kept apart by
        its lock.
        """
        is_first = self._spec.doors is None and self._spec.shard == METADATA_SHARD
        try:
            if is_first and name != "quic" and (name == "metrics" or not self._spec.shares_port):
                check_port_is_free(address)
            return await listen(address)
        except ConfigError as error:
            raise CannotBoot(str(error)) from error
        except OSError as error:
            problem = cannot_listen(name, address, error)
            if name != "tcp" and self._spec.doors is not None:
                # Another process took the port meanwhile; the broker serves clients without it.
                LOG.error("no %s from this shard: %s", name, problem)
                return address
            raise CannotBoot(problem) from error

    # Serving.

    def _start_periodic_work(self) -> None:
        Periodic(self._loop, TICK_S, self._tick).start()
        Periodic(self._loop, LET_GO_INTERVAL_S, self._storage.readers.let_go_of_deleted).start()
        saver = self._config.message_saver
        if saver.enabled:
            self._saver = Periodic(self._loop, seconds(saver.interval), self._save)
            self._saver.start()
        if self._storage.deduplication is not None:
            self._storage.deduplication.keep_trimmed(self._storage.partitions)
        for work in self._shard.periodic_work():
            work.start()

    def _tick(self) -> None:
        self._memory.control.beat(time.monotonic_ns())
        self._shard.listener.check_deadlines()
        self._shard.web.check_deadlines()
        if self._shard.bridge is not None:
            self._shard.bridge.check_deadlines()
        self._memory.pool.trim(IDLE_POOL_BYTES_MAX)

    def _save(self) -> None:
        self._storage.save()
        self._log_handler.sweep()

    def _carry_out(self, order: Order, fds: list[int]) -> None:
        """What the supervisor may order at any time."""
        if order.order == "replace_peer":
            self._replace_peer(order, fds)
        elif order.order == "refuse":
            self._shard.listener.refuse(order.refused)
        elif order.order == "keys":
            self._take_keys(order, fds)
        elif order.order == "renew":
            self._certificates = read_shown(fds[0])
            if self._is_listening:
                self._show_certificates()
        else:
            assert order.order == "adopt", f"unknown order {order.order}"
            assert order.session is not None
            arrived = socket.socket(fileno=fds[0])
            self._tasks.start(self._shard.listener.adopt(arrived, order.session))

    def _take_keys(self, order: Order, fds: list[int]) -> None:
        """Other encryption keys: the answer lets the supervisor go on with the exchange."""
        encryption = self._storage.encryption
        assert encryption is not None, "a key is exchanged where there is one"
        encryption.take([EncryptionKey(key) for key in read_keys(fds[0])])
        if self._is_listening:
            self._shard.segment_work.key_exchanged()
        self.tell(Event("keys_taken", shard=self._spec.shard, generation=order.generation))

    def _replace_peer(self, order: Order, fds: list[int]) -> None:
        control_fd, arena_fd = fds
        peer = self._memory.map_peer(order.shard, order.generation, control_fd, arena_fd)
        self._peers.replace(peer.control, peer.arena)
        self._shard.groups.shard_died(order.shard)
        os.close(control_fd)
        os.close(arena_fd)
        self.tell(Event("peer_replaced", shard=order.shard, generation=order.generation))

    # The end.

    async def _stop(self) -> int:
        """Stop serving, bring everything to the disk, and note that it was a clean stop."""
        if self._shard.quic is not None:
            self._shard.quic.close()
        self._shard.listener.close()
        await self._shard.web.close()
        if self._shard.bridge is not None:
            await self._shard.bridge.close()
        self._shard.metrics_door.close()
        self._shard.segment_work.stop()
        await self._tasks.drain(STOP_TASKS_TIMEOUT_S)
        self._peers.stop()
        if self._saver is not None:
            # What it began would not be ended.
            self._saver.stop()
        closed = await self._storage.close(self._tell_left)
        return 0 if closed.is_complete else INCOMPLETE

    def _tell_left(self, to_write: int, to_sync: int) -> None:
        self._memory.control.beat(time.monotonic_ns())
        self._memory.control.tell_left(to_write, to_sync)
