"""What processes use, read from /proc: CPU to the nanosecond, memory by kind, descriptors.

sample functions only read. The Sampler is a thread of the parent that reads them at a fixed
interval; its list belongs to it until stop() has returned.

RssAnon and RssShmem are memory a process really takes; RssFile is the page cache seen through
its maps and is reported apart.
"""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from borzoi.bench.quantities import NS_PER_S

SAMPLE_INTERVAL_S: Final = 0.1
KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Usage:
    """One look at one process."""

    cpu_ns: int
    rss_anon: int
    rss_shmem: int
    rss_file: int
    descriptors: int

    @property
    def memory(self) -> int:
        """Memory that the kernel cannot take back: anonymous and shared."""
        return self.rss_anon + self.rss_shmem


@dataclass(frozen=True, slots=True)
class DirtyPages:
    """Pages that wait for the disk. Above `throttle_at` the kernel makes writers wait."""

    dirty: int
    throttle_at: int

    @property
    def throttled(self) -> bool:
        """Whether the kernel makes writers wait now."""
        return self.dirty >= self.throttle_at > 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at everything. `busy_ns` is what all CPUs together have worked so far."""

    at_ns: int
    processes: Mapping[str, Usage]
    dirty: DirtyPages
    busy_ns: int = 0


def cpu_ns_of(pid: int) -> int:
    """CPU time of all threads of a process; threads that have ended are not in it."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total


def usage_of(pid: int) -> Usage | None:
    """None when the process is gone or not ours to look at."""
    try:
        status = (Path("/proc") / str(pid) / "status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)

        def size(name: str) -> int:
            return int(fields.get(name, "0 kB").split()[0]) * KIB

        return Usage(
            cpu_ns=cpu_ns_of(pid),
            rss_anon=size("RssAnon"),
            rss_shmem=size("RssShmem"),
            rss_file=size("RssFile"),
            descriptors=sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir()),
        )
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def dirty_pages() -> DirtyPages:
    """The kernel lets writers run freely up to the middle of its two thresholds."""
    wanted = {"nr_dirty", "nr_writeback", "nr_dirty_threshold", "nr_dirty_background_threshold"}
    found = {}
    for line in Path("/proc/vmstat").read_text().splitlines():
        name, value = line.split()
        if name in wanted:
            found[name] = int(value)
    ceiling = found.get("nr_dirty_threshold", 0) + found.get("nr_dirty_background_threshold", 0)
    return DirtyPages(found.get("nr_dirty", 0) + found.get("nr_writeback", 0), ceiling // 2)


def busy_ns() -> int:
    """What all CPUs have worked since boot. Stolen time counts: we did not have it."""
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(one) for one in fields[:8])
    ticks = user + nice + system + irq + softirq + steal
    return ticks * NS_PER_S // os.sysconf("SC_CLK_TCK")


class Sampler:
    """Looks at named processes until it is stopped."""

    def __init__(self, processes: Mapping[str, int], interval_s: float = SAMPLE_INTERVAL_S) -> None:
        self._processes = dict(processes)
        self._interval_s = interval_s
        self._samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="usage", daemon=True)

    def start(self) -> None:
        """Starts the thread that looks."""
        self._thread.start()

    def stop(self) -> list[Sample]:
        """Everything seen, with a last look now."""
        self._stop.set()
        self._thread.join()
        self._look()
        return self._samples

    def _run(self) -> None:
        while not self._stop.is_set():
            self._look()
            self._stop.wait(self._interval_s)

    def _look(self) -> None:
        looked = {name: usage_of(pid) for name, pid in self._processes.items()}
        living = {name: usage for name, usage in looked.items() if usage is not None}
        self._samples.append(Sample(time.monotonic_ns(), living, dirty_pages(), busy_ns()))


def cpu_ns_between(samples: Sequence[Sample], name: str, start_ns: int, end_ns: int) -> float:
    """CPU time a process used between two moments, interpolated between the looks at it."""
    return cpu_ns_at(samples, name, end_ns) - cpu_ns_at(samples, name, start_ns)


def foreign_share(samples: Sequence[Sample], start_ns: int, end_ns: int) -> float:
    """How many cores were busy with anything but the watched processes between two moments."""
    inside = [sample for sample in samples if start_ns <= sample.at_ns <= end_ns]
    if len(inside) <= 1:
        inside = list(samples)
    if len(inside) <= 1:
        return 0.0
    first, last = inside[0], inside[-1]
    watched = sum(
        last.processes[name].cpu_ns - first.processes[name].cpu_ns
        for name in first.processes.keys() & last.processes.keys()
    )
    return max(0.0, (last.busy_ns - first.busy_ns - watched) / max(1, last.at_ns - first.at_ns))


def cpu_ns_at(samples: Sequence[Sample], name: str, at_ns: int) -> float:
    """CPU time of a process at a moment, interpolated between the looks at it."""
    seen = [
        (sample.at_ns, sample.processes[name].cpu_ns)
        for sample in samples
        if name in sample.processes
    ]
    before = [point for point in seen if point[0] <= at_ns]
    behind = [point for point in seen if point[0] > at_ns]
    if not before or not behind:
        nearest = before[-1:] or behind[:1]
        return float(nearest[0][1]) if nearest else 0.0
    (early_ns, early), (late_ns, late) = before[-1], behind[0]
    return early + (late - early) * (at_ns - early_ns) / (late_ns - early_ns)
