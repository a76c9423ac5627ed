"""D1 and D2: kill -9 of everything at a random moment under load, start again, read all.

    python -m tests.crash.kill_cycles --cycles 1000 [--mode fsync|buffered|encrypted] [--seed N]

Four producers and a poller work on eight partitions of both shards. After each kill the broker
starts on the same data and everything is compared with the books that this process kept. The
seed decides the moments and the batches; which instruction the kill hits is up to the machine.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.shards.admin.check_data import check_data
from borzoi.storage.files import Files
from borzoi.storage.findings import Level
from tests.broker import BrokerProcess
from tests.crash.ledger import ProducerBook, assert_prefix, judge
from tests.crash.load import (
    PARTITIONS,
    STREAM,
    TOPIC,
    Producer,
    Watcher,
    create_topic,
    read_all,
    wait_ready,
)
from tests.shard_wires import connect

PRODUCERS: Final = 4
KILL_AFTER_S: Final = (0.05, 0.8)
CYCLES_PER_TOPIC: Final = 5
"""A topic is replaced after so many cycles: reading all of it takes ever longer."""

JOURNAL_MESSAGES_MAX: Final = 128
TWO_SHARDS: Final = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2"}
PINNED: Final = {"IGGY_TCP_SOCKET_MIGRATION": "false"}
"""For tests that need a connection to stay with the shard that accepted it."""

SETTINGS: Final[dict[str, dict[str, str]]] = {
    "written": {"IGGY_SYSTEM_PARTITION_DURABILITY": "written"},
    "fsync": {"IGGY_SYSTEM_PARTITION_DURABILITY": "fsync"},
    "encrypted": {
        "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
        "IGGY_SYSTEM_ENCRYPTION_KEY": "c2VjcmV0" * 5 + "c2U=",
    },
    "buffered": {
        "IGGY_SYSTEM_PARTITION_DURABILITY": "buffered",
        "IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": str(JOURNAL_MESSAGES_MAX),
    },
}


@dataclass
class Summary:
    """Figures over all cycles."""

    mode: str
    seed: int
    cycles: int = 0
    acknowledged: int = 0
    lost: int = 0
    lost_of_partition_max: int = 0
    unknown_survivors: int = 0
    offsets_compared: int = 0
    restarts_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        restarts = sorted(self.restarts_s) or [0.0]
        return (
            f"mode {self.mode}, seed {self.seed}: {self.cycles} cycles, "
            f"{self.acknowledged} messages acknowledged, {self.lost} of them lost "
            f"(most in one partition and cycle: {self.lost_of_partition_max}), "
            f"{self.unknown_survivors} survived unacknowledged, "
            f"{self.offsets_compared} offsets compared; restart median "
            f"{restarts[len(restarts) // 2]:.2f} s, worst {restarts[-1]:.2f} s"
        )


class KillCycles:
    """One data directory and the books about what lies in it."""

    def __init__(self, data: Path, mode: str, seed: int) -> None:
        self.broker = BrokerProcess(data, {**TWO_SHARDS, **SETTINGS[mode]})
        self.summary = Summary(mode, seed)
        self._buffered = mode == "buffered"
        self.contents: dict[int, list[bytes]] = {}

    def start(self) -> None:
        self.broker.start()
        with connect(self.broker) as wire:
            create_topic(wire)
        self.contents = {partition: [] for partition in range(PARTITIONS)}

    def run_cycle(self) -> None:
        """Load, kill, start, compare."""
        summary = self.summary
        cycle = summary.cycles
        choice = random.Random(f"{summary.seed}/{cycle}")
        if cycle and cycle % CYCLES_PER_TOPIC == 0:
            self._replace_topic()
        producers = [
            Producer(self.broker, f"c{cycle}p{number}", f"{summary.seed}/{cycle}/{number}")
            for number in range(PRODUCERS)
        ]
        # In mode buffered a poll makes the owner write: leave it some journals to lose.
        watched = range(0, PARTITIONS, 2) if self._buffered else range(PARTITIONS)
        watcher = Watcher(self.broker, tuple(watched))
        watcher.begin_at({one: len(kept) for one, kept in self.contents.items()})
        for worker in (*producers, watcher):
            worker.start()
        wait_ready(*producers, watcher)
        # Not waiting for a condition: the moment of the kill is the experiment.
        time.sleep(choice.uniform(*KILL_AFTER_S))
        self.kill()
        for worker in (*producers, watcher):
            worker.finish()
        assert_nothing_damaged(self.broker.data)
        began = time.monotonic()
        self.broker.start()
        summary.restarts_s.append(time.monotonic() - began)
        self.compare([producer.book for producer in producers], watcher)
        summary.cycles += 1

    def kill(self) -> None:
        """The end of everything."""
        self.broker.kill()

    def compare(self, books: list[ProducerBook], watcher: Watcher) -> None:
        summary = self.summary
        with connect(self.broker) as wire:
            contents = read_all(wire)
        fresh: dict[int, list[bytes]] = {}
        for partition, kept in self.contents.items():
            assert contents[partition][: len(kept)] == kept, (
                f"partition {partition}: messages that an earlier start had kept have changed"
            )
            fresh[partition] = contents[partition][len(kept) :]
        verdict = judge(books, fresh, loss_allowed=self._buffered)
        assert_prefix(books, fresh)
        for (partition, offset), payload in watcher.seen.items():
            assert offset < len(contents[partition]), (
                f"offset {offset} of partition {partition} was read before the kill and is gone"
            )
            assert contents[partition][offset] == payload, (
                f"offset {offset} of partition {partition} was used twice"
            )
        if self._buffered:
            assert verdict.lost_of_partition_max < JOURNAL_MESSAGES_MAX
        summary.acknowledged += verdict.acknowledged
        summary.lost += verdict.lost
        summary.lost_of_partition_max = max(
            summary.lost_of_partition_max, verdict.lost_of_partition_max
        )
        summary.unknown_survivors += verdict.unknown_survivors
        summary.offsets_compared += len(watcher.seen)
        self.contents = contents

    def _replace_topic(self) -> None:
        with connect(self.broker) as wire:
            wire.ask(DeleteTopic(STREAM, TOPIC))
            assert create_topic(wire, with_stream=False) == 0
        self.contents = {partition: [] for partition in range(PARTITIONS)}


def assert_nothing_damaged(data: Path) -> None:
    """A kill leaves torn writes at most: nothing that `borzoi check` calls damaged."""
    findings = check_data(data, Files())
    damaged = [one for one in findings.found if one.level is Level.DAMAGED]
    assert not damaged, damaged
    assert findings.counts.metadata_entries


def run(
    data: Path, mode: str, cycles: int, seed: int, report: Callable[[Summary], None] | None = None
) -> Summary:
    """So many cycles; AssertionError, naming the seed and the cycle, if a promise is broken."""
    experiment = KillCycles(data, mode, seed)
    summary = experiment.summary
    try:
        experiment.start()
        while summary.cycles < cycles:
            experiment.run_cycle()
            if report is not None:
                report(summary)
    except BaseException as error:
        error.add_note(f"mode {mode}, seed {seed}, cycle {summary.cycles}")
        raise
    finally:
        experiment.broker.close()
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description="kill -9 under load, many times")
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--mode", choices=sorted(SETTINGS), default="written")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)

    def report(summary: Summary) -> None:
        if summary.cycles % 10 == 0:
            print(summary, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="borzoi-kill-") as directory:
        data = Path(directory, "data")
        print(run(data, arguments.mode, arguments.cycles, arguments.seed, report))


if __name__ == "__main__":
    main()
