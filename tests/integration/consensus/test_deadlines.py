"""What ends a connection of the consensus generation: silence, half a header, the broker's stop."""

from collections.abc import Iterator

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.codes import Code
from borzoi.protocol.consensus.evictions import Reason
from borzoi.protocol.errors import Unauthenticated
from tests.broker import BrokerProcess, wait_for
from tests.consensus_wire import ConsensusWire
from tests.integration.consensus.topics import topic_with
from tests.shard_wires import ONE_SHARD

pytestmark = pytest.mark.slow

IMPATIENT = {
    **ONE_SHARD,
    "IGGY_LIMITS_FRAME_TIMEOUT": "1s",
    "IGGY_HEARTBEAT_ENABLED": "true",
    "IGGY_HEARTBEAT_INTERVAL": "1s",
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("impatient") / "data", IMPATIENT)
    broker.start()
    yield broker
    broker.close()


def silent(broker: BrokerProcess) -> ConsensusWire:
    """A member of a group that was silent until the broker forgot it."""
    wire = ConsensusWire(broker)
    me = wire.ask(c.GetMe()).client.client_id
    pinging = ConsensusWire(broker)

    def forgotten() -> bool:
        assert pinging.status(c.Ping()) == 0
        return me not in [one.client_id for one in pinging.ask(c.GetClients())]

    wait_for(forgotten, 30.0)
    return wire


@pytest.mark.parametrize("size", [1, 4, 5, 100, 255, 256])
@pytest.mark.parametrize("login", [False, True])
def test_half_a_frame_is_not_waited_for(impatient: BrokerProcess, size: int, login: bool) -> None:
    wire = ConsensusWire(impatient, login=login)
    wire.put(wire.frame(Code.CREATE_STREAM, b"\4half")[:size])
    assert wire.is_closed()


def test_a_ping_after_silence(impatient: BrokerProcess) -> None:
    wire = silent(impatient)
    wire.request(Code.PING)
    assert wire.evicted == Reason.STALE_CLIENT
    assert wire.is_closed()


def test_a_member_after_silence(impatient: BrokerProcess) -> None:
    wire = silent(impatient)
    topic_with(wire, "silent")
    wire.ask(c.CreateConsumerGroup("silent", "silent", "g"))
    assert wire.status(c.JoinConsumerGroup("silent", "silent", "g")) == 30
    assert wire.evicted == Reason.STALE_CLIENT
    assert wire.is_closed()


def test_a_stop_sends_clients_away(impatient: BrokerProcess) -> None:
    """They connect again and repeat the request they have sent meanwhile, which was not begun."""
    wire = ConsensusWire(impatient)
    assert impatient.stop() == 0
    assert wire.answer().status == Unauthenticated.status
    assert wire.evicted == Reason.NO_SESSION
    assert wire.is_closed()
