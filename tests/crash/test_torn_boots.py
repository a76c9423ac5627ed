"""D6 with one real start; `python -m tests.crash.torn_boots` does fifty, for every byte."""

from pathlib import Path

import pytest

from tests.crash.torn_boots import PARTITIONS, run


@pytest.mark.slow
def test_d6_a_broker_starts_on_files_that_end_in_the_middle(tmp_path: Path) -> None:
    summary = run(tmp_path, 1)
    print(summary)
    assert len(summary.log_cuts) == PARTITIONS
