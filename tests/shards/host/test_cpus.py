"""Which CPU each shard gets, on invented machines and on this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from borzoi.shards.config import ConfigError
from borzoi.shards.host.cpus import (
    NODE_MAX,
    NumaTopology,
    ShardCpu,
    parse_cpu_list,
    pin_to_cpu,
    read_numa_topology,
    resolve_cpus,
    set_memory_policy,
)

# Two nodes of four cores with two threads each: CPU n and n + 8 share a core.
TWO_NODES = NumaTopology(
    nodes={0: (0, 1, 2, 3, 8, 9, 10, 11), 1: (4, 5, 6, 7, 12, 13, 14, 15)},
    siblings={cpu: (cpu % 8, cpu % 8 + 8) for cpu in range(16)},
)
ALL = range(16)


def cpus_of(allocation: str | int, available: range | tuple[int, ...] = ALL) -> list[int | None]:
    return [shard.cpu for shard in resolve_cpus(allocation, available, TWO_NODES).cpus]


def test_all_takes_the_cpus_this_process_may_use() -> None:
    placement = resolve_cpus("all", (6, 2, 4), None)
    assert placement.cpus == (ShardCpu(2, None), ShardCpu(4, None), ShardCpu(6, None))
    assert placement.notes == ()


@pytest.mark.parametrize("count", [3, "3"])
def test_a_count_takes_the_first_of_them(count: str | int) -> None:
    assert cpus_of(count) == [0, 1, 2]
    assert cpus_of(count, (4, 5, 6, 7)) == [4, 5, 6]


def test_a_count_at_and_above_the_bound() -> None:
    assert len(cpus_of(16)) == 16
    for count in (17, 0):
        with pytest.raises(ConfigError, match="needs at"):
            cpus_of(count)


def test_a_range_excludes_its_end() -> None:
    assert cpus_of("3..7") == [3, 4, 5, 6]
    assert cpus_of("12..16") == [12, 13, 14, 15]


def test_a_range_keeps_its_shards_when_pinning_is_impossible() -> None:
    placement = resolve_cpus("0..4", (0, 2, 4, 6), None)
    assert [shard.cpu for shard in placement.cpus] == [0, None, 2, None]
    assert len(placement.notes) == 2
    assert "CPU 1 " in placement.notes[0]


@pytest.mark.parametrize("text", ["4..4", "5..4", "13..17", "1..", "..3", "1..2..3", "-1..3"])
def test_ranges_that_make_no_sense(text: str) -> None:
    with pytest.raises(ConfigError, match=r"system\.sharding\.cpu_allocation"):
        cpus_of(text)


def test_high_cpus_that_are_all_available() -> None:
    assert cpus_of("4..8", (4, 5, 6, 7)) == [4, 5, 6, 7]


def test_numa_auto_avoids_hyper_threads_and_binds_memory() -> None:
    placement = resolve_cpus("numa:auto", ALL, TWO_NODES)
    assert placement.cpus == tuple(ShardCpu(cpu, cpu // 4) for cpu in range(8))


def test_numa_auto_in_a_small_container() -> None:
    """One thread of a core that the container shares, and a whole core of the other node."""
    placement = resolve_cpus("numa:auto", (9, 10, 4, 12), TWO_NODES)
    assert placement.cpus == (ShardCpu(9, 0), ShardCpu(10, 0), ShardCpu(4, 1))


def test_numa_auto_skips_nodes_without_cpus_for_us() -> None:
    assert resolve_cpus("numa:auto", (4, 5), TWO_NODES).cpus == (ShardCpu(4, 1), ShardCpu(5, 1))


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("numa:nodes=1", [4, 5, 6, 7]),
        ("numa:nodes=1,0;cores=2", [4, 5, 0, 1]),
        ("numa:cores=1", [0, 4]),
        ("numa:nodes=0;no_ht=false", [0, 1, 2, 3, 8, 9, 10, 11]),
        ("numa:nodes=0;cores=6;no_ht=false", [0, 1, 2, 3, 8, 9]),
        ("numa: nodes = 0 ; cores = 1", [0]),
    ],
)
def test_numa_parameters(text: str, cpus: list[int]) -> None:
    assert cpus_of(text) == cpus


@pytest.mark.parametrize(
    "text",
    [
        "numa:nodes=2",
        "numa:nodes=0;cores=5",
        "numa:nodes=",
        "numa:nodes=a",
        "numa:cores=-1",
        "numa:no_ht=maybe",
        "numa:threads=2",
        "numa:",
        "numa:auto;cores=1",
        "numa",
        "some",
        "",
        "4.5",
    ],
)
def test_what_is_not_understood_or_not_there(text: str) -> None:
    with pytest.raises(ConfigError, match=r"system\.sharding\.cpu_allocation"):
        cpus_of(text)


def test_nodes_of_unequal_size_are_refused_unless_automatic() -> None:
    """Without `cores` the first node's count holds for all of them."""
    with pytest.raises(ConfigError, match="node 1 has 2 usable cores, needs 4"):
        cpus_of("numa:nodes=0,1", (0, 1, 2, 3, 4, 5))
    assert cpus_of("numa:auto", (0, 1, 2, 3, 4, 5)) == [0, 1, 2, 3, 4, 5]


def test_a_host_without_nodes_falls_back_to_all() -> None:
    for numa in (None, NumaTopology({}, {}), NumaTopology({0: (90,)}, {})):
        placement = resolve_cpus("numa:auto", (0, 1), numa)
        assert [shard.cpu for shard in placement.cpus] == [0, 1]
        assert len(placement.notes) == 1


def test_the_kernels_list_form() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert parse_cpu_list("\n") == ()


def test_reading_the_kernels_files(tmp_path: Path) -> None:
    for node, cpus in ((0, "0-1"), (1, "2")):
        directory = tmp_path / f"node/node{node}"
        directory.mkdir(parents=True)
        (directory / "cpulist").write_text(cpus + "\n")
    for cpu in (0, 1):
        directory = tmp_path / f"cpu/cpu{cpu}/topology"
        directory.mkdir(parents=True)
        (directory / "thread_siblings_list").write_text("0-1\n")
    numa = read_numa_topology(tmp_path)
    assert numa == NumaTopology({0: (0, 1), 1: (2,)}, {0: (0, 1), 1: (0, 1), 2: (2,)})
    (tmp_path / "node/node1/cpulist").write_text("nonsense\n")
    assert read_numa_topology(tmp_path) is None
    assert read_numa_topology(tmp_path / "nowhere") is None


def test_pinning_to_a_cpu_that_does_not_exist_is_a_warning() -> None:
    before = os.sched_getaffinity(0)
    warning = pin_to_cpu(100_000)
    assert warning is not None
    assert "CPU 100000" in warning
    assert pin_to_cpu(None) is None
    assert os.sched_getaffinity(0) == before


def test_memory_of_a_node_that_does_not_exist_is_a_warning() -> None:
    for node in (NODE_MAX, NODE_MAX + 1):
        warning = set_memory_policy(node)
        assert warning is not None
        assert f"node {node}" in warning
    assert set_memory_policy(None) is None


@pytest.mark.slow
def test_a_process_of_its_own_binds_itself() -> None:
    """In a child, because the binding cannot be taken back from the test process."""
    cpu = min(os.sched_getaffinity(0))
    program = (
        "import os\n"
        "from borzoi.shards.host.cpus import pin_to_cpu, set_memory_policy\n"
        f"assert pin_to_cpu({cpu}) is None\n"
        f"assert os.sched_getaffinity(0) == {{{cpu}}}\n"
        "print(set_memory_policy(0) or 'bound')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    # Containers often forbid the call; then the warning says so.
    assert done.stdout.strip() == "bound" or "cannot bind memory to node 0" in done.stdout
