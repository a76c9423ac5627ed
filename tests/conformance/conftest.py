"""Brokers for all tests of this folder that do not stop them, and the transports to reach them.

A broker has TLS on its doors or has not, so there are two of each kind; a test gets the one that
its transport needs.
"""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import HTTP, BrokerProcess, standing
from tests.certificates import Authority
from tests.conformance.official import AUTHORITY, TRANSPORTS, WITH_SESSIONS
from tests.conftest import NewBroker
from tests.ways import client_context, with_tls

LARGE_BODIES = {"IGGY_HTTP_MAX_REQUEST_SIZE": "100 MB"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every way to reach the broker, one after another, or those that a test or its file names."""
    named = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "transport" in metafunc.fixturenames and not any("transport" in one for one in named):
        metafunc.parametrize("transport", getattr(metafunc.module, "THROUGH", sorted(TRANSPORTS)))


def hold(host: str, port: int) -> None:
    """Takes a port, without listening, for the rest of this process."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, port))
    held.detach()


def encrypted_in(folder: Path) -> dict[str, str]:
    """Settings for TLS, with what clients are to trust where they look for it."""
    authority = Authority()
    (folder / AUTHORITY).write_bytes(authority.pem)
    return with_tls(authority.issue(folder))


def let_wires_through(broker: BrokerProcess) -> BrokerProcess:
    """Every Wire to this broker is one with TLS."""
    context = client_context(broker.data.parent / AUTHORITY)
    broker.through = lambda below: context.wrap_socket(below, server_hostname="localhost")
    return broker


def is_encrypted(request: pytest.FixtureRequest) -> bool:
    callspec = getattr(request.node, "callspec", None)
    params = {} if callspec is None else callspec.params
    transport = params.get("transport", params.get("session_transport", "tcp"))
    return TRANSPORTS[transport].is_encrypted


@pytest.fixture(params=WITH_SESSIONS)
def session_transport(request: pytest.FixtureRequest) -> str:
    """Every way to reach the broker that has sessions, and so groups."""
    return str(request.param)


@pytest.fixture(scope="package")
def plain_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    data = tmp_path_factory.mktemp("conformance") / "data"
    with standing(data, {**HTTP, **LARGE_BODIES}) as broker:
        yield broker
    # Clients that were made from an address alone ask for it until this process ends.
    hold(broker.host, broker.port)


@pytest.fixture(scope="package")
def encrypted_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("encrypted")
    with standing(folder / "data", encrypted_in(folder)) as broker:
        yield let_wires_through(broker)


@pytest.fixture
def standing_broker(request: pytest.FixtureRequest) -> BrokerProcess:
    """A broker that all tests share: each makes streams of its own."""
    name = "encrypted_broker" if is_encrypted(request) else "plain_broker"
    broker: BrokerProcess = request.getfixturevalue(name)
    return broker


@pytest.fixture
def new_broker(new_broker: NewBroker, request: pytest.FixtureRequest, tmp_path: Path) -> NewBroker:
    """Brokers of this test alone, with TLS if its transport needs it."""
    if not is_encrypted(request):
        return new_broker
    tls = encrypted_in(tmp_path)
    return lambda **settings: let_wires_through(new_broker(**{**tls, **settings}))


@pytest.fixture
def broker(new_broker: NewBroker) -> BrokerProcess:
    """A started broker of this test alone."""
    return new_broker(**HTTP)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    _, _, test = request.node.nodeid.rpartition("/")
    return re.sub(r"[^a-z0-9]+", "-", test)
