"""One broker with two shards that serves HTTP, for all tests of this folder that do not stop it."""

import re
from collections.abc import Iterator

import pytest

from tests.broker import HTTP, BrokerProcess, standing
from tests.http_client import HttpClient
from tests.shard_wires import TWO_SHARDS


@pytest.fixture(scope="package")
def http_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with standing(tmp_path_factory.mktemp("http") / "data", {**TWO_SHARDS, **HTTP}) as broker:
        yield broker


@pytest.fixture(scope="package")
def root(http_broker: BrokerProcess) -> HttpClient:
    """A client that is logged in as root."""
    return HttpClient(http_broker).login()


@pytest.fixture
def topic(root: HttpClient, request: pytest.FixtureRequest) -> Iterator[str]:
    """The path of a topic with one partition, of this test alone."""
    _, _, test = request.node.nodeid.rpartition("/")
    name = re.sub(r"[^a-z0-9]+", "-", test)[:200]
    assert root.ask("POST", "/streams", {"name": name}).status == 200
    made = root.ask("POST", f"/streams/{name}/topics", {"name": "t", "partitions_count": 1})
    assert made.status == 200, made
    yield f"/streams/{name}/topics/t"
    assert root.ask("DELETE", f"/streams/{name}").status == 204
