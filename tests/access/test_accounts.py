"""Accounts survive `kill -9` as they were acknowledged."""

import random

import pytest

from tests.access.accounts import run
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS

CYCLES = 2


@pytest.mark.slow
def test_accounts_are_as_acknowledged_after_kill_9(new_broker: NewBroker) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    assert run(new_broker(**TWO_SHARDS), CYCLES, seed) >= CYCLES
