"""F6, F7 and F9: one worker dies, stalls or keeps dying, or the supervisor does."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial

import psutil
import pytest

from borzoi.protocol.errors import BrokerError
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.ledger import Outcome, judge
from tests.crash.load import (
    STREAM,
    TOPIC,
    Producer,
    Worker,
    create_topic,
    partitions_of,
    read_all,
    wait_ready,
)
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed, Wire

SHARDS = 2
BACK_TIMEOUT_S = 60.0
"""Generous, for a loaded machine; the figure itself is printed."""


@pytest.fixture
def two_shards(new_broker: NewBroker) -> Callable[..., BrokerProcess]:
    def make(**settings: str) -> BrokerProcess:
        broker = new_broker(**TWO_SHARDS, **settings)
        with connect(broker) as wire:
            create_topic(wire)
        return broker

    return make


class Bystander(Worker):
    """A client of the living shard that uses nothing but its own partition."""

    def __init__(self, broker: BrokerProcess, shard: int) -> None:
        super().__init__("bystander")
        self._broker = broker
        self._shard = shard
        self.ready = threading.Event()
        self.served = 0
        self.slowest_s = 0.0

    def work(self) -> None:
        partition = partitions_of(self._shard, SHARDS)[0]
        producer = Producer(self._broker, "bystander", "0", partitions=(partition,))
        self.book = producer.book
        with connect_to_shard(self._broker, self._shard) as wire:
            self.ready.set()
            while not self.stopping:
                began = time.monotonic()
                outcome = producer.send_one(wire)
                assert outcome is Outcome.ACKNOWLEDGED, f"the living shard's answer: {outcome}"
                wire.poll_at(STREAM, TOPIC, partition, 0, 1)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.served += 1


@pytest.mark.slow
@pytest.mark.parametrize(("victim", "settings"), [(0, PINNED), (1, PINNED), (1, {})])
def test_f6_a_killed_worker_comes_back_and_nothing_is_lost(
    two_shards: Callable[..., BrokerProcess], victim: int, settings: dict[str, str]
) -> None:
    broker = two_shards(**settings)
    living = 1 - victim
    producers = [
        Producer(
            broker, f"p{number}", f"{victim}/{number}", reconnect=True,
            connect_with=partial(connect_to_shard, shard=number % SHARDS),
        )
        for number in range(4)
    ]  # fmt: skip
    bystander = Bystander(broker, living)
    for worker in (*producers, bystander):
        worker.start()
    wait_ready(*producers)
    assert bystander.ready.wait(30)
    wait_for(lambda: bystander.served > 5)
    old_pid = broker.workers()[victim]

    served_before = bystander.served
    killed_at = time.monotonic()
    os.kill(old_pid, signal.SIGKILL)
    returner = Producer(
        broker, "returner", "0", partitions=partitions_of(victim, SHARDS), batch_sizes=(1,)
    )
    wire = connect_to_shard(broker, living)
    try:
        while returner.send_one(wire) is not Outcome.ACKNOWLEDGED:
            wire.close()
            wire = connect_to_shard(broker, living)
        back_s = time.monotonic() - killed_at
    finally:
        wire.close()
    assert broker.workers()[victim] != old_pid
    served_meanwhile = bystander.served - served_before
    # Everybody is served again, by both.
    for shard in range(SHARDS):
        with connect_to_shard(broker, shard) as wire:
            for partition in (partitions_of(0, SHARDS)[0], partitions_of(1, SHARDS)[0]):
                wire.poll_at(STREAM, TOPIC, partition, 0, 1)
    for worker in (*producers, bystander):
        worker.finish()
    with connect(broker) as wire:
        contents = read_all(wire)
    books = [*(producer.book for producer in producers), returner.book, bystander.book]
    verdict = judge(books, contents)
    print(
        f"shard {victim} killed: its partitions acknowledge again after {back_s:.2f} s; the "
        f"other served {served_meanwhile} rounds meanwhile, slowest {bystander.slowest_s:.3f} s; "
        f"{verdict}"
    )
    assert back_s < BACK_TIMEOUT_S
    assert served_meanwhile > 0
    assert broker.stop() == 0


@pytest.mark.slow
def test_f7_a_crash_loop_backs_off_and_requests_end_meanwhile(
    two_shards: Callable[..., BrokerProcess],
) -> None:
    broker = two_shards(IGGY_LIMITS_REQUEST_TIMEOUT="500ms", **PINNED)
    victim, living = 1, 0
    gone_for: list[float] = []
    with connect_to_shard(broker, living) as wire, connect_to_shard(broker, living) as doomed:
        for death in range(3):
            pid = wait_for(lambda: broker.workers().get(victim, 0), BACK_TIMEOUT_S)
            os.kill(pid, signal.SIGKILL)
            died_at = time.monotonic()
            wait_for(lambda: broker.workers().get(victim) != pid)  # noqa: B023 - at once
            if death == 2:
                _ends_while_away(doomed, partitions_of(victim, SHARDS)[0])
            wire.append(STREAM, TOPIC, partitions_of(living, SHARDS)[0], [b"served meanwhile"])
            wait_for(lambda: broker.workers().get(victim, 0), BACK_TIMEOUT_S)
            gone_for.append(time.monotonic() - died_at)
    print("a successor was born after", ", ".join(f"{one:.2f} s" for one in gone_for))
    assert gone_for[1] >= 1.0
    assert gone_for[2] >= 2.0
    assert broker.output().count("shard 1 ended with code -9") == 3
    _eventually_served(broker, partitions_of(victim, SHARDS)[0])
    assert broker.output().count("shard 1 lives again") == 3


def _ends_while_away(wire: Wire, partition: int) -> None:
    """While its owner is away for seconds, a request ends in an error or a closed connection."""
    began = time.monotonic()
    with pytest.raises((BrokerError, Closed)):
        wire.append(STREAM, TOPIC, partition, [b"perhaps"])
    ended_s = time.monotonic() - began
    print(f"a request to the dead shard ended after {ended_s:.2f} s")
    assert ended_s < BACK_TIMEOUT_S


def _eventually_served(broker: BrokerProcess, partition: int) -> None:
    def served() -> bool:
        try:
            with connect(broker) as wire:
                wire.append(STREAM, TOPIC, partition, [b"back"])
        except (BrokerError, Closed):
            return False
        return True

    wait_for(served, BACK_TIMEOUT_S)


@pytest.mark.slow
def test_f7_a_stalled_worker_is_killed_and_replaced(
    two_shards: Callable[..., BrokerProcess],
) -> None:
    broker = two_shards(IGGY_LIMITS_HEARTBEAT_TIMEOUT="2s")
    pid = broker.workers()[1]
    os.kill(pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    wait_for(lambda: broker.workers().get(1, pid) != pid, BACK_TIMEOUT_S)
    print(f"replaced {time.monotonic() - stopped_at:.2f} s after it stopped")
    assert "shard 1 has not moved" in broker.output()
    _eventually_served(broker, partitions_of(1, SHARDS)[0])
    assert broker.stop() == 0


@pytest.mark.slow
def test_both_workers_die_at_the_same_time(two_shards: Callable[..., BrokerProcess]) -> None:
    broker = two_shards()
    with connect(broker) as wire:
        for partition in range(8):
            wire.append(STREAM, TOPIC, partition, [b"kept"])
    pids = broker.workers()
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    for shard in range(SHARDS):
        _eventually_served(broker, partitions_of(shard, SHARDS)[0])
    print(f"both shards are back after {time.monotonic() - began:.2f} s")
    with connect(broker) as wire:
        assert all(kept[0] == b"kept" for kept in read_all(wire).values())
    assert broker.stop() == 0


@pytest.mark.slow
def test_f9_workers_do_not_outlive_their_supervisor(
    two_shards: Callable[..., BrokerProcess],
) -> None:
    broker = two_shards()
    with connect(broker) as wire:
        for partition in range(8):
            wire.append(STREAM, TOPIC, partition, [b"kept"])
    pids = list(broker.workers().values())
    began = time.monotonic()
    os.kill(broker.pid, signal.SIGKILL)
    wait_for(lambda: not any(_lives(pid) for pid in pids))
    wait_for(lambda: _can_bind(broker.host, broker.port))
    print(f"the port is free {time.monotonic() - began:.2f} s after the supervisor's death")
    broker.close()
    broker.start()
    with connect(broker) as wire:
        assert all(kept == [b"kept"] for kept in read_all(wire).values())
    assert broker.stop() == 0


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _can_bind(host: str, port: int) -> bool:
    with socket.socket() as probe:
        # Connections in TIME_WAIT do not count; a listener would.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
