"""What memory is granted, and each shard's part of it."""

from pathlib import Path

import msgspec
import pytest

from borzoi.quantities import GIB, KIB, MIB
from borzoi.shards.config import Config, ConfigError
from borzoi.shards.host.memory import (
    granted_memory,
    mapped_bound_per_shard,
    memory_budget_per_shard,
)
from borzoi.shards.settings.schema import MemoryPool

FRAMES = 2 * 128 * MIB


def test_the_smaller_of_pool_and_a_quarter_of_the_host_divided_by_the_shards() -> None:
    config = Config()
    assert memory_budget_per_shard(config, 4, 64 * GIB) == GIB
    assert memory_budget_per_shard(config, 2, 8 * GIB) == GIB


def test_a_disabled_pool_is_bound_by_the_host_alone() -> None:
    system = msgspec.structs.replace(Config().system, memory_pool=MemoryPool(enabled=False))
    config = msgspec.structs.replace(Config(), system=system)
    assert memory_budget_per_shard(config, 4, 64 * GIB) == 4 * GIB


def test_never_less_than_two_of_the_largest_frames() -> None:
    assert memory_budget_per_shard(Config(), 32, 64 * GIB) == FRAMES


def test_a_host_that_is_too_small_is_refused() -> None:
    assert memory_budget_per_shard(Config(), 4, 4 * FRAMES) == FRAMES
    with pytest.raises(
        ConfigError, match=r"limits\.frame_size_max is 128 MiB: 4 shards .* 3 shards"
    ):
        memory_budget_per_shard(Config(), 4, 4 * FRAMES - 1)


def host(root: Path, cgroup: str, **limits: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text("MemTotal:       1000 kB\nMemFree: 5 kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_without_cgroups_the_host_counts(tmp_path: Path) -> None:
    assert granted_memory(host(tmp_path, "")) == 1000 * KIB


def test_the_tightest_limit_of_version_2(tmp_path: Path) -> None:
    limits = {"a/b/memory.max": "max\n", "a/memory.max": "5000\n", "memory.max": "7000\n"}
    assert granted_memory(host(tmp_path, "0::/a/b\n", **limits)) == 5000


def test_a_container_that_sees_only_its_own_group(tmp_path: Path) -> None:
    limits = {"memory.max": "7000\n"}
    assert granted_memory(host(tmp_path, "0::/docker/abc\n", **limits)) == 7000


def test_version_1(tmp_path: Path) -> None:
    limits = {
        "memory/a/memory.limit_in_bytes": "6000\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
    }
    cgroup = "5:cpu,cpuacct:/a\n4:memory:/a\n0::/\n"
    assert granted_memory(host(tmp_path, cgroup, **limits)) == 6000


def test_a_limit_above_the_host_does_not_count(tmp_path: Path) -> None:
    limits = {"memory.max": str(2 * 1000 * KIB)}
    assert granted_memory(host(tmp_path, "0::/\n", **limits)) == 1000 * KIB


def test_this_machine_has_some() -> None:
    assert granted_memory() > MIB


def test_what_is_mapped_is_bounded_by_the_setting_and_by_the_host() -> None:
    config = Config()
    assert mapped_bound_per_shard(config, 2, 64 * GIB) == config.limits.mapped_size_max
    assert mapped_bound_per_shard(config, 2, GIB // 2) == GIB // 32
