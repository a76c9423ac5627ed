"""Idle connections are cheap: the short version of tests/hostile/idle_connections.py."""

from pathlib import Path

import pytest

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import (
    CreatePersonalAccessToken,
    LoginWithPersonalAccessToken,
    PollMessages,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.framing import encode_request
from borzoi.protocol.generations import encode_command
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.broker import BrokerProcess
from tests.hostile.conftest import SMALL_POOL
from tests.hostile.idle_connections import encrypted, measured
from tests.hostile.memory import MIB, counted_memory
from tests.readable import is_readable
from tests.topics import topic_of
from tests.ways import wire_through
from tests.wire import TIMEOUT_S

COUNT = 150
READERS = 80
DEAF = 20
WHO = Consumer(ConsumerKind.CONSUMER, 1)
FROM_THE_FIRST = PollingStrategy(StrategyKind.OFFSET, 0)
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


@pytest.mark.slow
def test_those_that_do_not_read_hold_little(tmp_path: Path) -> None:
    """An answer is encrypted as it is taken; what waits of it is a view of the file."""
    with encrypted(tmp_path, SMALL_POOL) as (broker, context):
        with wire_through(broker, "tls", context) as good:
            good.ask(CreateStream("deaf"))
            good.ask(topic_of("deaf"))
            for _ in range(16):
                good.append("deaf", "deaf", 0, [bytes(100_000)] * 10)
            token = good.ask(CreatePersonalAccessToken("deaf", 0)).token
        wires = [wire_through(broker, "tls", context, login=False) for _ in range(DEAF)]
        for wire in wires:
            wire.ask(LoginWithPersonalAccessToken(token))
        before = counted_memory(broker)
        poll = PollMessages(WHO, "deaf", "deaf", 0, FROM_THE_FIRST, 160, False)
        for wire in wires:
            wire.put(encode_request(Code.POLL_MESSAGES, encode_command(poll)))
        for wire in wires:
            assert is_readable(wire.socket, TIMEOUT_S)
        # Others are served meanwhile, and by then every answer has been begun.
        with wire_through(broker, "tls", context) as good:
            assert good.is_in_step()
            assert (counted_memory(broker) - before) / DEAF < 1.5 * MIB
        assert len(wires[0].answer().payload) > 16_000_000
