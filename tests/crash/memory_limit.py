"""F4: little memory, many consumers that never read, many producers at full rate.

    python -m tests.crash.memory_limit --seconds 600 [--consumers 1000] [--producers 100]

The broker with two shards is started in a memory cgroup of 256 MB (memory_group.py). Each consumer
asks for more than any socket holds and takes nothing; when the broker has had enough of it,
another one comes. Each producer sends its next batch as soon as the last one is acknowledged.
Retention keeps the topic small. Then

    no process is killed for want of memory, and no other one dies
    what the processes need of their own (Pss of heaps and arenas) stays below the limit
    every batch is acknowledged on the connection it was sent on: producers wait, none is dropped
    every partition has as many offsets as messages were acknowledged

Where no cgroup can be made, settings keep the broker as small, and what it takes is measured.
"""

import argparse
import select
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    LoginWithPersonalAccessToken,
)
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic, GetTopic
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
from tests.broker import BrokerProcess, wait_for
from tests.crash.kill_cycles import TWO_SHARDS
from tests.crash.load import PARTITIONS, STREAM, TOPIC, Worker
from tests.crash.memory_group import MemoryGroup, memory_group
from tests.crash.mounts import Unavailable
from tests.shard_wires import connect
from tests.wire import Wire

MIB: Final = 1024 * 1024
MEMORY_MAX: Final = 256 * MIB
FIRST_BATCHES: Final = 200
BATCH_MESSAGES: Final = 100
MESSAGE_SIZE: Final = 1000
SEGMENT_SIZE: Final = 16 * MIB
TOPIC_SIZE_MAX: Final = 512 * MIB
LOOK_EVERY_S: Final = 0.25
CONNECTED_TIMEOUT_S: Final = 300.0
SETTINGS: Final = {
    **TWO_SHARDS,
    "IGGY_LIMITS_FRAME_SIZE_MAX": "16MiB",
    "IGGY_LIMITS_WRITE_TIMEOUT": "20 s",
    "IGGY_SYSTEM_SEGMENT_SIZE": f"{SEGMENT_SIZE} B",
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "1 s",
}
"""Two shards with two frames of the usual 128 MiB each would not fit: such a start is refused."""


@dataclass
class Summary:
    consumers: int
    producers: int
    seconds: float
    limited: bool = False
    acknowledged: int = 0
    kills: int = 0
    memory_peak: int = 0
    consumers_closed: int = 0
    waits_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        how = "in a cgroup of" if self.limited else "measured only, meant for"
        return (
            f"{how} {MEMORY_MAX // MIB} MiB: {self.consumers} consumers that never read "
            f"({self.consumers_closed} closed by the broker and replaced) and {self.producers} "
            f"producers for {self.seconds:.0f} s; {self.acknowledged} messages of {MESSAGE_SIZE} B "
            f"acknowledged, 0 refused, 0 producers dropped, 0 lost, {self.kills} processes killed; "
            f"heaps and arenas at most {self.memory_peak / 1e6:.0f} MB, longest wait for an "
            f"acknowledgement {max(self.waits_s, default=0.0):.1f} s"
        )


class FullRate(Worker):
    """Sends the same batch again and again; whatever is not an acknowledgement is a failure."""

    def __init__(self, broker: BrokerProcess, token: str, number: int) -> None:
        super().__init__(f"producer {number}")
        self.partition = number % PARTITIONS
        self.acknowledged = 0
        self.wait_max_s = 0.0
        self._wire = logged_in(broker, token)
        messages = [Message(bytes(MESSAGE_SIZE))] * BATCH_MESSAGES
        payload = encode_send_messages(STREAM, TOPIC, PartitionId(self.partition), messages)
        self._frame = encode_request(Code.SEND_MESSAGES, payload)

    def work(self) -> None:
        with self._wire as wire:
            while not self.stopping:
                began = time.monotonic()
                wire.put(self._frame)
                wire.result()
                self.wait_max_s = max(self.wait_max_s, time.monotonic() - began)
                self.acknowledged += BATCH_MESSAGES


class NeverReading(Worker):
    """Keeps so many consumers connected, each waiting for an answer that it does not take."""

    def __init__(self, broker: BrokerProcess, token: str, count: int) -> None:
        super().__init__("consumers")
        self.closed = 0
        self.connected = 0
        self._broker = broker
        self._token = token
        self._count = count
        self._open: dict[int, Wire] = {}

    def work(self) -> None:
        poller = select.poll()
        try:
            while not self.stopping:
                while len(self._open) < self._count and not self.stopping:
                    wire = self._ask()
                    self._open[wire.fileno()] = wire
                    # Only whether it has ended: the answer stays where it is.
                    poller.register(wire.fileno(), select.POLLRDHUP)
                    self.connected += 1
                for fd, _ in poller.poll(100):
                    poller.unregister(fd)
                    self._open.pop(fd).close()
                    self.closed += 1
        finally:
            for wire in self._open.values():
                wire.close()

    def _ask(self) -> Wire:
        wire = logged_in(self._broker, self._token)
        consumer = Consumer(ConsumerKind.CONSUMER, 1)
        strategy = PollingStrategy(StrategyKind.FIRST, 0)
        partition = self.connected % PARTITIONS
        wire.begin(PollMessages(consumer, STREAM, TOPIC, partition, strategy, 100_000, False))
        return wire


def logged_in(broker: BrokerProcess, token: str) -> Wire:
    """By a token: a thousand passwords would take half a minute to hash."""
    wire = connect(broker, login=False)
    wire.ask(LoginWithPersonalAccessToken(token))
    return wire


def own_memory(broker: BrokerProcess) -> int:
    """Heaps and arenas of all processes, pages that several of them have touched once."""
    total = 0
    for pid in (broker.pid, *broker.workers().values()):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                total += int(line.split()[1]) * 1024
    return total


@contextmanager
def limited_broker(data: Path) -> Iterator[tuple[BrokerProcess, MemoryGroup | None]]:
    """A broker in a cgroup, or with settings that make it take as little as there."""
    settings, group = dict(SETTINGS), None
    with ExitStack() as stack:
        try:
            group = stack.enter_context(memory_group(MEMORY_MAX))
        except Unavailable as error:
            print(f"without a limit: {error}", file=sys.stderr)
            settings["IGGY_SYSTEM_MEMORY_POOL_SIZE"] = f"{MEMORY_MAX // 4} B"
        broker = BrokerProcess(data, settings, wrapper=group.wrapper if group else ())
        stack.callback(broker.close)
        yield broker, group


def run(data: Path, seconds: float, consumers: int, producers: int) -> Summary:
    """AssertionError if a promise is broken."""
    summary = Summary(consumers, producers, seconds)
    with limited_broker(data) as (broker, group):
        summary.limited = group is not None
        broker.start()
        workers = broker.workers()
        with connect(broker) as wire:
            wire.ask(CreateStream(STREAM))
            wire.ask(CreateTopic(STREAM, PARTITIONS, 1, 0, TOPIC_SIZE_MAX, 1, TOPIC))
            token = wire.ask(CreatePersonalAccessToken("everybody", 0)).token
        _load(broker, token, summary)
        assert broker.workers() == workers, broker.output()
        summary.kills = 0 if group is None else group.kills()
    assert summary.kills == 0
    assert summary.memory_peak < MEMORY_MAX
    return summary


def _load(broker: BrokerProcess, token: str, summary: Summary) -> None:
    producing = [FullRate(broker, token, number) for number in range(summary.producers)]
    never_reading = NeverReading(broker, token, summary.consumers)
    load: list[Worker] = [*producing, never_reading]
    for producer in producing:
        producer.start()
    # So that an answer has more in it than a socket holds.
    wait_for(lambda: _total(producing) > FIRST_BATCHES * BATCH_MESSAGES, CONNECTED_TIMEOUT_S)
    never_reading.start()
    wait_for(lambda: never_reading.connected >= summary.consumers, CONNECTED_TIMEOUT_S)
    ends_at = time.monotonic() + summary.seconds
    while time.monotonic() < ends_at:
        for one in load:
            assert one.is_alive(), one.failure
        summary.memory_peak = max(summary.memory_peak, own_memory(broker))
        time.sleep(LOOK_EVERY_S)
    for one in load:
        one.stop()
    for one in load:
        one.finish()
    with connect(broker, login=False) as wire:
        wire.ask(LoginWithPersonalAccessToken(token))
        topic = wire.ask(GetTopic(STREAM, TOPIC))
    for partition in topic.partitions:
        sent = sum(one.acknowledged for one in producing if one.partition == partition.id)
        assert partition.current_offset + 1 == sent, f"partition {partition.id}: {sent} were sent"
    summary.acknowledged = _total(producing)
    summary.consumers_closed = never_reading.closed
    summary.waits_s = [one.wait_max_s for one in producing]


def _total(producing: list[FullRate]) -> int:
    return sum(one.acknowledged for one in producing)


def main() -> None:
    parser = argparse.ArgumentParser(description="many clients, little memory")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--consumers", type=int, default=1000)
    parser.add_argument("--producers", type=int, default=100)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="borzoi-memory-") as directory:
        print(run(Path(directory, "data"), wanted.seconds, wanted.consumers, wanted.producers))


if __name__ == "__main__":
    main()
