"""A broker and its model agree: some sequences of commands, the same ones each time."""

from pathlib import Path

import pytest

from tests.crash.model_run import run

SEQUENCES = 15
SEED = 3


@pytest.mark.slow
def test_a_broker_does_what_its_model_does(tmp_path: Path) -> None:
    counts = run(tmp_path / "data", SEQUENCES, SEED, shrink=False)
    print(counts)
    assert counts["sequences"] >= SEQUENCES
    assert counts["refused"] > 0
    assert counts["messages"] > 0
    assert counts["waited for"] > 0
    assert min(counts["kill"], counts["stop"], counts["kill a worker"]) > 0
