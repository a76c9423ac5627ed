"""Runs actors in generator processes and brings home what they measured.

Owns the processes. It starts them, waits until all are connected, lets them start at the same
moment, shows their progress and collects their results. When something goes wrong, it ends them by
process id. One generator per entry of `generator_cpus`; actors are dealt out in turn, so that
producers and consumers are spread evenly.
"""

import mmap
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from borzoi.bench.actors import LoadFailed
from borzoi.bench.generator import DONE, MEASURING, PROGRESS_WORDS, READY
from borzoi.bench.plans import ActorPlan, ActorResult, GeneratorPlan, GeneratorResult
from borzoi.bench.usage import Sample, Sampler

START_DELAY_NS: Final = 20_000_000
READY_TIMEOUT_S: Final = 120.0
LOOK_INTERVAL_S: Final = 0.02
SHOW_INTERVAL_S: Final = 0.1
GENERATOR: Final = ("-m", "borzoi.bench.generator")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the measured part of a run is, over all actors."""

    measuring: bool
    elapsed_s: float
    requests: int
    messages: int
    user_bytes: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Everything a run measured. CPU and elapsed time of generators are of the measured part."""

    actors: tuple[ActorResult, ...]
    generators: tuple[GeneratorResult, ...]
    samples: tuple[Sample, ...] = field(repr=False)

    @property
    def generator_cpu_share(self) -> float:
        """CPU used by the busiest generator, as a share of one core."""
        return max((one.cpu_ns / max(1, one.elapsed_ns) for one in self.generators), default=0.0)


def run_load(
    actors: Sequence[ActorPlan],
    generator_cpus: Sequence[tuple[int, ...]],
    *,
    warmup_ns: int = 0,
    watched: Mapping[str, int] | None = None,
    show: Callable[[Progress], None] | None = None,
    while_measuring: Callable[[], None] | None = None,
) -> LoadResult:
    """Run all actors at once to their goals. `watched` are processes to sample meanwhile.

    `while_measuring` is called in the parent once, when the measured part has begun.
    """
    dealt = [tuple(actors[number :: len(generator_cpus)]) for number in range(len(generator_cpus))]
    with _Generators(dealt, generator_cpus, len(actors), warmup_ns) as generators:
        generators.wait_until_ready()
        sampled = {**(watched or {}), **generators.pids()}
        sampler = Sampler(sampled)
        sampler.start()
        try:
            generators.start()
            results = generators.collect(show, while_measuring)
        finally:
            samples = sampler.stop()
    return LoadResult(
        actors=tuple(actor for result in results for actor in result.actors),
        generators=tuple(results),
        samples=tuple(samples),
    )


class _Generators:
    """The processes of one run."""

    def __init__(
        self,
        dealt: Sequence[tuple[ActorPlan, ...]],
        cpus: Sequence[tuple[int, ...]],
        actor_count: int,
        warmup_ns: int,
    ) -> None:
        self._progress_fd = os.memfd_create("borzoi-bench-progress")
        os.ftruncate(self._progress_fd, max(mmap.PAGESIZE, len(dealt) * PROGRESS_WORDS * 8))
        self._words = memoryview(mmap.mmap(self._progress_fd, 0)).cast("Q")
        self._processes: list[subprocess.Popen[bytes]] = []
        self._results: dict[int, GeneratorResult] = {}
        self._readers: list[threading.Thread] = []
        for number, (mine, on) in enumerate(zip(dealt, cpus, strict=True)):
            if not mine:
                continue
            plan = GeneratorPlan(number, mine, actor_count, on, warmup_ns, self._progress_fd)
            process = subprocess.Popen(
                [sys.executable, *GENERATOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(self._progress_fd,),
            )
            self._processes.append(process)
            assert process.stdin is not None
            process.stdin.write(pickle.dumps(plan))
            process.stdin.flush()
            # A result is larger than a pipe: a thread reads it while we look at the progress.
            reader = threading.Thread(target=self._read, args=(process,), daemon=True)
            reader.start()
            self._readers.append(reader)

    def __enter__(self) -> "_Generators":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        for reader in self._readers:
            reader.join()
        os.close(self._progress_fd)

    def pids(self) -> dict[str, int]:
        return {
            f"generator {number}": process.pid for number, process in enumerate(self._processes)
        }

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while any(state < READY for state in self._column(0)):
            self._raise_if_failed()
            if any(process.poll() is not None for process in self._processes):
                raise LoadFailed("a load generator died before it was ready")
            if time.monotonic() > deadline:
                raise LoadFailed("the load generators are not connected in time")
            time.sleep(LOOK_INTERVAL_S)
        self._raise_if_failed()

    def start(self) -> None:
        line = f"{time.monotonic_ns() + START_DELAY_NS}\n".encode()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()

    def collect(
        self,
        show: Callable[[Progress], None] | None,
        while_measuring: Callable[[], None] | None,
    ) -> list[GeneratorResult]:
        began: float | None = None
        while any(reader.is_alive() for reader in self._readers):
            states = self._column(0)
            measuring = all(state >= MEASURING for state in states)
            if measuring and began is None:
                began = time.monotonic()
                if while_measuring is not None and any(state < DONE for state in states):
                    while_measuring()
            self._raise_if_failed()
            if show is not None:
                elapsed = 0.0 if began is None else time.monotonic() - began
                sums = [sum(self._column(word)) for word in range(1, PROGRESS_WORDS)]
                show(Progress(measuring, elapsed, *sums))
            self._readers[-1].join(SHOW_INTERVAL_S)
        self._raise_if_failed()
        if len(self._results) != len(self._processes):
            raise LoadFailed("a load generator died")
        return [self._results[pid] for pid in sorted(self._results)]

    def _raise_if_failed(self) -> None:
        failed = next((result.error for result in list(self._results.values()) if result.error), "")
        if failed:
            raise LoadFailed(failed)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        try:
            self._results[process.pid] = pickle.load(process.stdout)
        except EOFError:
            return  # It died; collect() notices that its result is missing.

    def _column(self, word: int) -> list[int]:
        return [
            self._words[number * PROGRESS_WORDS + word] for number in range(len(self._processes))
        ]
