"""`apache-iggy` 0.9.0 over QUIC, unmodified: the client that shows that QUIC is spoken here.

The wheels from 0.6.0 to 0.8.0 have no QUIC: they fail before they send anything.
"""

import os
import signal
from collections.abc import Iterator

import pytest

from borzoi.protocol.commands import GetClients
from borzoi.protocol.responses.clients import Transport
from tests.broker import QUIC, BrokerProcess, standing, wait_for
from tests.clients.conftest import Start
from tests.clients.running import Connection, Refused
from tests.clients.wheels import WHEELS, Wheel
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS
from tests.wire import Wire

pytestmark = pytest.mark.slow

READ_MAX = 10_000_000


def wheel_of(version: str) -> Wheel:
    (found,) = (one for one in WHEELS if str(one) == f"apache-iggy-{version}")
    return found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with standing(tmp_path_factory.mktemp("quic") / "data", {**TWO_SHARDS, **QUIC}) as broker:
        yield broker


@pytest.fixture
def connection(start: Start, broker: BrokerProcess, name: str) -> Iterator[Connection]:
    opened = Connection(start(wheel_of("0.9.0")), broker, name, over_quic=True)
    yield opened
    opened.close()


def test_messages_to_every_partition(connection: Connection, name: str) -> None:
    connection.new_topic(name, partitions=4)
    for partition in range(4):
        sent = [b"m" * size for size in (1, 1000, 100_000, 1_800_000)]
        connection.send(name, partition, *sent)
        assert [one.payload for one in connection.poll(name, partition)] == sent


def test_answers_are_as_long_as_the_client_reads(connection: Connection, name: str) -> None:
    """Small messages that came one by one: each is shown with a record of its own."""
    connection.new_topic(name)
    for _ in range(12):
        connection.send(name, 0, *[b"m" * 1000] * 1000)
    found = connection.poll(name, count=12_000)
    assert 1000 < len(found) < READ_MAX // 1000
    assert [one.offset for one in found] == list(range(len(found)))


def test_errors_are_those_of_other_transports(connection: Connection, name: str) -> None:
    connection.new_topic(name)
    with pytest.raises(Refused, match=r"(?i)already ?exists"):
        connection.ask("create_stream", stream=name)
    with pytest.raises(Refused):
        connection.send("missing", 0, "x")
    assert connection.ask("get_stream", stream="missing") is None
    connection.ask("ping")


def test_a_wrong_password(start: Start, broker: BrokerProcess, name: str) -> None:
    connection = Connection(start(wheel_of("0.9.0")), broker, name, login=False, over_quic=True)
    with pytest.raises(Refused):
        connection.open_with("iggy:wrong")
    connection.close()


def test_the_client_list_shows_quic(connection: Connection, broker: BrokerProcess) -> None:
    connection.ask("ping")
    with Wire(broker) as wire:
        assert Transport.QUIC in [one.transport for one in wire.ask(GetClients())]


def test_it_goes_on_after_the_death_of_its_worker(
    start: Start, new_broker: NewBroker, name: str
) -> None:
    broker = new_broker(**TWO_SHARDS, **QUIC)
    connection = Connection(start(wheel_of("0.9.0")), broker, name, over_quic=True)
    connection.new_topic(name, partitions=2)
    for partition in range(2):
        connection.send(name, partition, "before")
    pid = broker.workers()[0]
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: broker.workers().get(0, pid) != pid)

    def is_sent() -> bool:
        try:
            connection.send(name, 0, "after")
        except Refused:
            return False
        return True

    wait_for(is_sent)
    for partition in range(2):
        payloads = [one.payload for one in connection.poll(name, partition)]
        assert payloads[0] == b"before"
        assert set(payloads[1:]) == ({b"after"} if partition == 0 else set())
    connection.close()


@pytest.mark.parametrize("version", ["0.6.0", "0.7.0", "0.8.0"])
def test_older_wheels_have_no_quic(
    start: Start, broker: BrokerProcess, name: str, version: str
) -> None:
    connection = Connection(start(wheel_of(version)), broker, name, login=False, over_quic=True)
    with pytest.raises(Refused, match=r"(?i)endpoint"):
        connection.open_with("iggy:iggy")
