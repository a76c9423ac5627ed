"""`borzoi bench duel`: which servers, which rows, how often; what is measured is in duel.py."""

import socket
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import click

from borzoi.bench.failures import BenchFailed
from borzoi.bench.options import parse_address
from borzoi.bench.plans import Credentials
from borzoi.bench.quantity_types import DIRECTORY, DURATION, POSITIVE, Quantity
from borzoi.bench.reported import reported

if TYPE_CHECKING:
    from borzoi.bench.duel import Contestant

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
SERVERS_MIN: Final = 2


def parse_server(text: str) -> tuple[str, tuple[str, int]]:
    """Returns name, host and port of `NAME=HOST:PORT`; else raises ValueError."""
    name, equals, address = text.partition("=")
    if not name or not equals:
        raise ValueError(f"{text!r} is no server: needs NAME=HOST:PORT")
    return name, parse_address(address)


def parse_pid(text: str) -> tuple[str, int]:
    """Returns name and process id of `NAME=PID`; else raises ValueError."""
    name, _, pid = text.partition("=")
    if not name or not pid.isdigit():
        raise ValueError(f"{text!r} is no process of a server: needs NAME=PID")
    return name, int(pid)


@click.command()
@click.option(
    "--server",
    "servers",
    multiple=True,
    required=True,
    type=Quantity("name=host:port", parse_server),
    help="A server that runs; the others are compared with the first.",
)
@click.option(
    "--pid",
    "pids",
    multiple=True,
    type=Quantity("name=pid", parse_pid),
    help="Its process, for CPU time; on this machine GET_STATS says it.",
)
@click.option("--only", multiple=True, help="Only this row; may be repeated.")
@click.option("--rounds", type=POSITIVE, default=5, show_default=True, help="Runs per server.")
@click.option("-d", "--duration", type=DURATION, default="1s", show_default=True, help="Per run.")
@click.option("-u", "--username", default="iggy", show_default=True)
@click.option("-p", "--password", default="iggy", show_default=True)
@click.option("-o", "--output-dir", type=DIRECTORY, default="duel_results", show_default=True)
def duel(
    servers: tuple[tuple[str, tuple[str, int]], ...],
    pids: tuple[tuple[str, int], ...],
    only: tuple[str, ...],
    rounds: int,
    duration: int,
    username: str,
    password: str,
    output_dir: Path,
) -> None:
    """Put the same load on running servers in turn, and compare them.

    Streams named bench-duel-1, bench-duel-2, ... are made and removed on each server.
    """
    named = dict(servers)
    if len(named) < SERVERS_MIN or len(named) < len(servers):
        raise click.UsageError("a duel needs two --server options or more, with different names")
    strangers = [name for name, _ in pids if name not in named]
    if strangers:
        raise click.UsageError(f"--pid names {', '.join(strangers)}, which no --server does")
    with reported():
        from borzoi.bench.duel import Contestant, Rules

        credentials = Credentials(username, password)
        contestants = [
            _with_processes(Contestant(name, *named[name], credentials), dict(pids).get(name))
            for name in named
        ]
        _run(contestants, only, Rules(rounds, duration), output_dir)


def _run(
    contestants: "list[Contestant]", only: tuple[str, ...], rules: Any, output_dir: Path
) -> None:
    from borzoi.bench.duel import duel as duelled
    from borzoi.bench.duel_figures import DuelLine, RunFigures, duel_lines
    from borzoi.bench.duel_report import duel_table, save_duel
    from borzoi.bench.duel_rows import DUEL_ROWS
    from borzoi.bench.tables import new_console
    from borzoi.bench.target_rows import FOREIGN_SHARE_MAX

    unknown = set(only) - DUEL_ROWS.keys()
    if unknown:
        raise click.UsageError(f"no row {', '.join(unknown)}; there are {', '.join(DUEL_ROWS)}")
    console = new_console()
    rows = [DUEL_ROWS[name] for name in only or tuple(DUEL_ROWS)]
    names = [contestant.name for contestant in contestants]
    lines: list[DuelLine] = []
    runs: list[RunFigures] = []

    def done(run: RunFigures) -> None:
        reached = ", ".join(f"{one.mb_per_s:,.1f} MB/s" for one in run.roles)
        console.print(f"{run.row} {run.number + 1}: {run.server} {reached}", style="dim")

    for _row, found in duelled(contestants, rows, rules, done):
        runs += found
        lines += duel_lines(names, found)
    console.print(duel_table(lines))
    busy = median(run.foreign_cpu_share for run in runs)
    if busy > FOREIGN_SHARE_MAX:
        console.print(f"Disturbed: other programs kept {busy:.1f} cores busy", style="yellow")
    servers = {one.name: f"{one.host}:{one.port}" for one in contestants}
    console.print(f"written to {save_duel(lines, runs, servers, output_dir)}")


def _with_processes(contestant: "Contestant", pid: int | None) -> "Contestant":
    """The processes of a server: those of the id given, else of the one that it says itself."""
    from borzoi.bench import admin as orders
    from borzoi.bench.admin import Admin
    from borzoi.bench.duel import processes_of

    if pid is None:
        try:
            admin = Admin.connect(contestant.host, contestant.port, contestant.credentials)
        except OSError as error:
            place = f"{contestant.name} at {contestant.host}:{contestant.port}"
            raise BenchFailed(f"cannot connect to {place}: {error}") from error
        stats = orders.stats_of(admin)
        admin.close()
        here = contestant.host in LOOPBACK or (
            stats is not None and stats.hostname == socket.gethostname()
        )
        pid = stats.process_id if stats is not None and here else None
    return contestant if pid is None else replace(contestant, pids=processes_of(pid))
