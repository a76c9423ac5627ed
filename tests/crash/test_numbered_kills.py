"""Workers are killed at any moment under clients that number their sends, and that come back.

Answers leave slowly before a kill, so that most workers die with requests that are carried out and
not answered. Each client repeats its last request until it is answered, on whatever connection it
gets: in the end every message is stored once, and those of a client in their order.
"""

import os
import random
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import Final

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.errors import BrokerError, TransientOutcomeUnknown
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import TWO_SHARDS
from tests.crash.tracer import slow_calls
from tests.numbered_wire import NumberedWire, messages, new_client, sent_batch
from tests.shard_wires import connect
from tests.topics import topic_of
from tests.wire import Closed, Wire

TOPIC: Final = "numbered"
PARTITIONS: Final = 4
CLIENTS: Final = 4
KILLS: Final = 5
BATCH_MAX: Final = 20
BATCHES_BETWEEN: Final = 20
TIMEOUT_S: Final = 90.0
ANSWERS: Final = "write,writev,sendto,sendmsg"
ANSWER_MS: Final = 30


class Client(threading.Thread):
    """Sends batches to one partition, one after the other, until it is stopped."""

    def __init__(self, broker: BrokerProcess, number: int) -> None:
        super().__init__()
        self._broker = broker
        self._first = number * 1_000_000
        self.partition = number % PARTITIONS
        self._choice = random.Random(number)
        self._client = new_client()
        self._wire: NumberedWire | None = None
        self.sent = 0
        self.batches = 0
        self.connections = 0
        self.wrong: list[str] = []
        self.stop = threading.Event()

    @property
    def payloads(self) -> list[bytes]:
        return [one.payload for one in messages(self._first, self.sent)]

    def run(self) -> None:
        """Send, until the test has seen enough."""
        try:
            while not self.stop.is_set():
                self._send()
        except Exception as error:
            self.wrong.append(repr(error))
        finally:
            self._drop()

    def _send(self) -> None:
        count = self._choice.randint(1, BATCH_MAX)
        batch = messages(self._first + self.sent, count)
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                answer = self._connected().send_batch(
                    1 + self.batches, TOPIC, self.partition, batch
                )
            except (Closed, BrokerError):
                self._drop()
                continue
            if answer.status != TransientOutcomeUnknown.status:
                sent_batch(answer)
                self.sent += count
                self.batches += 1
                return
            time.sleep(0.02)
        raise AssertionError(f"request {1 + self.batches} was not answered in {TIMEOUT_S} s")

    def _connected(self) -> NumberedWire:
        if self._wire is None:
            self._wire = NumberedWire(self._broker, self._client)
            self.connections += 1
        return self._wire

    def _drop(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


def stored(wire: Wire, partition: int) -> list[bytes]:
    found: list[bytes] = []
    while batch := wire.poll_at(TOPIC, TOPIC, partition, len(found), 5000).messages:
        found += [message.payload for message in batch]
    return found


def wait_for_sends(clients: list[Client]) -> None:
    """Until each of them has sent some more batches, or has failed."""
    wanted = [client.batches + BATCHES_BETWEEN for client in clients]
    pairs = list(zip(clients, wanted, strict=True))
    wait_for(
        lambda: all(client.batches >= count or client.wrong for client, count in pairs), TIMEOUT_S
    )


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace makes answers slow")
@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_nothing_is_lost_and_nothing_is_there_twice(
    new_broker: NewBroker, tmp_path: Path, durability: str
) -> None:
    """With `buffered` what was acknowledged may be lost, but for the request in work."""
    broker = new_broker(**TWO_SHARDS, IGGY_SYSTEM_PARTITION_DURABILITY=durability)
    with connect(broker) as wire:
        wire.ask(c.CreateStream(TOPIC))
        wire.ask(topic_of(TOPIC, PARTITIONS))
    clients = [Client(broker, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    choice = random.Random(durability)
    try:
        for kill in range(KILLS):
            wait_for_sends(clients)
            wait_for(lambda: len(broker.workers()) == 2, TIMEOUT_S)
            pid = broker.workers()[kill % 2]
            with slow_calls(pid, ANSWERS, ANSWER_MS, tmp_path / f"trace-{kill}"):
                # Not waiting for a condition: where the worker is killed is the experiment.
                time.sleep(choice.uniform(0.1, 0.2))
                os.kill(pid, signal.SIGKILL)
        wait_for_sends(clients)
    finally:
        for client in clients:
            client.stop.set()
        for client in clients:
            client.join(TIMEOUT_S)
    assert [client.wrong for client in clients] == [[]] * CLIENTS
    assert sum(client.connections for client in clients) > CLIENTS, "no client was cut off"
    with connect(broker) as wire:
        for client in clients:
            found = stored(wire, client.partition)
            present = set(found)
            assert len(found) == len(present), "a message is there twice"
            if durability == "written":
                assert found == client.payloads
            else:
                assert found == [one for one in client.payloads if one in present]
