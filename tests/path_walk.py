"""The files and functions that a request passes, from the door's `buffer_updated` on.

    python -m tests.path_walk [--functions] [send | offset | next]

A real broker of one shard runs in a temporary directory. A `sitecustomize` on its path sets a
profile function in each worker, which notes every call into a file of the project. Each request
is driven WARM_UP times first; then the most frequent of RUNS walks counts, so a timer that runs
in between does not appear. A walk ends when the next bytes arrive at the door.

A file counts with all its lines. Compiled loops (.pyx) and class bodies without a call of their
own do not appear: the profile sees Python functions only.
"""

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.system import Ping
from borzoi.protocol.identifiers import Consumer, ConsumerKind, PollingStrategy, StrategyKind
from tests.broker import BrokerProcess
from tests.shard_wires import ONE_SHARD
from tests.topics import topic_of
from tests.wire import Wire

PROJECT: Final = Path(__file__).resolve().parent.parent
WARM_UP: Final = 40
RUNS: Final = 15
NAME: Final = "walked"
MESSAGES: Final = (b"first", b"second", b"third")

# Runs in every process of the broker; only workers, which are forked, take notes.
HOOK: Final = """
import json, os, sys

HERE = os.environ["BORZOI_PATH_WALK_PROJECT"] + "/"
OUT = os.environ["BORZOI_PATH_WALK_OUT"]
FOLDERS = ("protocol/", "router/", "storage/", "shards/")
known = {}
walk = None

def place(code):
    found = known.get(code)
    if found is None:
        path = os.path.realpath(code.co_filename)
        inside = path[len(HERE):] if path.startswith(HERE) else ""
        found = (inside, code.co_qualname) if inside.startswith(FOLDERS) else ()
        known[code] = found
    return found

def note(frame, event, _argument):
    global walk
    if event != "call":
        return
    found = place(frame.f_code)
    if not found:
        return
    if found[1].endswith(".buffer_updated"):
        if walk is not None:
            with open(f"{OUT}/{os.getpid()}", "a") as out:
                out.write(json.dumps(walk) + "\\n")
        walk = []
    if walk is not None:
        walk.append(found)

os.register_at_fork(after_in_child=lambda: sys.setprofile(note))
"""


class Step(NamedTuple):
    """One function that was called."""

    file: str
    function: str


class Walk(NamedTuple):
    """The most frequent way of a request, each function at its first call."""

    steps: tuple[Step, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.file for step in self.steps))


def lines_of(files: Sequence[str]) -> int:
    """All lines of the files together."""
    return sum(len((PROJECT / file).read_text().splitlines()) for file in files)


class Walker:
    """One connection to a broker that takes notes."""

    def __init__(self, wire: Wire, notes: Path) -> None:
        self._wire = wire
        self._notes = notes
        self._offset = 0
        wire.ask(CreateStream(NAME))
        wire.ask(topic_of(NAME))

    def walk(self, request: Callable[[], None]) -> Walk:
        """The way of `request`, warmed up."""
        for _ in range(WARM_UP):
            request()
        found: Counter[tuple[Step, ...]] = Counter()
        for _ in range(RUNS):
            self._wire.ask(Ping())
            before = len(self._lines())
            request()
            self._wire.ask(Ping())
            # The walk of the ping before it is written when the request arrives.
            steps = (Step(*step) for step in json.loads(self._lines()[before + 1]))
            found[tuple(dict.fromkeys(steps))] += 1
        return Walk(found.most_common(1)[0][0])

    def send(self) -> None:
        """A batch of three, to the partition that is remembered by now."""
        status = self._wire.send(NAME, 0, *MESSAGES)
        assert status == 0, status

    def poll_offset(self) -> None:
        """A consumer that reads on by offset."""
        self._offset += len(self._poll(StrategyKind.OFFSET, self._offset, auto_commit=False))

    def poll_next(self) -> None:
        """A consumer that reads on from what it has committed."""
        assert self._poll(StrategyKind.NEXT, 0, auto_commit=True)

    def _poll(self, kind: StrategyKind, value: int, *, auto_commit: bool) -> Sequence[object]:
        polled = self._wire.ask(
            PollMessages(
                Consumer(ConsumerKind.CONSUMER, 7), NAME, NAME, 0,
                PollingStrategy(kind, value), 1, auto_commit,
            )
        )  # fmt: skip
        messages: Sequence[object] = polled.messages
        return messages

    def _lines(self) -> list[str]:
        (written,) = self._notes.iterdir()
        return written.read_text().splitlines()


REQUESTS: Final[dict[str, Callable[[Walker], None]]] = {
    "send": Walker.send,
    "offset": Walker.poll_offset,
    "next": Walker.poll_next,
}


@contextmanager
def walker(directory: Path) -> Iterator[Walker]:
    """A broker that takes notes, and a connection to it."""
    hooks, notes = directory / "hooks", directory / "notes"
    hooks.mkdir()
    notes.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOK)
    paths = [str(hooks), *filter(None, [os.environ.get("PYTHONPATH")])]
    broker = BrokerProcess(
        directory / "data",
        {
            **ONE_SHARD,
            "PYTHONPATH": os.pathsep.join(paths),
            "BORZOI_PATH_WALK_PROJECT": str(PROJECT),
            "BORZOI_PATH_WALK_OUT": str(notes),
            "IGGY_ROOT_USERNAME": "iggy",
            "IGGY_ROOT_PASSWORD": "iggy",
        },
    )
    try:
        broker.start()
        yield Walker(Wire(broker), notes)
    finally:
        broker.close()


def walks(names: Sequence[str]) -> dict[str, Walk]:
    """The ways of these requests; polls find what was sent before."""
    with tempfile.TemporaryDirectory() as directory, walker(Path(directory)) as walking:
        for _ in range(2 * (WARM_UP + RUNS)):
            walking.send()
        return {name: walking.walk(partial(REQUESTS[name], walking)) for name in names}


def main() -> None:
    parser = argparse.ArgumentParser(description="The files and functions a request passes.")
    parser.add_argument("requests", nargs="*", choices=[*REQUESTS, []], default=[])
    parser.add_argument("--functions", action="store_true", help="list the functions too")
    arguments = parser.parse_args()
    found = walks(arguments.requests or list(REQUESTS))
    for name, walk in found.items():
        print(f"{name}: {len(walk.files)} files, {lines_of(walk.files)} lines")
        for file in walk.files:
            print(f"  {lines_of([file]):4d}  {file}")
            if arguments.functions:
                for step in walk.steps:
                    if step.file == file:
                        print(f"          {step.function}")
    everything = dict.fromkeys(file for walk in found.values() for file in walk.files)
    print(f"together: {len(everything)} files, {lines_of(list(everything))} lines")


if __name__ == "__main__":
    main()
