"""Orderly stops under load: what was acknowledged is there after the restart, in every mode.

    python -m tests.crash.stops --stops 200 [--mode buffered|written|fsync|all]
                                [--partitions 1,100,10000] [--shards 1,2] [--offsets N] [--seed N]

Producers send a batch to every partition and then go on at random, many requests under way at a
time; in the middle of that the broker gets SIGTERM. Requests that got no answer may
have done anything; acknowledged ones are compared with what the next start serves. So are
`--offsets` consumers whose offsets are stored on one partition before each stop.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.offsets import GetConsumerOffset, StoreConsumerOffset
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.errors import Disconnected
from borzoi.protocol.generations import code_of, decode_reply
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    StrategyKind,
)
from tests.broker import BrokerProcess
from tests.crash.experiment import new_seed
from tests.crash.ledger import SMALL_PREFIX, Batch, Outcome, ProducerBook, judge
from tests.crash.load import STREAM, Worker
from tests.shard_wires import connect
from tests.wire import Closed, Wire

MODES: Final = ("buffered", "written", "fsync")
STOPS: Final = 200
PARTITION_COUNTS: Final = (1, 100, 10_000)
PARTITIONS_PER_TOPIC: Final = 1000
PRODUCERS: Final = 2
UNDER_WAY_MAX: Final = 64
SWEEP_MESSAGES: Final = 10
BATCH_SIZES: Final = (1, 2, 10)
STOP_AFTER_S: Final = (0.02, 0.3)
POLL_COUNT: Final = 5000
READY_TIMEOUT_S: Final = 120.0
ORDERLY: Final = 0

Asked = TypeVar("Asked")


@dataclass
class Summary:
    """Figures over all stops of one kind of broker."""

    mode: str
    shards: int
    partitions: int
    offsets: int
    seed: int
    stops: int = 0
    acknowledged: int = 0
    unknown_survivors: int = 0
    offsets_compared: int = 0
    stops_s: list[float] = field(default_factory=list)
    restarts_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"mode {self.mode}, {self.shards} shards, {self.partitions} partitions, "
            f"{self.offsets} stored offsets, seed {self.seed}: {self.stops} stops, "
            f"{self.acknowledged} messages acknowledged, 0 lost, {self.unknown_survivors} "
            f"survived unacknowledged, {self.offsets_compared} offsets compared; "
            f"stop {_spread(self.stops_s)}, restart {_spread(self.restarts_s)}"
        )


def _spread(times_s: list[float]) -> str:
    ordered = sorted(times_s) or [0.0]
    return f"median {ordered[len(ordered) // 2]:.2f} s, worst {ordered[-1]:.2f} s"


class Sender(Worker):
    """Sends a batch to each partition of its share, then to random ones, until the end.

    Up to UNDER_WAY_MAX requests wait for their answers. `swept` says that the share is done.
    """

    def __init__(self, broker: BrokerProcess, name: str, seed: str, share: Sequence[int]) -> None:
        super().__init__(name)
        self.book = ProducerBook(name)
        self.swept = threading.Event()
        self._broker = broker
        self._random = random.Random(seed)
        self._share = share
        self._under_way: deque[Batch] = deque()

    def work(self) -> None:
        with connect(self._broker) as wire:
            try:
                for partition in self._share:
                    self._send(wire, partition, SWEEP_MESSAGES)
                while self._under_way:
                    self._take_answer(wire)
                self.swept.set()
                while not self.stopping:
                    partition = self._random.choice(self._share)
                    self._send(wire, partition, self._random.choice(BATCH_SIZES))
                while self._under_way:
                    self._take_answer(wire)
            except Closed:
                # What is under way stays in the book as it began: unknown.
                return

    def _send(self, wire: Wire, partition: int, count: int) -> None:
        if len(self._under_way) == UNDER_WAY_MAX:
            self._take_answer(wire)
        batch, payloads = self.book.begin(partition, count)
        self._under_way.append(batch)
        wire.begin_append(STREAM, topic_of(partition), number_of(partition), payloads)

    def _take_answer(self, wire: Wire) -> None:
        try:
            wire.result()
        except Disconnected as error:
            # The goodbye of a broker that stops, which answers no request.
            raise Closed(str(error)) from error
        self.book.end(self._under_way.popleft(), Outcome.ACKNOWLEDGED)


class Stops:
    """One data directory, its broker, and how far each partition had got when it was last read."""

    def __init__(
        self, data: Path, mode: str, shards: int, partitions: int, offsets: int, seed: int
    ) -> None:
        settings = {
            "IGGY_SYSTEM_PARTITION_DURABILITY": mode,
            "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": str(shards),
            "IGGY_MESSAGE_SAVER_ENABLED": "false",  # what a stop has to do is all there at its time
            # One user alone, ours, gets half of the places.
            "IGGY_LIMITS_CONSUMERS_PER_PARTITION_MAX": str(2 * offsets + 10),
        }
        self.broker = BrokerProcess(data, settings)
        self.summary = Summary(mode, shards, partitions, offsets, seed)
        self.senders: list[Sender] = []
        self._ends = [0] * partitions

    def start(self) -> None:
        self.broker.start()
        with connect(self.broker) as wire:
            wire.ask(CreateStream(STREAM))
            for first in range(0, self.summary.partitions, PARTITIONS_PER_TOPIC):
                count = min(PARTITIONS_PER_TOPIC, self.summary.partitions - first)
                wire.ask(CreateTopic(STREAM, count, 1, 0, 0, 1, topic_of(first)))

    def run_stop(self) -> None:
        """Load, stop, start, compare."""
        summary = self.summary
        choice = random.Random(f"{summary.seed}/{summary.stops}")
        self.load(f"{summary.seed}/{summary.stops}")
        stored = self.store_offsets()
        time.sleep(choice.uniform(*STOP_AFTER_S))
        code = self.stop()
        assert code == ORDERLY, f"the stop ended with {code}:\n{self.broker.output()[-4000:]}"
        self.restart()
        self.compare(stored)
        summary.stops += 1

    def load(self, seed: str) -> None:
        """Until every partition has got something; the senders go on."""
        count = self.summary.partitions
        self.senders = [
            Sender(
                self.broker,
                f"{SMALL_PREFIX}{number}",
                f"{seed}/{number}",
                range(number, count, PRODUCERS) if count >= PRODUCERS else range(count),
            )
            for number in range(PRODUCERS)
        ]
        for sender in self.senders:
            sender.start()
        for sender in self.senders:
            assert sender.swept.wait(READY_TIMEOUT_S), sender.failure

    def store_offsets(self) -> int:
        """Stores the same offset of many consumers on the first partition, and returns it."""
        offset = self._ends[0]
        with connect(self.broker) as wire:
            commands = [
                StoreConsumerOffset(_consumer(number), STREAM, topic_of(0), 0, offset)
                for number in range(self.summary.offsets)
            ]
            for _ in asked(wire, commands, lambda _command: wire.result()):
                pass
        return offset

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        began = time.monotonic()
        code = self.broker.stop()
        self.summary.stops_s.append(time.monotonic() - began)
        for sender in self.senders:
            sender.finish()
        return code

    def restart(self) -> None:
        # Any port: another program may have taken the old one meanwhile.
        self.broker.address = ""
        began = time.monotonic()
        self.broker.start()
        self.summary.restarts_s.append(time.monotonic() - began)

    def compare(self, stored: int) -> None:
        """Whether everything acknowledged since the last look is there."""
        with connect(self.broker) as wire:
            contents = self._read_new(wire)
            verdict = judge([sender.book for sender in self.senders], contents)
            self._compare_offsets(wire, stored)
        for partition, payloads in contents.items():
            self._ends[partition] += len(payloads)
        self.summary.acknowledged += verdict.acknowledged
        self.summary.unknown_survivors += verdict.unknown_survivors

    def _read_new(self, wire: Wire) -> dict[int, list[bytes]]:
        """What was appended since the last look, by partition; offsets are dense."""
        contents: dict[int, list[bytes]] = {one: [] for one in range(self.summary.partitions)}
        left = list(contents)
        while left:
            commands = [
                _poll(partition, self._ends[partition] + len(contents[partition]))
                for partition in left
            ]
            answers = asked(wire, commands, lambda one: _decoded(one, wire.result()))
            more = []
            for partition, polled in zip(left, answers, strict=True):
                known = contents[partition]
                for message in polled.messages:
                    assert message.offset == self._ends[partition] + len(known)
                    known.append(message.payload)
                if polled.messages and message.offset < polled.current_offset:
                    more.append(partition)
            left = more
        return contents

    def _compare_offsets(self, wire: Wire, stored: int) -> None:
        commands = [
            GetConsumerOffset(_consumer(number), STREAM, topic_of(0), 0)
            for number in range(self.summary.offsets)
        ]
        for found in asked(wire, commands, lambda one: _decoded(one, wire.result())):
            assert found is not None, "a stored offset is gone"
            assert found.stored_offset == stored
            self.summary.offsets_compared += 1


def topic_of(partition: int) -> str:
    return f"topic {partition // PARTITIONS_PER_TOPIC}"


def number_of(partition: int) -> int:
    return partition % PARTITIONS_PER_TOPIC


def asked(wire: Wire, commands: Sequence[Any], take: Callable[[Any], Asked]) -> Iterator[Asked]:
    """What `take` makes of the answer to each command, many of them under way at a time."""
    for first in range(0, len(commands), UNDER_WAY_MAX):
        group = commands[first : first + UNDER_WAY_MAX]
        for command in group:
            wire.begin(command)
        for command in group:
            yield take(command)


def _decoded(command: Any, answer: bytes) -> Any:
    return decode_reply(code_of(command), memoryview(answer))


def _poll(partition: int, offset: int) -> PollMessages:
    strategy = PollingStrategy(StrategyKind.OFFSET, offset)
    return PollMessages(
        _consumer(1), STREAM, topic_of(partition), number_of(partition), strategy, POLL_COUNT, False
    )


def _consumer(number: int) -> Consumer:
    return Consumer(ConsumerKind.CONSUMER, number + 1)


def run(
    data: Path,
    mode: str,
    *,
    shards: int,
    partitions: int,
    stops: int,
    seed: int,
    offsets: int = 0,
    report: Callable[[Summary], None] | None = None,
) -> Summary:
    """So many stops; AssertionError, naming the seed, if something acknowledged is not there."""
    experiment = Stops(data, mode, shards, partitions, offsets, seed)
    summary = experiment.summary
    try:
        experiment.start()
        while summary.stops < stops:
            experiment.run_stop()
            if report is not None:
                report(summary)
        assert experiment.broker.stop() == ORDERLY
    except BaseException as error:
        error.add_note(f"{summary}\nseed {seed}, stop {summary.stops}")
        raise
    finally:
        for sender in experiment.senders:
            sender.stop()
        experiment.broker.close()
    return summary


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description="orderly stops under load")
    parser.add_argument("--stops", type=int, default=STOPS, help="of each kind of broker")
    parser.add_argument("--mode", choices=(*MODES, "all"), default="all")
    parser.add_argument("--partitions", type=_numbers, default=list(PARTITION_COUNTS))
    parser.add_argument("--shards", type=_numbers, default=[1, 2])
    parser.add_argument("--offsets", type=int, default=0, help="stored on one partition")
    parser.add_argument("--seed", type=int, default=new_seed())
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    for mode in MODES if arguments.mode == "all" else (arguments.mode,):
        for partitions in arguments.partitions:
            for shards in arguments.shards:
                with tempfile.TemporaryDirectory(prefix="borzoi-stops-") as directory:
                    summary = run(
                        Path(directory, "data"), mode, shards=shards, partitions=partitions,
                        stops=arguments.stops, seed=arguments.seed, offsets=arguments.offsets,
                        report=lambda one: print(one, file=sys.stderr, flush=True),
                    )  # fmt: skip
                    print(summary, flush=True)


if __name__ == "__main__":
    main()
