"""D3 and D4: the power goes at a random moment under load; what was synced is on the disk.

    python -m tests.crash.power_cuts --cuts 200 [--mode fsync|written] [--seed N]
                                     [--saver-interval "30 s"]

Needs root and loop mounts. For each cut a broker with two shards works on an empty ext4, four
producers send; all its processes are stopped, the file system is cut off from its disk, and
everything is killed. Another broker starts on what the disk has, and that is compared with the
producers' books.
In mode fsync nothing that was acknowledged may be missing; in mode written what the kernel had not
written back is, and the figure is printed. In both, what is there is the beginning of what was
sent.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from tests.broker import BrokerProcess, wait_for
from tests.crash.kill_cycles import PRODUCERS, SETTINGS, TWO_SHARDS
from tests.crash.ledger import ProducerBook, assert_prefix, judge
from tests.crash.load import Producer, create_topic, read_all, wait_ready
from tests.crash.mounts import PowerCutDisk, Unavailable
from tests.shard_wires import connect

CUT_AFTER_S: Final = (0.05, 2.0)
STOP_TIMEOUT_S: Final = 30.0
MODES: Final = ("fsync", "written")


@dataclass
class Summary:
    """Figures over all cuts."""

    mode: str
    seed: int
    cuts: int = 0
    acknowledged: int = 0
    lost: int = 0
    cuts_with_loss: int = 0
    unknown_survivors: int = 0
    restarts_s: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        restarts = sorted(self.restarts_s) or [0.0]
        share = 100 * self.lost / self.acknowledged if self.acknowledged else 0.0
        return (
            f"mode {self.mode}, seed {self.seed}: {self.cuts} power cuts, "
            f"{self.acknowledged} messages acknowledged, {self.lost} of them lost ({share:.1f} %, "
            f"in {self.cuts_with_loss} cuts), {self.unknown_survivors} survived unacknowledged; "
            f"restart median {restarts[len(restarts) // 2]:.2f} s, worst {restarts[-1]:.2f} s"
        )


def run_cut(disk: PowerCutDisk, summary: Summary, settings: dict[str, str]) -> None:
    """Load, cut, start on what is left, compare."""
    choice = random.Random(f"{summary.seed}/{summary.cuts}")
    with disk.running() as place:
        books = _load_and_cut(disk, place / "data", summary, settings, choice)
    with disk.after_the_cut() as place:
        broker = BrokerProcess(place / "data", settings)
        began = time.monotonic()
        try:
            broker.start()
            summary.restarts_s.append(time.monotonic() - began)
            with connect(broker) as wire:
                contents = read_all(wire)
        finally:
            broker.close()
    verdict = judge(books, contents, loss_allowed=summary.mode != "fsync")
    assert_prefix(books, contents)
    summary.cuts += 1
    summary.acknowledged += verdict.acknowledged
    summary.lost += verdict.lost
    summary.cuts_with_loss += verdict.lost > 0
    summary.unknown_survivors += verdict.unknown_survivors


def _load_and_cut(
    disk: PowerCutDisk,
    data: Path,
    summary: Summary,
    settings: dict[str, str],
    choice: random.Random,
) -> list[ProducerBook]:
    broker = BrokerProcess(data, settings)
    producers = [
        Producer(broker, f"p{number}", f"{summary.seed}/{summary.cuts}/{number}")
        for number in range(PRODUCERS)
    ]
    try:
        broker.start()
        with connect(broker) as wire:
            create_topic(wire)
        for producer in producers:
            producer.start()
        wait_ready(*producers)
        # Not waiting for a condition: the moment of the cut is the experiment.
        time.sleep(choice.uniform(*CUT_AFTER_S))
        stop_all(broker)
        disk.cut_power()
    finally:
        broker.close()
    # What was acknowledged before the cut may still be on its way to the producers.
    for producer in producers:
        producer.finish()
    return [producer.book for producer in producers]


def stop_all(broker: BrokerProcess) -> None:
    """SIGSTOP to the whole broker: when it returns, nothing can be acknowledged any more."""
    members = [broker.pid, *broker.workers().values()]
    os.killpg(broker.pid, signal.SIGSTOP)
    wait_for(lambda: all(_stands_still(pid) for pid in members), STOP_TIMEOUT_S)


def _stands_still(pid: int) -> bool:
    """Every thread of it: one inside a sync stops only when the disk has answered."""
    for thread in psutil.Process(pid).threads():
        state = Path(f"/proc/{pid}/task/{thread.id}/stat").read_text().rpartition(")")[2].split()[0]
        if state != "T":
            return False
    return True


def run(
    directory: Path,
    mode: str,
    cuts: int,
    seed: int,
    *,
    saver_interval: str = "30 s",
    report: Callable[[Summary], None] | None = None,
) -> Summary:
    """So many cuts; AssertionError, naming the seed and the cut, if a promise is broken."""
    summary = Summary(mode, seed)
    saver = {"IGGY_MESSAGE_SAVER_INTERVAL": saver_interval}
    settings = {**TWO_SHARDS, **SETTINGS[mode], **saver}
    with PowerCutDisk(directory) as disk:
        try:
            while summary.cuts < cuts:
                run_cut(disk, summary, settings)
                if report is not None:
                    report(summary)
        except BaseException as error:
            error.add_note(f"mode {mode}, seed {seed}, cut {summary.cuts}")
            raise
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description="power cuts under load, many times")
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--mode", choices=MODES, default="fsync")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--saver-interval", default="30 s", help="of mode written")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)

    def report(summary: Summary) -> None:
        if summary.cuts % 10 == 0:
            print(summary, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="borzoi-power-") as directory:
        try:
            summary = run(
                Path(directory),
                arguments.mode,
                arguments.cuts,
                arguments.seed,
                saver_interval=arguments.saver_interval,
                report=report,
            )
        except Unavailable as error:
            sys.exit(f"not possible here: {error}")
        print(summary)


if __name__ == "__main__":
    main()
