"""D8 for retention and roll: kill -9 while segments are sealed and deleted all the time.

    python -m tests.crash.retention_kills --kills 200 [--mode written|fsync] [--seed N]

Tiny segments, messages that expire after some seconds, a small topic, a cleaner that never rests
and a client that sends DELETE_SEGMENTS; producers and a reader work on both shards. After each
kill, of one worker or of everything, what is left of each partition must be

    a run of offsets without a gap, which begins no earlier than it did before the kill
    an end of what each producer was acknowledged: nothing is missing behind what is there
    as far on as messages were acknowledged: no offset is given out twice, even if none is left
    exactly the files of these offsets, and in time nothing in the trash
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, DeleteSegments, GetTopic
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.message import Message
from borzoi.protocol.responses.polled import PolledMessages
from tests.broker import BrokerProcess, wait_for
from tests.crash.experiment import kill_command
from tests.crash.kill_cycles import SETTINGS, TWO_SHARDS
from tests.crash.ledger import Outcome, ProducerBook, sender_of
from tests.crash.load import PARTITIONS, STREAM, TOPIC, Producer, Watcher, Worker, wait_ready
from tests.shard_wires import connect, connect_to_shard
from tests.wire import POLL_COUNT, Closed, Wire

SHARDS: Final = 2
PRODUCERS: Final = 3
KILL_AFTER_S: Final = (0.05, 0.4)
EXPIRY_US: Final = 4_000_000
TOPIC_SIZE_MAX: Final = 300_000
DELETE_EVERY_S: Final = 0.02
TIMEOUT_S: Final = 60.0
TINY: Final = {
    "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB",
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "10 ms",
}


@dataclass
class Summary:
    mode: str
    seed: int
    group_kills: int = 0
    worker_kills: int = 0
    acknowledged: int = 0
    deleted: int = 0
    compared: int = 0
    emptied: int = 0

    @property
    def kills(self) -> int:
        return self.group_kills + self.worker_kills

    def __str__(self) -> str:
        return (
            f"mode {self.mode}, seed {self.seed}: {self.group_kills} kills of everything and "
            f"{self.worker_kills} of a worker; {self.acknowledged} messages acknowledged, "
            f"{self.deleted} of them deleted by retention, 0 others missing; {self.compared} "
            f"offsets compared, {self.emptied} times a partition was found empty, none began again"
        )


T = TypeVar("T")


class Deleter(Worker):
    """Deletes a segment here and there, as a client."""

    def __init__(self, broker: BrokerProcess, seed: str) -> None:
        super().__init__("deleter")
        self._broker = broker
        self._random = random.Random(seed)

    def work(self) -> None:
        while not self.stopping:
            try:
                with connect(self._broker) as wire:
                    while not self.stopping:
                        wire.ask(self._command())
                        self._stop_ordered.wait(DELETE_EVERY_S)
            except (Closed, BrokerError):
                continue

    def _command(self) -> DeleteSegments:
        return DeleteSegments(
            STREAM, TOPIC, self._random.randrange(PARTITIONS), self._random.randrange(1, 4)
        )


class RetentionKills:
    """One topic that is written and deleted at the same time."""

    def __init__(self, data: Path, mode: str, seed: int) -> None:
        self.broker = BrokerProcess(data, {**TWO_SHARDS, **TINY, **SETTINGS[mode]})
        self.summary = Summary(mode, seed)
        self._books: list[ProducerBook] = []
        self._first = dict.fromkeys(range(PARTITIONS), 0)

    def start(self) -> None:
        self.broker.start()
        with connect(self.broker) as wire:
            wire.ask(CreateStream(STREAM))
            wire.ask(CreateTopic(STREAM, PARTITIONS, 1, EXPIRY_US, TOPIC_SIZE_MAX, 1, TOPIC))

    def finish(self) -> None:
        """Nothing goes on between two kills."""

    def run_kill(self) -> None:
        """Load, kill, look."""
        summary = self.summary
        choice = random.Random(f"{summary.seed}/{summary.kills}")
        producers = [
            Producer(
                self.broker,
                f"k{summary.kills}p{number}",
                f"{summary.seed}/{number}",
                batch_sizes=(1, 2, 5, 20),
                reconnect=True,
                connect_with=partial(connect_to_shard, shard=number % SHARDS),
            )
            for number in range(PRODUCERS)
        ]
        watcher = Watcher(self.broker, tuple(range(PARTITIONS)))
        watcher.begin_at(self._first)
        deleter = Deleter(self.broker, f"{summary.seed}/{summary.kills}/deleter")
        workers = (*producers, watcher, deleter)
        for worker in workers:
            worker.start()
        wait_ready(*producers, watcher)
        # Not waiting for a condition: the moment of the kill is the experiment.
        time.sleep(choice.uniform(*KILL_AFTER_S))
        with connect(self.broker) as wire:
            self._first = {number: first for number, (first, _) in self._ranges(wire).items()}
        if choice.random() < 0.5:
            self.broker.kill()
            self.broker.start()
            summary.group_kills += 1
        else:
            shard = choice.randrange(SHARDS)
            os.kill(self.broker.workers()[shard], signal.SIGKILL)
            summary.worker_kills += 1
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.finish()
        self._books += [producer.book for producer in producers]
        self._look(watcher)

    def _look(self, watcher: Watcher) -> None:
        partitions = {number: self._read(number) for number in range(PARTITIONS)}
        for partition, messages in partitions.items():
            for message in messages:
                seen = watcher.seen.get((partition, message.offset))
                if seen is not None:
                    assert seen == message.payload, f"offset {message.offset} was used twice"
                    self.summary.compared += 1
        with connect(self.broker) as wire:
            ranges = self._ranges(wire)
        for partition, (first, following) in ranges.items():
            assert first >= self._first[partition], f"{partition} begins earlier than before"
            self.summary.emptied += first == following
            for seen_in, offset in watcher.seen:
                assert seen_in != partition or offset < following, f"{offset} was seen and is gone"
        self._judge(partitions, {number: end for number, (_, end) in ranges.items()})
        wait_for(self._files_fit, TIMEOUT_S)

    def _judge(self, partitions: dict[int, list[Message]], following: dict[int, int]) -> None:
        senders = [sender_of(one.payload) for each in partitions.values() for one in each]
        present = set(senders)
        assert len(present) == len(senders), "a message lies twice"
        acknowledged: Counter[int] = Counter()
        deleted = 0
        for book in self._books:
            is_kept: dict[int, bool] = {}
            for batch in book.batches:
                if batch.outcome is not Outcome.ACKNOWLEDGED:
                    continue
                acknowledged[batch.partition] += batch.count
                for number in range(batch.first, batch.first + batch.count):
                    if (book.name, number) in present:
                        is_kept[batch.partition] = True
                    else:
                        assert not is_kept.get(batch.partition), f"{book.name} lost {number}"
                        deleted += 1
        for partition, count in acknowledged.items():
            assert following[partition] >= count, f"{partition}: offsets are given out again"
        self.summary.acknowledged = acknowledged.total()
        self.summary.deleted = deleted

    def _read(self, partition: int) -> list[Message]:
        """Everything that is there while it is being read; offsets have no gap in an answer."""
        with connect(self.broker) as wire:
            found: list[Message] = []
            at = 0

            def poll() -> PolledMessages:
                return wire.poll_at(STREAM, TOPIC, partition, at, POLL_COUNT)

            while messages := insist(poll).messages:
                offsets = [message.offset for message in messages]
                assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
                assert offsets[0] >= at
                if offsets[0] > at:
                    # Retention went on between two polls: what was read before is gone by now.
                    found = []
                found += messages
                at = offsets[-1] + 1
            return found

    def _ranges(self, wire: Wire) -> dict[int, tuple[int, int]]:
        """First and next offset of each partition."""
        topic: Any = insist(lambda: wire.ask(GetTopic(STREAM, TOPIC)))
        found = {}
        for partition in topic.partitions:
            following = partition.current_offset + (partition.current_offset > 0)
            if partition.messages_count:
                following = partition.current_offset + 1
            found[partition.id] = following - partition.messages_count, following
        return found

    def _files_fit(self) -> bool:
        """Whether there are exactly the files that readers are shown. The cleaner goes on."""
        with connect(self.broker) as wire:
            ranges = self._ranges(wire)
        for partition, (first, _) in ranges.items():
            directory = self.broker.data / f"streams/0/topics/0/partitions/{partition}"
            logs = sorted(int(path.stem) for path in directory.glob("*.log"))
            indexes = sorted(int(path.stem) for path in directory.glob("*.index"))
            if logs != indexes or (logs and logs[0] < first):
                return False
        return not os.listdir(self.broker.data / "trash")


def insist(ask: Callable[[], T]) -> T:
    """The answer, asked again while a worker is being replaced."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return ask()
        except BrokerError:
            assert time.monotonic() < deadline, "the owner does not come back"


def main() -> None:
    kill_command("kill -9 while segments roll and are deleted", RetentionKills)


if __name__ == "__main__":
    main()
