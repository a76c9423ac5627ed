"""Brokers that several tests of one file share: a start takes most of a second."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import BrokerProcess


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with default limits and a small pool, for all tests of a file.

    At the end it must still be the broker that was started, and must not have blamed itself.
    """
    directory: Path = tmp_path_factory.mktemp("hostile")
    broker = BrokerProcess(directory / "data", {"IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"})
    broker.start()
    workers = broker.workers()
    try:
        yield broker
        assert broker.workers() == workers, broker.output()
        assert "fault of ours" not in broker.output(), broker.output()
        assert broker.stop() == 0
    finally:
        broker.close()
