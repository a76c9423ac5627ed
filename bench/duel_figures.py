"""From the samples of a duel to its table: medians over the rounds, and ratios round by round.

Pure. A ratio compares two servers within one round, because a machine changes between rounds; the
median of these ratios is then the figure. It is not the ratio of the medians.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from borzoi.bench.load import LoadResult
from borzoi.bench.measures import NS_PER_MS, measured, percentiles_of
from borzoi.bench.plans import Role
from borzoi.bench.quantities import MB, NS_PER_S
from borzoi.bench.rates import rate_of


@dataclass(frozen=True, slots=True)
class RoleFigures:
    """All actors of one role in one run. Latencies are over all requests of all of them."""

    role: Role
    mb_per_s: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One run of one row on one server. `cpu_us` is per message; None if it is not known."""

    row: str
    server: str
    number: int
    roles: tuple[RoleFigures, ...]
    cpu_us: float | None
    foreign_cpu_share: float

    def of(self, role: Role) -> RoleFigures:
        """Returns the figures of a role that the row has."""
        return next(figures for figures in self.roles if figures.role is role)


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure over all rounds."""

    middle: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class DuelLine:
    """One line of the table: a role of a row on one server, beside the first server.

    The three ratios are above 1 where this server is better: more bytes, a shorter 99th
    percentile, less CPU time.
    """

    row: str
    role: Role
    server: str
    mb_per_s: float
    requests_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float | None
    rate_ratio: Spread | None
    p99_ratio: Spread | None
    cpu_ratio: Spread | None


def run_figures(
    row: str, server: str, number: int, load: LoadResult, processes: tuple[str, ...]
) -> RunFigures:
    """Returns the figures of a run; `processes` are the names of the watched ones that serve."""
    rate = rate_of(load, processes)
    return RunFigures(
        row=row,
        server=server,
        number=number,
        roles=tuple(
            _role_figures(load, role) for role in Role if any(a.role is role for a in load.actors)
        ),
        cpu_us=rate.server_us_per_message if processes else None,
        foreign_cpu_share=rate.foreign_cpu_share,
    )


def _role_figures(load: LoadResult, role: Role) -> RoleFigures:
    actors = [measured(actor) for actor in load.actors if actor.role is role and actor.ends]
    if not actors:
        return RoleFigures(role, 0.0, 0.0, 0.0, 0.0)
    began = min(actor.started_ns for actor in actors)
    seconds = max(1, max(int(actor.ends_ns[-1]) for actor in actors) - began) / NS_PER_S
    latencies = np.concatenate([actor.latencies_ns for actor in actors])
    p50, p99 = percentiles_of(latencies, (50.0, 99.0))
    return RoleFigures(
        role=role,
        mb_per_s=sum(actor.byte_count for actor in actors) / MB / seconds,
        requests_per_s=len(latencies) / seconds,
        p50_ms=p50 / NS_PER_MS,
        p99_ms=p99 / NS_PER_MS,
    )


def duel_lines(servers: Sequence[str], runs: Sequence[RunFigures]) -> list[DuelLine]:
    """Returns the lines of one row: by role, and of each role the servers in their order."""
    by_server = {name: [run for run in runs if run.server == name] for name in servers}
    roles = [figures.role for figures in runs[0].roles]
    first = by_server[servers[0]]
    return [_line(role, name, by_server[name], first) for role in roles for name in servers]


def _line(
    role: Role, server: str, runs: Sequence[RunFigures], first: Sequence[RunFigures]
) -> DuelLine:
    def middle(figure: Callable[[RoleFigures], float]) -> float:
        return median(figure(run.of(role)) for run in runs)

    def better(figure: Callable[[RunFigures], float | None], *, more: bool) -> Spread | None:
        pairs = [(figure(mine), figure(its)) for mine, its in zip(runs, first, strict=True)]
        ratios = [mine / its if more else its / mine for mine, its in pairs if mine and its]
        if runs is first or not ratios:
            return None
        return Spread(median(ratios), min(ratios), max(ratios))

    known = [run.cpu_us for run in runs if run.cpu_us is not None]
    return DuelLine(
        row=runs[0].row,
        role=role,
        server=server,
        mb_per_s=middle(lambda figures: figures.mb_per_s),
        requests_per_s=middle(lambda figures: figures.requests_per_s),
        p50_ms=middle(lambda figures: figures.p50_ms),
        p99_ms=middle(lambda figures: figures.p99_ms),
        cpu_us=median(known) if known else None,
        rate_ratio=better(lambda run: run.of(role).mb_per_s, more=True),
        p99_ratio=better(lambda run: run.of(role).p99_ms, more=False),
        cpu_ratio=better(lambda run: run.cpu_us, more=False),
    )
