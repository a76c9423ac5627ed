"""Silent clients: evicted by the scan, and what they may and may not do afterwards."""

from collections.abc import Iterator

import pytest

from borzoi.protocol.commands.offsets import DeleteConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.commands.system import GetClient, GetClients, GetMe, GetStats, Ping
from borzoi.protocol.errors import ClientNotFound, StaleClient
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess, wait_for
from tests.shard_wires import TWO_SHARDS
from tests.topics import topic_of
from tests.wire import Wire

pytestmark = pytest.mark.slow

SILENT_COUNT = 8
EVERY_TWO_SECONDS = {"IGGY_HEARTBEAT_ENABLED": "true", "IGGY_HEARTBEAT_INTERVAL": "2s"}
GROUP = Consumer(ConsumerKind.GROUP, "anything")
TOPIC = "t"


@pytest.fixture(scope="module")
def watched_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Two shards that look for silent clients every two seconds."""
    settings = {**TWO_SHARDS, **EVERY_TWO_SECONDS}
    broker = BrokerProcess(tmp_path_factory.mktemp("heartbeats") / "data", settings)
    broker.start()
    yield broker
    broker.close()


class Evicted:
    """Clients on both shards that have been silent for too long, while another one pinged."""

    def __init__(self, broker: BrokerProcess) -> None:
        pinging = Wire(broker)
        pinging.ask(CreateStream(TOPIC))
        pinging.ask(topic_of(TOPIC, 2))
        self.silent = [Wire(broker) for _ in range(SILENT_COUNT)]
        self.ids = {wire.ask(GetMe()).client.client_id for wire in self.silent}
        me = pinging.ask(GetMe()).client.client_id

        def all_evicted() -> bool:
            assert pinging.status(Ping()) == 0
            found = {client.client_id for client in pinging.ask(GetClients())}
            assert me in found, "it has pinged all the time"
            return not found & self.ids

        wait_for(all_evicted, 30.0)
        pinging.close()
        # The evicted ones go from test to test.
        Wire.opened.clear()

    def one(self) -> Wire:
        return self.silent.pop()


@pytest.fixture(scope="module")
def evicted_clients(watched_broker: BrokerProcess) -> Iterator[Evicted]:
    clients = Evicted(watched_broker)
    yield clients
    for wire in clients.silent:
        wire.close()


@pytest.fixture
def evicted(evicted_clients: Evicted) -> Iterator[Wire]:
    """A connection of a client that was evicted."""
    wire = evicted_clients.one()
    yield wire
    wire.close()


@pytest.fixture
def observer(watched_broker: BrokerProcess, evicted_clients: Evicted) -> Wire:
    """A new client, which cannot be taken for silent yet."""
    return Wire(watched_broker)


def test_the_evicted_are_not_counted_and_not_found(
    observer: Wire, evicted_clients: Evicted
) -> None:
    clients = observer.ask(GetClients())
    assert not {client.client_id for client in clients} & evicted_clients.ids
    assert observer.ask(GetStats()).clients_count == len(clients)
    assert all(observer.ask(GetClient(client_id)) is None for client_id in evicted_clients.ids)


def test_plain_sends_polls_and_metadata_go_on(
    observer: Wire, evicted: Wire, evicted_clients: Evicted
) -> None:
    """Nor do sockets of other shards' clients move: there they would be registered again."""
    everybody = [evicted, *evicted_clients.silent]
    for wire in everybody:
        assert wire.send(TOPIC, 0, b"still here") == 0
        assert wire.send(TOPIC, 1, b"still here") == 0
    for wire in everybody:
        assert wire.payloads(TOPIC, 1) == [b"still here"] * len(everybody)
    evicted.ask(StoreConsumerOffset(Consumer(ConsumerKind.CONSUMER, 7), TOPIC, TOPIC, 0, 1))
    evicted.ask(CreateStream("by an evicted client"))
    evicted.ask(DeleteStream("by an evicted client"))
    found = {client.client_id for client in observer.ask(GetClients())}
    assert not found & evicted_clients.ids


def test_a_ping_does_not_bring_it_back(evicted: Wire) -> None:
    assert evicted.status(Ping()) == 0
    assert evicted.status(GetMe()) == ClientNotFound.status
    assert evicted.is_closed()


def test_a_login_is_refused(evicted: Wire) -> None:
    assert evicted.status(LoginUser("iggy", "iggy")) == ClientNotFound.status
    assert evicted.is_closed()


@pytest.mark.parametrize(
    "command",
    [StoreConsumerOffset(GROUP, TOPIC, TOPIC, 0, 0), DeleteConsumerOffset(GROUP, TOPIC, TOPIC, 0)],
    ids=["store", "delete"],
)
def test_offsets_of_a_group_are_refused(
    evicted: Wire, command: StoreConsumerOffset | DeleteConsumerOffset
) -> None:
    assert evicted.status(command) == StaleClient.status
    assert evicted.is_closed()
