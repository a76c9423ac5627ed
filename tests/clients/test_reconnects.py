"""Every package goes on after the broker was started again, and after a worker died.

All packages at once: they wait for seconds before they dial again, and may as well wait together.
Those that log in by themselves do so; those that do not are logged in again by their application,
which is this test.
"""

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from tests.broker import BrokerProcess, wait_for
from tests.clients.conftest import Start
from tests.clients.running import Connection, Refused
from tests.clients.wheels import WHEELS
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS

pytestmark = pytest.mark.slow

TOPIC: Final = "again"
PARTITIONS: Final = 8
BEFORE: Final = "before"
AFTER: Final = "after"

Fault = Callable[[BrokerProcess], None]


def restart(broker: BrokerProcess) -> None:
    assert broker.stop() == 0
    broker.start()


def kill_workers(broker: BrokerProcess) -> None:
    """One after the other, so that every connection loses its worker."""
    for shard in range(2):
        pid = wait_for(lambda: broker.workers().get(shard, 0))  # noqa: B023 - at once
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: broker.workers().get(shard, pid) != pid)  # noqa: B023 - at once


@pytest.mark.parametrize("fault", [restart, kill_workers])
def test_every_package_goes_on(start: Start, new_broker: NewBroker, fault: Fault) -> None:
    broker = new_broker(**TWO_SHARDS)
    connections = [Connection(start(wheel), broker, fault.__name__) for wheel in WHEELS]
    connections[0].new_topic(TOPIC, PARTITIONS)
    for partition, connection in enumerate(connections):
        connection.send(TOPIC, partition, BEFORE)
    fault(broker)
    with ThreadPoolExecutor(len(connections)) as threads:
        found = list(threads.map(go_on, connections, range(len(connections))))
    for connection, payloads in zip(connections, found, strict=True):
        connection.close()
        wheel = connection.running.wheel
        assert payloads[0] == BEFORE, f"{wheel} lost what was acknowledged: {payloads}"
        assert set(payloads[1:]) == {AFTER}, f"{wheel} reads {payloads}"


def go_on(connection: Connection, partition: int) -> list[str]:
    """Send one more message, as often as it takes; what lies in the partition then."""

    def is_sent() -> bool:
        try:
            connection.send(TOPIC, partition, AFTER)
        except Refused:
            connection.recover()
            return False
        return True

    wait_for(is_sent)
    return [message.payload.decode() for message in connection.poll(TOPIC, partition)]
