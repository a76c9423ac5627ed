"""Idle connections are cheap: the short version of tests/hostile/idle_connections.py."""

from pathlib import Path

import pytest

from borzoi.protocol.commands import CreatePersonalAccessToken, LoginWithPersonalAccessToken
from borzoi.protocol.commands.streams import CreateStream
from tests.broker import BrokerProcess
from tests.hostile.conftest import SMALL_POOL
from tests.hostile.idle_connections import encrypted, measured
from tests.hostile.memory import MIB, counted_memory
from tests.topics import topic_of
from tests.ways import wire_through

COUNT = 150
READERS = 80
KIB = 1024


@pytest.mark.slow
def test_idle_connections_of_every_kind_are_cheap_and_stay(shared_broker: BrokerProcess) -> None:
    cost = measured(shared_broker, COUNT)
    assert cost.lost == 0
    assert cost.bytes_each * COUNT < 16 * MIB


@pytest.mark.slow
def test_those_with_tls_are_as_cheap(tmp_path: Path) -> None:
    with encrypted(tmp_path, SMALL_POOL) as (broker, context):
        cost = measured(broker, COUNT, context)
        assert cost.lost == 0
        assert cost.bytes_each * COUNT < 16 * MIB
        # Nor do they keep anything of a large answer.
        with wire_through(broker, "tls", context) as good:
            good.ask(CreateStream("large"))
            good.ask(topic_of("large"))
            good.append("large", "large", 0, [bytes(100_000)] * 10)
            token = good.ask(CreatePersonalAccessToken("large", 0)).token
        wires = [wire_through(broker, "tls", context, login=False) for _ in range(READERS)]
        for wire in wires:
            wire.ask(LoginWithPersonalAccessToken(token))
        before = counted_memory(broker)
        for wire in wires:
            assert len(wire.poll("large", 0, count=10).messages) == 10
        assert (counted_memory(broker) - before) / READERS < 48 * KIB
