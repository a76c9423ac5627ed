"""One broker for all tests of this folder that do not stop it, and the transports to reach it."""

import re
from collections.abc import Iterator

import pytest

from tests.broker import HTTP, BrokerProcess, standing
from tests.conformance.official import TRANSPORTS, WITH_SESSIONS
from tests.conftest import NewBroker

LARGE_BODIES = {"IGGY_HTTP_MAX_REQUEST_SIZE": "100 MB"}


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> str:
    """Every way to reach the broker, one after another."""
    return str(request.param)


@pytest.fixture(params=WITH_SESSIONS)
def session_transport(request: pytest.FixtureRequest) -> str:
    """Every way to reach the broker that has sessions, and so groups."""
    return str(request.param)


@pytest.fixture(scope="package")
def standing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share: each makes streams of its own."""
    with standing(
        tmp_path_factory.mktemp("conformance") / "data", {**HTTP, **LARGE_BODIES}
    ) as broker:
        yield broker


@pytest.fixture
def broker(new_broker: NewBroker) -> BrokerProcess:
    """A started broker of this test alone."""
    return new_broker(**HTTP)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    _, _, test = request.node.nodeid.rpartition("/")
    return re.sub(r"[^a-z0-9]+", "-", test)
