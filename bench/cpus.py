"""Which CPUs the broker gets and which the load generators.

decide() is pure. The generators never share a CPU with a shard when there are enough. A broker that
has to wait for its own load generator is measured wrongly, and so is the other way round.
"""

import os
from dataclasses import dataclass

from borzoi.bench.failures import BenchFailed


@dataclass(frozen=True, slots=True)
class CpuPlan:
    """`shard_cpus` are consecutive, as `cpu_allocation` wants them.

    `generator_cpus` has one entry per generator process. When `shared` is true some processes share
    a CPU and the kernel decides; the report says so.
    """

    shard_cpus: tuple[int, ...]
    generator_cpus: tuple[tuple[int, ...], ...]
    shared: bool

    @property
    def cpu_allocation(self) -> str:
        """The CPUs of the shards in the form of the broker's setting."""
        return f"{self.shard_cpus[0]}..{self.shard_cpus[-1] + 1}"


def available_cpus() -> tuple[int, ...]:
    """Returns the CPUs that this process may use."""
    return tuple(sorted(os.sched_getaffinity(0)))


def decide(available: tuple[int, ...], shards: int | None, actor_count: int) -> CpuPlan:
    """CPUs for a broker with `shards` shards (None: all CPUs but one) and for its load."""
    count = shards if shards is not None else max(1, len(available) - 1)
    if count > len(available):
        raise BenchFailed(f"{count} shards need {count} CPUs, and there are {len(available)}")
    shard_cpus = available[:count]
    free = available[count:]
    if not free:
        return CpuPlan(shard_cpus, ((),), shared=True)
    generators = min(len(free), max(1, actor_count))
    return CpuPlan(shard_cpus, tuple((cpu,) for cpu in free[:generators]), shared=False)


def decide_without_broker(available: tuple[int, ...], actor_count: int) -> CpuPlan:
    """Returns the plan for a server that runs elsewhere: one generator per CPU, none pinned."""
    generators = min(len(available), max(1, actor_count))
    return CpuPlan((), tuple(() for _ in range(generators)), shared=True)
