"""F6 in numbers: kill -9 of one random worker after the other, under load from both shards.

    python -m tests.crash.worker_kills --kills 500 [--seed N]

Prints how long the dead shard's partitions did not acknowledge. A worker that has just been
replaced is given the time to count as healthy again: back-off is another experiment.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.shards.process.supervisor import LIVED_LONG_S
from tests.broker import BrokerProcess, wait_for
from tests.crash.kill_cycles import TWO_SHARDS
from tests.crash.ledger import Outcome, judge
from tests.crash.load import (
    STREAM,
    TOPIC,
    Producer,
    create_topic,
    partitions_of,
    read_all,
    wait_ready,
)
from tests.shard_wires import connect, connect_to_shard

SHARDS: Final = 2
PRODUCERS: Final = 4
KILLS_PER_TOPIC: Final = 5
BATCH_SIZES: Final = (1, 2, 5)
WORKER_TIMEOUT_S: Final = 60.0


@dataclass
class Summary:
    seed: int
    kills: int = 0
    acknowledged: int = 0
    unknown_survivors: int = 0
    refused: int = 0
    away_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        away = sorted(self.away_s) or [0.0]
        return (
            f"seed {self.seed}: {self.kills} workers killed, {self.acknowledged} messages "
            f"acknowledged, 0 lost, 0 twice, {self.unknown_survivors} survived unacknowledged, "
            f"{self.refused} batches refused; partitions away for {away[len(away) // 2]:.2f} s "
            f"(median), {away[-1]:.2f} s (worst)"
        )


def run(data: Path, kills: int, seed: int) -> Summary:
    """So many kills; AssertionError if something acknowledged is lost, doubled or hangs."""
    broker = BrokerProcess(data, TWO_SHARDS)
    summary = Summary(seed)
    choice = random.Random(seed)
    try:
        broker.start()
        with connect(broker) as wire:
            create_topic(wire)
        while summary.kills < kills:
            _run_topic(broker, min(KILLS_PER_TOPIC, kills - summary.kills), choice, summary)
            print(summary, file=sys.stderr, flush=True)
            with connect(broker) as wire:
                wire.ask(DeleteTopic(STREAM, TOPIC))
                create_topic(wire, with_stream=False)
    except BaseException as error:
        error.add_note(f"seed {seed}, kill {summary.kills}")
        raise
    finally:
        broker.close()
    return summary


def _run_topic(broker: BrokerProcess, kills: int, choice: random.Random, summary: Summary) -> None:
    producers = [
        Producer(
            broker, f"k{summary.kills}p{number}", f"{summary.seed}/{summary.kills}/{number}",
            batch_sizes=BATCH_SIZES, reconnect=True,
            connect_with=partial(connect_to_shard, shard=number % SHARDS),
        )
        for number in range(PRODUCERS)
    ]  # fmt: skip
    probe = Producer(broker, f"k{summary.kills}probe", "0", batch_sizes=(1,))
    for producer in producers:
        producer.start()
    wait_ready(*producers)
    for _ in range(kills):
        # Not waiting for a condition: the moment of the kill is the experiment.
        time.sleep(LIVED_LONG_S + choice.uniform(0, 0.5))
        victim = choice.randrange(SHARDS)
        pid = wait_for(lambda: broker.workers().get(victim, 0), WORKER_TIMEOUT_S)  # noqa: B023 - at once
        killed_at = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        _probe(broker, probe, partitions_of(victim, SHARDS)[0])
        summary.away_s.append(time.monotonic() - killed_at)
        summary.kills += 1
    for producer in producers:
        producer.finish()
    with connect(broker) as wire:
        verdict = judge([*(one.book for one in producers), probe.book], read_all(wire))
    summary.acknowledged += verdict.acknowledged
    summary.unknown_survivors += verdict.unknown_survivors
    summary.refused += sum(producer.refusals for producer in producers)


def _probe(broker: BrokerProcess, probe: Producer, partition: int) -> None:
    """Send to a partition until it acknowledges."""
    deadline = time.monotonic() + WORKER_TIMEOUT_S
    while True:
        assert time.monotonic() < deadline, "the partition does not come back"
        with connect(broker) as wire:
            if probe.send_one(wire, partition) is Outcome.ACKNOWLEDGED:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description="kill one worker after the other under load")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="borzoi-workers-") as directory:
        print(run(Path(directory, "data"), arguments.kills, arguments.seed))


if __name__ == "__main__":
    main()
