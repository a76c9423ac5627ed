"""A slice of the fuzz of reads for every run of the suite, with both kinds of loops."""

import signal
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.batch import LOOPS
from tests.hostile.read_fuzz import Died, run

PARTITIONS: Final = 60


@pytest.mark.slow
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "plain"])
def test_no_read_kills_the_process(tmp_path: Path, plain: bool) -> None:
    assert plain or LOOPS == "compiled"
    said = run(range(PARTITIONS), tmp_path, plain=plain)
    for outcome in ("answered", "CannotReadMessage", "InvalidMessageChecksum"):
        assert outcome in said


def test_a_death_by_a_signal_is_seen(tmp_path: Path) -> None:
    with pytest.raises(Died, match=f"code {-signal.SIGBUS} at number -1"):
        run(range(-1, 0), tmp_path, plain=False)
