"""Kills under NATS load, a short version: nothing that was acked is lost."""

from pathlib import Path

import pytest

from tests.liftbridge.nats_kills import ACKS_BETWEEN, run_kills
from tests.liftbridge.nats_server import needs_nats

pytestmark = [needs_nats, pytest.mark.slow]


def test_nothing_that_was_acked_is_lost(tmp_path: Path) -> None:
    found = run_kills(tmp_path, 1)
    assert found.wrong == []
    assert found.kills == 4
    assert found.acked >= 5 * ACKS_BETWEEN
    assert found.stored >= found.acked
