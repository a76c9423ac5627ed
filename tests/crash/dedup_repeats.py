"""S5: every batch is sent at least twice, with kills in between; each message is stored once.

    python -m tests.crash.dedup_repeats --ids 1000000 [--kills 10] [--worker-kills 10]
                                        [--mode written|fsync|encrypted] [--seed N]

Producers send batches with ids of their own, and after each of them some earlier batch again that
is still inside the window. When the broker dies, all of it or one worker, they send again whatever
was not acknowledged. In the end all partitions are read: every id once, in the order of its
producer. Connections do not move, so half of the batches are lent to the shard that owns the
partition. Before and after, the memory of the workers is compared with what windows may cost.
"""

import argparse
import os
import random
import signal
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from borzoi.protocol.errors import BrokerError
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message
from tests.broker import BrokerProcess, wait_for
from tests.crash.kill_cycles import PINNED, SETTINGS, TWO_SHARDS
from tests.crash.load import PARTITIONS, STREAM, TOPIC, Worker, create_topic
from tests.shard_wires import connect
from tests.wire import Closed, Wire

PRODUCERS: Final = 4
PARTITIONS_USED: Final = 4
BATCH_SIZES: Final = (1, 10, 100, 1000)
REPEATED_BATCHES: Final = 8
"""A batch is repeated while it is among so many last ones of its producer."""

WINDOW: Final = 2 * REPEATED_BATCHES * max(BATCH_SIZES) * PRODUCERS
"""Ids per partition: more than all producers send while one of them repeats a batch."""

ENTRY_SIZE_MAX: Final = 40
EXPIRY: Final = "10m"
PAYLOAD: Final = b"seen it all before. " * 4
ATTEMPTS_MAX: Final = 1000
FINISH_TIMEOUT_S: Final = 3600.0
assert PARTITIONS_USED <= PARTITIONS


class RepeatingProducer(Worker):
    """Sends its numbers as ids, and everything twice."""

    def __init__(self, broker: BrokerProcess, number: int, ids: int, seed: str) -> None:
        super().__init__(f"producer {number}")
        self._broker = broker
        self._number = number
        self._ids = ids
        self._choice = random.Random(seed)
        self._wire: Wire | None = None
        self.sent: dict[int, int] = dict.fromkeys(range(PARTITIONS_USED), 0)
        self.progress = 0
        self.repeated = 0
        self.resent = 0

    def work(self) -> None:
        latest: deque[tuple[int, list[Message]]] = deque(maxlen=REPEATED_BATCHES)
        while self.progress < self._ids:
            partition = self._choice.randrange(PARTITIONS_USED)
            size = min(self._choice.choice(BATCH_SIZES), self._ids - self.progress)
            first = self.sent[partition]
            batch = [
                Message(PAYLOAD, id_of(self._number, partition, number))
                for number in range(first, first + size)
            ]
            self._send(partition, batch)
            self.sent[partition] += size
            self.progress += size
            latest.append((partition, batch))
            # The one that was just sent, an earlier one, or parts of both and some of it twice.
            for partition, batch in (latest[-1], self._choice.choice(latest)):
                self._send(partition, self._choice.choice([batch, batch + batch[:3], batch[1:]]))
                self.repeated += len(batch)
        if self._wire is not None:
            self._wire.close()

    def _send(self, partition: int, batch: list[Message]) -> None:
        """Until it is acknowledged, however often the broker dies."""
        if not batch:
            return
        for _ in range(ATTEMPTS_MAX):
            try:
                if self._wire is None:
                    self._wire = connect(self._broker)
                self._wire.append(STREAM, TOPIC, PartitionId(partition), batch)
                return
            except (Closed, BrokerError) as error:
                self.resent += 1
                if isinstance(error, Closed) and self._wire is not None:
                    self._wire.close()
                    self._wire = None
        raise AssertionError(f"{self.name} was not answered in {ATTEMPTS_MAX} attempts")


def id_of(producer: int, partition: int, number: int) -> int:
    return (producer + 1) << 96 | partition << 64 | number + 1


@dataclass
class Summary:
    ids: int
    seed: int
    mode: str
    kills: int = 0
    worker_kills: int = 0
    repeated: int = 0
    resent: int = 0
    stored: int = 0
    duration_s: float = 0.0
    memory_first: int = 0
    memory_last: int = 0

    def __str__(self) -> str:
        return (
            f"mode {self.mode}, seed {self.seed}: {self.ids} ids, {self.repeated} sent again on "
            f"purpose, {self.resent} batches sent again after {self.kills} kills of everything and "
            f"{self.worker_kills} of one worker; {self.stored} stored, 0 of them twice, 0 lost; "
            f"{self.duration_s:.0f} s; windows of {WINDOW} ids in {PARTITIONS_USED} partitions, "
            f"memory of the workers {self.memory_first / 1e6:.1f} MB before and "
            f"{self.memory_last / 1e6:.1f} MB after"
        )


def run(data: Path, ids: int, kills: int, worker_kills: int, seed: int, mode: str) -> Summary:
    """AssertionError, naming the seed, if an id is there twice or not at all."""
    summary = Summary(ids, seed, mode)
    settings = {
        "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
        "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_MAX_ENTRIES": str(WINDOW),
        "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_EXPIRY": EXPIRY,
    }
    broker = BrokerProcess(data, {**TWO_SHARDS, **PINNED, **SETTINGS[mode], **settings})
    try:
        broker.start()
        with connect(broker) as wire:
            create_topic(wire)
        summary.memory_first = memory_of(broker)
        _produce(broker, summary, kills, worker_kills)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        broker.close()
    return summary


def _produce(broker: BrokerProcess, summary: Summary, kills: int, worker_kills: int) -> None:
    choice = random.Random(summary.seed)
    share = -(-summary.ids // PRODUCERS)
    producers = [
        RepeatingProducer(broker, number, share, f"{summary.seed}/{number}")
        for number in range(PRODUCERS)
    ]
    summary.ids = share * PRODUCERS

    def progress() -> int:
        for producer in producers:
            assert producer.failure is None, producer.failure
        return sum(producer.progress for producer in producers)

    began = time.monotonic()
    for producer in producers:
        producer.start()
    victims = ["all"] * kills + ["one"] * worker_kills
    choice.shuffle(victims)
    for number, victim in enumerate(victims, 1):
        due = summary.ids * number // (len(victims) + 1)
        wait_for(lambda: progress() >= due, FINISH_TIMEOUT_S)  # noqa: B023 - at once
        if victim == "all":
            broker.kill()
            broker.start()
            summary.kills += 1
        else:
            pid = broker.workers()[choice.randrange(2)]
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: _is_replaced(broker, pid), 30)  # noqa: B023 - at once
            summary.worker_kills += 1
    wait_for(lambda: not any(one.is_alive() for one in producers), FINISH_TIMEOUT_S)
    for producer in producers:
        producer.finish()
    summary.duration_s = time.monotonic() - began
    summary.repeated = sum(producer.repeated for producer in producers)
    summary.resent = sum(producer.resent for producer in producers)
    summary.memory_last = memory_of(broker)
    with connect(broker) as wire:
        _judge(wire, producers, summary)


def _is_replaced(broker: BrokerProcess, pid: int) -> bool:
    workers = broker.workers().values()
    return len(workers) == 2 and pid not in workers


def _judge(wire: Wire, producers: list[RepeatingProducer], summary: Summary) -> None:
    for partition in range(PARTITIONS_USED):
        following = [0] * len(producers)
        for message in wire.read(STREAM, TOPIC, partition):
            number = (message.id >> 96) - 1
            expected = id_of(number, partition, following[number])
            assert message.id == expected, (
                f"partition {partition}, offset {message.offset}: id {message.id:x} where "
                f"{expected:x} follows"
            )
            following[number] += 1
            summary.stored += 1
        assert following == [producer.sent[partition] for producer in producers]
    assert summary.stored == summary.ids


def memory_of(broker: BrokerProcess) -> int:
    """What the workers have of their own, in bytes; windows lie there."""
    total = 0
    for pid in broker.workers().values():
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                total += int(line.split()[1]) * 1024
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description="every batch twice, and kills in between")
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--worker-kills", type=int, default=10)
    parser.add_argument("--mode", choices=("written", "fsync", "encrypted"), default="written")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    wanted = parser.parse_args()
    print(f"seed {wanted.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-dedup-") as directory:
        data = Path(directory, "data")
        print(run(data, wanted.ids, wanted.kills, wanted.worker_kills, wanted.seed, wanted.mode))


if __name__ == "__main__":
    main()
