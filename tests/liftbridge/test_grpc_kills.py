"""Kills under load over gRPC, a short version: nothing acked is lost, subscribers go on."""

from pathlib import Path

import pytest

from tests.liftbridge.grpc_kills import ACKS_BETWEEN, PARTITIONS, run_kills

pytestmark = pytest.mark.slow


def test_nothing_that_was_acked_is_lost_and_subscribers_resume(tmp_path: Path) -> None:
    found = run_kills(tmp_path, 1)
    assert found.wrong == []
    assert found.kills == 3
    assert found.acked >= 4 * ACKS_BETWEEN
    assert found.stored >= found.acked
    # The kill of everything ends each of them at least once.
    assert found.resumed >= PARTITIONS
