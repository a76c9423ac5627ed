"""Birth and barriers: a topic is purged, or deleted and made again, under load and under kills.

    python -m tests.crash.lives --lives 200 [--seed N]

Producers of both shards never stop. A payload tells which send it came from, and each send has
a beginning and an end; so for every life of the topic it is known which messages cannot be in
it, because their sends were over before the old life was ended, and which must be in it, because
they were sent after the new life was acknowledged, and acknowledged themselves.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from borzoi.protocol.commands.topics import CreateTopic, DeleteTopic, PurgeTopic
from borzoi.protocol.errors import BrokerError, TopicIdNotFound, TopicNameAlreadyExists
from tests.broker import BrokerProcess, wait_for
from tests.crash.kill_cycles import TWO_SHARDS
from tests.crash.ledger import Batch, Outcome, sender_of
from tests.crash.load import PARTITIONS, STREAM, TOPIC, Producer, create_topic, read_all, wait_ready
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed

SHARDS: Final = 2
PRODUCERS: Final = 4
BATCHES_PER_LIFE: Final = 20
"""Acknowledged sends that a life has before it is looked at."""

TRIES_TIMEOUT_S: Final = 30.0


@dataclass
class Summary:
    seed: int
    lives: int = 0
    worker_kills: int = 0
    group_kills: int = 0
    must_be_there: int = 0
    must_be_gone: int = 0
    late: int = 0

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.lives} lives of a topic, {self.worker_kills} workers and "
            f"{self.group_kills} whole groups killed; {self.must_be_there} messages had to be "
            f"there and were, {self.must_be_gone} had to be gone and were, {self.late} arrived "
            f"while a life ended"
        )


class Lives:
    """One topic, ended and begun again and again."""

    def __init__(self, data: Path, seed: int, settings: dict[str, str]) -> None:
        self.broker = BrokerProcess(data, {**TWO_SHARDS, **settings})
        self.summary = Summary(seed)
        self._random = random.Random(seed)
        self.producers: list[Producer] = []
        self._topic_id = 0

    def start(self) -> None:
        self.broker.start()
        with connect(self.broker) as wire:
            self._topic_id = create_topic(wire)
        for number in range(PRODUCERS):
            producer = Producer(
                self.broker, f"p{number}", f"{self.summary.seed}/{number}",
                batch_sizes=(1, 2, 5), reconnect=True,
                connect_with=partial(connect_to_shard, shard=number % SHARDS),
            )  # fmt: skip
            self.producers.append(producer)
            producer.start()
        wait_ready(*self.producers)

    def finish(self) -> None:
        for producer in self.producers:
            producer.stop()
        for producer in self.producers:
            producer.finish()

    def run_life(self) -> None:
        """End the life that is, begin another, and look into it."""
        self._kill_sometimes("worker", 0.3)
        ended_at = self.purge() if self._random.random() < 0.5 else self.delete_and_create()
        begun_at = time.monotonic()
        self._kill_sometimes("worker", 0.25)
        self.wait_for_sends(begun_at)
        self._kill_sometimes("group", 0.2)
        self.look(ended_at, begun_at)
        self.summary.lives += 1

    def purge(self) -> float:
        """The latest moment before which the old life was certainly not over yet."""
        return self._insist(PurgeTopic(STREAM, TOPIC))

    def delete_and_create(self) -> float:
        """The same, by deleting the topic and making another one in its place."""
        deleted_at = self._insist(DeleteTopic(STREAM, TOPIC), done_already=TopicIdNotFound)
        command = CreateTopic(STREAM, PARTITIONS, 1, 0, 0, 1, TOPIC)
        self._insist(command, done_already=TopicNameAlreadyExists)
        return deleted_at

    def _insist(self, command: Any, done_already: type[BrokerError] | None = None) -> float:
        """Repeat a command until it is acknowledged; when the attempt began that did it.

        If its outcome was unknown and a repetition finds that it was done, it is the first.
        """
        first_try_at: float | None = None
        deadline = time.monotonic() + TRIES_TIMEOUT_S
        while True:
            assert time.monotonic() < deadline, f"never acknowledged: {command}"
            try_at = time.monotonic()
            first_try_at = first_try_at or try_at
            try:
                with connect(self.broker) as wire:
                    answer = wire.ask(command)
            except Closed:
                continue
            except BrokerError as error:
                if done_already is not None and isinstance(error, done_already):
                    return first_try_at
                continue
            if isinstance(command, CreateTopic):
                assert answer.topic.id == self._topic_id, "ids are given out again"
            return try_at

    def _kill_sometimes(self, whom: str, probability: float) -> None:
        if self._random.random() < probability:
            self.kill(whom)

    def kill(self, whom: str) -> None:
        """A worker, chosen by chance, or the whole group, which is started again."""
        if whom == "group":
            self.broker.kill()
            self.broker.start()
            self.summary.group_kills += 1
            return
        shard = self._random.randrange(SHARDS)
        pid = wait_for(lambda: self.broker.workers().get(shard), TRIES_TIMEOUT_S)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.summary.worker_kills += 1

    def wait_for_sends(self, begun_at: float) -> None:
        """Until this life has some acknowledged sends."""

        def enough() -> bool:
            for producer in self.producers:
                assert producer.failure is None, producer.failure
            count = sum(
                batch.started > begun_at and batch.outcome is Outcome.ACKNOWLEDGED
                for producer in self.producers
                for batch in producer.book.batches[-10 * BATCHES_PER_LIFE :]
            )
            return count >= BATCHES_PER_LIFE

        wait_for(enough, TRIES_TIMEOUT_S)

    def look(self, old_life_ended_at: float, begun_at: float) -> None:
        """Whether all is there that must be, and nothing that must not."""
        ended = {
            (producer.name, batch.first): batch
            for producer in self.producers
            for batch in list(producer.book.batches)
            if batch.ended
        }
        present = self._read()
        by_message: dict[tuple[str, int], Batch] = {}
        for (name, _), batch in ended.items():
            for number in range(batch.first, batch.first + batch.count):
                by_message[name, number] = batch
        for sender in present:
            found = by_message.get(sender)
            if found is None:
                continue  # sent while we were reading
            assert found.ended >= old_life_ended_at, (
                f"{sender} is back from an older life: {found}, which ended at {old_life_ended_at}"
            )
            assert found.outcome is not Outcome.REFUSED, f"refused, and yet there: {found}"
            self.summary.late += found.started < begun_at
        for sender, batch in by_message.items():
            if batch.ended < old_life_ended_at:
                self.summary.must_be_gone += 1
            elif batch.started > begun_at and batch.outcome is Outcome.ACKNOWLEDGED:
                assert sender in present, f"{sender} was destroyed: {batch}, begun {begun_at}"
                self.summary.must_be_there += 1

    def _read(self) -> set[tuple[str, int]]:
        """All messages, as a shard chosen at random shows them; none lies twice."""
        deadline = time.monotonic() + TRIES_TIMEOUT_S
        while True:
            try:
                with connect(self.broker) as wire:
                    contents = read_all(wire)
                break
            except (Closed, BrokerError):
                assert time.monotonic() < deadline, "the topic cannot be read"
        senders = [sender_of(payload) for kept in contents.values() for payload in kept]
        present = set(senders)
        assert len(present) == len(senders), "a message lies twice"
        return present


def run(data: Path, lives: int, seed: int, settings: dict[str, str] | None = None) -> Summary:
    """So many lives; AssertionError, naming the seed, if the dead walk or the living vanish."""
    experiment = Lives(data, seed, settings or {})
    summary = experiment.summary
    try:
        experiment.start()
        while summary.lives < lives:
            experiment.run_life()
        experiment.finish()
    except BaseException as error:
        error.add_note(f"seed {seed}, life {summary.lives}")
        raise
    finally:
        for producer in experiment.producers:
            producer.stop()
        experiment.broker.close()
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description="purge and recreate under load and kills")
    parser.add_argument("--lives", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-lives-") as directory:
        print(run(Path(directory, "data"), arguments.lives, arguments.seed))


if __name__ == "__main__":
    main()
