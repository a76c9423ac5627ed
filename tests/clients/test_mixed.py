"""A short run of the mixed load (mixed.py): one topic, three deaths."""

from pathlib import Path

import pytest

from tests.clients.mixed import KILLS_PER_ROUND, run
from tests.clients.wheels import WHEELS, need

SEED = 20


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_while_workers_die(tmp_path: Path) -> None:
    need(*WHEELS)
    summary = run(tmp_path / "data", SEED, rounds=1)
    print(summary)
    assert summary.kills == KILLS_PER_ROUND
    assert set(summary.acknowledged) == {str(wheel) for wheel in WHEELS}
    assert min(summary.acknowledged.values()) > 100
    assert summary.seen > 0
