"""Two or more servers that already run, under the same load in turn.

Owns the set-up of each run: new streams on one server, something to read where a row only reads,
the load, and the removal of the streams. The servers share the machine, so only one has load at a
time. The order changes from round to round: what the first run leaves behind for the next, such as
dirty pages, falls on each server equally often.

Always: the generator, the rows and their order are the same for every server.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import psutil

from borzoi.bench import admin as orders
from borzoi.bench.admin import Admin
from borzoi.bench.broker import workers_of
from borzoi.bench.casting import BenchStream, cast
from borzoi.bench.cpus import available_cpus, decide_without_broker
from borzoi.bench.duel_figures import RunFigures, run_figures
from borzoi.bench.duel_rows import DuelRow
from borzoi.bench.failures import BenchFailed
from borzoi.bench.kinds import (
    BALANCED_PARTITIONS_DEFAULT,
    BALANCED_PRODUCER,
    PINNED_PRODUCER,
)
from borzoi.bench.load import LoadResult, run_load
from borzoi.bench.options import Options, resolve
from borzoi.bench.plans import ActorPlan, Credentials, Goal, Role
from borzoi.bench.quantities import MB, NS_PER_S, Range
from borzoi.bench.usage import cpu_ns_of
from borzoi.protocol import commands
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.responses import ConsumerGroupInfo

STREAM_PREFIX: Final = "bench-duel-"
WARMUP_NS: Final = NS_PER_S // 5
# What a row that only reads finds. A single reader starts again at the end; a group reads it once.
FILLED_BYTES: Final = 400 * MB
GROUP_FILLED_BYTES: Final = 1_000 * MB
GROUP_PARTITIONS: Final = 8
GROUP_IDLE_STOP_NS: Final = NS_PER_S // 4
FILL_BATCH: Final = 1000
SETTLE_TIMEOUT_S: Final = 5.0
SETTLE_LOOK_S: Final = 0.1
SETTLED_SHARE: Final = 0.03


@dataclass(frozen=True, slots=True)
class Contestant:
    """A server under its name in the tables. Without `pids` its CPU time is not known."""

    name: str
    host: str
    port: int
    credentials: Credentials
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """How long a run is, how often each server has its turn per row, and how much it keeps."""

    rounds: int
    duration_ns: int
    warmup_ns: int = WARMUP_NS
    filled_bytes: int = FILLED_BYTES
    group_filled_bytes: int = GROUP_FILLED_BYTES
    topic_size_max: int = U64_MAX


def processes_of(pid: int) -> tuple[int, ...]:
    """Returns the processes that serve: borzoi's workers, else the process and its children."""
    workers = workers_of(pid)
    if workers:
        return tuple(workers[shard] for shard in sorted(workers))
    try:
        children = psutil.Process(pid).children(recursive=True)
    except (psutil.NoSuchProcess, psutil.AccessDenied) as error:
        raise BenchFailed(f"no process {pid} that can be looked at: {error}") from error
    return (pid, *(child.pid for child in children))


def duel(
    contestants: Sequence[Contestant],
    rows: Sequence[DuelRow],
    rules: Rules,
    done: Callable[[RunFigures], None],
) -> Iterator[tuple[DuelRow, list[RunFigures]]]:
    """Yields each row with the figures of all its runs; `done` gets each run as it ends."""
    for row in rows:
        found: list[RunFigures] = []
        for number in range(rules.rounds):
            turn = number % len(contestants)
            for contestant in (*contestants[turn:], *contestants[:turn]):
                figures = run_row(contestant, row, rules, number)
                done(figures)
                found.append(figures)
        yield row, found


def run_row(contestant: Contestant, row: DuelRow, rules: Rules, number: int) -> RunFigures:
    """Runs one workload on one server, on streams of its own, and returns its figures."""
    load, processes = loaded(contestant, row, rules)
    return run_figures(row.name, contestant.name, number, load, processes)


def loaded(
    contestant: Contestant, row: DuelRow, rules: Rules
) -> tuple[LoadResult, tuple[str, ...]]:
    """Runs one workload on one server; its samples, and the names of the server's processes."""
    options = options_of(contestant, row, rules)
    watched = {f"process {pid}": pid for pid in contestant.pids}
    with _streams(contestant, options, rules) as streams:
        plans = cast(options, contestant.host, contestant.port, streams)
        _settle(contestant)
        load = run_load(
            [_as_row_wants(plan, row) for plan in plans],
            _generators(len(plans)),
            warmup_ns=0 if options.groups and not row.kind.produces else rules.warmup_ns,
            watched=watched,
        )
    _settle(contestant)
    return load, tuple(watched)


def options_of(contestant: Contestant, row: DuelRow, rules: Rules) -> Options:
    """Returns the run of a row on a server, as options of its kind."""
    return resolve(
        row.kind,
        message_size=Range(row.message_size, row.message_size),
        messages_per_batch=Range(row.messages_per_batch, row.messages_per_batch),
        message_batches=None,
        total_data=None,
        duration_ns=rules.duration_ns,
        streams=None,
        partitions=row.partitions,
        producers=row.producers,
        consumers=None if row.kind.pairs else row.consumers,
        groups=None,
        rate_limit=row.rate,
        warmup_ns=rules.warmup_ns,
        sampling_ns=0,
        window=1,
        credentials=contestant.credentials,
        address=(contestant.host, contestant.port),
        shards=None,
        reuse_streams=False,
        with_limits=False,
        max_topic_size=None,
        message_expiry_us=None,
        read_amplification=1.0,
    )


def _as_row_wants(plan: ActorPlan, row: DuelRow) -> ActorPlan:
    """Consumers poll as soon as they can: the rate is what producers offer.

    A group that reads what lies there is done when nothing is left, not at a time.
    """
    if plan.role is Role.CONSUMER:
        plan = replace(plan, interval_ns=0)
    if plan.group is not None and not row.kind.produces:
        plan = replace(plan, goal=Goal(), idle_stop_ns=GROUP_IDLE_STOP_NS)
    return replace(plan, in_pieces=row.in_pieces)


@contextmanager
def _streams(contestant: Contestant, options: Options, rules: Rules) -> Iterator[list[BenchStream]]:
    """Makes the streams of a run, filled if it only reads, and removes them afterwards."""
    with _connected(contestant) as admin:
        names = [f"{STREAM_PREFIX}{number}" for number in range(1, options.streams + 1)]
        try:
            ids = [
                orders.make_stream(
                    admin, name, _partitions(options), max_topic_size=rules.topic_size_max
                )
                for name in names
            ]
            if not options.kind.produces:
                _fill(contestant, options, rules, ids)
            yield [_bench_stream(admin, options, *pair) for pair in ids]
        finally:
            for name in names:
                orders.delete_stream(admin, name)


@contextmanager
def _connected(contestant: Contestant) -> Iterator[Admin]:
    try:
        admin = Admin.connect(contestant.host, contestant.port, contestant.credentials)
    except OSError as error:
        place = f"{contestant.name} at {contestant.host}:{contestant.port}"
        raise BenchFailed(f"cannot connect to {place}: {error}") from error
    try:
        yield admin
    finally:
        admin.close()


def _partitions(options: Options) -> int:
    if options.kind.produces:
        return options.partitions or BALANCED_PARTITIONS_DEFAULT
    return GROUP_PARTITIONS if options.groups else 1


def _fill(
    contestant: Contestant, options: Options, rules: Rules, ids: Sequence[tuple[int, int]]
) -> None:
    """Produces what is to be read, as fast as the server takes it."""
    total = rules.group_filled_bytes if options.groups else rules.filled_bytes
    size = options.message_size.middle
    per_batch = round(options.messages_per_batch.middle) if options.groups else FILL_BATCH
    filling = replace(
        options,
        kind=BALANCED_PRODUCER if options.groups else PINNED_PRODUCER,
        messages_per_batch=Range(per_batch, per_batch),
        message_batches=max(1, int(total / len(ids) / size / per_batch)),
        duration_ns=None,
        rate_limit=None,
        producers=len(ids),
        consumers=0,
        groups=0,
        partitions=_partitions(options),
    )
    streams = [BenchStream(*pair) for pair in ids]
    plans = cast(filling, contestant.host, contestant.port, streams)
    run_load(plans, _generators(len(plans)))


def _bench_stream(admin: Admin, options: Options, stream_id: int, topic_id: int) -> BenchStream:
    counts = orders.partition_message_counts(admin, stream_id, topic_id)
    groups: tuple[int, ...] = ()
    if options.groups:
        group: ConsumerGroupInfo = admin.ask(
            commands.CreateConsumerGroup(stream_id, topic_id, "duel")
        )
        groups = (group.id,)
    return BenchStream(stream_id, topic_id, groups, message_count=counts.get(0, 0))


def _generators(actor_count: int) -> Sequence[tuple[int, ...]]:
    return decide_without_broker(available_cpus(), actor_count).generator_cpus


def _settle(contestant: Contestant) -> None:
    """Waits until the server has nothing left to do behind the scenes, or for long enough."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while contestant.pids and time.monotonic() < deadline:
        before = _cpu_ns(contestant)
        time.sleep(SETTLE_LOOK_S)
        if _cpu_ns(contestant) - before < SETTLED_SHARE * SETTLE_LOOK_S * NS_PER_S:
            return


def _cpu_ns(contestant: Contestant) -> int:
    try:
        return sum(cpu_ns_of(pid) for pid in contestant.pids)
    except OSError as error:
        raise BenchFailed(f"{contestant.name} is not running any more: {error}") from error
