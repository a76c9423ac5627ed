"""Rows of the table of targets that compare doors with plain TCP, in alternation.

Each transport has a broker of its own beside one that serves plain TCP, on the same CPU; one of the
two is idle while the other is measured. The generator does as much work for a transport as a client
has to: it encrypts, masks and parses on the other CPU.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from borzoi.bench.bed import Bed
from borzoi.bench.plans import HTTP_JSON
from borzoi.bench.quantities import MB
from borzoi.bench.rates import Rate
from borzoi.bench.target_rows import Row, Run

CONNECTIONS: Final = 2
"""One alone would measure how long client and server wait for each other."""

JSON_CONNECTIONS: Final = 16
JSON_TARGET: Final = 8_000
AIMS: Final = {"tls": 0.5, "ws": 0.7, "wss": 0.4, "http": 0.6, "quic": 0.0}
"""Of plain TCP, for large batches. QUIC has none: its figure is what it is."""

Figure = Callable[[Rate], float]


def megabytes(rate: Rate) -> float:
    """Of user data per second."""
    return rate.bytes_per_s / MB


def compare(
    transport: str, action: str, runs: int, duration_ns: int, directory: Path | None
) -> Row:
    """Large batches through a door, and through plain TCP."""
    with (
        Bed(1, directory=directory) as plain,
        Bed(1, directory=directory, transport=transport) as other,
    ):
        measured = []
        for _ in range(runs):
            bound, reached = (_large(bed, action, duration_ns) for bed in (plain, other))
            measured.append(_run(bound, reached, megabytes))
    workload = f"{action} 1,000 x 1 KB per batch, {transport} and plain TCP"
    return Row(f"{transport}-{action}", workload, "MB/s", AIMS[transport], False, tuple(measured))


def json_posts(runs: int, duration_ns: int, directory: Path | None) -> Row:
    """Single messages as JSON: how many a second one core takes."""
    with Bed(1, directory=directory, transport=HTTP_JSON) as bed:
        measured = []
        for _ in range(runs):
            reached = bed.produce(
                duration_ns, connections=JSON_CONNECTIONS, messages_per_batch=1, message_size=100
            )
            per_core = reached.requests_per_s / max(reached.server_cpu_share, 0.01)
            note = (
                f"{reached.server_us_per_request:.1f} us/request, {per_core:,.0f} per core-second"
                f" (CPU {reached.server_cpu_share:.0%}, generator"
                f" {reached.generator_cpu_share:.0%})"
            )
            foreign = reached.foreign_cpu_share
            measured.append(Run(JSON_TARGET, reached.requests_per_s, note, None, foreign))
    workload = "POST of 1 x 100 B as JSON, 16 connections, against the aim of 8,000"
    return Row("http-json-single", workload, "requests/s", 1.0, False, tuple(measured))


def _large(bed: Bed, action: str, duration_ns: int) -> Rate:
    if action == "produce":
        return bed.produce(duration_ns, connections=CONNECTIONS, partitions=CONNECTIONS)
    return bed.poll(duration_ns, connections=CONNECTIONS)


def _run(bound: Rate, reached: Rate, figure: Figure) -> Run:
    cost = reached.server_us_per_request
    note = (
        f"TCP: {bound.server_us_per_request:.0f} us/request (CPU {bound.server_cpu_share:.0%},"
        f" generator {bound.generator_cpu_share:.0%}); other: {cost:.0f} us/request"
        f" (CPU {reached.server_cpu_share:.0%}, generator {reached.generator_cpu_share:.0%})"
    )
    cpu_ratio = bound.server_us_per_request / cost if cost else None
    foreign = max(bound.foreign_cpu_share, reached.foreign_cpu_share)
    return Run(figure(bound), figure(reached), note, cpu_ratio, foreign)


MAKERS: Final[dict[str, Callable[[int, int, Path | None], Row]]] = {
    **{
        f"{transport}-{action}": partial(compare, transport, action)
        for transport in AIMS
        for action in ("produce", "poll")
    },
    "http-json-single": json_posts,
}
