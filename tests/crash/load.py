"""Producers and a reader that work until they are stopped, or the server is gone."""

import random
import threading
import time
from collections.abc import Callable
from typing import Final

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.errors import BrokerError, Disconnected
from borzoi.router.placement import pack_namespace, shard_of
from tests.broker import BrokerProcess
from tests.crash.ledger import Outcome, ProducerBook
from tests.shard_wires import connect
from tests.wire import Closed, Wire

STREAM: Final = "crash"
TOPIC: Final = "test"
PARTITIONS: Final = 8
BATCH_SIZES: Final = (1, 1, 2, 5, 20, 60)
JOIN_TIMEOUT_S: Final = 60.0

Connect = Callable[[BrokerProcess], Wire]


class Worker(threading.Thread):
    """A thread whose failure is raised by `finish`, not printed and forgotten."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._stop_ordered = threading.Event()
        self.failure: BaseException | None = None

    @property
    def stopping(self) -> bool:
        return self._stop_ordered.is_set()

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        self._stop_ordered.set()

    def finish(self) -> None:
        """Stop, wait, and raise what went wrong."""
        self.stop()
        self.join(JOIN_TIMEOUT_S)
        assert not self.is_alive(), f"{self.name} does not come to an end"
        if self.failure is not None:
            raise self.failure


class Producer(Worker):
    """Sends batches of all sizes to random partitions, one request at a time.

    With `reconnect` it goes on after a lost connection, with new messages; without, the first
    lost connection is the end.
    """

    def __init__(
        self,
        broker: BrokerProcess,
        name: str,
        seed: str,
        *,
        partitions: tuple[int, ...] = tuple(range(PARTITIONS)),
        batch_sizes: tuple[int, ...] = BATCH_SIZES,
        reconnect: bool = False,
        connect_with: Connect = connect,
    ) -> None:
        super().__init__(name)
        self.book = ProducerBook(name)
        self.ready = threading.Event()
        self.reconnections = 0
        self.refusals = 0
        self._broker = broker
        self._random = random.Random(seed)
        self._partitions = partitions
        self._batch_sizes = batch_sizes
        self._reconnect = reconnect
        self._connect = connect_with

    def work(self) -> None:
        wire = self._connect(self._broker)
        self.ready.set()
        try:
            while not self.stopping:
                if self.send_one(wire) is not Outcome.UNKNOWN:
                    continue
                if not self._reconnect:
                    return
                wire.close()
                self.reconnections += 1
                wire = connect(self._broker)
        finally:
            wire.close()

    def send_one(self, wire: Wire, partition: int | None = None) -> Outcome:
        """One batch; how it ended is in the book as well. UNKNOWN: the connection is gone."""
        if partition is None:
            partition = self._random.choice(self._partitions)
        batch, payloads = self.book.begin(partition, self._random.choice(self._batch_sizes))
        outcome = Outcome.ACKNOWLEDGED
        try:
            wire.append(STREAM, TOPIC, partition, payloads)
        except Closed:
            outcome = Outcome.UNKNOWN
        except BrokerError:
            outcome = Outcome.REFUSED
            self.refusals += 1
        self.book.end(batch, outcome)
        return outcome


class Watcher(Worker):
    """Polls all the time and remembers which payload it saw at which offset."""

    def __init__(self, broker: BrokerProcess, partitions: tuple[int, ...]) -> None:
        super().__init__("watcher")
        self.seen: dict[tuple[int, int], bytes] = {}
        self.ready = threading.Event()
        self._broker = broker
        self._partitions = partitions
        self._next = dict.fromkeys(partitions, 0)

    def begin_at(self, offsets: dict[int, int]) -> None:
        self._next.update({one: offsets[one] for one in self._partitions})

    def work(self) -> None:
        with connect(self._broker) as wire:
            self.ready.set()
            try:
                while not self.stopping:
                    for partition in self._partitions:
                        self._look(wire, partition)
            except (Closed, Disconnected):
                # A node that another one takes over from stops in an orderly way.
                return

    def _look(self, wire: Wire, partition: int) -> None:
        polled = wire.poll_at(STREAM, TOPIC, partition, self._next[partition], 500)
        for message in polled.messages:
            self.seen[partition, message.offset] = message.payload
            self._next[partition] = message.offset + 1


def create_topic(wire: Wire, *, with_stream: bool = True) -> int:
    """The stream and a topic with eight partitions; the id of the topic."""
    if with_stream:
        wire.ask(CreateStream(STREAM))
    topic = wire.ask(CreateTopic(STREAM, PARTITIONS, 1, 0, 0, 1, TOPIC))
    topic_id: int = topic.topic.id
    return topic_id


def read_all(wire: Wire) -> dict[int, list[bytes]]:
    """The payloads of every partition by offset."""
    return {
        partition: [message.payload for message in wire.read(STREAM, TOPIC, partition)]
        for partition in range(PARTITIONS)
    }


def partitions_of(shard: int, shard_count: int) -> tuple[int, ...]:
    """The partitions of the first topic of the first stream that this shard owns."""
    return tuple(
        partition
        for partition in range(PARTITIONS)
        if shard_of(pack_namespace(0, 0, partition), shard_count) == shard
    )


def wait_ready(*workers: Producer | Watcher, timeout_s: float = 30.0) -> None:
    """Until all of them are connected."""
    deadline = time.monotonic() + timeout_s
    for worker in workers:
        assert worker.ready.wait(max(0.0, deadline - time.monotonic())), worker.failure
