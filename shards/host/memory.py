"""How much memory this process is granted, and how much of it each shard may use for what.

Reads /proc and the cgroup files, changes nothing. Always: a shard's budget holds two of the
largest frames, so one can be received while another is being written; a host that cannot give
that much to every shard is refused at boot rather than starved later.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from borzoi.quantities import KIB, format_size
from borzoi.shards.config import Config, ConfigError

# The page cache, the workers' own heaps and all other processes live in the rest.
POOL_FRACTION: Final = 4
FRAMES_PER_SHARD_MIN: Final = 2
# What all shards map of files is page cache, which the kernel takes back; it is still stated.
MAPPED_FRACTION: Final = 8

# A cgroup v1 without a limit says something near 2^63, rounded down to pages.
NO_LIMIT: Final = 2**60


def memory_budget_per_shard(config: Config, shard_count: int, host_memory: int) -> int:
    """Bytes of pool buffers one shard may have in use. ConfigError when the host is too small."""
    pool = config.system.memory_pool
    granted = host_memory // POOL_FRACTION
    real_pool = min(pool.size, granted) if pool.enabled else granted
    frame_size_max = config.limits.frame_size_max
    budget = max(real_pool // shard_count, FRAMES_PER_SHARD_MIN * frame_size_max)
    if budget * shard_count > host_memory:
        per_shard = host_memory // shard_count // FRAMES_PER_SHARD_MIN
        shards = host_memory // (FRAMES_PER_SHARD_MIN * frame_size_max)
        raise ConfigError(
            f"limits.frame_size_max is {format_size(frame_size_max)}: {shard_count} shards need two"
            f" such frames each, and this host grants {format_size(host_memory)}. Needs at most"
            f" {per_shard} bytes a frame, or at most {shards} shards"
            " (system.sharding.cpu_allocation)"
        )
    return budget


def mapped_bound_per_shard(config: Config, shard_count: int, host_memory: int) -> int:
    """Bytes of mapped files one shard keeps in its page tables."""
    return min(config.limits.mapped_size_max, host_memory // MAPPED_FRACTION // shard_count)


def granted_memory(root: Path = Path("/")) -> int:
    """The host's memory, or the tightest cgroup limit around this process if that is less."""
    limits = [_total_memory(root / "proc/meminfo"), *_cgroup_limits(root)]
    return min(limit for limit in limits if limit > 0)


def _total_memory(meminfo: Path) -> int:
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * KIB
    raise OSError(f"{meminfo} has no MemTotal")


def _cgroup_limits(root: Path) -> list[int]:
    """Limits from this process's cgroup up to the top: each of them holds.

    A line of /proc/self/cgroup is `id:controllers:path`; version 2 has id 0 and no controllers.
    Inside a container the path is often the host's and does not exist below /sys/fs/cgroup; then
    its parents and finally the mount point itself are looked at, which is the container's own
    group.
    """
    limits = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        group = Path(path.lstrip("/"))
        for directory in (group, *group.parents):
            text = _text(mount / directory / name).strip()
            if text.isdigit() and int(text) < NO_LIMIT:
                limits.append(int(text))
    return limits


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        # A cgroup version that this host does not have, or a file that the container hides: no
        # limit.
        return ""
