"""One run of one kind, from the server to everything that was measured.

Owns the set-up: a broker of our own unless an address is given, the streams and groups, and
messages to read for kinds that only consume. The bare limits are measured right before the run.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from borzoi.bench import admin as orders
from borzoi.bench.admin import Admin
from borzoi.bench.broker import UNKNOWN_LOOPS, OwnBroker, workers_of
from borzoi.bench.casting import BenchStream, cast
from borzoi.bench.cpus import CpuPlan, available_cpus, decide, decide_without_broker
from borzoi.bench.failures import BenchFailed
from borzoi.bench.kinds import (
    BALANCED_PARTITIONS_DEFAULT,
    BALANCED_PRODUCER,
    PINNED_PRODUCER,
)
from borzoi.bench.limits import Limits, measure_limits
from borzoi.bench.load import LoadResult, Progress, run_load
from borzoi.bench.options import Options
from borzoi.bench.plans import Goal
from borzoi.bench.quantities import GB
from borzoi.protocol import commands
from borzoi.protocol.errors import FeatureUnavailable
from borzoi.protocol.identifiers import U64_MAX
from borzoi.protocol.responses import ConsumerGroupInfo, Stats

LIMIT_DURATION_NS: Final = 500_000_000
PREFILL_BYTES_MAX: Final = 2 * GB
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


Connect: TypeAlias = Callable[[], Admin]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything a run brought."""

    options: Options
    cpus: CpuPlan
    own_broker: bool
    address: str
    shard_count: int
    loops: str
    limits: Limits | None
    load: LoadResult
    stats: Stats | None


def run_benchmark(
    options: Options,
    *,
    say: Callable[[str], None],
    show: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Runs one kind of load and returns all that was measured; `say` gets the steps."""
    with _server(options) as (host, port, cpus, supervisor_pid, loops, connect):
        with _connected(connect, host, port) as admin:
            streams = _make_streams(admin, options, host, port, cpus, say)
        limits = None
        if options.with_limits:
            say("measuring the bare limits of this machine")
            limits = _limits(options, cpus)
        workers = workers_of(supervisor_pid) if supervisor_pid is not None else {}
        say(f"running {options.kind.name} with {options.actor_count} actors")
        load = run_load(
            cast(options, host, port, streams),
            cpus.generator_cpus,
            warmup_ns=options.warmup_ns,
            watched={f"shard {shard}": pid for shard, pid in sorted(workers.items())},
            show=show,
        )
        with _connected(connect, host, port) as admin:
            stats = orders.stats_of(admin)
    if not any(actor.ends for actor in load.actors):
        raise BenchFailed("nothing was measured: no request came to an end")
    return Outcome(
        options=options,
        cpus=cpus,
        own_broker=options.address is None,
        address=f"{host}:{port}",
        shard_count=len(workers),
        loops=loops,
        limits=limits,
        load=load,
        stats=stats,
    )


@contextmanager
def _server(options: Options) -> Iterator[tuple[str, int, CpuPlan, int | None, str, Connect]]:
    """Yields host, port, CPU plan, the supervisor's id if it is here, its loops, a way for orders.

    A broker of our own takes orders through a door without TLS, and not through HTTP.
    """
    if options.address is None:
        cpus = decide(available_cpus(), options.shards, options.actor_count)
        with OwnBroker(
            cpus.cpu_allocation, directory=options.directory, transport=options.transport
        ) as broker:
            yield broker.host, broker.port, cpus, broker.pid, broker.loops, broker.orders
        return
    host, port = options.address
    cpus = decide_without_broker(available_cpus(), options.actor_count)
    connect = partial(
        Admin.connect, host, port, options.credentials, options.transport, options.ca_file
    )
    with _connected(connect, host, port) as admin:
        stats = orders.stats_of(admin)
    local = stats is not None and (host in LOOPBACK or stats.hostname == socket.gethostname())
    pid = stats.process_id if stats is not None and local else None
    yield host, port, cpus, pid, UNKNOWN_LOOPS, connect


@contextmanager
def _connected(connect: Connect, host: str, port: int) -> Iterator[Admin]:
    try:
        admin = connect()
    except OSError as error:
        raise BenchFailed(f"cannot connect to {host}:{port}: {error}") from error
    try:
        yield admin
    finally:
        admin.close()


def _make_streams(
    admin: Admin,
    options: Options,
    host: str,
    port: int,
    cpus: CpuPlan,
    say: Callable[[str], None],
) -> list[BenchStream]:
    names = [orders.stream_name(number) for number in range(1, options.streams + 1)]
    if options.kind.produces:
        partitions = options.partitions or 1
        ids = [_make_stream(admin, options, name, partitions) for name in names]
    elif options.address is None:
        say("producing something to read")
        partitions = _filled_partitions(options)
        ids = [orders.make_stream(admin, name, partitions) for name in names]
        _prefill(options, host, port, cpus, ids)
    else:
        ids = [_existing(admin, name) for name in names]
    streams = [_bench_stream(admin, *pair) for pair in ids]
    reads_only = not options.kind.produces
    if reads_only and not options.groups and any(not one.message_count for one in streams):
        raise BenchFailed("a stream is empty: run a producing kind first, with as many streams")
    return _make_groups(admin, options, streams) if options.groups else streams


def _make_stream(admin: Admin, options: Options, name: str, partitions: int) -> tuple[int, int]:
    def or_never(value: int | None) -> int:
        return U64_MAX if value is None else value

    return orders.make_stream(
        admin,
        name,
        partitions,
        reuse=options.reuse_streams,
        max_topic_size=or_never(options.max_topic_size),
        message_expiry=or_never(options.message_expiry_us),
    )


def _existing(admin: Admin, name: str) -> tuple[int, int]:
    found = orders.find_stream(admin, name)
    if found is None:
        raise BenchFailed(f"there is no stream {name}: run a producing kind first")
    return found


def _bench_stream(admin: Admin, stream_id: int, topic_id: int) -> BenchStream:
    counts = orders.partition_message_counts(admin, stream_id, topic_id)
    return BenchStream(stream_id, topic_id, message_count=counts.get(0, 0))


def _make_groups(admin: Admin, options: Options, streams: list[BenchStream]) -> list[BenchStream]:
    """Group k, counted from 1, on the streams in turn."""
    groups: list[list[int]] = [[] for _ in streams]
    for number in range(1, options.groups + 1):
        place = (number - 1) % len(streams)
        stream = streams[place]
        command = commands.CreateConsumerGroup(stream.stream_id, stream.topic_id, f"cg-{number}")
        try:
            group: ConsumerGroupInfo = admin.ask(command)
        except FeatureUnavailable as error:
            raise BenchFailed(
                f"{options.kind.name} needs consumer groups, which this server does not serve"
                f" (status {error.status})"
            ) from error
        groups[place].append(group.id)
    return [
        replace(stream, group_ids=tuple(ids)) for stream, ids in zip(streams, groups, strict=True)
    ]


def _prefill(
    options: Options, host: str, port: int, cpus: CpuPlan, ids: list[tuple[int, int]]
) -> None:
    """Enough for every consumer's goal, within bounds: a consumer that gets to the end wraps.

    Where the goal is a time, what can be produced in that time is enough.
    """
    batch = max(1.0, options.batch_bytes)
    batches_max = max(1, int(PREFILL_BYTES_MAX / len(ids) / batch))
    wanted = options.message_batches
    if options.total_data is not None:
        wanted = max(1, int(options.total_data / len(ids) / batch))
    filling = replace(
        options,
        kind=BALANCED_PRODUCER if options.groups else PINNED_PRODUCER,
        message_batches=min(wanted or batches_max, batches_max),
        total_data=None,
        duration_ns=None,
        rate_limit=None,
        producers=len(ids),
        consumers=0,
        groups=0,
        partitions=_filled_partitions(options),
    )
    streams = [BenchStream(*pair) for pair in ids]
    goal = Goal(requests=filling.message_batches, duration_ns=options.duration_ns)
    actors = [replace(actor, goal=goal) for actor in cast(filling, host, port, streams)]
    run_load(actors, cpus.generator_cpus)


def _filled_partitions(options: Options) -> int:
    return BALANCED_PARTITIONS_DEFAULT if options.groups else 1


def _limits(options: Options, cpus: CpuPlan) -> Limits:
    directory = options.directory or Path.cwd()
    return measure_limits(
        cpus,
        round(options.message_size.middle),
        round(options.messages_per_batch.middle),
        LIMIT_DURATION_NS,
        directory,
    )
