"""The supervisor: it knows processes, not messages.

Opens the data directory (directory/opening.py) and has one worker per CPU forked (nursery). Watches
them by pidfd and heartbeat, and restarts a dead one with fresh memories and a new generation. Stops
all on SIGTERM, SIGINT or the end of its terminal (orderly_stop.py). Any other SIGHUP has the
certificates read again. If it dies, the kernel kills the workers.

A dead worker is replaced in this order (design: when a worker dies). New control memory and arena
are handed to every living worker. Each of them acknowledges that it uses them. Only then is the
successor spawned, after a back-off if it lives too short.
"""

import asyncio
import logging
import os
import platform
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from borzoi import __version__
from borzoi.protocol.batch import LOOPS
from borzoi.quantities import seconds
from borzoi.router.fds import BadMessage, ChannelClosed, ChannelFull, FdChannel
from borzoi.router.processor import UnorderedProcessor, check_processor
from borzoi.shards.config import Config, render_toml
from borzoi.shards.directory.opening import OpenData, open_data_directory
from borzoi.shards.directory.serve_options import ServeOptions
from borzoi.shards.host.cpus import Placement, read_numa_topology, resolve_cpus
from borzoi.shards.host.file_limits import raise_file_limit
from borzoi.shards.host.memory import granted_memory, memory_budget_per_shard
from borzoi.shards.identity.root_account import GENERATED_PREFIX, ROOT_PASSWORD_FILE, RootAccount
from borzoi.shards.listening.free_doors import check_doors_are_free
from borzoi.shards.loop.periodic import Periodic
from borzoi.shards.nursery.link import Nursery, NurseryFailed, reap_orphans, take_in_orphans
from borzoi.shards.nursery.process import NurseryProcess
from borzoi.shards.nursery.spawning import Spawner, WorkerProcess
from borzoi.shards.orders.spec import CANNOT_BOOT, Event, Order, write_shown
from borzoi.shards.process.greeting import Greeting, greet
from borzoi.shards.process.hangup import Hangup
from borzoi.shards.process.key_rotation import KeyRotation
from borzoi.shards.process.orderly_stop import STOPPED, OrderlyStop
from borzoi.shards.process.service_notice import ServiceNotice
from borzoi.shards.process.worker_deaths import WorkerDeaths
from borzoi.shards.settings.addresses import is_loopback
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.open_doors import open_doors
from borzoi.shards.tls.certificate import describe, read_certificates, renewed_certificates
from borzoi.storage.files import Files
from borzoi.storage.layout import CURRENT_CONFIG_FILE, DataLayout
from borzoi.terminal import say

LOG: Final = logging.getLogger(__name__)

FAILED: Final = 1
"""Exit code of a broker that could not start, or not go on; of a stop see orderly_stop.py."""

SLOW_LOOPS: Final = (
    "the loops over messages are plain Python, which costs most of the speed: install a C compiler"
    " and Python's headers (Debian: gcc python3-dev) and install borzoi again, in a checkout by"
    " removing .venv; or unset BORZOI_PLAIN_LOOPS if it is set"
)

WATCH_INTERVAL_S: Final = 1.0
WATCH_LATE_MAX_S: Final = 1.0
LIVED_LONG_S: Final = 3.0
BACK_OFF_FIRST_S: Final = 1.0
BACK_OFF_MAX_S: Final = 30.0
SPAWNS_MAX: Final = 3


def run(
    config: Config, warnings: tuple[str, ...], options: ServeOptions, started: NurseryProcess
) -> int:
    """Runs the broker until an order to stop; returns the exit code."""
    placement = resolve_cpus(
        config.system.sharding.cpu_allocation,
        sorted(os.sched_getaffinity(0)),
        read_numa_topology(),
    )
    shard_count = len(placement.cpus)
    try:
        check_processor(platform.machine(), shard_count, compiled=False)
    except UnorderedProcessor as error:
        raise ConfigError(str(error)) from error
    budget = memory_budget_per_shard(config, shard_count, granted_memory())
    os.umask(0o077)
    certificates = read_certificates(config)
    try:
        data = open_data_directory(
            config,
            (*warnings, *placement.notes),
            options,
            check_doors=partial(
                check_doors_are_free, open_doors(config), shares_port=options.shares_port
            ),
            replicate=_replicate(config, shard_count),
        )
    except OSError as error:
        raise ConfigError(f"system.path is {config.system.path}: {error}") from error
    if data is None:
        return FAILED
    raise_file_limit()
    take_in_orphans()
    nursery = Nursery(started)
    spawner = Spawner(config, options, placement, budget, data, nursery, certificates)
    try:
        return asyncio.run(_supervise(config, placement, data, spawner, nursery))
    except NurseryFailed as error:
        LOG.error("cannot start: %s", error)
        return FAILED


def _replicate(config: Config, shard_count: int) -> Callable[[DataLayout, Files], None] | None:
    if not config.replication.enabled:
        return None
    # Here and not above: obstore is for those who replicate.
    from borzoi.shards.replication.prepare import prepare

    return partial(prepare, config, shard_count)


async def _supervise(
    config: Config, placement: Placement, data: OpenData, spawner: Spawner, nursery: Nursery
) -> int:
    supervisor = Supervisor(config, placement, data, spawner, nursery)
    loop = asyncio.get_running_loop()
    asked = {
        signal.SIGTERM: supervisor.order_stop,
        signal.SIGINT: supervisor.order_stop,
        signal.SIGHUP: supervisor.hang_up,
    }
    for number, act in asked.items():
        # What is ignored from birth (nohup) stays so.
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, act)
    loop.add_signal_handler(signal.SIGQUIT, supervisor.order_kill)
    try:
        return await supervisor.run()
    finally:
        nursery.close()


class Supervisor:
    """All workers of one run."""

    def __init__(
        self,
        config: Config,
        placement: Placement,
        data: OpenData,
        spawner: Spawner,
        nursery: Nursery,
    ) -> None:
        self._config = config
        self._placement = placement
        self._layout = data.layout
        self._root = data.root
        self._loop = asyncio.get_running_loop()
        self._spawner = spawner
        self._nursery = nursery
        self._workers = [self._spawner.new_worker(shard) for shard in range(len(placement.cpus))]
        self._doors: dict[str, str] | None = None
        self._stop = asyncio.Event()
        self._stopping = False
        self._exit_code = STOPPED
        self._orderly_stop = OrderlyStop(
            self._workers,
            seconds(config.system.stop_timeout),
            seconds(config.limits.heartbeat_timeout),
        )
        self._hangup = Hangup()
        self._keys: KeyRotation | None = None
        if data.encryption is not None:
            self._keys = KeyRotation(
                config, data.layout, data.encryption, spawner, self._workers, self._order
            )
        self._replacing: set[asyncio.Task[None]] = set()
        self._watch_due_at = 0.0
        self._notice = ServiceNotice()
        logs = Path(config.system.path) / config.system.logging.path
        self._deaths = WorkerDeaths(logs, self._workers, spawner.suspects, spawner.arena_size)

    def order_stop(self) -> None:
        """Begins an orderly stop. A second order logs what is left, and the stop goes on."""
        if self._stop.is_set():
            self._orderly_stop.report()
        self._stop.set()

    def hang_up(self) -> None:
        """SIGHUP: a terminal that is gone is an order to stop, any other one is to renew."""
        if self._hangup.is_of_terminal:
            self.order_stop()
        else:
            self._renew_certificates()

    def _renew_certificates(self) -> None:
        """Have all workers show what the files hold now; what cannot be used changes nothing."""
        try:
            certificates = renewed_certificates(self._config, self._spawner.certificates)
        except ConfigError as error:
            LOG.error("the certificates stay as they are: %s", error)
            return
        self._spawner.certificates = certificates
        fd = write_shown(certificates)
        for one in self._workers:
            if one.process is not None and one.channel is not None:
                self._order(one, Order("renew"), (fd,))
        os.close(fd)
        LOG.info("certificates renewed for: %s", ", ".join(certificates) or "no door is encrypted")
        self._tell_certificates()

    def order_kill(self) -> None:
        """Begins a stop that kills the workers instead of waiting for them."""
        self._orderly_stop.kill()
        self._stop.set()

    async def run(self) -> int:
        """Start everything, watch it, stop it."""
        booting = asyncio.ensure_future(self._boot())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({booting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if booting.done():
            booting.result()
            self._watch_due_at = self._loop.time()
            Periodic(self._loop, WATCH_INTERVAL_S, self._watch_heartbeats).start_at_once()
            await stopping
        else:
            booting.cancel()
        await self._stop_all()
        return self._exit_code

    # Starting.

    async def _boot(self) -> None:
        began = time.monotonic()
        for worker in self._workers:
            await self._bring_up(worker)
        first = self._workers[0]
        ready = await self._event(first, "metadata_ready")
        if ready.root_created and self._root is not None:
            self._tell_root(self._root)
        for worker in self._workers[1:]:
            worker.order(Order("recover"))
        for worker in self._workers:
            await self._event(worker, "recovered")
        # Port 0 means: shard 0 chooses, the others share its port.
        first.order(Order("listen", open_doors(self._config)))
        doors = (await self._event(first, "listening")).doors
        self._doors = doors
        for worker in self._workers[1:]:
            worker.order(Order("listen", doors))
        for worker in self._workers[1:]:
            await self._event(worker, "listening")
        self._tell_certificates()
        self._write_current_config(doors)
        ready_after_s = time.monotonic() - began
        cpus = ", ".join("any" if one.cpu is None else str(one.cpu) for one in self._placement.cpus)
        LOG.info(
            "borzoi %s serves TCP%s on %s with %d shards on CPUs %s, durability %s, data in %s,"
            " %s loops; ready after %.2f s",
            __version__,
            " with TLS" if "tcp" in self._spawner.certificates else "",
            doors.get("tcp", "no port"),
            len(self._workers),
            cpus,
            self._config.system.partition.durability,
            self._layout.root,
            LOOPS,
            ready_after_s,
        )
        if LOOPS == "plain":
            LOG.warning("%s", SLOW_LOOPS)
        self._tell_doors(doors)
        self._notice.ready(f"serves TCP on {doors.get('tcp', 'no port')}")
        if self._spawner.greets:
            self._greet(doors, cpus, ready_after_s)

    def _greet(self, doors: Mapping[str, str], cpus: str, ready_after_s: float) -> None:
        root = self._root
        http = doors.get("http", "")
        is_private = bool(http) and is_loopback(http)
        greeting = Greeting(
            doors=doors,
            encrypted=frozenset(self._spawner.certificates),
            metrics_endpoint=self._config.http.metrics.endpoint,
            has_console=self._config.http.web_ui or (self._config.console.enabled and is_private),
            shards=len(self._workers),
            cpus=cpus,
            durability=self._config.system.partition.durability,
            data=os.path.abspath(self._layout.root),
            ready_after_s=ready_after_s,
            username=None if root is None else root.username,
            has_known_password=root is not None and root.is_well_known,
        )
        greet(greeting, as_json=self._config.system.logging.json)

    async def _bring_up(self, worker: WorkerProcess) -> None:
        """Spawn it; a nursery that fails has a successor."""
        for number in range(SPAWNS_MAX):
            # The machine may be short of processes for a moment.
            await asyncio.sleep(_back_off(number + 1))
            await self._nursery.wait_ready()
            try:
                self._spawn(worker)
            except NurseryFailed as error:
                LOG.error("shard %d cannot begin: %s", worker.shard, error)
            else:
                return
        raise NurseryFailed(f"shard {worker.shard} could not be started {SPAWNS_MAX} times")

    def _spawn(self, worker: WorkerProcess) -> None:
        ours = self._spawner.spawn(worker, self._workers, self._doors)
        worker.channel = self._open_channel(worker, ours)
        self._loop.add_reader(worker.pidfd, self._worker_died, worker)

    def _open_channel(self, worker: WorkerProcess, ours: socket.socket) -> FdChannel:
        def closed(_reason: ChannelClosed | BadMessage) -> None:
            """The pidfd tells of the death; there is nothing to do here."""

        def took(payload: bytes, fds: list[int]) -> None:
            event = msgspec.json.decode(payload, type=Event)
            if event.event == "hand_over":
                self._pass_on(event, fds)
            else:
                self._take_event(worker, event)

        return FdChannel(self._loop, ours, took, closed)

    async def _event(self, worker: WorkerProcess, wanted: str) -> Event:
        while True:
            event = await worker.events.get()
            # A death while starting stops the broker, and with it the waiting here.
            if event.event != "died":
                break
        assert event.event == wanted, f"expected {wanted} of shard {worker.shard}, got {event}"
        return event

    def _take_event(self, worker: WorkerProcess, event: Event) -> None:
        if event.event == "peer_replaced":
            replaced = self._workers[event.shard]
            if event.generation == replaced.generation:
                replaced.acknowledged.add(worker.shard)
                replaced.events.put_nowait(event)
        elif event.event == "keys_taken":
            if self._keys is not None:
                self._keys.taken(worker.shard, event.generation)
        elif event.event == "reencrypted":
            if self._keys is not None:
                self._keys.reencrypted(worker, event.reason)
        elif event.event == "cannot_boot":
            say(f"borzoi: {event.reason}", err=True)
            self._fail()
        else:
            worker.events.put_nowait(event)

    def _pass_on(self, event: Event, fds: list[int]) -> None:
        """A client's socket on its way to another shard; a dead one lets go of it."""
        target = self._workers[event.shard]
        try:
            if target.process is not None:
                target.order(Order("adopt", session=event.session), tuple(fds))
        except ChannelFull:
            LOG.warning("shard %d takes no more connections: one is dropped", event.shard)
        finally:
            for fd in fds:
                os.close(fd)

    # A worker dies.

    def _worker_died(self, worker: WorkerProcess) -> None:
        process = worker.process
        assert process is not None
        self._loop.remove_reader(worker.pidfd)
        os.close(worker.pidfd)
        worker.pidfd = -1
        code = process.wait()
        was_ordered = self._stopping or worker.killed_by_us
        if self._deaths.look_at(worker, code, process.pid, was_ordered=was_ordered):
            self._tell_refused()
        if worker.channel is not None:
            worker.channel.close()
        worker.process = None
        worker.exit_code = code
        for one in self._workers:
            one.events.put_nowait(Event("died", shard=worker.shard))
        if self._stopping:
            return
        if code == CANNOT_BOOT or self._doors is None:
            LOG.error(
                "shard %d ended with code %d while starting: the broker stops", worker.shard, code
            )
            self._fail()
            return
        lived_s = time.monotonic() - worker.started_at
        worker.failures = 1 if lived_s > LIVED_LONG_S else worker.failures + 1
        LOG.error("shard %d ended with code %d after %.1f s", worker.shard, code, lived_s)
        task = self._loop.create_task(self._replace(worker))
        self._replacing.add(task)
        task.add_done_callback(self._replaced)

    def _tell_refused(self) -> None:
        """Sends the refused requests to all living workers; a successor starts with them."""
        order = Order("refuse", refused=self._spawner.suspects.refused(time.monotonic()))
        for one in self._workers:
            if one.process is not None and one.pidfd >= 0:
                self._order(one, order)

    def _order(self, worker: WorkerProcess, order: Order, fds: tuple[int, ...] = ()) -> None:
        """Sends an order to a worker; one that does not take it is logged.

        Such a worker is stalled: its heartbeat ends it, and its successor starts with the state
        that the order would have brought.
        """
        try:
            worker.order(order, fds)
        except ChannelFull:
            LOG.error("shard %d takes no orders: it misses %s", worker.shard, order.order)

    async def _replace(self, worker: WorkerProcess) -> None:
        self._spawner.renew(worker)
        order = Order("replace_peer", shard=worker.shard, generation=worker.generation)
        for one in self._workers:
            if one is not worker and one.process is not None:
                self._order(one, order, (worker.control_fd, worker.arena_fd))
        generation = worker.generation
        while not self._all_acknowledged(worker):
            await worker.events.get()
        await asyncio.sleep(_back_off(worker.failures))
        if not self._stopping and worker.generation == generation:
            await self._bring_up(worker)
            LOG.info("shard %d lives again as generation %d", worker.shard, generation)

    def _all_acknowledged(self, worker: WorkerProcess) -> bool:
        """Whether every living worker uses the new memories; one that dies meanwhile need not."""
        living = {
            one.shard for one in self._workers if one is not worker and one.process is not None
        }
        return living <= worker.acknowledged

    def _replaced(self, task: asyncio.Task[None]) -> None:
        self._replacing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.critical("cannot replace a worker", exc_info=task.exception())
            self._fail()

    def _watch_heartbeats(self) -> None:
        """A worker whose loop does not turn is as good as dead, and worse."""
        limit_ns = int(seconds(self._config.limits.heartbeat_timeout) * 1e9)
        now = time.monotonic_ns()
        late_s = self._loop.time() - self._watch_due_at
        self._watch_due_at = self._loop.time() + WATCH_INTERVAL_S
        self._reap_orphans()
        self._notice.alive()
        if self._keys is not None:
            self._keys.look()
        if late_s > WATCH_LATE_MAX_S:
            # We did not move either: the whole broker was paused. Give the workers their turn.
            LOG.warning("the broker stood still for %.1f s", late_s)
            return
        for worker in self._workers:
            beat = worker.control.last_beat()
            if worker.process is not None and beat and now - beat > limit_ns:
                LOG.error("shard %d has not moved for %.1f s", worker.shard, (now - beat) / 1e9)
                worker.killed_by_us = True
                worker.process.kill()

    def _reap_orphans(self) -> None:
        known = {one.process.pid for one in self._workers if one.process is not None}
        if self._nursery.pid is not None:
            known.add(self._nursery.pid)
        reap_orphans(known)

    # Stopping.

    def _fail(self) -> None:
        self._exit_code = FAILED
        self._stop.set()

    async def _stop_all(self) -> None:
        self._stopping = True
        self._notice.stopping()
        for task in list(self._replacing):
            task.cancel()
        self._exit_code = await self._orderly_stop.run() or self._exit_code
        level = logging.ERROR if self._exit_code else logging.INFO
        LOG.log(level, "borzoi has stopped, exit code %d", self._exit_code)

    # Telling.

    def _write_current_config(self, doors: Mapping[str, str]) -> None:
        """Readers take the existence of this file for "ready": it appears in one step, last."""
        text = render_toml(self._config, doors)
        Files().write_atomically(
            os.path.join(self._layout.runtime, CURRENT_CONFIG_FILE), text.encode()
        )

    def _tell_doors(self, doors: Mapping[str, str]) -> None:
        if "websocket" in doors:
            scheme = "wss" if "websocket" in self._spawner.certificates else "ws"
            LOG.info("WebSocket is at %s://%s", scheme, doors["websocket"])
        if "quic" in doors:
            LOG.info("QUIC is at %s", doors["quic"])
        if "http" in doors:
            scheme = "https" if "http" in self._spawner.certificates else "http"
            LOG.info("HTTP is at %s://%s", scheme, doors["http"])
        if "metrics" in doors:
            self._tell_metrics(doors["metrics"])

    def _tell_certificates(self) -> None:
        """Log them, and leave those that the broker has made where clients can be given them."""
        for door, certificate in self._spawner.certificates.items():
            describe(door, certificate)
            if certificate.self_signed:
                path = os.path.join(self._layout.runtime, f"{door}_certificate.pem")
                Files().write_atomically(path, certificate.chain)
                # The official clients verify nothing over QUIC, unless they are asked to.
                level = logging.INFO if door == "quic" else logging.WARNING
                LOG.log(level, "clients trust the door %s only if they are given %s", door, path)

    def _tell_metrics(self, address: str) -> None:
        url = f"http://{address}{self._config.http.metrics.endpoint}"
        LOG.info("metrics are at %s", url)
        if not is_loopback(address):
            LOG.warning("%s can be read without a password from every host that reaches it", url)

    def _tell_root(self, root: RootAccount) -> None:
        if root.warning is not None:
            LOG.warning("%s", root.warning)
        if root.store_password_file:
            # In one write: print makes two of it, and a line of a worker may come between them.
            sys.stdout.write(f"{GENERATED_PREFIX}{root.password}\n")
            sys.stdout.flush()
            path = Path(self._layout.root) / ROOT_PASSWORD_FILE
            LOG.warning("the generated root password is kept in %s", path)


def _back_off(failures: int) -> float:
    """None for a first death: its partitions are to be back at once."""
    if failures <= 1:
        return 0.0
    return float(min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2 ** (failures - 2)))
