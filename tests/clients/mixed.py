"""Packages of all generations at once on one topic, while workers are killed.

    python -m tests.clients.mixed --minutes 10 [--seed N]

Eight producers and eight consumers, each a connection of the next package in the list, on eight
partitions of both shards. A package that is ambiguous after a death (wheels.py) only sends. One
that logs in by itself does so after a death, another is logged in by its application.
What must hold afterwards:

    nothing acknowledged is lost, and of each producer and partition the order is kept
    nothing lies twice, except what a package repeated by itself when its connection ended
    where a package was shown an offset, by a confirmation or a poll, that very message lies there
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from threading import Event
from typing import Final

from tests.broker import BrokerProcess, wait_for
from tests.clients.running import Connection, Outgoing, Refused, RunningWheel
from tests.clients.wheels import WHEELS, Wheel
from tests.crash.ledger import Batch, Outcome, ProducerBook, judge, sender_of
from tests.crash.load import Worker
from tests.shard_wires import TWO_SHARDS, connect

PARTITIONS: Final = 8
PRODUCERS: Final = 8
CONSUMERS: Final = 8
WATCHED: Final = 3
"""Partitions of one consumer."""

BATCH_SIZES: Final = (1, 2, 5, 20)
POLL_COUNT: Final = 200
PAUSE_S: Final = 0.01
"""Between two requests of a connection: the machine is for the broker, too."""

SERVED_TIMEOUT_S: Final = 240.0
"""Clients that do not log in again by themselves take turns at that, and a busy machine is slow."""

KILLS_PER_ROUND: Final = 3
KILL_AFTER_S: Final = (1.5, 2.0)
"""After the one before. A shard is killed every second time: it counts as healthy by then."""


@dataclass
class Summary:
    """Figures over all rounds."""

    seed: int
    rounds: int = 0
    kills: int = 0
    unknown_survivors: int = 0
    seen: int = 0
    confirmed: int = 0
    acknowledged: Counter[str] = field(default_factory=Counter)
    repeated: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.rounds} rounds, {self.kills} workers killed, messages "
            f"acknowledged {dict(self.acknowledged)}, 0 lost, repeated by the packages themselves "
            f"{dict(self.repeated)}, {self.unknown_survivors} survived unacknowledged; compared "
            f"{self.seen} offsets that were read and {self.confirmed} that were confirmed"
        )


class Producer(Worker):
    """Sends batches to random partitions, one request at a time, and never repeats one."""

    def __init__(self, connection: Connection, topic: str, name: str, seed: str) -> None:
        super().__init__(name)
        self.book = ProducerBook(name)
        self.wheel = connection.running.wheel
        self.confirmed: list[tuple[Batch, int]] = []
        self.refused = ""  # what was raised last
        self.ready = Event()
        """Set by an acknowledged batch; cleared by those who want to see the next one."""
        self._connection = connection
        self._topic = topic
        self._random = random.Random(seed)

    def work(self) -> None:
        while not self.stopping:
            partition = self._random.randrange(PARTITIONS)
            batch, payloads = self.book.begin(partition, self._random.choice(BATCH_SIZES))
            messages = [Outgoing(payload.decode()) for payload in payloads]
            try:
                answers = self._connection.send(self._topic, partition, *messages)
            except Refused as error:
                self.refused = str(error)
                self.book.end(batch, Outcome.UNKNOWN)
                self._connection.recover()
                continue
            self.book.end(batch, Outcome.ACKNOWLEDGED)
            self.ready.set()
            time.sleep(PAUSE_S)
            for confirmed_partition, offset in answers:
                assert confirmed_partition == partition
                self.confirmed.append((batch, offset))


class Consumer(Worker):
    """Polls some partitions all the time and remembers what lay where."""

    def __init__(
        self, connection: Connection, topic: str, name: str, partitions: Sequence[int]
    ) -> None:
        super().__init__(name)
        self.seen: dict[tuple[int, int], bytes] = {}
        self.wheel = connection.running.wheel
        self.refused = ""
        self.ready = Event()
        self._connection = connection
        self._topic = topic
        self._next = dict.fromkeys(partitions, 0)

    def work(self) -> None:
        while not self.stopping:
            for partition in self._next:
                try:
                    self._look(partition)
                except Refused as error:
                    self.refused = str(error)
                    self._connection.recover()
                time.sleep(PAUSE_S)

    def _look(self, partition: int) -> None:
        begin = self._next[partition]
        found = self._connection.poll(self._topic, partition, "Offset", begin, count=POLL_COUNT)
        offsets = [message.offset for message in found]
        assert offsets == list(range(begin, begin + len(found))), f"{self.name}: {offsets}"
        for message in found:
            self.seen[partition, message.offset] = message.payload
        self._next[partition] = begin + len(found)
        self.ready.set()


class Round:
    """One topic with all its producers and consumers, from the first message to the verdict."""

    def __init__(
        self,
        broker: BrokerProcess,
        running: Mapping[Wheel, RunningWheel],
        summary: Summary,
    ) -> None:
        self._broker = broker
        self._summary = summary
        self._random = random.Random(f"{summary.seed}/{summary.rounds}")
        self.topic = f"mixed-{summary.rounds}"
        wheels = list(running)
        readers = [wheel for wheel in wheels if not wheel.can("ambiguous")]
        self._connections = [
            Connection(running[wheel], broker, f"{self.topic}-{number}")
            for number, wheel in enumerate(
                [*islice(cycle(wheels), PRODUCERS), *islice(cycle(readers), CONSUMERS)]
            )
        ]
        self._connections[0].new_topic(self.topic, PARTITIONS)
        self.producers = [
            Producer(connection, self.topic, f"p{number}", f"{self._random.random()}")
            for number, connection in enumerate(self._connections[:PRODUCERS])
        ]
        self.consumers = [
            Consumer(
                connection,
                self.topic,
                f"c{number}",
                [(number + step) % PARTITIONS for step in range(WATCHED)],
            )
            for number, connection in enumerate(self._connections[PRODUCERS:])
        ]
        self._workers: list[Producer | Consumer] = [*self.producers, *self.consumers]

    def run(self, kills: int) -> None:
        """Work, kill, work on until each connection was served again; then compare."""
        for worker in self._workers:
            worker.start()
        self._wait_served()
        for number in range(kills):
            # Not waiting for a condition: the moment of the kill is the experiment.
            time.sleep(self._random.uniform(*KILL_AFTER_S))
            self._kill(number % 2)
        self._wait_served()
        for worker in self._workers:
            worker.finish()
        for connection in self._connections:
            connection.close()
        self._compare()
        self._summary.rounds += 1

    def _kill(self, shard: int) -> None:
        pid = wait_for(lambda: self._broker.workers().get(shard, 0))
        os.kill(pid, signal.SIGKILL)
        self._summary.kills += 1

    def _wait_served(self) -> None:
        """Until each of them has had a good answer from now on; a failure is raised at the end."""
        for worker in self._workers:
            worker.ready.clear()
        deadline = time.monotonic() + SERVED_TIMEOUT_S
        for worker in self._workers:
            while not worker.ready.wait(0.05) and worker.failure is None:
                assert time.monotonic() < deadline, (
                    f"{worker.name} of {worker.wheel} is not served again: {worker.refused}"
                )

    def _compare(self) -> None:
        with connect(self._broker) as wire:
            contents = {
                partition: [one.payload for one in wire.read(self.topic, self.topic, partition)]
                for partition in range(PARTITIONS)
            }
        self._compare_offsets(contents)
        wheels = {producer.name: producer.wheel for producer in self.producers}
        once = self._without_repeats(contents, wheels)
        assert_in_order(once)
        verdict = judge([producer.book for producer in self.producers], once)
        self._summary.unknown_survivors += verdict.unknown_survivors
        for producer in self.producers:
            self._summary.acknowledged[str(producer.wheel)] += sum(
                batch.count
                for batch in producer.book.batches
                if batch.outcome is Outcome.ACKNOWLEDGED
            )

    def _compare_offsets(self, contents: Mapping[int, Sequence[bytes]]) -> None:
        for consumer in self.consumers:
            for (partition, offset), payload in consumer.seen.items():
                where = f"{consumer.name} read offset {offset} of partition {partition}"
                assert contents[partition][offset : offset + 1] == [payload], where
            self._summary.seen += len(consumer.seen)
        for producer in self.producers:
            for batch, offset in producer.confirmed:
                lies = sender_of(contents[batch.partition][offset])
                assert lies == (producer.name, batch.first), f"{batch} was confirmed at {offset}"
            self._summary.confirmed += len(producer.confirmed)

    def _without_repeats(
        self, contents: Mapping[int, Sequence[bytes]], wheels: Mapping[str, Wheel]
    ) -> dict[int, list[bytes]]:
        """Without what packages of the classic framing may send twice by themselves."""
        once: dict[int, list[bytes]] = {}
        known: set[tuple[str, int]] = set()
        for partition, payloads in contents.items():
            kept = once[partition] = []
            for payload in payloads:
                sender = sender_of(payload)
                wheel = wheels[sender[0]]
                if sender in known and not wheel.can("confirmations"):
                    self._summary.repeated[str(wheel)] += 1
                    continue
                known.add(sender)
                kept.append(payload)
        return once


def assert_in_order(contents: Mapping[int, Sequence[bytes]]) -> None:
    """In each partition messages of a producer lie as they were sent, unacknowledged ones too."""
    for partition, payloads in contents.items():
        newest: dict[str, int] = {}
        for name, number in map(sender_of, payloads):
            before = newest.get(name, -1)
            assert before < number, f"{name}: {number} lies behind {before} of {partition}"
            newest[name] = number


def run(data: Path, seed: int, *, rounds: int = 0, minutes: float = 0.0) -> Summary:
    """So many rounds, or so many minutes; AssertionError if a promise is broken."""
    summary = Summary(seed)
    broker = BrokerProcess(data, TWO_SHARDS)
    running: dict[Wheel, RunningWheel] = {}
    until = time.monotonic() + minutes * 60
    try:
        broker.start()
        for wheel in WHEELS:
            running[wheel] = RunningWheel(wheel)
        while summary.rounds < rounds or time.monotonic() < until:
            Round(broker, running, summary).run(KILLS_PER_ROUND)
            print(summary, file=sys.stderr, flush=True)
    except BaseException as error:
        error.add_note(f"seed {seed}, round {summary.rounds}")
        raise
    finally:
        for one in running.values():
            one.close()
        broker.close()
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description="all packages at once, while workers are killed")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-mixed-") as directory:
        print(run(Path(directory, "data"), arguments.seed, minutes=arguments.minutes))


if __name__ == "__main__":
    main()
