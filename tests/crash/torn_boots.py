"""D6 with real starts: files end in the middle of what was written last, and a broker boots.

    python -m tests.crash.torn_boots --boots 50

A broker with two shards is killed and its data directory kept. For each boot a copy of it is cut:
the log of every partition at another byte of its last batch, indexes, committed offsets and the
metadata log at another byte of theirs; fifty boots meet every byte of the last batch. Afterwards

    of the last batch the whole messages are there, everything before it is, and nothing else
    the next append gets the offset behind them, and `borzoi check` finds no damage
    a committed offset that was cut is ignored, a whole one points at a message that is there, and
    the next commit counts
    a metadata entry that was cut is gone, and the next one is taken
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream, GetStreams
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.identifiers import Consumer, ConsumerKind
from tests.broker import BrokerProcess
from tests.crash.kill_cycles import TWO_SHARDS, assert_nothing_damaged
from tests.crash.load import STREAM, TOPIC
from tests.shard_wires import connect
from tests.wire import Wire

BOOTS_OF_ALL_BYTES: Final = 50
FIRST_BATCH: Final = (b"first", b"second")
LAST_BATCH: Final = (b"a" * 400, b"b" * 350, b"c" * 300)
MESSAGES: Final = (*FIRST_BATCH, *LAST_BATCH)
HEADER_SIZE: Final = 64
INDEX_ENTRY_SIZE: Final = 16
OFFSET_SIZE: Final = 8
COMMITTED: Final = 2
LAST_STREAM: Final = "what was created last"
ME: Final = Consumer(ConsumerKind.CONSUMER, 7)


def ends() -> Iterator[int]:
    """Where each message of the log ends, and 0."""
    yield 0
    end = 0
    for payload in MESSAGES:
        end += HEADER_SIZE + len(payload)
        yield end


ENDS: Final = tuple(ends())
LOG_CUTS: Final = range(ENDS[len(FIRST_BATCH)], ENDS[-1] + 1)
PARTITIONS: Final = -(-len(LOG_CUTS) // BOOTS_OF_ALL_BYTES)


@dataclass
class Summary:
    boots: int = 0
    logs: int = 0
    metadata_cuts: set[int] = field(default_factory=set)
    log_cuts: set[int] = field(default_factory=set)

    def __str__(self) -> str:
        return (
            f"{self.boots} boots with {self.logs} logs cut at {len(self.log_cuts)} different bytes "
            f"of their last {len(LOG_CUTS)} (one is the end), the metadata log at "
            f"{len(self.metadata_cuts)}: every whole record was there, nothing else was, and the "
            "next append got the right offset"
        )


class TornBoots:
    """A data directory as a kill left it, and what boots make of cut copies."""

    def __init__(self, directory: Path) -> None:
        self.summary = Summary()
        self._directory = directory
        self._left = directory / "left"
        self._metadata_end = 0
        self._metadata_size = 0

    def prepare(self) -> None:
        broker = BrokerProcess(self._left, TWO_SHARDS)
        broker.start()
        try:
            with connect(broker) as wire:
                wire.ask(CreateStream(STREAM))
                wire.ask(CreateTopic(STREAM, PARTITIONS, 1, 0, 0, 1, TOPIC))
                for partition in range(PARTITIONS):
                    wire.append(STREAM, TOPIC, partition, FIRST_BATCH)
                    wire.append(STREAM, TOPIC, partition, LAST_BATCH)
                    wire.ask(StoreConsumerOffset(ME, STREAM, TOPIC, partition, COMMITTED))
                metadata = self._left / "state.messages"
                self._metadata_end = metadata.stat().st_size
                wire.ask(CreateStream(LAST_STREAM))
                self._metadata_size = metadata.stat().st_size
        finally:
            broker.close()

    def boot(self) -> None:
        """Cut a copy, start on it, look, go on."""
        number = self.summary.boots
        data = self._directory / f"boot{number}"
        shutil.copytree(self._left, data)
        log_cuts = list(LOG_CUTS[number % BOOTS_OF_ALL_BYTES :: BOOTS_OF_ALL_BYTES])
        for partition, size in enumerate(log_cuts):
            directory = data / f"streams/0/topics/0/partitions/{partition}"
            cut(directory / f"{0:020d}.log", size)
            cut(directory / f"{0:020d}.index", index_size(number, partition))
            cut(directory / f"offsets/consumers/{ME.id}", offset_size(number, partition))
        entry_size = self._metadata_size - self._metadata_end
        metadata_cut = number * (entry_size + 1) // BOOTS_OF_ALL_BYTES % (entry_size + 1)
        cut(data / "state.messages", self._metadata_end + metadata_cut)
        broker = BrokerProcess(data, TWO_SHARDS)
        broker.start()
        try:
            with connect(broker) as wire:
                for partition, size in enumerate(log_cuts):
                    self._check_partition(wire, partition, size, offset_size(number, partition))
                names = {stream.name for stream in wire.ask(GetStreams())}
                assert (LAST_STREAM in names) == (metadata_cut == entry_size)
                assert names - {LAST_STREAM} == {STREAM}
                wire.ask(CreateStream(f"stream {number}"))
        finally:
            broker.close()
        assert_nothing_damaged(data)
        shutil.rmtree(data)
        self.summary.boots += 1
        self.summary.logs += len(log_cuts)
        self.summary.log_cuts.update(log_cuts)
        self.summary.metadata_cuts.add(metadata_cut)

    def _check_partition(self, wire: Wire, partition: int, size: int, offset_size: int) -> None:
        whole = max(count for count, end in enumerate(ENDS) if end <= size)
        expected = list(MESSAGES[:whole])
        assert payloads(wire, partition) == expected
        answer = wire.ask(GetConsumerOffset(ME, STREAM, TOPIC, partition))
        if offset_size == OFFSET_SIZE:
            assert answer.stored_offset == min(COMMITTED, whole - 1)
        else:
            assert answer is None
        wire.append(STREAM, TOPIC, partition, [b"next"])
        assert payloads(wire, partition) == [*expected, b"next"]
        wire.ask(StoreConsumerOffset(ME, STREAM, TOPIC, partition, whole))
        answer = wire.ask(GetConsumerOffset(ME, STREAM, TOPIC, partition))
        assert answer.stored_offset == whole


def index_size(boot: int, partition: int) -> int:
    """Every byte of an index in turn, the whole one included."""
    return (boot * PARTITIONS + partition) % (len(MESSAGES) * INDEX_ENTRY_SIZE + 1)


def offset_size(boot: int, partition: int) -> int:
    """The whole of it in every other case."""
    turn = boot * PARTITIONS + partition
    return OFFSET_SIZE if turn % 2 else turn // 2 % OFFSET_SIZE


def cut(path: Path, size: int) -> None:
    assert path.stat().st_size >= size, f"{path} is shorter than it should be"
    with path.open("r+b") as file:
        file.truncate(size)


def payloads(wire: Wire, partition: int) -> list[bytes]:
    return [message.payload for message in wire.read(STREAM, TOPIC, partition)]


def run(directory: Path, boots: int, report: Callable[[Summary], None] | None = None) -> Summary:
    """So many boots; AssertionError, naming the boot, if a promise is broken."""
    experiment = TornBoots(directory)
    summary = experiment.summary
    experiment.prepare()
    while summary.boots < boots:
        try:
            experiment.boot()
        except BaseException as error:
            error.add_note(f"boot {summary.boots}")
            raise
        if report is not None:
            report(summary)
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description="boots with files that end in the middle")
    parser.add_argument("--boots", type=int, default=BOOTS_OF_ALL_BYTES)
    arguments = parser.parse_args()

    def report(summary: Summary) -> None:
        if summary.boots % 10 == 0:
            print(summary, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="borzoi-torn-") as directory:
        print(run(Path(directory), arguments.boots, report))


if __name__ == "__main__":
    main()
