"""D10: how long a start takes, and how much it reads, after a clean stop and after kill -9.

    python -m tests.crash.restart_time --gigabytes 10 --partitions 1000 [--data DIR] [--cold]

Fills a data directory (`--data` keeps it and uses it again, filled once), stops the broker, and
measures two starts: one after the clean stop, one after everybody was killed with a fresh tail in
every partition. `--cold` empties the page cache before each, which needs root. What the processes
read is taken from /proc/PID/io (`rchar`, all bytes that any read call returned); the start of an
empty broker is measured beside it, because Python reads itself first.
"""

import argparse
import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import CreateTopic
from borzoi.protocol.framing import encode_request
from borzoi.protocol.identifiers import PartitionId
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import encode_send_messages
from tests.broker import BrokerProcess
from tests.crash.kill_cycles import TWO_SHARDS
from tests.shard_wires import connect
from tests.wire import Wire

NAME: Final = "restart"
MESSAGE_SIZE: Final = 1024
BATCH_MESSAGES: Final = 1000
TAIL_MESSAGES: Final = 16
SEGMENT_SIZE: Final = 4 * 1024 * 1024
HEADER_SIZE: Final = 64
DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")
SETTINGS: Final = {
    **TWO_SHARDS,
    "IGGY_SYSTEM_SEGMENT_SIZE": f"{SEGMENT_SIZE} B",
    "IGGY_SYSTEM_TOPIC_MAX_SIZE": "unlimited",
}


class Start(NamedTuple):
    """How a start went."""

    seconds: float
    read_bytes: int

    def __str__(self) -> str:
        return f"{self.seconds:.2f} s, {self.read_bytes / 1e6:.1f} MB read"


class Tails(NamedTuple):
    """What the last run wrote behind the recovery points."""

    messages: int
    size_bytes: int


def measure_start(broker: BrokerProcess, *, cold: bool) -> Start:
    if cold:
        os.sync()
        DROP_CACHES.write_text("3")
    began = time.monotonic()
    broker.start()
    seconds = time.monotonic() - began
    processes = [broker.pid, *broker.workers().values()]
    return Start(seconds, sum(map(_read_by, processes)))


def _read_by(pid: int) -> int:
    with open(f"/proc/{pid}/io", encoding="ascii") as table:
        fields = dict(line.split(": ") for line in table)
    return int(fields["rchar"])


def fill(broker: BrokerProcess, partitions: int, size_bytes: int) -> None:
    """Send about so much, evenly, and stop."""
    broker.start()
    batch_count = max(1, round(size_bytes / partitions / (BATCH_MESSAGES * MESSAGE_SIZE)))
    with connect(broker) as wire:
        wire.ask(CreateStream(NAME))
        wire.ask(CreateTopic(NAME, partitions, 1, 0, 0, 1, NAME))
        for partition in range(partitions):
            _send(wire, partition, BATCH_MESSAGES, batch_count)
    assert broker.stop() == 0


def append_tails(broker: BrokerProcess, partitions: int) -> Tails:
    """A little for every partition, which nothing has synced when the kill comes."""
    with connect(broker) as wire:
        for partition in range(partitions):
            _send(wire, partition, TAIL_MESSAGES, 1)
    messages = partitions * TAIL_MESSAGES
    return Tails(messages, messages * MESSAGE_SIZE)


def _send(wire: Wire, partition: int, message_count: int, times: int) -> None:
    messages = [Message(bytes(MESSAGE_SIZE - HEADER_SIZE))] * message_count
    payload = encode_send_messages(NAME, NAME, PartitionId(partition), messages)
    frame = encode_request(Code.SEND_MESSAGES, payload)
    for _ in range(times):
        wire.put(frame)
        wire.result()


def size_of(data: Path) -> tuple[int, int]:
    """Segments and their bytes."""
    sizes = [path.stat().st_size for path in data.glob("streams/*/topics/*/partitions/*/*.log")]
    return len(sizes), sum(sizes)


class Figures(NamedTuple):
    empty: Start
    clean: Start
    killed: Start
    tails: Tails
    segments: int
    size_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.segments} segments, {self.size_bytes / 1e9:.2f} GB\n"
            f"empty broker:      {self.empty}\n"
            f"after clean stop:  {self.clean}\n"
            f"after kill -9:     {self.killed}; {self.tails.messages} messages"
            f" ({self.tails.size_bytes / 1e6:.1f} MB) lay behind the recovery points"
        )


def measure(directory: Path, data: Path, partitions: int, *, cold: bool) -> Figures:
    """The starts, on data that was stopped cleanly and is left so."""
    empty_broker = BrokerProcess(directory / "empty", SETTINGS)
    broker = BrokerProcess(data, SETTINGS)
    try:
        empty_broker.start()  # makes the directory
        empty_broker.stop()
        empty = measure_start(empty_broker, cold=cold)
        empty_broker.stop()
        segments, size_bytes = size_of(data)
        clean = measure_start(broker, cold=cold)
        tails = append_tails(broker, partitions)
        broker.kill()
        killed = measure_start(broker, cold=cold)
        broker.stop()
    finally:
        empty_broker.close()
        broker.close()
    return Figures(empty, clean, killed, tails, segments, size_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description="how long a start takes")
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--data", type=Path, help="keep the data here, and use what is there")
    parser.add_argument("--cold", action="store_true", help="with an empty page cache")
    parser.add_argument("--fill-only", action="store_true", help="measure another time")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        temporary = stack.enter_context(tempfile.TemporaryDirectory(prefix="borzoi-restart-"))
        data = arguments.data or Path(temporary, "data")
        if not data.exists():
            data.parent.mkdir(parents=True, exist_ok=True)
            broker = BrokerProcess(data, SETTINGS)
            stack.callback(broker.close)
            fill(broker, arguments.partitions, int(arguments.gigabytes * 1e9))
        if not arguments.fill_only:
            print(measure(Path(temporary), data, arguments.partitions, cold=arguments.cold))


if __name__ == "__main__":
    main()
