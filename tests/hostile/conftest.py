"""Brokers that several tests of one file share: a start takes most of a second."""

from collections.abc import Iterator

import pytest

from tests.broker import BrokerProcess, standing


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with default limits and a small pool, for all tests of a file.

    At the end it must still be the broker that was started, and must not have blamed itself.
    """
    settings = {"IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"}
    with standing(tmp_path_factory.mktemp("hostile") / "data", settings) as broker:
        yield broker
