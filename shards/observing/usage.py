"""What the broker takes of its machine: all its processes together, as the kernel counts.

The broker is a supervisor and its workers; every figure is the sum over them. Memory is the
proportional set size, so that pages which several shards have mapped are counted once.

CPU is a rate and needs two looks. The last look serves as the first one, unless it is so young
that the kernel's clock ticks are too coarse, or too old. Otherwise
`measure` waits a moment between two of its own. It waits and it reads files of the kernel that may
be slow. So it has a thread of its own: only that thread may call it.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import psutil

WINDOW_MIN_S: Final = 0.2
WINDOW_MAX_S: Final = 10.0


class ProcessUsage(NamedTuple):
    """What one process of the broker takes."""

    cpu_s: float
    memory_bytes: int
    read_bytes: int
    written_bytes: int
    threads_count: int


class Look(NamedTuple):
    """The kernel's counters at one moment."""

    at: float
    processes: Mapping[int, ProcessUsage]
    machine_busy_s: float
    machine_total_s: float


@dataclass(frozen=True, slots=True)
class Usage:
    """Sums over the processes of the broker, and the machine they run on.

    `cpu_percent` is of one core, so two busy shards are 200; `machine_cpu_percent` is of all.
    """

    cpu_percent: float
    machine_cpu_percent: float
    memory_bytes: int
    read_bytes: int
    written_bytes: int
    threads_count: int
    total_memory: int
    available_memory: int
    free_disk_space: int
    total_disk_space: int


class UsageMeter:
    """Looks at the processes of one broker."""

    def __init__(
        self,
        supervisor_pid: int,
        data: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._supervisor_pid = supervisor_pid
        self._data = data
        self._clock = clock
        self._sleep = sleep
        self._look: Look | None = None
        self._usage: Usage | None = None

    def measure(self) -> Usage:
        """The figures of now, or those of less than WINDOW_MIN_S ago."""
        before = self._look
        if before is not None and self._usage is not None:
            age = self._clock() - before.at
            if age < WINDOW_MIN_S:
                return self._usage
            if age > WINDOW_MAX_S:
                before = None
        if before is None:
            before = self._take()
            self._sleep(WINDOW_MIN_S)
        now = self._take()
        self._look = now
        self._usage = usage_between(before, now, self._data)
        return self._usage

    def _take(self) -> Look:
        found = {pid: process_usage(pid) for pid in broker_pids(self._supervisor_pid)}
        machine = psutil.cpu_times()
        # The kernel counts a guest's time a second time, as its own.
        total = sum(machine) - machine.guest - machine.guest_nice
        return Look(
            self._clock(),
            {pid: usage for pid, usage in found.items() if usage is not None},
            total - machine.idle - machine.iowait,
            total,
        )


def usage_between(before: Look, now: Look, data: Path) -> Usage:
    """The rates between two looks, and the sums at the later one."""
    memory = psutil.virtual_memory()
    disk = psutil.disk_usage(str(data))
    usage = now.processes.values()
    return Usage(
        cpu_percent=cpu_percent(before, now),
        machine_cpu_percent=machine_cpu_percent(before, now),
        memory_bytes=sum(one.memory_bytes for one in usage),
        read_bytes=sum(one.read_bytes for one in usage),
        written_bytes=sum(one.written_bytes for one in usage),
        threads_count=sum(one.threads_count for one in usage),
        total_memory=memory.total,
        available_memory=memory.available,
        free_disk_space=disk.free,
        total_disk_space=disk.total,
    )


def cpu_percent(before: Look, now: Look) -> float:
    """Of one core. A process that is new has used everything since; one that died is left out."""
    used_s = 0.0
    for pid, usage in now.processes.items():
        earlier = before.processes.get(pid)
        used_s += usage.cpu_s - (earlier.cpu_s if earlier is not None else 0.0)
    return 100.0 * max(0.0, used_s) / (now.at - before.at)


def machine_cpu_percent(before: Look, now: Look) -> float:
    """Of all cores."""
    total_s = now.machine_total_s - before.machine_total_s
    if total_s <= 0.0:
        return 0.0
    return min(100.0, 100.0 * max(0.0, now.machine_busy_s - before.machine_busy_s) / total_s)


def broker_pids(supervisor_pid: int) -> list[int]:
    """The supervisor and its workers.

    The kernel's list of children, not a walk through all processes of the machine as psutil does
    it. That takes tens of milliseconds on a busy host. Kernels without the list get the walk.
    """
    try:
        children = Path(f"/proc/{supervisor_pid}/task/{supervisor_pid}/children").read_text()
    except OSError:
        return [
            supervisor_pid,
            *(child.pid for child in psutil.Process(supervisor_pid).children()),
        ]
    return [supervisor_pid, *map(int, children.split())]


def process_usage(pid: int) -> ProcessUsage | None:
    """None for a worker that has died since it was listed."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            cpu = process.cpu_times()
            traffic = process.io_counters()
            return ProcessUsage(
                cpu.user + cpu.system,
                _memory(process),
                traffic.read_bytes,
                traffic.write_bytes,
                process.num_threads(),
            )
    except (psutil.Error, OSError):
        return None


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.AccessDenied:
        # Hardened kernels tell only the resident size.
        return int(process.memory_info().rss)
