"""One broker for all tests of this folder that do not stop it, and the transports to reach it."""

import re
from collections.abc import Iterator

import pytest

from tests.broker import BrokerProcess, standing
from tests.conformance.official import TRANSPORTS


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> str:
    """Every way to reach the broker, one after another."""
    return str(request.param)


@pytest.fixture(scope="package")
def standing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share: each makes streams of its own."""
    with standing(tmp_path_factory.mktemp("conformance") / "data") as broker:
        yield broker


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    _, _, test = request.node.nodeid.rpartition("/")
    return re.sub(r"[^a-z0-9]+", "-", test)
