"""Brokers that several tests of one file share: a start takes most of a second."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.broker import BrokerProcess, standing

SMALL_POOL: Final = {"IGGY_SYSTEM_MEMORY_POOL_SIZE": "512MiB"}


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with default limits and a small pool, for all tests of a file.

    At the end it must still be the broker that was started, and must not have blamed itself.
    """
    with standing(tmp_path_factory.mktemp("hostile") / "data", SMALL_POOL) as broker:
        yield broker
