"""What a broker keeps in memory while gigabytes are written and read, and what the bound costs.

    python -m tests.crash.mapped_memory [--megabytes 2000] [--rounds 3]

Three brokers with two shards in turn: with a `limits.mapped_size_max` of 64 MiB, without a bound,
as before there was one, and with the defaults in a memory cgroup of 512 MB. Two producers, then
two consumers in each round. Then

    heaps, arenas and programs stay below 256 MB, and what is mapped below the bounds of both shards
    no process is killed for want of memory

Printed are the largest figures and the throughput, of which the median ratios are taken.
"""

import argparse
import re
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream, DeleteStream
from borzoi.protocol.framing import encode_request
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import encode_send_messages
from tests.broker import BrokerProcess
from tests.crash.memory_group import MemoryGroup, memory_group
from tests.crash.mounts import Unavailable
from tests.shard_wires import TWO_SHARDS, connect
from tests.topics import topic_of
from tests.wire import Wire

MIB: Final = 1024 * 1024
GROUP_SIZE: Final = 512 * MIB
OWN_MAX: Final = 256 * MIB
BOUND: Final = 64 * MIB
"""Of one shard without a cgroup; within it an eighth of its memory for both."""

IN_GROUP: Final = GROUP_SIZE // 8
SLACK: Final = 24 * MIB
"""Answers on their way, and what the kernel's own counters lag behind."""

BATCH_MESSAGES: Final = 1000
MESSAGE_SIZE: Final = 936  # with its header 1,000 bytes
LOOK_EVERY_S: Final = 0.02
NAME: Final = "mapped"


@dataclass
class Figures:
    """Of one broker over all rounds."""

    name: str
    own_peak: int = 0
    mapped_peak: int = 0
    produce: list[float] = field(default_factory=list)
    consume: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.name}: produce {median(self.produce):,.0f} MB/s, poll"
            f" {median(self.consume):,.0f} MB/s; heaps, arenas and programs at most"
            f" {self.own_peak / 1e6:.0f} MB, mapped {self.mapped_peak / 1e6:.0f} MB"
        )


class MemoryWatch(threading.Thread):
    """Looks at all processes of a broker until it is stopped."""

    def __init__(self, broker: BrokerProcess, figures: Figures) -> None:
        super().__init__()
        self._pids = (broker.pid, *broker.workers().values())
        self._figures = figures
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(LOOK_EVERY_S):
            found = [_memory(pid) for pid in self._pids]
            self._figures.own_peak = max(self._figures.own_peak, sum(own for own, _ in found))
            self._figures.mapped_peak = max(
                self._figures.mapped_peak, sum(mapped for _, mapped in found)
            )

    def stop(self) -> None:
        self._is_over.set()
        self.join()


def _memory(pid: int) -> tuple[int, int]:
    """Proportional sizes in bytes: heaps, arenas and files of programs; files of the data."""
    own = mapped = 0
    is_data = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            is_data = "/borzoi-mapped-" in line
        elif line.startswith("Pss:"):
            size = int(line.split()[1]) * 1024
            own, mapped = (own, mapped + size) if is_data else (own + size, mapped)
    return own, mapped


def produce(wire: Wire, partition: int, batches: int) -> None:
    messages = [Message(bytes(MESSAGE_SIZE))] * BATCH_MESSAGES
    payload = encode_send_messages(NAME, NAME, PartitionId(partition), messages)
    frame = encode_request(Code.SEND_MESSAGES, payload)
    for _ in range(batches):
        wire.put(frame)
        wire.result()


def consume(wire: Wire, partition: int, batches: int) -> None:
    consumer = Consumer(ConsumerKind.CONSUMER, 1)
    for number in range(batches):
        strategy = PollingStrategy(StrategyKind.OFFSET, number * BATCH_MESSAGES)
        wire.begin(PollMessages(consumer, NAME, NAME, partition, strategy, BATCH_MESSAGES, False))
        answer = wire.result()
        assert len(answer) >= BATCH_MESSAGES * (MESSAGE_SIZE + 64), f"batch {number} is short"


def timed(wires: list[Wire], work: "object", batches: int) -> float:
    """MB/s of all wires together."""
    assert callable(work)
    threads = [
        threading.Thread(target=work, args=(wire, partition, batches))
        for partition, wire in enumerate(wires)
    ]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    size = len(wires) * batches * BATCH_MESSAGES * (MESSAGE_SIZE + 64)
    return size / 1e6 / (time.monotonic() - began)


def one_round(broker: BrokerProcess, figures: Figures, batches: int) -> None:
    with ExitStack() as stack:
        wires = [stack.enter_context(connect(broker)) for _ in range(2)]
        wires[0].ask(CreateStream(NAME))
        wires[0].ask(topic_of(NAME, 2))
        watch = MemoryWatch(broker, figures)
        watch.start()
        try:
            figures.produce.append(timed(wires, produce, batches))
            figures.consume.append(timed(wires, consume, batches))
        finally:
            watch.stop()
        wires[0].ask(DeleteStream(NAME))


def run(directory: Path, megabytes: int, rounds: int, group: MemoryGroup | None) -> list[Figures]:
    """The figures of all brokers; AssertionError if one of them takes too much."""
    kinds: list[tuple[str, dict[str, str], MemoryGroup | None]] = [
        ("bounded", {"IGGY_LIMITS_MAPPED_SIZE_MAX": f"{BOUND} B"}, None),
        ("without a bound", {"IGGY_LIMITS_MAPPED_SIZE_MAX": "1TB"}, None),
    ]
    if group is not None:
        kinds.append(("defaults, in a cgroup of 512 MiB", {}, group))
    found = [Figures(name) for name, _, _ in kinds]
    for number in range(rounds):
        for figures, (_, settings, inside) in zip(found, kinds, strict=True):
            data = directory / f"{number}-{len(figures.name)}"
            wrapper = inside.wrapper if inside else ()
            broker = BrokerProcess(data, {**TWO_SHARDS, **settings}, wrapper=wrapper)
            try:
                broker.start()
                one_round(broker, figures, megabytes // 2)
            finally:
                broker.close()
    for figures in found:
        if figures.name != "without a bound":
            assert figures.own_peak < OWN_MAX, figures
            bound = 2 * BOUND if figures.name == "bounded" else IN_GROUP
            assert figures.mapped_peak < bound + SLACK, figures
    assert group is None or group.kills() == 0
    return found


def ratios(found: list[Figures]) -> str:
    bounded, unbounded = found[0], found[1]
    produced = median(a / b for a, b in zip(bounded.produce, unbounded.produce, strict=True))
    consumed = median(a / b for a, b in zip(bounded.consume, unbounded.consume, strict=True))
    return f"bounded to unbounded, medians of the rounds: {produced:.2f} and {consumed:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description="memory while gigabytes pass")
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    with ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="borzoi-mapped-"))
        try:
            group = stack.enter_context(memory_group(GROUP_SIZE))
        except Unavailable as error:
            print(f"without a cgroup: {error}", file=sys.stderr)
            group = None
        found = run(Path(name), wanted.megabytes, wanted.rounds, group)
    for figures in found:
        print(figures)
    print(ratios(found))


if __name__ == "__main__":
    main()
