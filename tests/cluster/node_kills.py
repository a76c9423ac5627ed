"""K3 with one node: kill -9 under load, and the disk is kept, lost, old, or ahead of the store.

    python -m tests.cluster.node_kills --cycles 300 [--seed N] [--fates wipe,keep]

As tests.crash.kill_cycles, on a directory as store. Instead of a kill, another node may take the
lanes over while the first one is healthy and under load: the first has to stop by itself. After
each fate all that was acknowledged has to be there, once, in order, and nothing that was refused.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.broker import STOP_TIMEOUT_S, BrokerProcess
from tests.cluster.replicated import SMALL, replicated
from tests.crash.kill_cycles import KillCycles, Summary

KEEP: Final = "keep"
WIPE: Final = "wipe"
OLDER: Final = "older"
AHEAD: Final = "ahead"
TAKEOVER: Final = "takeover"
FATES: Final = (KEEP, WIPE, WIPE, OLDER, AHEAD, TAKEOVER)
FAILED: Final = 1


class NodeProcess(BrokerProcess):
    """A broker whose disk is changed before it starts; one with a successor does not start."""

    def __init__(self, data: Path, store: Path, node: str) -> None:
        super().__init__(data, {**replicated(store, node), **SMALL})
        self.before_start: Callable[[], None] | None = None
        self.has_successor = False

    def start(self, *, pass_fds: Sequence[int] = ()) -> None:
        if self.before_start is not None:
            self.before_start()
            self.before_start = None
        if not self.has_successor:
            super().start(pass_fds=pass_fds)

    def wait_end(self) -> int:
        """The exit code of a broker that stops by itself."""
        assert self._process is not None
        code = self._process.wait(STOP_TIMEOUT_S)
        self._process = None
        return code


class NodeKills(KillCycles):
    """One store, and the node that serves from it."""

    def __init__(self, place: Path, seed: int, fates: Sequence[str]) -> None:
        super().__init__(place / "unused", "written", seed)
        self._place = place
        self._fates = fates
        self._nodes = 0
        self.met: Counter[str] = Counter()
        self.broker = self.node = self._new_node()

    def _new_node(self) -> NodeProcess:
        self._nodes += 1
        name = f"node-{self._nodes}"
        return NodeProcess(self._place / name, self._place / "store", name)

    def kill(self) -> None:
        """The end of this node, and what becomes of its disk."""
        fate = random.Random(f"{self.summary.seed}/{self.summary.cycles}/fate").choice(self._fates)
        self.met[fate] += 1
        node, data = self.node, self.node.data
        if fate == TAKEOVER:
            self._take_over()
            return
        node.kill()
        if fate == WIPE:
            node.before_start = lambda: shutil.rmtree(data)
        elif fate == AHEAD:
            node.before_start = lambda: write_ahead(data)
        elif fate == OLDER:
            # What this directory was some time ago; the first time nothing but its membership.
            node.before_start = lambda: put_back(data, self._place / "older")

    def _take_over(self) -> None:
        first = self.node
        self.node = self._new_node()
        self.node.start()
        code = first.wait_end()
        assert code == FAILED, first.output()
        assert "has taken the lane over" in first.output()
        assert "fault of ours" not in first.output()

        def succeed() -> None:
            shutil.rmtree(first.data)
            self.broker = self.node

        first.has_successor = True
        first.before_start = succeed

    def close(self) -> None:
        """End what still runs."""
        self.node.close()


def write_ahead(data: Path) -> None:
    """Sound bytes that no slot has: the last segment again, behind itself."""
    for partition in data.glob("streams/*/topics/*/partitions/*"):
        last = max(partition.glob("*.log"))
        with last.open("ab") as log:
            log.write(last.read_bytes())


def put_back(data: Path, older: Path) -> None:
    """Exchange a data directory for an older copy of itself, and keep it as the next one."""
    kept = older.with_name("now")
    shutil.copytree(data, kept)
    if older.exists():
        shutil.rmtree(data)
        older.rename(data)
    kept.rename(older)


def run(
    place: Path,
    cycles: int,
    seed: int,
    fates: Sequence[str] = FATES,
    report: Callable[[Summary, Counter[str]], None] | None = None,
) -> NodeKills:
    """So many cycles; AssertionError, naming the seed and the cycle, if a promise is broken."""
    experiment = NodeKills(place, seed, fates)
    summary = experiment.summary
    try:
        experiment.start()
        while summary.cycles < cycles:
            experiment.run_cycle()
            if report is not None:
                report(summary, experiment.met)
        assert "fault of ours" not in experiment.node.output(), experiment.node.output()
    except BaseException as error:
        error.add_note(f"seed {seed}, cycle {summary.cycles}, fates {dict(experiment.met)}")
        raise
    finally:
        experiment.close()
    return experiment


def main() -> None:
    parser = argparse.ArgumentParser(description="kill a node under load, many times")
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--fates", default=",".join(FATES))
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)

    def report(summary: Summary, met: Counter[str]) -> None:
        if summary.cycles % 10 == 0:
            print(summary, dict(met), file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="borzoi-node-") as directory:
        fates = arguments.fates.split(",")
        done = run(Path(directory), arguments.cycles, arguments.seed, fates, report)
        print(done.summary, dict(done.met))


if __name__ == "__main__":
    main()
