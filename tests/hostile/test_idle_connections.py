"""Idle connections are cheap: the short version of tests/hostile/idle_connections.py."""

import pytest

from tests.broker import BrokerProcess
from tests.hostile.idle_connections import measured
from tests.hostile.memory import MIB

COUNT = 150


@pytest.mark.slow
def test_idle_connections_of_every_kind_are_cheap_and_stay(shared_broker: BrokerProcess) -> None:
    cost = measured(shared_broker, COUNT)
    assert cost.lost == 0
    assert cost.bytes_each * COUNT < 16 * MIB
