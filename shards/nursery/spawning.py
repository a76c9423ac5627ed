"""The start of workers: the memory they share, and the specification that each of them gets.

Owned by the supervisor. The board, the request memory, the wake-ups and the record of the last
clean stop last as long as the run. Control memory and arena belong to one generation of one worker.
Its successor gets new ones, so that nothing of a dead worker is mistaken for something of a living
one.
"""

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from borzoi.router.arena import create_arena
from borzoi.router.board import create_board
from borzoi.router.control import FIRST_GENERATION, ControlLayout, SharedControl, create_control
from borzoi.router.fds import ChannelClosed, FdChannel, socket_pair
from borzoi.router.memory import PAGE_SIZE
from borzoi.router.request_memory import RequestLayout, create_request_memory
from borzoi.router.wake import Wake
from borzoi.shards.config import Config, to_json
from borzoi.shards.directory.opening import OpenData
from borzoi.shards.directory.serve_options import ServeOptions
from borzoi.shards.faults.crash_reports import new_trace
from borzoi.shards.faults.poison import Suspects
from borzoi.shards.host.cpus import Placement
from borzoi.shards.identity.passwords import hash_password
from borzoi.shards.identity.root_account import names_default_password
from borzoi.shards.loop.clock import broker_start
from borzoi.shards.nursery.link import ChildProcess, Nursery, NurseryFailed
from borzoi.shards.orders.spec import Event, Order, Root, WorkerSpec, write_spec
from borzoi.shards.tls.certificate import Certificate

NUMBERED_PER_CONNECTION: Final = 2
"""Clients whose last request is remembered, for each connection that a shard may have: as many as
are connected, and as many again that may come back."""


@dataclass(slots=True)
class WorkerProcess:
    """One worker as the supervisor sees it; the entry lives on when the process is replaced."""

    shard: int
    control: SharedControl
    control_fd: int
    arena_fd: int
    trace_fd: int = -1
    generation: int = FIRST_GENERATION
    process: ChildProcess | None = None
    pidfd: int = -1
    exit_code: int | None = None  # of the process that ended last
    channel: FdChannel | None = None
    started_at: float = 0.0
    failures: int = 0
    killed_by_us: bool = False
    acknowledged: set[int] = field(default_factory=set)
    events: asyncio.Queue[Event] = field(default_factory=asyncio.Queue)

    def order(self, order: Order, fds: tuple[int, ...] = ()) -> None:
        """Tell it something; a dead one hears nothing."""
        assert self.channel is not None
        try:
            self.channel.send(msgspec.json.encode(order), fds)
        except ChannelClosed:
            # The worker has died: its pidfd reports that, and the supervisor replaces it.
            return


class Spawner:
    """Starts the workers of one run."""

    def __init__(
        self,
        config: Config,
        options: ServeOptions,
        placement: Placement,
        budget: int,
        data: OpenData,
        nursery: Nursery,
        certificates: dict[str, Certificate],
    ) -> None:
        self._nursery = nursery
        self.certificates = certificates
        self.greets = options.greets
        self._config = config
        self._options = options
        self._placement = placement
        self._budget = budget
        self._root: Root | None = None
        if data.root is not None:
            self._root = Root(data.root.username, hash_password(data.root.password))
        self._lock_fd = data.lock_fd
        self.encryption_keys: tuple[bytes, ...] = ()
        """What a worker that is started from now on gets; exchanged while the broker runs."""
        if data.encryption is not None:
            self.encryption_keys = tuple(key.secret_bytes() for key in data.encryption.keys)
        self._broker_start = broker_start()
        shard_count = len(placement.cpus)
        self._control_layout = ControlLayout(shard_count)
        self.suspects = Suspects()
        self.arena_size = -(-max(config.system.memory_pool.size, budget) // PAGE_SIZE) * PAGE_SIZE
        self._board_slots = config.limits.partitions_total_max
        self._board_fd = create_board(self._board_slots)
        self._requests_layout = RequestLayout(
            shard_count, NUMBERED_PER_CONNECTION * config.limits.connections_max
        )
        self._requests_fd = create_request_memory(self._requests_layout)
        self._clean_fd = os.memfd_create("borzoi-clean-stop", os.MFD_CLOEXEC)
        if data.clean is not None:
            os.write(self._clean_fd, data.clean.encode())
        self._wakes = [Wake.create() for _ in range(shard_count)]

    def new_worker(self, shard: int) -> WorkerProcess:
        """A worker that has its memories and no process yet."""
        return WorkerProcess(shard, *self._new_memories(shard, FIRST_GENERATION))

    def renew(self, worker: WorkerProcess) -> None:
        """Fresh memories for the successor of a dead worker, of the next generation."""
        worker.generation += 1
        worker.control.close()
        os.close(worker.control_fd)
        os.close(worker.arena_fd)
        worker.control, worker.control_fd, worker.arena_fd = self._new_memories(
            worker.shard, worker.generation
        )
        worker.acknowledged = set()
        worker.events = asyncio.Queue()

    def spawn(
        self, worker: WorkerProcess, workers: Sequence[WorkerProcess], doors: dict[str, str] | None
    ) -> socket.socket:
        """Start its process, one of `workers`; our end of the channel to it.

        `doors` are the addresses on which the broker listens by now; None while it is starting.

        NurseryFailed if the nursery has ended since it was ready: there is no process then.
        """
        if worker.trace_fd >= 0:
            os.close(worker.trace_fd)
        worker.trace_fd = new_trace()
        worker.killed_by_us = False
        ours, theirs = socket_pair()
        spec = self._spec(worker, workers, doors, theirs.fileno())
        spec_fd = write_spec(spec)
        try:
            # The lock on the data directory is held as long as a worker can write.
            worker.process = self._nursery.fork((spec_fd, self._lock_fd, *spec.fds()))
        except NurseryFailed:
            ours.close()
            raise
        finally:
            os.close(spec_fd)
            theirs.close()
        worker.started_at = time.monotonic()
        worker.events = asyncio.Queue()
        worker.pidfd = os.pidfd_open(worker.process.pid)
        return ours

    def _spec(
        self,
        worker: WorkerProcess,
        workers: Sequence[WorkerProcess],
        doors: dict[str, str] | None,
        channel_fd: int,
    ) -> WorkerSpec:
        cpu = self._placement.cpus[worker.shard]
        return WorkerSpec(
            supervisor_pid=os.getpid(),
            broker_start=self._broker_start,
            shard=worker.shard,
            shard_count=len(workers),
            cpu=cpu.cpu,
            node=cpu.node,
            config=msgspec.Raw(to_json(self._config)),
            rust_log=self._options.environ.get("RUST_LOG", ""),
            encryption_keys=self.encryption_keys,
            follower=self._options.follower,
            shares_port=self._options.shares_port,
            root=self._root if worker.shard == 0 else None,
            refuses_known_password=doors is None and not self._keeps_known_password(),
            doors=doors,
            certificates=self.certificates,
            generations=tuple(one.generation for one in workers),
            budget=self._budget,
            arena_size=self.arena_size,
            board_slots=self._board_slots,
            channel_fd=channel_fd,
            board_fd=self._board_fd,
            requests_fd=self._requests_fd,
            requests_entries=self._requests_layout.entries,
            clean_stop_fd=self._clean_fd,
            control_fds=tuple(one.control_fd for one in workers),
            arena_fds=tuple(one.arena_fd for one in workers),
            wake_fds=tuple(wake.fd for wake in self._wakes),
            trace_fd=worker.trace_fd,
            refused=self.suspects.refused(time.monotonic()),
        )

    def _keeps_known_password(self) -> bool:
        """Whether the start is asked to keep iggy/iggy where others can connect."""
        options = self._options
        return options.default_root_credentials or names_default_password(options.environ)

    def _new_memories(self, shard: int, generation: int) -> tuple[SharedControl, int, int]:
        control_fd = create_control(self._control_layout, shard, generation)
        control = SharedControl(control_fd, self._control_layout, shard, generation)
        return control, control_fd, create_arena(shard, self.arena_size)
