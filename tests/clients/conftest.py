"""One broker for all tests of this folder that do not stop it, and one process for each package."""

import re
from collections.abc import Callable, Iterator

import pytest

from tests.broker import BrokerProcess, standing
from tests.clients.running import Connection, RunningWheel
from tests.clients.wheels import WHEELS, Wheel, need
from tests.shard_wires import TWO_SHARDS

Start = Callable[[Wheel], RunningWheel]


@pytest.fixture(params=WHEELS, ids=str)
def wheel(request: pytest.FixtureRequest) -> Wheel:
    """Every package, one after another."""
    assert isinstance(request.param, Wheel)
    return request.param


@pytest.fixture(scope="package")
def start() -> Iterator[Start]:
    """The process of a package, the same for all tests."""
    running: dict[Wheel, RunningWheel] = {}

    def get(wheel: Wheel) -> RunningWheel:
        need(wheel)
        if wheel not in running:
            running[wheel] = RunningWheel(wheel)
        return running[wheel]

    yield get
    for one in running.values():
        one.close()


@pytest.fixture(scope="package")
def standing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all tests share: each makes streams of its own."""
    with standing(tmp_path_factory.mktemp("clients") / "data", TWO_SHARDS) as broker:
        yield broker


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    _, _, test = request.node.nodeid.rpartition("/")
    return re.sub(r"[^a-z0-9]+", "-", test)


@pytest.fixture
def connection(
    wheel: Wheel, start: Start, standing_broker: BrokerProcess, name: str
) -> Iterator[Connection]:
    """A connection of the package that is logged in."""
    opened = Connection(start(wheel), standing_broker, name)
    yield opened
    opened.close()
