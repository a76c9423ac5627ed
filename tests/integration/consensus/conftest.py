"""A broker of two shards for the tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.broker import BrokerProcess
from tests.consensus_wire import ConsensusWire
from tests.shard_wires import TWO_SHARDS


@pytest.fixture(scope="package")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("consensus") / "data", TWO_SHARDS)
    broker.start()
    yield broker
    assert "fault of ours" not in broker.output()
    assert broker.stop() == 0
    broker.close()


@pytest.fixture
def wire(broker: BrokerProcess) -> ConsensusWire:
    return ConsensusWire(broker)
