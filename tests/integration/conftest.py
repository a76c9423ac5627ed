"""One broker for all tests of this folder that neither stop nor configure it."""

import re
from collections.abc import Iterator

import pytest

from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.system import Ping
from tests.broker import QUIC, BrokerProcess, standing
from tests.shard_wires import TWO_SHARDS
from tests.topics import topic_of
from tests.wire import Wire


@pytest.fixture(scope="package")
def standing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with two shards and every door."""
    settings = {**TWO_SHARDS, **QUIC}
    with standing(tmp_path_factory.mktemp("integration") / "data", settings) as broker:
        yield broker


@pytest.fixture(autouse=True)
def _no_connection_left() -> Iterator[None]:
    """A test that fails must not leave connections to the next one."""
    yield
    Wire.close_all()


@pytest.fixture(scope="package")
def _kept(standing_broker: BrokerProcess) -> Iterator[list[Wire]]:
    kept: list[Wire] = []
    yield kept
    for connection in kept:
        connection.close()


@pytest.fixture
def wire(standing_broker: BrokerProcess, _kept: list[Wire]) -> Iterator[Wire]:
    """A connection that is logged in as root.

    It goes from test to test, because a login costs more than most tests do. Each has to leave it
    in step: whatever was refused, the next request is answered.
    """
    connection = _kept.pop() if _kept else Wire(standing_broker)
    yield connection
    assert connection.status(Ping()) == 0
    if connection in Wire.opened:
        Wire.opened.remove(connection)
    _kept.append(connection)


@pytest.fixture
def stream(wire: Wire, request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty stream of this test alone."""
    _, _, test = request.node.nodeid.rpartition("/")
    name = re.sub(r"[^a-z0-9]+", "-", test)[:255]
    wire.ask(CreateStream(name))
    yield name
    wire.status(DeleteStream(name))


@pytest.fixture
def topic(wire: Wire, stream: str) -> str:
    """A topic of one partition, with the name of its stream."""
    wire.ask(topic_of(stream))
    return stream
