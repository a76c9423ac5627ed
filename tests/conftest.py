"""Fixtures that several folders share."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker import BrokerProcess

NewBroker = Callable[..., BrokerProcess]


@pytest.fixture
def new_broker(tmp_path: Path) -> Iterator[NewBroker]:
    """Makes started brokers, each with settings of its own; all are gone after the test."""
    made: list[BrokerProcess] = []

    def make(*, start: bool = True, **settings: str) -> BrokerProcess:
        broker = BrokerProcess(tmp_path / f"data{len(made)}", settings)
        made.append(broker)
        if start:
            broker.start()
        return broker

    yield make
    for broker in made:
        broker.close()


@pytest.fixture
def broker(new_broker: NewBroker) -> BrokerProcess:
    """A started broker with default settings."""
    return new_broker()
