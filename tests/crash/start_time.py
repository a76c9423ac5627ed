"""How long a broker takes to start, to replace a killed worker, and to stop, in imports.

    python -m tests.crash.start_time --starts 15 [--beside CHECKOUT]

Prints medians and what they are in units of a bare interpreter that imports the same: the clock
says more about other programs than about this one. `--beside` alternates with another checkout,
which needs its compiled loops (protocol/*.so), and runs it with this interpreter.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError
from tests.broker import BrokerProcess, wait_for
from tests.cpu_time import scheduled
from tests.crash.kill_cycles import PINNED, TWO_SHARDS
from tests.crash.load import STREAM, TOPIC, create_topic, partitions_of
from tests.shard_wires import connect, connect_to_shard
from tests.wire import Closed

SHARDS: Final = 2
VICTIM: Final = 1
# A worker, and what the supervisor needs beside that.
IMPORTS: Final = (
    "import borzoi.shards.run.worker_process, borzoi.shards.admin.commands,"
    " borzoi.shards.process.supervisor"
)


class Times(NamedTuple):
    """Seconds: of the clock, and (cpu) that all processes ran until the broker was ready."""

    bare: float
    start: float
    cpu: float
    restart: float
    stop: float


def bare_interpreter(source: Path | None = None) -> float:
    """Seconds that an interpreter runs which imports all of a broker and ends."""
    before = os.times()
    subprocess.run([sys.executable, "-c", IMPORTS], env=_environment(source), check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )


def ran_s(broker: BrokerProcess) -> float:
    """Seconds that the processes of a broker have run."""
    pids = [broker.pid, *broker.workers().values()]
    if (nursery := broker.find_nursery()) is not None:
        pids.append(nursery)
    return scheduled(pids).ran_s


def measure(data: Path, source: Path | None = None) -> Times:
    bare = bare_interpreter(source)
    broker = BrokerProcess(data, {**TWO_SHARDS, **PINNED, **_environment(source)})
    try:
        began = time.monotonic()
        broker.start()
        start = time.monotonic() - began
        cpu = ran_s(broker)
        restart = _restart(broker)
        began = time.monotonic()
        assert broker.stop() == 0
        return Times(bare, start, cpu, restart, time.monotonic() - began)
    finally:
        broker.close()


def _restart(broker: BrokerProcess) -> float:
    """From the kill of a worker until a partition of its shard answers on another's connection."""
    with connect(broker) as wire:
        create_topic(wire)
    partition = partitions_of(VICTIM, SHARDS)[0]
    with connect_to_shard(broker, 1 - VICTIM) as wire:
        killed_at = time.monotonic()
        os.kill(broker.workers()[VICTIM], signal.SIGKILL)

        def answers() -> bool:
            try:
                wire.append(STREAM, TOPIC, partition, [b"x"])
            except (BrokerError, Closed):
                return False
            return True

        wait_for(answers)
        return time.monotonic() - killed_at


def _environment(source: Path | None) -> dict[str, str]:
    return {} if source is None else {"PYTHONPATH": str(source / "src")}


def report(name: str, taken: list[Times]) -> str:
    middle = Times(*(statistics.median(values) for values in zip(*taken, strict=True)))
    return (
        f"{name}: {len(taken)} starts, medians: bare imports {middle.bare:.3f} s,"
        f" start {middle.start:.3f} s ({middle.start / middle.bare:.2f} of that),"
        f" CPU of a start {middle.cpu:.3f} s ({middle.cpu / middle.bare:.2f}),"
        f" restart of a worker {middle.restart:.3f} s ({middle.restart / middle.bare:.2f}),"
        f" stop {middle.stop:.3f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="times of starts, alternating with another code")
    parser.add_argument("--starts", type=int, default=15)
    parser.add_argument("--beside", type=Path)
    arguments = parser.parse_args()
    sources: dict[str, Path | None] = {"this code": None}
    if arguments.beside is not None:
        sources["beside"] = arguments.beside.absolute()
    taken: dict[str, list[Times]] = {name: [] for name in sources}
    with tempfile.TemporaryDirectory(prefix="borzoi-starts-") as directory:
        for number in range(arguments.starts):
            for name, source in sources.items():
                taken[name].append(measure(Path(directory, f"data-{number}-{name}"), source))
    for name, times in taken.items():
        print(report(name, times))


if __name__ == "__main__":
    main()
