"""The packages through every door that they know, beside plain TCP: one round each."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.broker import HTTP, QUIC, BrokerProcess, standing
from tests.certificates import Authority
from tests.clients.conftest import Start
from tests.clients.running import QUICK_OVER_QUIC, QUICK_RECONNECT, Connection, Refused
from tests.clients.wheels import WHEELS, Wheel
from tests.shard_wires import TWO_SHARDS
from tests.ways import client_context, door_of, with_tls

pytestmark = pytest.mark.slow

SCHEMES: Final = {
    "tls": "iggy+tcp",
    "ws": "iggy+ws",
    "wss": "iggy+ws",
    "http": "iggy+http",
    "quic": "iggy+quic",
}
DOORS: Final = {
    "apache-iggy-0.6.0": ("tls", "ws", "wss"),
    "apache-iggy-0.7.0": ("tls", "ws", "wss", "http"),
    "apache-iggy-0.8.0": ("tls", "ws", "wss", "http"),
    "apache-iggy-0.9.0": ("tls", "ws", "wss", "http", "quic"),
}
"""Packages before these can be given an address only, which is one of TCP."""

SENT: Final = [bytes(range(256)), *(letter * 100_000 for letter in (b"x", b"y", b"z")), b"the last"]
"""Together so much that a poll is answered in pieces, where messages are converted."""

AUTHORITY: Final = "authority.pem"


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**TWO_SHARDS, **QUIC, **HTTP}
    with standing(tmp_path_factory.mktemp("doors") / "data", settings) as broker:
        yield broker


@pytest.fixture(scope="module")
def closed_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With TLS on its doors."""
    folder = tmp_path_factory.mktemp("encrypted-doors")
    authority = Authority()
    trusted = authority.write(folder)
    context = client_context(trusted)
    with standing(folder / "data", {**TWO_SHARDS, **with_tls(authority.issue(folder))}) as broker:
        broker.through = lambda below: context.wrap_socket(below, server_hostname="localhost")
        yield broker


def url(broker: BrokerProcess, transport: str, credentials: str) -> str:
    """As applications write it."""
    host, port = door_of(broker, transport)
    options = {"quic": QUICK_OVER_QUIC, "http": "retries=3"}.get(transport, QUICK_RECONNECT)
    if transport in ("tls", "wss"):
        trusted = broker.data.parent / AUTHORITY
        options += f"&tls=true&tls_domain=localhost&tls_ca_file={trusted}"
    return f"{SCHEMES[transport]}://{credentials}@{host}:{port}?{options}"


@pytest.mark.parametrize(
    ("wheel", "transport"),
    [(wheel, transport) for wheel in WHEELS for transport in DOORS.get(str(wheel), ())],
    ids=str,
)
def test_a_round(
    wheel: Wheel, transport: str, start: Start, request: pytest.FixtureRequest, name: str
) -> None:
    """A wrong password, a topic, messages there and back."""
    encrypted = transport in ("tls", "wss")
    broker: BrokerProcess = request.getfixturevalue("closed_broker" if encrypted else "open_broker")
    refused = Connection(start(wheel), broker, f"{name}-refused", login=False)
    with pytest.raises(Refused):
        enter(refused, broker, transport, "wrong")
    connection = Connection(start(wheel), broker, name, login=False)
    enter(connection, broker, transport, "iggy")
    connection.new_topic(name, partitions=2)
    for partition in range(2):
        connection.send(name, partition, *SENT)
        found = connection.poll(name, partition)
        assert [one.payload for one in found] == SENT
        assert [one.offset for one in found] == list(range(len(SENT)))
    connection.close()
    refused.close()


def enter(connection: Connection, broker: BrokerProcess, transport: str, password: str) -> None:
    """Connect and log in; over HTTP the application does the second."""
    connection.ask("open_string", text=url(broker, transport, f"iggy:{password}"))
    if transport == "http":
        connection.log_in(password=password)
