"""Brokers with Liftbridge, and NATS servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.liftbridge.client import ANONYMOUS
from tests.liftbridge.nats_server import NatsServer


@pytest.fixture(scope="module")
def bridged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of two shards, one for the tests of a file: each uses streams of its own."""
    folder: Path = tmp_path_factory.mktemp("liftbridge")
    broker = BrokerProcess(folder / "data", ANONYMOUS)
    broker.start()
    yield broker
    broker.close()


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A started server; tests that use it carry `needs_nats`."""
    folder = tmp_path / "nats"
    folder.mkdir()
    server = NatsServer(folder)
    server.start()
    yield server
    server.close()
