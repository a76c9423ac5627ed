"""D1 and D2 in the size of a test run; `python -m tests.crash.kill_cycles` does a thousand."""

from pathlib import Path

import pytest

from tests.crash.experiment import new_seed
from tests.crash.kill_cycles import JOURNAL_MESSAGES_MAX, run


@pytest.mark.slow
def test_d1_what_was_acknowledged_survives_the_death_of_everything(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", "written", 10, new_seed())
    print(summary)
    assert summary.lost == 0
    assert summary.acknowledged > 0


@pytest.mark.slow
def test_d1_in_mode_fsync(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", "fsync", 3, new_seed())
    print(summary)
    assert summary.lost == 0
    assert summary.acknowledged > 0


@pytest.mark.slow
def test_d1_with_encryption(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", "encrypted", 2, new_seed())
    print(summary)
    assert summary.lost == 0
    assert summary.acknowledged > 0


@pytest.mark.slow
def test_d2_mode_buffered_loses_less_than_its_threshold(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", "buffered", 3, new_seed())
    print(summary)
    assert summary.lost_of_partition_max < JOURNAL_MESSAGES_MAX
