"""One broker for all tests of this folder that do not stop it, and the transports to reach it."""

import re
import shutil
from collections.abc import Iterator

import pytest

from tests.broker import BrokerProcess
from tests.conformance.official import TRANSPORTS


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> str:
    """Every way to reach the broker, one after another."""
    return str(request.param)


@pytest.fixture(scope="package")
def standing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share: each makes streams of its own."""
    broker = BrokerProcess(tmp_path_factory.mktemp("conformance") / "data")
    broker.start()
    workers = broker.workers()
    yield broker
    survivors = broker.workers()
    code = broker.stop()
    assert survivors == workers, broker.output()
    assert code == 0
    assert "fault of ours" not in broker.output()
    # Large messages were sent, and pytest keeps the directories of several runs.
    shutil.rmtree(broker.data)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name nobody else uses."""
    _, _, test = request.node.nodeid.rpartition("/")
    return re.sub(r"[^a-z0-9]+", "-", test)
