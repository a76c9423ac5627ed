"""A request in whose work two workers died of a signal is refused everywhere for a while.

Nothing else is refused, and each death leaves a report.

The request is a poll that waits for the other shard, which is stopped: so the moment is the same
in every run. The signal is a real one, sent from outside.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.errors import FeatureUnavailable
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed

VICTIM: Final = 1
OTHER: Final = 0
SETTINGS: Final = {**TWO_SHARDS, **PINNED, "IGGY_LIMITS_REQUEST_TIMEOUT": "30s"}
PARTITION: Final = partitions_of(OTHER, 2)[0]


def poll_of(count: int) -> PollMessages:
    """One that the owner of the partition has to decide."""
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    strategy = PollingStrategy(StrategyKind.NEXT, 0)
    return PollMessages(consumer, STREAM, TOPIC, PARTITION, strategy, count, False)


def reports_of(broker: BrokerProcess) -> list[Path]:
    return sorted((broker.data / "logs").glob("worker-*.crash"))


def die_with(broker: BrokerProcess, request: PollMessages, number: signal.Signals) -> str:
    """Let the victim die with a request in work and wait for its successor; the report."""
    before = set(reports_of(broker))
    workers = broker.workers()
    with connect_to_shard(broker, VICTIM) as wire:
        os.kill(workers[OTHER], signal.SIGSTOP)
        try:
            wire.begin(request)
            # Until it is in work: what was sent behind it is read, and waits for its answer.
            wait_for(lambda: _has_taken(broker, wire.port))
            os.kill(workers[VICTIM], number)
            with pytest.raises(Closed):
                wire.result()
        finally:
            os.kill(workers[OTHER], signal.SIGCONT)
    wait_for(lambda: broker.workers().get(VICTIM, workers[VICTIM]) != workers[VICTIM])
    (report,) = wait_for(lambda: set(reports_of(broker)) - before)
    connect_to_shard(broker, VICTIM).close()
    return report.read_text()


def _has_taken(broker: BrokerProcess, client_port: int) -> bool:
    """Whether the broker has read everything that was sent from this port."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if int(local.split(":")[1], 16) == broker.port and int(remote.split(":")[1], 16) == (
            client_port
        ):
            return int(queues.split(":")[1], 16) == 0
    return False


@pytest.fixture
def two_shards(new_broker: NewBroker) -> Callable[[], BrokerProcess]:
    def make() -> BrokerProcess:
        broker = new_broker(**SETTINGS)
        with connect(broker) as wire:
            create_topic(wire)
            wire.append(STREAM, TOPIC, PARTITION, [b"x"] * 3)
        return broker

    return make


@pytest.mark.slow
def test_a_request_that_kills_twice_is_refused(two_shards: Callable[[], BrokerProcess]) -> None:
    broker = two_shards()
    poison, harmless = poll_of(2), poll_of(3)
    for death, number in enumerate((signal.SIGBUS, signal.SIGSEGV)):
        # Not yet: one death may have been for any reason.
        with connect_to_shard(broker, VICTIM) as wire:
            assert len(wire.ask(poison).messages) == 2
        report = die_with(broker, poison, number)
        assert f"ended by {number.name}" in report
        assert "POLL_MESSAGES (100)" in report
        assert "user 0" in report
        assert "Fatal Python error" in report
        assert ("it is refused for 60 s" in broker.output()) == (death == 1)
    for shard in (VICTIM, OTHER):
        with connect_to_shard(broker, shard) as wire:
            with pytest.raises(FeatureUnavailable):
                wire.ask(poison)
            assert len(wire.ask(harmless).messages) == 3
    assert "are refused: workers died of it" in broker.output()
    assert broker.stop() == 0
    assert len(reports_of(broker)) == 2


@pytest.mark.slow
def test_a_kill_from_outside_is_reported_and_no_request_is_blamed(
    two_shards: Callable[[], BrokerProcess],
) -> None:
    broker = two_shards()
    request = poll_of(2)
    for _ in range(2):
        report = die_with(broker, request, signal.SIGKILL)
        assert "ended by SIGKILL" in report
        assert "POLL_MESSAGES (100)" in report
        assert "left no traceback" in report
    for shard in (VICTIM, OTHER):
        with connect_to_shard(broker, shard) as wire:
            assert len(wire.ask(request).messages) == 2
    assert "is refused" not in broker.output()


@pytest.mark.slow
def test_a_connection_that_was_open_is_guarded_too(
    two_shards: Callable[[], BrokerProcess],
) -> None:
    broker = two_shards()
    with connect_to_shard(broker, OTHER) as bystander:
        for _ in range(2):
            assert len(bystander.ask(poll_of(2)).messages) == 2
            die_with(broker, poll_of(2), signal.SIGABRT)
        with pytest.raises(FeatureUnavailable):
            bystander.ask(poll_of(2))
        assert len(bystander.ask(poll_of(1)).messages) == 1
    broker.stop()


def test_a_broker_that_stops_leaves_no_report(two_shards: Callable[[], BrokerProcess]) -> None:
    broker = two_shards()
    assert broker.stop() == 0
    assert reports_of(broker) == []
