"""Which processors may run several shards in plain Python."""

import platform

import pytest

from borzoi.router.processor import UnorderedProcessor, check_processor, needs_compiled_words


@pytest.mark.parametrize(
    ("machine", "shard_count", "needed"),
    [
        ("x86_64", 1, False),
        ("x86_64", 64, False),
        ("AMD64", 2, False),
        ("aarch64", 1, False),
        ("aarch64", 2, True),
        ("arm64", 2, True),
        ("riscv64", 4, True),
        ("", 2, True),
    ],
)
def test_who_needs_compiled_words(machine: str, shard_count: int, needed: bool) -> None:
    assert needs_compiled_words(machine, shard_count) is needed
    check_processor(machine, shard_count, compiled=True)
    if needed:
        with pytest.raises(UnorderedProcessor, match=f"{shard_count} shards on"):
            check_processor(machine, shard_count, compiled=False)
    else:
        check_processor(machine, shard_count, compiled=False)


def test_this_machine_may_always_run_one_shard() -> None:
    check_processor(platform.machine(), 1, compiled=False)
