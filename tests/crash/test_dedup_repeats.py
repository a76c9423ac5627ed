"""S5 in the size of a test run; `python -m tests.crash.dedup_repeats` sends a million ids."""

import random
from pathlib import Path

import pytest

from tests.crash.dedup_repeats import ENTRY_SIZE_MAX, PARTITIONS_USED, WINDOW, run

MEMORY_MARGIN = 40_000_000
"""What a worker that has worked has more than one that has not; windows have to show above it."""


@pytest.mark.slow
def test_s5_every_batch_twice_and_kills_in_between(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    summary = run(tmp_path / "data", 20_000, kills=1, worker_kills=2, seed=seed, mode="written")
    print(summary)
    assert summary.repeated >= 20_000
    allowed = ENTRY_SIZE_MAX * WINDOW * PARTITIONS_USED + MEMORY_MARGIN
    assert summary.memory_last - summary.memory_first <= allowed
