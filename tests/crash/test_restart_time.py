"""D10 small: a start reads what it must, not the data; `python -m tests.crash.restart_time`."""

from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.crash.restart_time import SETTINGS, fill, measure

PARTITIONS = 20
SIZE = 60_000_000
SLACK = 6_000_000
"""Python's own files, and the odds and ends that processes read while they start."""


@pytest.mark.slow
def test_d10_a_start_reads_the_tails_and_not_the_data(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", SETTINGS)
    try:
        fill(broker, PARTITIONS, SIZE)
    finally:
        broker.close()
    figures = measure(tmp_path, tmp_path / "data", PARTITIONS, cold=False)
    print(figures)
    assert figures.size_bytes >= SIZE * 0.9
    assert figures.clean.read_bytes < figures.empty.read_bytes + SLACK
    assert figures.killed.read_bytes < figures.empty.read_bytes + figures.tails.size_bytes + SLACK
