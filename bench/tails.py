"""The tails of a steady load: one that producers and consumers share, offered below saturation.

First the load runs as fast as it goes; the rate of that is the saturation. Then a share of it, or
a rate that was asked for, is offered without a pause, and the requests are looked at minute by
minute: a server that is well has the same tail in the last minute as in the first. Topics are
bounded and their oldest segments deleted meanwhile, so that a long run fits on the disk.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from borzoi.bench.broker import OwnBroker
from borzoi.bench.cpus import available_cpus, decide
from borzoi.bench.duel import Contestant, Rules, loaded, processes_of
from borzoi.bench.duel_figures import RunFigures, run_figures
from borzoi.bench.duel_rows import DuelRow
from borzoi.bench.failures import BenchFailed
from borzoi.bench.kinds import PINNED_BOTH
from borzoi.bench.load import LoadResult
from borzoi.bench.measures import NS_PER_MS, measured, percentiles_of
from borzoi.bench.plans import Role
from borzoi.bench.quantities import GB, MB, NS_PER_S

MINUTE_NS: Final = 60 * NS_PER_S
SATURATION_NS: Final = 10 * NS_PER_S
P9999_MAX_MS: Final = 25.0
TOPIC_SIZE_MAX: Final = 4 * GB
MIXED: Final = DuelRow("tails", PINNED_BOTH, 100, 1000, producers=2, consumers=2)
SETTINGS: Final = {
    "IGGY_DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "true",
    "IGGY_DATA_MAINTENANCE_MESSAGES_INTERVAL": "5 s",
}


@dataclass(frozen=True, slots=True)
class Minute:
    """From origin to poll, over all polls that ended in this minute."""

    number: int
    mb_per_s: float
    polls: int
    p50_ms: float
    p99_ms: float
    p9999_ms: float

    @property
    def met(self) -> bool:
        """Whether the longest tail is as short as it has to be."""
        return self.p9999_ms <= P9999_MAX_MS


@dataclass(frozen=True, slots=True)
class Tails:
    """What was offered, and each minute of it. The saturation is None if a rate was asked for."""

    saturation_mb_per_s: float | None
    offered_mb_per_s: float
    minutes: tuple[Minute, ...]
    foreign_cpu_share: float

    @property
    def met(self) -> bool:
        """Whether all minutes are as they have to be."""
        return all(minute.met for minute in self.minutes)


def tails(
    minutes: int,
    share: float,
    rate: int | None,
    shards: int,
    directory: Path | None,
    say: Callable[[str], None],
) -> Tails:
    """Offers a rate, or a `share` of what a broker of our own can take; looks at each minute."""
    allocation = decide(available_cpus(), shards, 1).cpu_allocation
    with OwnBroker(allocation, SETTINGS, directory) as broker:
        server = Contestant(
            "broker", broker.host, broker.port, broker.credentials, processes_of(broker.pid)
        )
        return tails_of(server, minutes, share, say, rate=rate)


def tails_of(
    server: Contestant,
    minutes: int,
    share: float,
    say: Callable[[str], None],
    *,
    rate: int | None = None,
    minute_ns: int = MINUTE_NS,
    saturation_ns: int = SATURATION_NS,
) -> Tails:
    """Offers bytes per second, else a `share` of what a server can take.

    The server has to delete what topics are too long for.
    """
    saturation = None
    if rate is None:
        say("measuring what goes through at most")
        saturation = _saturation(_run(server, MIXED, saturation_ns)[1])
        say(f"{saturation:,.0f} MB/s")
        rate = max(1, int(share * saturation * MB))
    say(f"offering {rate / MB:,.0f} MB/s")
    load, figures = _run(server, replace(MIXED, rate=rate), minutes * minute_ns)
    return Tails(saturation, rate / MB, minutes_of(load, minute_ns), figures.foreign_cpu_share)


def minutes_of(load: LoadResult, minute_ns: int = MINUTE_NS) -> tuple[Minute, ...]:
    """Returns the figures of the consumers of a load, minute by minute.

    A rest of less than half a minute belongs to the one before.
    """
    consumers = [measured(actor) for actor in load.actors if actor.role is Role.CONSUMER]
    if not any(actor.request_count for actor in consumers):
        raise BenchFailed("nothing was measured: no message was polled")
    began = min(actor.started_ns for actor in consumers)
    ends = np.concatenate([actor.ends_ns for actor in consumers]) - began
    latencies = np.concatenate([actor.latencies_ns for actor in consumers])
    amounts = np.concatenate([actor.user_bytes for actor in consumers])
    whole, rest = divmod(int(ends.max()), minute_ns)
    count = max(1, whole + (rest >= minute_ns / 2))
    numbers = np.minimum(ends // minute_ns, count - 1)
    found = []
    for number in range(count):
        inside = numbers == number
        width_ns = minute_ns if number < count - 1 else int(ends.max()) - number * minute_ns
        p50, p99, p9999 = percentiles_of(latencies[inside] / NS_PER_MS, (50.0, 99.0, 99.99))
        rate = int(amounts[inside].sum()) / MB / (max(1, width_ns) / NS_PER_S)
        found.append(Minute(number + 1, rate, int(inside.sum()), p50, p99, p9999))
    return tuple(found)


def minute_line(minute: Minute) -> str:
    """Returns the figures of a minute as a line."""
    return (
        f"minute {minute.number:>3}: {minute.mb_per_s:,.0f} MB/s, from origin to poll p50"
        f" {minute.p50_ms:.2f} ms, p99 {minute.p99_ms:.2f} ms, p99.99 {minute.p9999_ms:.2f} ms"
        f" of {minute.polls:,} polls"
    )


def _run(server: Contestant, row: DuelRow, duration_ns: int) -> tuple[LoadResult, RunFigures]:
    rules = Rules(rounds=1, duration_ns=duration_ns, topic_size_max=TOPIC_SIZE_MAX)
    load, processes = loaded(server, row, rules)
    return load, run_figures(row.name, server.name, 0, load, processes)


def _saturation(figures: RunFigures) -> float:
    """What both sides keep up with. Raises if nothing goes through."""
    found = min(side.mb_per_s for side in figures.roles)
    if not found:
        raise BenchFailed("nothing goes through: there is no saturation to take a share of")
    return found


def flat_ratio(minutes: Sequence[Minute]) -> float:
    """How many times the shortest p99 of a minute the longest one is."""
    shares = [minute.p99_ms for minute in minutes]
    return max(shares) / max(min(shares), 1e-9)
