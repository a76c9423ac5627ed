"""Which CPU each shard runs on, and the calls that bind a worker to it.

resolve_cpus is pure. What the configuration asks for, the CPUs this process may use and the memory
nodes go in, one ShardCpu per shard comes out. The supervisor calls it once; each worker calls
pin_to_cpu and set_memory_policy for itself before it touches memory. Failing to bind is a note or a
warning, never a reason not to serve. Always: at least one shard, and no two share a pinned CPU.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.shards.settings.cpu_allocation import (
    KEY,
    AllCpus,
    CpuCount,
    CpuRange,
    NumaCpus,
    parse_cpu_allocation,
)
from borzoi.shards.settings.errors import ConfigError

# The libc has no wrapper for it; these are the system call's numbers.
SET_MEMPOLICY: Final = {"x86_64": 238, "aarch64": 237, "riscv64": 237}
MPOL_BIND: Final = 2
NODE_MAX: Final = 1023
WORD_BITS: Final = 64


class ShardCpu(NamedTuple):
    """`cpu` None: the shard is not pinned. `node` None: its memory comes from anywhere."""

    cpu: int | None
    node: int | None


class Placement(NamedTuple):
    """One entry per shard, in the order of shard ids, and what the operator should know."""

    cpus: tuple[ShardCpu, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class NumaTopology:
    """CPUs of each memory node, and for each CPU those that share its physical core, itself too."""

    nodes: Mapping[int, tuple[int, ...]]
    siblings: Mapping[int, tuple[int, ...]]


def resolve_cpus(
    cpu_allocation: str | int, available: Sequence[int], numa: NumaTopology | None
) -> Placement:
    """A CPU for each shard. ConfigError when the configuration asks for what is not there."""
    usable = sorted(set(available))
    match parse_cpu_allocation(cpu_allocation):
        case AllCpus():
            return Placement(tuple(ShardCpu(cpu, None) for cpu in usable), ())
        case CpuCount(count):
            if count > len(usable):
                raise ConfigError(
                    f"{KEY} is {count}: needs at most the {len(usable)} CPUs available"
                )
            return Placement(tuple(ShardCpu(cpu, None) for cpu in usable[:count]), ())
        case CpuRange(first, end):
            return _range(first, end, usable)
        case NumaCpus() as wanted:
            if numa is None or not numa.nodes:
                note = f"{KEY} is {cpu_allocation!r}, but this host shows no memory nodes: all CPUs"
                return Placement(tuple(ShardCpu(cpu, None) for cpu in usable), (note,))
            return _by_node(wanted, str(cpu_allocation), usable, numa)


def _range(first: int, end: int, usable: Sequence[int]) -> Placement:
    """As many shards as the range has CPUs. Those it may not use are served without pinning."""
    wanted = range(first, end)
    missing = [cpu for cpu in wanted if cpu not in usable]
    if end > len(usable) and missing:
        raise ConfigError(f"{KEY} is {first}..{end}: needs an end of at most {len(usable)}")
    notes = tuple(f"CPU {cpu} is not available to this process: not pinned" for cpu in missing)
    return Placement(
        tuple(ShardCpu(None if cpu in missing else cpu, None) for cpu in wanted), notes
    )


def _by_node(wanted: NumaCpus, text: str, usable: Sequence[int], numa: NumaTopology) -> Placement:
    if unknown := sorted(set(wanted.nodes) - set(numa.nodes)):
        known = ", ".join(str(node) for node in sorted(numa.nodes))
        raise ConfigError(f"{KEY} is {text!r}: node {unknown[0]} does not exist, there are {known}")
    cpus_of = {
        node: _cores(numa, node, usable, wanted.avoid_hyper_threads)
        for node in wanted.nodes or sorted(numa.nodes)
    }
    if not wanted.nodes:
        # Nodes that only hold memory, or whose CPUs belong to another container.
        cpus_of = {node: cpus for node, cpus in cpus_of.items() if cpus}
    if not cpus_of:
        note = f"{KEY} is {text!r}, but no memory node has a CPU for this process: all CPUs"
        return Placement(tuple(ShardCpu(cpu, None) for cpu in usable), (note,))
    cores = wanted.cores or len(next(iter(cpus_of.values())))
    placed: list[ShardCpu] = []
    for node, cpus in cpus_of.items():
        if not wanted.automatic and (len(cpus) < cores or not cpus):
            raise ConfigError(
                f"{KEY} is {text!r}: node {node} has {len(cpus)} usable cores,"
                f" needs {max(cores, 1)}"
            )
        placed += (ShardCpu(cpu, node) for cpu in (cpus if wanted.automatic else cpus[:cores]))
    return Placement(tuple(placed), ())


def _cores(
    numa: NumaTopology, node: int, usable: Sequence[int], avoid_hyper_threads: bool
) -> list[int]:
    """The usable CPUs of a node; of those on one physical core only the lowest, if so wished."""
    cpus: list[int] = []
    for cpu in sorted(set(numa.nodes[node]) & set(usable)):
        if avoid_hyper_threads and not set(numa.siblings.get(cpu, ())).isdisjoint(cpus):
            continue
        cpus.append(cpu)
    return cpus


def read_numa_topology(system: Path = Path("/sys/devices/system")) -> NumaTopology | None:
    """The memory nodes as the kernel shows them; None on a host that shows none."""
    nodes = {}
    siblings = {}
    try:
        for directory in sorted(system.glob("node/node[0-9]*")):
            node = int(directory.name.removeprefix("node"))
            nodes[node] = parse_cpu_list((directory / "cpulist").read_text())
            for cpu in nodes[node]:
                shared = system / f"cpu/cpu{cpu}/topology/thread_siblings_list"
                siblings[cpu] = parse_cpu_list(shared.read_text()) if shared.exists() else (cpu,)
    except (OSError, ValueError):
        # A hidden or odd /sys: the same as none, and resolve_cpus tells the operator.
        return None
    return NumaTopology(nodes, siblings) if nodes else None


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Returns the CPUs of a list in the kernel's form, such as 0-3,8,10-11."""
    cpus: list[int] = []
    for part in text.strip().split(","):
        if part:
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
    return tuple(cpus)


def pin_to_cpu(cpu: int | None) -> str | None:
    """Binds this process to `cpu`; a warning when the kernel refuses."""
    if cpu is None:
        return None
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        return f"cannot pin to CPU {cpu}: {error.strerror}"
    return None


def set_memory_policy(node: int | None) -> str | None:
    """Takes this process's memory from `node` from now on; a warning when that is impossible."""
    if node is None:
        return None
    call = SET_MEMPOLICY.get(platform.machine())
    if call is None or not 0 <= node <= NODE_MAX:
        return f"cannot bind memory to node {node} on this machine"
    words = (NODE_MAX + 1) // WORD_BITS
    mask = (ctypes.c_uint64 * words)()
    mask[node // WORD_BITS] = 1 << (node % WORD_BITS)
    libc = ctypes.CDLL(None, use_errno=True)
    # The kernel uses one bit less than the number it gets, hence the + 1.
    result = libc.syscall(
        ctypes.c_long(call),
        ctypes.c_int(MPOL_BIND),
        mask,
        ctypes.c_ulong(words * WORD_BITS + 1),
    )
    if result != 0:
        return f"cannot bind memory to node {node}: {os.strerror(ctypes.get_errno())}"
    return None
