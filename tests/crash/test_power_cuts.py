"""D3 in the size of a test run; `python -m tests.crash.power_cuts` does two hundred."""

from pathlib import Path

import pytest

from tests.crash.experiment import new_seed
from tests.crash.mounts import Unavailable
from tests.crash.power_cuts import run


@pytest.mark.slow
def test_d3_what_was_acknowledged_in_mode_fsync_survives_a_power_cut(tmp_path: Path) -> None:
    try:
        summary = run(tmp_path, "fsync", 1, new_seed())
    except Unavailable as error:
        pytest.skip(f"no power can be cut here: {error}")
    print(summary)
    assert summary.acknowledged > 0
    assert summary.lost == 0


@pytest.mark.slow
def test_d4_mode_written_starts_with_a_beginning_of_what_was_sent(tmp_path: Path) -> None:
    """And loses: or else the rig shows nothing."""
    try:
        summary = run(tmp_path, "written", 1, new_seed())
    except Unavailable as error:
        pytest.skip(f"no power can be cut here: {error}")
    print(summary)
    assert summary.acknowledged > 0
    assert summary.lost > 0
