"""F1: there is no room on the disk, for one write or for all of them.

    python -m tests.crash.full_disk --writes 50 --disks 50

A write that finds no room (strace lets the nth one of a worker fail, n from 1 on) belongs to a
batch, to an index, to the metadata log or to a committed offset, and what was asked for is refused.
A disk that is full, 8 and 64 MiB in turn (root), refuses batches until there is room. In both
cases nothing of what was refused is there, everything acknowledged is, reads go on, and so does
the service once there is room, without a restart; a kill -9 and a start show the same.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.crash.ledger import Outcome, judge
from tests.crash.load import STREAM, TOPIC, Producer, create_topic, read_all
from tests.crash.mounts import Unavailable, small_disk
from tests.crash.tracer import failing_calls
from tests.shard_wires import ONE_SHARD, connect
from tests.wire import Wire

REQUESTS_MAX: Final = 2000
DISK_SIZES_MIB: Final = (8, 64)
MIB: Final = 1024 * 1024
ME: Final = Consumer(ConsumerKind.CONSUMER, 7)


@dataclass
class Summary:
    writes: int = 0
    disks: int = 0
    acknowledged: int = 0
    refused: int = 0

    def __str__(self) -> str:
        return (
            f"{self.writes} single writes and {self.disks} disks without room: {self.refused} "
            f"requests refused, nothing left of them; {self.acknowledged} acknowledged, 0 lost; "
            "service went on each time"
        )


@contextmanager
def running(data: Path, **settings: str) -> Iterator[BrokerProcess]:
    """A broker of one shard, with a topic."""
    broker = BrokerProcess(data, {**ONE_SHARD, **settings})
    try:
        broker.start()
        with connect(broker) as wire:
            create_topic(wire)
        yield broker
    finally:
        broker.close()


class Requests:
    """Everything that writes to the disk, and what has to be there because of it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.outcomes: list[Outcome] = []
        self._producer = Producer(broker, "p", "full disk", batch_sizes=(1, 5))
        self._streams = {STREAM}
        self._committed: int | None = None

    def ask(self, wire: Wire, number: int) -> Outcome:
        """The same number asks for the same kind of thing."""
        kinds = (self._send, self._commit, self._send, self._create)
        outcome = kinds[number % len(kinds)](wire)
        self.outcomes.append(outcome)
        return outcome

    def check(self, wire: Wire) -> None:
        """Everything acknowledged is there, nothing that was refused."""
        contents = read_all(wire)
        judge([self._producer.book], contents)
        assert {stream.name for stream in wire.ask(GetStreams())} == self._streams
        answer = wire.ask(GetConsumerOffset(ME, STREAM, TOPIC, 0))
        assert (answer and answer.stored_offset) == self._committed

    def _send(self, wire: Wire) -> Outcome:
        return self._producer.send_one(wire, 0)

    def _create(self, wire: Wire) -> Outcome:
        name = f"stream {len(self.outcomes)}"
        if (outcome := self._attempt(wire, CreateStream(name))) is Outcome.ACKNOWLEDGED:
            self._streams.add(name)
        return outcome

    def _commit(self, wire: Wire) -> Outcome:
        offset = 0 if self._committed else 1
        command = StoreConsumerOffset(ME, STREAM, TOPIC, 0, offset)
        if (outcome := self._attempt(wire, command)) is Outcome.ACKNOWLEDGED:
            self._committed = offset
        return outcome

    @staticmethod
    def _attempt(wire: Wire, command: Any) -> Outcome:
        try:
            wire.ask(command)
        except BrokerError:
            return Outcome.REFUSED
        return Outcome.ACKNOWLEDGED


def fail_writes(directory: Path, writes: int, summary: Summary) -> None:
    """The first, the second and so on until the `writes`th write from then on finds no room."""
    with running(directory / "data") as broker:
        requests = Requests(broker)
        pid = broker.workers()[0]
        with connect(broker) as wire:
            for number in (0, 2):
                # Batches: an offset is committed of what is there.
                assert requests.ask(wire, number) is Outcome.ACKNOWLEDGED
            for nth in range(1, writes + 1):
                trace = directory / "trace"
                with failing_calls(pid, "pwrite64,pwritev", "ENOSPC", str(nth), trace):
                    number = next(
                        number
                        for number in range(nth, nth + REQUESTS_MAX)
                        if requests.ask(wire, number) is Outcome.REFUSED
                    )
                assert "INJECTED" in trace.read_text()
                requests.check(wire)
                assert requests.ask(wire, number) is Outcome.ACKNOWLEDGED
                summary.writes += 1
            requests.check(wire)
        broker.kill()
        broker.start()
        with connect(broker) as wire:
            requests.check(wire)
    _count(summary, requests.outcomes)


def fill_disk(directory: Path, size_mib: int, summary: Summary) -> None:
    """A small disk until it is full, and with room again. Unavailable: not on this machine."""
    with small_disk(directory / "disk", size_mib) as disk, running(disk / "data") as broker:
        ballast = disk / "ballast"
        # What frees the room later; the broker gets two MiB.
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - 2 * MIB))
        producer = Producer(broker, "p", "full disk", batch_sizes=(60,))
        with connect(broker) as wire:
            send_until_refused(producer, wire)
            for _ in range(5):
                producer.send_one(wire, 0)
            before = read_all(wire)
            judge([producer.book], before)
            assert before[0], "nothing could be sent at all"
            ballast.unlink()
            assert producer.send_one(wire, 0) is Outcome.ACKNOWLEDGED
            assert producer.send_one(wire, 1) is Outcome.ACKNOWLEDGED
            judge([producer.book], read_all(wire))
        broker.kill()
        broker.start()
        with connect(broker) as wire:
            judge([producer.book], read_all(wire))
    summary.disks += 1
    _count(summary, [batch.outcome for batch in producer.book.batches])


def send_until_refused(producer: Producer, wire: Wire) -> None:
    for _ in range(REQUESTS_MAX):
        if producer.send_one(wire, 0) is Outcome.REFUSED:
            return
    raise AssertionError(f"{REQUESTS_MAX} batches, none of which was refused")


def _count(summary: Summary, outcomes: list[Outcome]) -> None:
    summary.acknowledged += outcomes.count(Outcome.ACKNOWLEDGED)
    summary.refused += outcomes.count(Outcome.REFUSED)


def main() -> None:
    parser = argparse.ArgumentParser(description="no room on the disk")
    parser.add_argument("--writes", type=int, default=50, help="single writes that find no room")
    parser.add_argument("--disks", type=int, default=50, help="disks that are filled")
    arguments = parser.parse_args()
    summary = Summary()
    with tempfile.TemporaryDirectory(prefix="borzoi-full-") as directory:
        place = Path(directory)
        if arguments.writes:
            fail_writes(place, arguments.writes, summary)
        try:
            for number in range(arguments.disks):
                (place / str(number)).mkdir()
                fill_disk(place / str(number), DISK_SIZES_MIB[number % 2], summary)
        except Unavailable as error:
            sys.exit(f"no small disk can be had here: {error}")
    print(summary)


if __name__ == "__main__":
    main()
