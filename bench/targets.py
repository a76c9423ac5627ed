"""The table of targets: every row with its own set-up, limit and broker measured in turn.

    1 shard on one CPU, the generator on another, durability `written`, unless the row says else

A row is a function from (runs, duration) to Row; ROWS names them. Each limit is measured right
before the broker's figure of the same run. A machine that others use too is not the same machine a
minute later.
"""

import base64
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from borzoi.bench import flatness, transport_rows
from borzoi.bench.bare_crossing import bare_crossing
from borzoi.bench.bed import Bed
from borzoi.bench.crossing import crossing_run
from borzoi.bench.failures import BenchFailed
from borzoi.bench.fsync_groups import FSYNC, SyncCounterMissing, acks_per_sync
from borzoi.bench.limits import append_limit, echo_limit, slices_limit
from borzoi.bench.plans import CONSENSUS
from borzoi.bench.quantities import MB
from borzoi.bench.rates import Rate
from borzoi.bench.target_rows import Row, Run
from borzoi.protocol.identifiers import StrategyKind

# Makes the broker use the pure-Python twin of its compiled loops.
PURE_PYTHON: Final = {"BORZOI_PLAIN_LOOPS": "1"}
DEDUPLICATING: Final = {"IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true"}
# A key for a broker that lives as long as one row.
ENCRYPTING: Final = {
    "IGGY_SYSTEM_ENCRYPTION_ENABLED": "true",
    "IGGY_SYSTEM_ENCRYPTION_KEY": base64.b64encode(bytes(range(32))).decode(),
}
MANY_CONNECTIONS: Final = 32


@dataclass(frozen=True, slots=True)
class Effort:
    """How often and how long; `directory` is where the data and the limits' files lie."""

    runs: int
    duration_ns: int
    directory: Path | None = None


def produce_large(effort: Effort) -> Row:
    """Measures large batches against the bare append."""
    with Bed(1, directory=effort.directory) as bed:
        return _bytes_row(
            effort,
            "produce-large",
            "produce 1,000 x 1 KB per batch, 1 connection",
            0.80,
            lambda: append_limit(bed.cpus, 1000, 1000, effort.duration_ns, bed.directory),
            lambda: bed.produce(effort.duration_ns),
        )


def produce_small(effort: Effort) -> Row:
    """Measures batches of small messages against the bare append."""
    with Bed(1, directory=effort.directory) as bed:
        return _bytes_row(
            effort,
            "produce-small",
            "produce 1,000 x 100 B per batch, 1 connection",
            0.70,
            lambda: append_limit(bed.cpus, 100, 1000, effort.duration_ns, bed.directory),
            lambda: bed.produce(effort.duration_ns, message_size=100),
        )


def produce_single(effort: Effort) -> Row:
    """Measures single messages in one partition against the bare echo."""
    with Bed(1, directory=effort.directory) as bed:
        return _requests_row(
            effort,
            "produce-single",
            "produce 1 x 1 KB, 32 connections, 1 partition",
            0.45,
            lambda: echo_limit(bed.cpus, effort.duration_ns),
            lambda: bed.produce(
                effort.duration_ns, connections=MANY_CONNECTIONS, messages_per_batch=1
            ),
        )


def produce_single_spread(effort: Effort) -> Row:
    """Measures single messages in many partitions against the bare echo."""
    with Bed(1, directory=effort.directory) as bed:
        return _requests_row(
            effort,
            "produce-single-spread",
            "produce 1 x 1 KB, 32 connections, 32 partitions",
            0.35,
            lambda: echo_limit(bed.cpus, effort.duration_ns),
            lambda: bed.produce(
                effort.duration_ns,
                connections=MANY_CONNECTIONS,
                partitions=MANY_CONNECTIONS,
                messages_per_batch=1,
            ),
        )


def poll_large(effort: Effort) -> Row:
    """Measures large polls against mapped slices."""
    with Bed(1, directory=effort.directory) as bed:
        return _bytes_row(
            effort,
            "poll-large",
            "poll 1,000 x 1 KB per request, 1 connection",
            0.85,
            lambda: slices_limit(bed.cpus, 1000, 1000, effort.duration_ns, bed.directory),
            lambda: bed.poll(effort.duration_ns),
        )


def poll_small(effort: Effort) -> Row:
    """Measures small polls against the bare echo."""
    with Bed(1, directory=effort.directory) as bed:
        return _requests_row(
            effort,
            "poll-small",
            "poll 10 x 1 KB per request, 32 connections",
            0.45,
            lambda: echo_limit(bed.cpus, effort.duration_ns),
            lambda: bed.poll(
                effort.duration_ns, connections=MANY_CONNECTIONS, messages_per_poll=10
            ),
        )


def poll_next(effort: Effort) -> Row:
    """Measures small polls of the next messages with commits against the bare echo."""
    with Bed(1, directory=effort.directory) as bed:
        return _requests_row(
            effort,
            "poll-next",
            "poll next 10 x 1 KB and commit, 32 connections",
            0.25,
            lambda: echo_limit(bed.cpus, effort.duration_ns),
            lambda: bed.poll(
                effort.duration_ns,
                connections=MANY_CONNECTIONS,
                messages_per_poll=10,
                strategy=StrategyKind.NEXT,
            ),
        )


def newer_produce_large(effort: Effort) -> Row:
    """Measures large batches of the 0.9 generation against classic ones."""
    with Bed(1, directory=effort.directory) as bed:
        return _bytes_row(
            effort,
            "0.9-produce-large",
            "produce 1,000 x 1 KB per batch, 0.9 and classic",
            0.90,
            lambda: bed.produce(effort.duration_ns),
            lambda: bed.produce(effort.duration_ns, generation=CONSENSUS),
        )


def newer_produce_single(effort: Effort) -> Row:
    """Measures single messages of the 0.9 generation against classic ones."""
    with Bed(1, directory=effort.directory) as bed:
        many = partial(bed.produce, connections=MANY_CONNECTIONS, messages_per_batch=1)
        return _requests_row(
            effort,
            "0.9-produce-single",
            "produce 1 x 1 KB, 32 connections, 0.9 and classic",
            0.90,
            lambda: many(effort.duration_ns),
            lambda: many(effort.duration_ns, generation=CONSENSUS),
        )


def newer_poll_large(effort: Effort) -> Row:
    """Measures large polls of the 0.9 generation against classic ones."""
    with Bed(1, directory=effort.directory) as bed:
        return _bytes_row(
            effort,
            "0.9-poll-large",
            "poll 1,000 x 1 KB per request, 0.9 and classic",
            0.90,
            lambda: bed.poll(effort.duration_ns),
            lambda: bed.poll(effort.duration_ns, generation=CONSENSUS),
        )


def newer_poll_single(effort: Effort) -> Row:
    """Measures polls of one message of the 0.9 generation against classic ones."""
    with Bed(1, directory=effort.directory) as bed:
        many = partial(bed.poll, connections=MANY_CONNECTIONS, messages_per_poll=1)
        return _requests_row(
            effort,
            "0.9-poll-single",
            "poll 1 x 1 KB per request, 32 connections, 0.9 and classic",
            0.90,
            lambda: many(effort.duration_ns),
            lambda: many(effort.duration_ns, generation=CONSENSUS),
        )


def other_shard(effort: Effort) -> Row:
    """Measures sends that cross to another shard against sends that do not."""
    name, workload = "other-shard", "produce 100 x 1 KB to the other shard, 8 connections"
    unit, target = "us CPU/message", 1.25
    try:
        with Bed(2, {"IGGY_TCP_SOCKET_MIGRATION": "false"}, directory=effort.directory) as bed:
            runs = tuple(_crossing(bed, number) for number in range(effort.runs))
    except BenchFailed as error:
        return Row(name, workload, unit, target, True, (), skipped=str(error))
    return Row(name, workload, unit, target, True, runs)


def fsync_groups(effort: Effort) -> Row:
    """Measures how many acknowledgements one fdatasync carries."""
    name, workload = "fsync", "fsync mode, 1 x 1 KB, 64 connections, 1 partition"
    runs = []
    try:
        with Bed(1, FSYNC, directory=effort.directory) as bed:
            for _ in range(effort.runs):
                groups = acks_per_sync(bed, effort.duration_ns)
                runs.append(Run(1.0, groups.acks / max(1, groups.syncs), groups.note))
    except SyncCounterMissing as error:
        return Row(name, workload, "acks/fdatasync", 20.0, False, (), skipped=str(error))
    return Row(name, workload, "acks/fdatasync", 20.0, False, tuple(runs))


def pure_python(effort: Effort) -> Row:
    """Measures the loops of plain Python against the bare append."""
    with Bed(1, PURE_PYTHON, directory=effort.directory) as bed:
        return _bytes_row(
            effort,
            "pure-python",
            f"{bed.broker.loops} loops instead of compiled, produce 1,000 x 1 KB per batch",
            0.40,
            lambda: append_limit(bed.cpus, 1000, 1000, effort.duration_ns, bed.directory),
            lambda: bed.produce(effort.duration_ns),
        )


def deduplication_large(effort: Effort) -> Row:
    """Measures deduplication of large messages against none."""
    return _deduplication_row(effort, "deduplication-large", "1,000 x 1 KB", 1.25, 1000)


def deduplication_small(effort: Effort) -> Row:
    """Measures deduplication of small messages against none."""
    return _deduplication_row(effort, "deduplication-small", "1,000 x 100 B", 1.50, 100)


def encryption_produce_large(effort: Effort) -> Row:
    """Measures encrypted batches of large messages against plain ones."""
    return _encryption_row(
        effort, "encryption-produce-large", "produce 1,000 x 1 KB per batch", 0.70, _produce(1000)
    )


def encryption_produce_small(effort: Effort) -> Row:
    """Measures encrypted batches of small messages against plain ones."""
    return _encryption_row(
        effort, "encryption-produce-small", "produce 1,000 x 100 B per batch", 0.50, _produce(100)
    )


def encryption_poll_large(effort: Effort) -> Row:
    """Measures polls of encrypted large messages against those of plain ones."""
    return _encryption_row(
        effort, "encryption-poll-large", "poll 1,000 x 1 KB per request", 0.70, _poll(1000)
    )


def encryption_poll_small(effort: Effort) -> Row:
    """Measures polls of encrypted small messages against those of plain ones."""
    return _encryption_row(
        effort, "encryption-poll-small", "poll 1,000 x 100 B per request", 0.50, _poll(100)
    )


def flat_partitions(effort: Effort) -> Row:
    """Measures many partitions against one."""
    runs = tuple(flatness.partitions_run(effort.directory) for _ in range(effort.runs))
    return _flat_row("flat-partitions", "1,000 x 1 KB batches, 1 and 1,000 partitions", 1.15, runs)


def flat_segments(effort: Effort) -> Row:
    """Measures many segments against few."""
    runs = tuple(flatness.segments_run(effort.directory) for _ in range(effort.runs))
    return _flat_row("flat-segments", "1,000 x 1 KB batches, few and 200 segments", 1.15, runs)


def flat_idle(effort: Effort) -> Row:
    """Measures a producer beside idle connections against one alone."""
    runs = tuple(
        flatness.idle_run(effort.duration_ns, effort.directory) for _ in range(effort.runs)
    )
    return _flat_row("flat-idle", "1,000 x 1 KB batches, 1 and 500 idle connections", 1.15, runs)


def oldest_by_offset(effort: Effort) -> Row:
    """Measures polls of the oldest segment by offset against the newest."""
    runs = flatness.oldest_runs(effort.runs, effort.duration_ns, effort.directory, by_time=False)
    return _flat_row(
        "oldest-by-offset", "poll by offset, oldest and newest of 200 segments", 2.0, runs
    )


def oldest_by_time(effort: Effort) -> Row:
    """Measures polls of the oldest segment by timestamp against the newest."""
    runs = flatness.oldest_runs(effort.runs, effort.duration_ns, effort.directory, by_time=True)
    return _flat_row(
        "oldest-by-time", "poll by timestamp, oldest and newest of 200 segments", 2.0, runs
    )


def _of_transport(make: Callable[[int, int, Path | None], Row], effort: Effort) -> Row:
    return make(effort.runs, effort.duration_ns, effort.directory)


ROWS: Final[dict[str, Callable[[Effort], Row]]] = {
    "produce-large": produce_large,
    "produce-small": produce_small,
    "produce-single": produce_single,
    "produce-single-spread": produce_single_spread,
    "poll-large": poll_large,
    "poll-small": poll_small,
    "poll-next": poll_next,
    "0.9-produce-large": newer_produce_large,
    "0.9-produce-single": newer_produce_single,
    "0.9-poll-large": newer_poll_large,
    "0.9-poll-single": newer_poll_single,
    "other-shard": other_shard,
    "fsync": fsync_groups,
    "pure-python": pure_python,
    "deduplication-large": deduplication_large,
    "deduplication-small": deduplication_small,
    "encryption-produce-large": encryption_produce_large,
    "encryption-produce-small": encryption_produce_small,
    "encryption-poll-large": encryption_poll_large,
    "encryption-poll-small": encryption_poll_small,
    "flat-partitions": flat_partitions,
    "flat-segments": flat_segments,
    "flat-idle": flat_idle,
    "oldest-by-offset": oldest_by_offset,
    "oldest-by-time": oldest_by_time,
    **{name: partial(_of_transport, make) for name, make in transport_rows.MAKERS.items()},
}


def measure_targets(effort: Effort, names: Iterable[str], done: Callable[[Row], None]) -> list[Row]:
    """Returns the rows of these names; `done` gets each as soon as it is there."""
    rows = []
    for name in names:
        row = ROWS[name](effort)
        done(row)
        rows.append(row)
    return rows


def _bytes_row(
    effort: Effort,
    name: str,
    workload: str,
    target: float,
    limit: Callable[[], Rate],
    broker: Callable[[], Rate],
) -> Row:
    runs = []
    for _ in range(effort.runs):
        bound, reached = limit(), broker()
        runs.append(_run(bound, reached, bound.bytes_per_s / MB, reached.bytes_per_s / MB))
    return Row(name, workload, "MB/s", target, False, tuple(runs))


def _requests_row(
    effort: Effort,
    name: str,
    workload: str,
    target: float,
    limit: Callable[[], Rate],
    broker: Callable[[], Rate],
) -> Row:
    runs = []
    for _ in range(effort.runs):
        bound, reached = limit(), broker()
        runs.append(_run(bound, reached, bound.requests_per_s, reached.requests_per_s))
    return Row(name, workload, "requests/s", target, False, tuple(runs))


def _crossing(bed: Bed, number: int) -> Run:
    run = crossing_run(bed, other_first=number % 2 == 1)
    bare = bare_crossing(bed.cpus, bed.directory)
    note = f"two bare processes that only hand frames over: {bare.ratio:.2f} of one"
    return run._replace(note=note)


def _deduplication_row(
    effort: Effort, name: str, batch: str, target: float, message_size: int
) -> Row:
    """New messages only: each is looked up, remembered, and makes an older one forgotten."""
    runs = []
    with (
        Bed(1, directory=effort.directory) as off,
        Bed(1, DEDUPLICATING, directory=effort.directory) as on,
    ):
        for _ in range(effort.runs):
            without = off.produce(effort.duration_ns, message_size=message_size)
            reached = on.produce(effort.duration_ns, message_size=message_size)
            costs = without.server_us_per_request, reached.server_us_per_request
            runs.append(_run(without, reached, *costs))
    workload = f"deduplication on against off, produce {batch} per batch"
    return Row(name, workload, "us CPU/request", target, True, tuple(runs))


def _produce(message_size: int) -> Callable[[Bed, int], Rate]:
    return lambda bed, duration_ns: bed.produce(duration_ns, message_size=message_size)


def _poll(message_size: int) -> Callable[[Bed, int], Rate]:
    return lambda bed, duration_ns: bed.poll(duration_ns, message_size=message_size)


def _encryption_row(
    effort: Effort,
    name: str,
    workload: str,
    target: float,
    load: Callable[[Bed, int], Rate],
) -> Row:
    with (
        Bed(1, directory=effort.directory) as off,
        Bed(1, ENCRYPTING, directory=effort.directory) as on,
    ):
        return _bytes_row(
            effort,
            name,
            f"encryption on against off, {workload}",
            target,
            lambda: load(off, effort.duration_ns),
            lambda: load(on, effort.duration_ns),
        )


def _flat_row(name: str, workload: str, target: float, runs: tuple[Run, ...]) -> Row:
    return Row(name, workload, "us CPU", target, True, runs)


def _run(bound: Rate, reached: Rate, reference: float, broker: float) -> Run:
    cost = reached.server_us_per_request
    cpu_ratio = bound.server_us_per_request / cost if cost else None
    foreign = max(bound.foreign_cpu_share, reached.foreign_cpu_share)
    return Run(reference, broker, _note(bound, reached), cpu_ratio, foreign)


def _note(bound: Rate, reached: Rate) -> str:
    """Which side was busy: a limit that is bound by its generator is no limit of the machine."""
    return (
        f"{bound.variant}: {bound.server_us_per_request:.1f} us/request"
        f" ({bound.server_cpu_share:.0%} CPU, generator {bound.generator_cpu_share:.0%});"
        f" broker: {reached.server_us_per_request:.1f} us/request"
        f" ({reached.server_cpu_share:.0%} CPU, generator {reached.generator_cpu_share:.0%})"
    )
