"""The supervisor: it knows processes, not messages.

Makes the shared memory, spawns one worker per CPU, watches them by pidfd and heartbeat, restarts
a dead one with fresh memories and a new generation, stops all on SIGTERM or SIGINT. If it dies,
the kernel kills the workers.

A dead worker is replaced in this order (design: when a worker dies): new control memory and
arena, handed to every living worker; each of them acknowledges that it uses them; only then is
the successor spawned, after a back-off if it lives too short.
"""

import asyncio
import logging
import os
import platform
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from borzoi import __version__
from borzoi.protocol.batch import LOOPS
from borzoi.router.arena import create_arena
from borzoi.router.board import create_board
from borzoi.router.control import FIRST_GENERATION, ControlLayout, SharedControl, create_control
from borzoi.router.fds import BadMessage, ChannelClosed, ChannelFull, FdChannel, socket_pair
from borzoi.router.memory import PAGE_SIZE
from borzoi.router.processor import UnorderedProcessor, check_processor
from borzoi.router.wake import Wake
from borzoi.shards.archive_store import archive_directory, lies_within_data
from borzoi.shards.clock import broker_start
from borzoi.shards.config import (
    Config,
    granted_memory,
    memory_budget_per_shard,
    render_toml,
    to_json,
)
from borzoi.shards.config.addresses import is_loopback
from borzoi.shards.config.durations import seconds
from borzoi.shards.config.errors import ConfigError
from borzoi.shards.config.schema import archives
from borzoi.shards.cpus import Placement, read_numa_topology, resolve_cpus
from borzoi.shards.data_lock import empty_data_directory, lock_data_directory
from borzoi.shards.encryption import open_encryption
from borzoi.shards.log_lines import set_up_logging
from borzoi.shards.metadata.shortening import shorten_log
from borzoi.shards.root_account import (
    GENERATED_PREFIX,
    ROOT_PASSWORD_FILE,
    RootAccount,
    decide_root,
    store_root_password,
)
from borzoi.shards.serve_options import ServeOptions
from borzoi.shards.worker_spec import (
    CANNOT_BOOT,
    Event,
    Order,
    Root,
    WorkerSpec,
    write_spec,
)
from borzoi.storage.clean_stop import CleanStop
from borzoi.storage.encrypted import Encryption
from borzoi.storage.encryption_key import KeyRefused
from borzoi.storage.files import Files
from borzoi.storage.info import UnknownDataFormat, read_info, write_info
from borzoi.storage.layout import CURRENT_CONFIG_FILE, DataLayout
from borzoi.storage.wal import ENTRY_SIZE_MAX, InvalidEntry, decode_entry

LOG: Final = logging.getLogger(__name__)

WORKER_MODULE: Final = "borzoi.shards.worker_process"
STOPPED: Final = 0
FAILED: Final = 1
STOP_TIMEOUT_S: Final = 4.5
WATCH_INTERVAL_S: Final = 1.0
WATCH_LATE_MAX_S: Final = 1.0
LIVED_LONG_S: Final = 3.0
BACK_OFF_FIRST_S: Final = 1.0
BACK_OFF_MAX_S: Final = 30.0


def run(config: Config, warnings: tuple[str, ...], options: ServeOptions) -> int:
    """Run the broker until it is told to stop; the exit code."""
    data = Path(config.system.path)
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
    try:
        found = _open_data_directory(
            config, (*warnings, *placement.notes, *_archive_notes(config)), options
        )
    except OSError as error:
        raise ConfigError(f"system.path is {data}: {error}") from error
    if found is None:
        return FAILED
    layout, root, clean, lock_fd, encryption = found
    _raise_file_limit()
    return asyncio.run(
        _supervise(config, options, placement, budget, layout, root, clean, lock_fd, encryption)
    )


def _archive_notes(config: Config) -> tuple[str, ...]:
    if not archives(config) or not lies_within_data(config):
        return ()
    return (
        f"the archive lies in the data directory, {archive_directory(config)}: it brings back what"
        " was deleted, but is lost with the disk; set system.backup.path",
    )


def _open_data_directory(
    config: Config, warnings: tuple[str, ...], options: ServeOptions
) -> tuple[DataLayout, RootAccount | None, CleanStop | None, int, Encryption | None] | None:
    """Lock and prepare what is below system.path; None if it must not be touched."""
    system = config.system
    data = Path(system.path)
    lock_fd = lock_data_directory(data)
    if options.fresh:
        empty_data_directory(data)
    files = Files()
    layout = DataLayout(data, system.stream.path, system.topic.path, system.partition.path)
    layout.create_skeleton(files)
    set_up_logging(system.logging, data, "supervisor", options.environ)
    for text in warnings:
        LOG.warning("%s", text)
    try:
        info = read_info(layout, files)
    except UnknownDataFormat as error:
        LOG.error("%s", error)
        return None
    try:
        encryption = open_encryption(system, layout, files)
    except (ConfigError, KeyRefused) as error:
        LOG.error("cannot start: %s", error)
        print(f"borzoi: {error}", file=sys.stderr, flush=True)
        return None
    write_info(layout, files, __version__, info)
    _shorten_metadata(layout, files, encryption)
    shutil.rmtree(layout.runtime, ignore_errors=True)
    os.makedirs(layout.runtime)
    root = _first_root(config, options, layout, files)
    if root is not None and any(layout.partition_directories(files)):
        # Recovery removes what the metadata does not know: here that would be everything.
        LOG.error(
            "%s is missing or empty, but %s holds partitions: put the file back, or start with"
            " --fresh to delete all data",
            layout.state_log,
            layout.streams,
        )
        return None
    if root is not None and root.store_password_file:
        # Before the account exists: a kill in between must not leave one that nobody can use.
        store_root_password(data, root.password)
    return layout, root, CleanStop.take(layout, files), lock_fd, encryption


def _shorten_metadata(layout: DataLayout, files: Files, encryption: Encryption | None) -> None:
    try:
        shortened = shorten_log(layout.state_log, layout.state_snapshot, files, encryption)
    except OSError as error:
        LOG.warning("%s stays as long as it is: %s", layout.state_log, error)
        return
    if shortened is not None:
        LOG.info(
            "%s lost %d bytes, its entries up to %d are in the snapshots",
            layout.state_log,
            shortened.size_bytes,
            shortened.last_index,
        )


async def _supervise(
    config: Config,
    options: ServeOptions,
    placement: Placement,
    budget: int,
    layout: DataLayout,
    root: RootAccount | None,
    clean: CleanStop | None,
    lock_fd: int,
    encryption: Encryption | None,
) -> int:
    supervisor = Supervisor(
        config, options, placement, budget, layout, root, clean, lock_fd, encryption
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.order_stop)
    return await supervisor.run()


@dataclass(slots=True)
class WorkerProcess:
    """One worker as the supervisor sees it; the entry lives on when the process is replaced."""

    shard: int
    control: SharedControl
    control_fd: int
    arena_fd: int
    generation: int = FIRST_GENERATION
    process: subprocess.Popen[bytes] | None = None
    pidfd: int = -1
    channel: FdChannel | None = None
    started_at: float = 0.0
    failures: int = 0
    acknowledged: set[int] = field(default_factory=set)
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)


class Supervisor:
    """All workers of one run."""

    def __init__(
        self,
        config: Config,
        options: ServeOptions,
        placement: Placement,
        budget: int,
        layout: DataLayout,
        root: RootAccount | None,
        clean: CleanStop | None,
        lock_fd: int,
        encryption: Encryption | None,
    ) -> None:
        self._encryption_key = encryption.key.secret_bytes() if encryption is not None else b""
        self._broker_start = broker_start()
        self._config = config
        self._lock_fd = lock_fd
        self._options = options
        self._placement = placement
        self._layout = layout
        self._root = root
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        shard_count = len(placement.cpus)
        self._control_layout = ControlLayout(shard_count)
        self._arena_size = -(-max(config.system.memory_pool.size, budget) // PAGE_SIZE) * PAGE_SIZE
        self._board_slots = config.limits.partitions_total_max
        self._board_fd = create_board(self._board_slots)
        self._clean_fd = os.memfd_create("borzoi-clean-stop", os.MFD_CLOEXEC)
        if clean is not None:
            os.write(self._clean_fd, clean.encode())
        self._wakes = [Wake.create() for _ in range(shard_count)]
        self._workers = [self._new_worker(shard) for shard in range(shard_count)]
        self._tcp_address = ""
        self._stop = asyncio.Event()
        self._stopping = False
        self._exit_code = STOPPED
        self._replacing: set[asyncio.Task[None]] = set()
        self._watch_due_at = 0.0

    def order_stop(self) -> None:
        """Told to stop: by a signal, or because something is beyond repair."""
        self._stop.set()

    async def run(self) -> int:
        """Start everything, watch it, stop it."""
        booting = asyncio.ensure_future(self._boot())
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({booting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if booting.done():
            booting.result()
            self._watch_due_at = self._loop.time()
            self._watch_heartbeats()
            await stopping
        else:
            booting.cancel()
        await self._stop_all()
        return self._exit_code

    # Starting.

    async def _boot(self) -> None:
        began = time.monotonic()
        for worker in self._workers:
            self._spawn(worker)
        first = self._workers[0]
        ready = await self._event(first, "metadata_ready")
        if ready.root_created and self._root is not None:
            self._tell_root(self._root)
        for worker in self._workers[1:]:
            self._order(worker, Order("recover"))
        for worker in self._workers:
            await self._event(worker, "recovered")
        # Port 0 means: shard 0 chooses, the others share its port.
        self._order(first, Order("listen", address=self._config.tcp.address))
        self._tcp_address = (await self._event(first, "listening")).address
        for worker in self._workers[1:]:
            self._order(worker, Order("listen", address=self._tcp_address))
        for worker in self._workers[1:]:
            await self._event(worker, "listening")
        self._write_current_config()
        LOG.info(
            "borzoi %s serves TCP on %s with %d shards on CPUs %s, durability %s, data in %s,"
            " %s loops; ready after %.2f s",
            __version__,
            self._tcp_address,
            len(self._workers),
            ", ".join("any" if one.cpu is None else str(one.cpu) for one in self._placement.cpus),
            self._config.system.partition.durability,
            self._layout.root,
            LOOPS,
            time.monotonic() - began,
        )

    def _new_worker(self, shard: int) -> WorkerProcess:
        return WorkerProcess(shard, *self._new_memories(shard, FIRST_GENERATION))

    def _new_memories(self, shard: int, generation: int) -> tuple[SharedControl, int, int]:
        control_fd = create_control(self._control_layout, shard, generation)
        control = SharedControl(control_fd, self._control_layout, shard, generation)
        return control, control_fd, create_arena(shard, self._arena_size)

    def _spawn(self, worker: WorkerProcess) -> None:
        ours, theirs = socket_pair()
        cpu = self._placement.cpus[worker.shard]
        root = None
        if self._root is not None and worker.shard == 0:
            root = Root(self._root.username, self._root.password)
        spec = WorkerSpec(
            supervisor_pid=os.getpid(),
            broker_start=self._broker_start,
            shard=worker.shard,
            shard_count=len(self._workers),
            cpu=cpu.cpu,
            node=cpu.node,
            config=msgspec.Raw(to_json(self._config)),
            rust_log=self._options.environ.get("RUST_LOG", ""),
            encryption_key=self._encryption_key,
            follower=self._options.follower,
            root=root,
            tcp_address=self._tcp_address,
            generations=tuple(one.generation for one in self._workers),
            budget=self._budget,
            arena_size=self._arena_size,
            board_slots=self._board_slots,
            channel_fd=theirs.fileno(),
            board_fd=self._board_fd,
            clean_stop_fd=self._clean_fd,
            control_fds=tuple(one.control_fd for one in self._workers),
            arena_fds=tuple(one.arena_fd for one in self._workers),
            wake_fds=tuple(wake.fd for wake in self._wakes),
        )
        spec_fd = write_spec(spec)
        try:
            worker.process = subprocess.Popen(
                # The last argument is for people who look at a list of processes.
                [sys.executable, "-m", WORKER_MODULE, str(spec_fd), f"shard-{worker.shard}"],
                stdin=subprocess.DEVNULL,
                # The lock on the data directory is held as long as a worker can write.
                pass_fds=(spec_fd, self._lock_fd, *spec.fds()),
                start_new_session=False,
            )
        finally:
            os.close(spec_fd)
            theirs.close()
        worker.started_at = time.monotonic()
        worker.events = asyncio.Queue()
        worker.channel = self._open_channel(worker, ours)
        worker.pidfd = os.pidfd_open(worker.process.pid)
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
            # A death while starting stops the broker, and with it whoever waits here.
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
        elif event.event == "cannot_boot":
            print(f"borzoi: {event.reason}", file=sys.stderr, flush=True)
            self._fail()
        else:
            worker.events.put_nowait(event)

    def _pass_on(self, event: Event, fds: list[int]) -> None:
        """A client's socket on its way to another shard; a dead one lets go of it."""
        target = self._workers[event.shard]
        try:
            if target.process is not None:
                self._order(target, Order("adopt", session=event.session), tuple(fds))
        except ChannelFull:
            LOG.warning("shard %d takes no more connections: one is dropped", event.shard)
        finally:
            for fd in fds:
                os.close(fd)

    def _order(self, worker: WorkerProcess, order: Order, fds: tuple[int, ...] = ()) -> bool:
        assert worker.channel is not None
        try:
            worker.channel.send(msgspec.json.encode(order), fds)
        except ChannelClosed:
            return False
        return True

    # A worker dies.

    def _worker_died(self, worker: WorkerProcess) -> None:
        process = worker.process
        assert process is not None
        self._loop.remove_reader(worker.pidfd)
        os.close(worker.pidfd)
        worker.pidfd = -1
        code = process.wait()
        if worker.channel is not None:
            worker.channel.close()
        worker.process = None
        for one in self._workers:
            one.events.put_nowait(Event("died", shard=worker.shard))
        if self._stopping:
            return
        if code == CANNOT_BOOT or not self._tcp_address:
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

    async def _replace(self, worker: WorkerProcess) -> None:
        worker.generation += 1
        worker.control.close()
        os.close(worker.control_fd)
        os.close(worker.arena_fd)
        worker.control, worker.control_fd, worker.arena_fd = self._new_memories(
            worker.shard, worker.generation
        )
        worker.acknowledged = set()
        worker.events = asyncio.Queue()
        order = Order("replace_peer", shard=worker.shard, generation=worker.generation)
        for one in self._workers:
            if one is not worker and one.process is not None:
                self._order(one, order, (worker.control_fd, worker.arena_fd))
        generation = worker.generation
        while not self._all_acknowledged(worker):
            await worker.events.get()
        await asyncio.sleep(_back_off(worker.failures))
        if not self._stopping and worker.generation == generation:
            self._spawn(worker)
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
        self._loop.call_later(WATCH_INTERVAL_S, self._watch_heartbeats)
        if late_s > WATCH_LATE_MAX_S:
            # We did not move either: the whole broker was paused. Give the workers their turn.
            LOG.warning("the broker stood still for %.1f s", late_s)
            return
        for worker in self._workers:
            beat = worker.control.last_beat()
            if worker.process is not None and beat and now - beat > limit_ns:
                LOG.error("shard %d has not moved for %.1f s", worker.shard, (now - beat) / 1e9)
                worker.process.kill()

    # Stopping.

    def _fail(self) -> None:
        self._exit_code = FAILED
        self._stop.set()

    async def _stop_all(self) -> None:
        self._stopping = True
        for task in list(self._replacing):
            task.cancel()
        for worker in self._workers:
            if worker.process is not None:
                self._order(worker, Order("stop"))
        deadline = self._loop.time() + STOP_TIMEOUT_S
        while self._living() and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for worker in self._living():
            LOG.error("shard %d did not stop in time and is killed", worker.shard)
            assert worker.process is not None
            worker.process.kill()
            worker.process.wait()
        LOG.info("borzoi has stopped")

    def _living(self) -> list[WorkerProcess]:
        return [worker for worker in self._workers if worker.process is not None]

    # Telling.

    def _write_current_config(self) -> None:
        """Readers take the existence of this file for "ready": it appears in one step, last."""
        text = render_toml(self._config, tcp_address=self._tcp_address)
        Files().write_atomically(
            os.path.join(self._layout.runtime, CURRENT_CONFIG_FILE), text.encode()
        )

    def _tell_root(self, root: RootAccount) -> None:
        if root.warning is not None:
            LOG.warning("%s", root.warning)
        if root.store_password_file:
            # In one write: print makes two of it, and a line of a worker may come between them.
            sys.stdout.write(f"{GENERATED_PREFIX}{root.password}\n")
            sys.stdout.flush()
            path = Path(self._layout.root) / ROOT_PASSWORD_FILE
            LOG.warning("the generated root password is kept in %s", path)


def _first_root(
    config: Config, options: ServeOptions, layout: DataLayout, files: Files
) -> RootAccount | None:
    """The root account, if there is no metadata yet.

    A log without a complete entry counts as none: the first boot was killed while it wrote that.
    """
    begin = files.read_all(layout.state_log, ENTRY_SIZE_MAX) or b""
    try:
        decode_entry(memoryview(begin), 0, len(begin))
    except InvalidEntry:
        pass
    else:
        return None
    loopback_only = not config.tcp.enabled or is_loopback(config.tcp.address)
    return decide_root(
        options.environ,
        loopback_only,
        with_default_credentials=options.default_root_credentials,
    )


def _raise_file_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _back_off(failures: int) -> float:
    """None for a first death: its partitions are to be back at once."""
    if failures <= 1:
        return 0.0
    return float(min(BACK_OFF_MAX_S, BACK_OFF_FIRST_S * 2 ** (failures - 2)))
