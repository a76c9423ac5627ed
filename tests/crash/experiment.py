"""What commands that kill again and again have in common: repeating, telling, naming the seed."""

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from tests.broker import BrokerProcess

KILLS: Final = 200
REPORT_EVERY: Final = 10
SEEDS: Final = 1 << 32


class Tally(Protocol):
    """The figures of an experiment; as text they are what is printed."""

    seed: int

    @property
    def kills(self) -> int: ...


Figures = TypeVar("Figures", bound=Tally, covariant=True)


class Experiment(Protocol[Figures]):
    """A broker under load that is killed once in each step."""

    @property
    def broker(self) -> BrokerProcess: ...

    @property
    def summary(self) -> Figures: ...

    def start(self) -> None: ...

    def run_kill(self) -> None:
        """Load, kill, look. AssertionError if a promise is broken."""

    def finish(self) -> None:
        """Stop what goes on between two kills."""


def run_kills(
    experiment: Experiment[Figures],
    kills: int,
    report: Callable[[Figures], None] | None = None,
) -> Figures:
    """So many kills; AssertionError, naming the seed, if a promise is broken."""
    summary = experiment.summary
    try:
        experiment.start()
        while summary.kills < kills:
            experiment.run_kill()
            if report is not None:
                report(summary)
        experiment.finish()
    except BaseException as error:
        error.add_note(f"{summary}\nseed {summary.seed}, kill {summary.kills}")
        raise
    finally:
        experiment.broker.close()
    return summary


def new_seed() -> int:
    """Another one each time; it is printed."""
    return random.SystemRandom().randrange(SEEDS)


def kill_command(
    description: str,
    make: Callable[[Path, str, int], Experiment[Any]],
    choices: Sequence[str] = ("written", "fsync"),
    option: str = "--mode",
) -> None:
    """The command line: how many kills, which of the choices (the first if none), which seed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument(option, dest="choice", choices=choices, default=choices[0])
    parser.add_argument("--seed", type=int, default=new_seed())
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)

    def report(summary: Tally) -> None:
        if summary.kills % REPORT_EVERY == 0:
            print(summary, file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="borzoi-kills-") as directory:
        experiment = make(Path(directory, "data"), arguments.choice, arguments.seed)
        print(run_kills(experiment, arguments.kills, report))
