"""Fixtures that several folders share."""

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.broker import BrokerProcess
from tests.endings import end_all
from tests.wire import Wire

NewBroker = Callable[..., BrokerProcess]

# Brokers are stopped by these, and inherit it if they are ignored here, as behind nohup.
for number in (signal.SIGHUP, signal.SIGINT):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

# How long an example takes says how busy the machine is, and nothing about us.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """What the test left open is closed, after its other fixtures have ended."""
    yield
    end_all()


@pytest.fixture(scope="module", autouse=True)
def disconnected() -> Iterator[None]:
    """Connections that fixtures of a module have left open are closed, after these fixtures."""
    yield
    Wire.close_all()


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of Spark first: they wait for each other, so one process should run them.

    A process that has nothing left to do takes over the last tests of another.
    """
    spark = Path(__file__).parent / "spark"
    items.sort(key=lambda item: not item.path.is_relative_to(spark))
