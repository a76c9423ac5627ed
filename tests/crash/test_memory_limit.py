"""F4 in the size of a test run; `python -m tests.crash.memory_limit` takes ten minutes."""

from pathlib import Path

import pytest

from tests.crash.memory_limit import run


@pytest.mark.slow
def test_f4_little_memory_and_many_clients(tmp_path: Path) -> None:
    summary = run(tmp_path / "data", seconds=0.5, consumers=50, producers=10)
    print(summary)
    assert summary.acknowledged > 0
