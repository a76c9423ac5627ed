"""The owner dies with batches of another shard's clients in its hands (the receiver keeps them).

Whatever the owner had done by then, nothing or all but the answer, its successor is shown the
batch again: each message is stored exactly once and each request is answered.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from borzoi.storage.layout import index_path, log_path
from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.ledger import Outcome, ProducerBook, judge, payload_of
from tests.crash.load import (
    STREAM,
    TOPIC,
    Producer,
    create_topic,
    partitions_of,
    read_all,
    wait_ready,
)
from tests.crash.places import directory_of
from tests.crash.tracer import killed_at
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Wire

OWNER, RECEIVER = 1, 0
SENDERS = 6
PATIENT = {"IGGY_LIMITS_REQUEST_TIMEOUT": "25s"}
"""Longer than any restart here takes: every request must be answered, none given up."""


@pytest.fixture
def start(new_broker: NewBroker) -> Callable[[str], BrokerProcess]:
    def make(durability: str) -> BrokerProcess:
        settings = {"IGGY_SYSTEM_PARTITION_DURABILITY": durability}
        broker = new_broker(**TWO_SHARDS, **PINNED, **PATIENT, **settings)
        with connect(broker) as wire:
            create_topic(wire)
        return broker

    return make


@pytest.fixture
def wires() -> Iterator[list[Wire]]:
    opened: list[Wire] = []
    yield opened
    for wire in opened:
        wire.close()


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["written", "buffered"])
def test_batches_that_the_owner_never_saw_are_appended_by_its_successor(
    start: Callable[[str], BrokerProcess], wires: list[Wire], durability: str
) -> None:
    broker = start(durability)
    # Before the owner stops: the kernel would go on giving it connections.
    for _ in range(SENDERS + 1):
        wires.append(connect_to_shard(broker, RECEIVER))
    *senders, other = wires
    pid = broker.workers()[OWNER]
    os.kill(pid, signal.SIGSTOP)
    books = []
    for number, wire in enumerate(senders):
        book = ProducerBook(f"p{number}")
        books.append(book)
        partition = partitions_of(OWNER, 2)[number % 2]
        _, payloads = book.begin(partition, 1 + 10 * number)
        wire.begin_append(STREAM, TOPIC, partition, payloads)
    # When the receiver has answered this, it has read what was sent before.
    other.append(STREAM, TOPIC, partitions_of(RECEIVER, 2)[0], [payload_of("other", 0)])
    os.kill(pid, signal.SIGKILL)
    for wire, book in zip(senders, books, strict=True):
        wire.result()
        book.end(book.batches[0], Outcome.ACKNOWLEDGED)
    contents = {partition: read_all(other)[partition] for partition in partitions_of(OWNER, 2)}
    verdict = judge(books, contents)
    assert verdict.survivors == sum(book.sent for book in books)


@pytest.mark.slow
@pytest.mark.parametrize("durability", ["written", "fsync"])
def test_an_owner_stopped_anywhere_and_killed_leaves_each_message_once(
    start: Callable[[str], BrokerProcess], durability: str
) -> None:
    broker = start(durability)
    choice = random.Random(durability)
    producers = [
        Producer(
            broker, f"p{number}", f"{durability}/{number}",
            partitions=partitions_of(OWNER, 2)[:2], batch_sizes=(1, 7, 30),
            connect_with=lambda one: connect_to_shard(one, RECEIVER),
        )
        for number in range(SENDERS)
    ]  # fmt: skip
    for producer in producers:
        producer.start()
    wait_ready(*producers)
    for _ in range(2):
        acknowledged = _acknowledged(producers)
        wait_for(lambda: _acknowledged(producers) > acknowledged + 50, 30)  # noqa: B023 - at once
        pid = broker.workers()[OWNER]
        # Not waiting for a condition: where the owner is stopped is the experiment.
        time.sleep(choice.uniform(0, 0.05))
        os.kill(pid, signal.SIGSTOP)
        wait_for(lambda: all(_in_flight(producer) for producer in producers))
        os.kill(pid, signal.SIGKILL)
    acknowledged = _acknowledged(producers)
    wait_for(lambda: _acknowledged(producers) > acknowledged + 50, 30)
    for producer in producers:
        producer.finish()
    books = [producer.book for producer in producers]
    outcomes = {batch.outcome for book in books for batch in book.batches}
    with connect(broker) as wire:
        print(judge(books, read_all(wire)))
    # No connection of theirs was lost and nothing was refused: the receiver never died.
    assert outcomes == {Outcome.ACKNOWLEDGED}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace kills at an exact system call")
@pytest.mark.parametrize(
    ("durability", "system_call", "path_of"),
    [
        # Entering the write of the log: stamped in the lent memory, not written.
        ("written", "pwrite64", log_path),
        # Entering the write of the index: the log has the batch, no answer was sent.
        ("written", "pwrite64", index_path),
        # Entering the sync: written and indexed, no answer was sent.
        ("fsync", "fdatasync", log_path),
        # Ringing the receiver's bell: the answer lies in the ring, complete.
        ("written", "write", None),
    ],
)
def test_an_owner_killed_between_its_write_and_its_answer(
    start: Callable[[str], BrokerProcess],
    tmp_path: Path,
    durability: str,
    system_call: str,
    path_of: Callable[[str, int], str] | None,
) -> None:
    broker = start(durability)
    partition = partitions_of(OWNER, 2)[0]
    book = ProducerBook("p")

    def send(wire: Wire) -> None:
        batch, payloads = book.begin(partition, 5)
        wire.append(STREAM, TOPIC, partition, payloads)
        book.end(batch, Outcome.ACKNOWLEDGED)

    with connect_to_shard(broker, RECEIVER) as wire:
        send(wire)
        pid = broker.workers()[OWNER]
        paths = [] if path_of is None else [path_of(directory_of(broker, partition), 0)]
        with killed_at(pid, system_call, tmp_path / "trace", *paths):
            send(wire)
        wait_for(lambda: broker.workers().get(OWNER, pid) != pid)
        send(wire)
        contents = read_all(wire)
    judge([book], contents)
    assert len(contents[partition]) == 15


def _acknowledged(producers: list[Producer]) -> int:
    """How many batches were acknowledged so far."""
    return sum(
        batch.outcome is Outcome.ACKNOWLEDGED
        for producer in producers
        for batch in list(producer.book.batches)
    )


def _in_flight(producer: Producer) -> bool:
    return bool(producer.book.batches) and not producer.book.batches[-1].ended
