"""The rules a configuration must keep, beyond each value having its kind.

Pure functions from a Config to sentences. Rules about this machine's memory live in memory.py and
those about NUMA nodes in borzoi.shards.host.cpus, because they need the machine.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Final

from borzoi.protocol.batch import ENTRIES_MAX
from borzoi.shards.config.addresses import parse_address
from borzoi.shards.config.cpu_allocation import KEY as CPU_KEY
from borzoi.shards.config.cpu_allocation import CpuCount, CpuRange, parse_cpu_allocation
from borzoi.shards.config.durations import SECOND, SERVER_DEFAULT, format_duration
from borzoi.shards.config.errors import ConfigError
from borzoi.shards.config.schema import (
    Cluster,
    Config,
    Encryption,
    Limits,
    Logging,
    MemoryPool,
    System,
    archives,
)
from borzoi.shards.config.sizes import GIB, MIB, format_size
from borzoi.shards.config.sizes import SERVER_DEFAULT as SERVER_DEFAULT_SIZE

POOL_SIZE_MIN: Final = 512 * MIB
POOL_SIZE_STEP: Final = 4096
BUCKET_CAPACITY_MIN: Final = 128
SEGMENT_SIZE_MAX: Final = GIB
SEGMENT_SIZE_STEP: Final = 512
LOG_PERIOD_MIN: Final = SECOND
KEY_SIZE: Final = 32
# The largest buffer of the pool: a frame must fit into one.
FRAME_SIZE_MAX: Final = 512 * MIB
HEARTBEAT_TIMEOUT_MIN: Final = 2 * SECOND
RESPONSE_SIZE_MAX: Final = 2**32 - 1
SERIES_MAX: Final = 1_000_000
PATH: Final = re.compile(r"/[!$-;=@-~]*")

JWT_ALGORITHMS: Final = ("HS256", "HS384", "HS512", "RS256", "RS384", "RS512")
CORS_METHODS: Final = frozenset(
    "GET POST PUT DELETE HEAD OPTIONS CONNECT PATCH TRACE".split()  # noqa: SIM905 - reads better
)
# Directories of the data directory that no setting may name.
STATE_DIRECTORY: Final = "state"


def broken_rules(config: Config, available_cpus: Sequence[int]) -> list[str]:
    """One sentence per broken rule, in the order of the schema."""
    return [
        *_archiver(config),
        *_maintenance(config),
        *_http(config),
        *_telemetry(config),
        *_directories(config.system),
        *_above_zero("system.stop_timeout", config.system.stop_timeout),
        *_logging(config.system.logging),
        *_state(config.system),
        *_log_and_topics(config.system),
        *_encryption(config.system.encryption),
        *_memory_pool(config.system.memory_pool),
        *_cpus(config.system.sharding.cpu_allocation, available_cpus),
        *_cluster(config.cluster),
        *_metrics(config),
        *_limits(config.limits),
    ]


def _archiver(config: Config) -> Iterator[str]:
    if not archives(config):
        return
    archiver, s3 = config.data_maintenance.archiver, config.data_maintenance.archiver.s3
    yield from _above_zero("data_maintenance.archiver.interval", archiver.interval)
    if archiver.kind == "disk":
        yield from _backup_path(config.system)
        return
    key = "data_maintenance.archiver.s3"
    if not s3.bucket.strip():
        yield f"{key}.bucket is empty: needs the name of a bucket"
    if s3.endpoint and not s3.endpoint.startswith(("http://", "https://")):
        yield f"{key}.endpoint is {s3.endpoint!r}: needs a URL that begins with http:// or https://"
    if not set(s3.prefix.split("/")).isdisjoint((".", "..")) or s3.prefix.startswith("/"):
        yield f"{key}.prefix is {s3.prefix!r}: needs a path below the bucket"
    if bool(s3.key_id) != bool(s3.key_secret):
        yield f"{key}.key_id and key_secret: needs both of them, or neither"
    if s3.key_id and s3.credentials_file:
        yield f"{key}.key_id and credentials_file: needs one of them, not both"


def _backup_path(system: System) -> Iterator[str]:
    """Below the data directory it may lie, but not where something else does."""
    parts = PurePosixPath(system.backup.path).parts
    taken = (system.runtime.path, system.logging.path, system.stream.path, "trash", "..")
    if not parts or "\0" in system.backup.path or parts[0] in taken or parts == ("/",):
        yield f"system.backup.path is {system.backup.path!r}: needs a directory of its own"


def _maintenance(config: Config) -> Iterator[str]:
    if config.data_maintenance.messages.cleaner_enabled:
        yield from _above_zero(
            "data_maintenance.messages.interval", config.data_maintenance.messages.interval
        )
    if config.message_saver.enabled:
        yield from _above_zero("message_saver.interval", config.message_saver.interval)
    tokens = config.personal_access_token
    yield from _above_zero("personal_access_token.max_tokens_per_user", tokens.max_tokens_per_user)
    if tokens.cleaner.enabled:
        yield from _above_zero("personal_access_token.cleaner.interval", tokens.cleaner.interval)
    if config.heartbeat.enabled:
        yield from _above_zero("heartbeat.interval", config.heartbeat.interval)


def _http(config: Config) -> Iterator[str]:
    if not config.http.enabled:
        return
    jwt = config.http.jwt
    if jwt.access_token_expiry == SERVER_DEFAULT:
        yield 'http.jwt.access_token_expiry is the server default: needs a duration or "none"'
    if jwt.algorithm not in JWT_ALGORITHMS:
        yield f"http.jwt.algorithm is {jwt.algorithm!r}: needs one of {', '.join(JWT_ALGORITHMS)}"
    if unknown := sorted({m.upper() for m in config.http.cors.allowed_methods} - CORS_METHODS):
        yield f"http.cors.allowed_methods has {', '.join(unknown)}: needs names of HTTP methods"


def _telemetry(config: Config) -> Iterator[str]:
    telemetry = config.telemetry
    if not telemetry.enabled:
        return
    for key, text in (
        ("telemetry.service_name", telemetry.service_name),
        ("telemetry.logs.endpoint", telemetry.logs.endpoint),
        ("telemetry.traces.endpoint", telemetry.traces.endpoint),
    ):
        if not text.strip():
            yield f"{key} is empty: needs text while telemetry is enabled"


def _directories(system: System) -> Iterator[str]:
    """The runtime directory is deleted at each boot, so it must share its name with nothing."""
    if not system.path.strip() or PurePosixPath(system.path) == PurePosixPath("/"):
        yield f"system.path is {system.path!r}: needs a directory that is the broker's own"
    named = {
        "system.runtime.path": system.runtime.path,
        "system.logging.path": system.logging.path,
        "system.stream.path": system.stream.path,
        "system.topic.path": system.topic.path,
        "system.partition.path": system.partition.path,
    }
    for key, name in named.items():
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            yield f"{key} is {name!r}: needs the plain name of a directory"
    siblings: dict[str, str] = {STATE_DIRECTORY: "the metadata"}
    for key in ("system.runtime.path", "system.logging.path", "system.stream.path"):
        if other := siblings.get(named[key]):
            yield f"{key} is {named[key]!r} like that of {other}: needs a name of its own"
        siblings.setdefault(named[key], key)


def _logging(logging: Logging) -> Iterator[str]:
    if not logging.level.strip():
        yield 'system.logging.level is empty: needs a level like "info"'
    for key, period in (
        ("retention", logging.retention),
        ("rotation_check_interval", logging.rotation_check_interval),
    ):
        if period < LOG_PERIOD_MIN:
            yield f"system.logging.{key} is {period} us: needs at least 1 s"
    if logging.max_total_size != 0 and logging.max_file_size > logging.max_total_size:
        yield (
            f"system.logging.max_file_size is {format_size(logging.max_file_size)}: needs at most"
            f" system.logging.max_total_size, {format_size(logging.max_total_size)}"
        )


def _state(system: System) -> Iterator[str]:
    yield from _above_zero("system.state.snapshot_entries", system.state.snapshot_entries)
    yield from _above_zero("system.state.snapshot_size", system.state.snapshot_size)


def _log_and_topics(system: System) -> Iterator[str]:
    size = system.segment.size
    if not 0 < size <= SEGMENT_SIZE_MAX or size % SEGMENT_SIZE_STEP != 0:
        yield (
            f"system.segment.size is {format_size(size)}: needs a multiple of {SEGMENT_SIZE_STEP} B"
            f" up to {format_size(SEGMENT_SIZE_MAX)}"
        )
    if system.topic.max_size == SERVER_DEFAULT_SIZE:
        yield 'system.topic.max_size is the server default: needs a size or "unlimited"'
    elif system.topic.max_size < size:
        yield (
            f"system.topic.max_size is {format_size(system.topic.max_size)}: needs at least"
            f" system.segment.size, {format_size(size)}"
        )
    if system.topic.message_expiry == SERVER_DEFAULT:
        yield 'system.topic.message_expiry is the server default: needs a duration or "none"'
    yield from _above_zero(
        "system.partition.messages_required_to_save", system.partition.messages_required_to_save
    )
    entries = system.message_deduplication.max_entries
    if entries > ENTRIES_MAX:
        yield (
            f"system.message_deduplication.max_entries is {entries}: needs at most {ENTRIES_MAX},"
            " or 0 for that many"
        )


def _encryption(encryption: Encryption) -> Iterator[str]:
    if encryption.enabled and not encryption.key and not encryption.key_file:
        yield (
            "system.encryption.enabled is true without a key: needs system.encryption.key or"
            " system.encryption.key_file"
        )
    # The key itself must never be shown.
    if encryption.key and not _is_key(encryption.key):
        yield f"system.encryption.key cannot be used: needs the base64 of {KEY_SIZE} bytes"


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text.strip(), validate=True)) == KEY_SIZE
    except ValueError:
        return False


def _memory_pool(pool: MemoryPool) -> Iterator[str]:
    if not pool.enabled:
        return
    if pool.size < POOL_SIZE_MIN or pool.size % POOL_SIZE_STEP != 0:
        yield (
            f"system.memory_pool.size is {format_size(pool.size)}: needs a multiple of"
            f" {POOL_SIZE_STEP} B of at least {format_size(POOL_SIZE_MIN)}"
        )
    capacity = pool.bucket_capacity
    if capacity < BUCKET_CAPACITY_MIN or capacity & (capacity - 1) != 0:
        yield (
            f"system.memory_pool.bucket_capacity is {capacity}: needs a power of two of at least"
            f" {BUCKET_CAPACITY_MIN}"
        )


def _cpus(text: str, available: Sequence[int]) -> Iterator[str]:
    try:
        allocation = parse_cpu_allocation(text)
    except ConfigError as error:
        yield str(error)
        return
    match allocation:
        case CpuCount(count) if count > len(available):
            yield f"{CPU_KEY} is {count}: needs at most the {len(available)} CPUs available here"
        case CpuRange(first, end) if end > len(available) and not set(range(first, end)) <= set(
            available
        ):
            # A range of CPUs that this process may all use is fine even when their numbers are
            # high.
            yield (
                f"{CPU_KEY} is {first}..{end}: needs an end of at most {len(available)}, the CPUs"
                " available here"
            )
        case _:
            pass


def _cluster(cluster: Cluster) -> Iterator[str]:
    if not cluster.enabled:
        return
    nodes = cluster.node
    names = [nodes.current.name, *(other.name for other in nodes.others)]
    if not cluster.name.strip():
        yield "cluster.name is empty: needs a name"
    if not all(name.strip() for name in names):
        yield "cluster.node has a node with an empty name: needs a name for each"
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"cluster.node has the name {name!r} twice: needs a name of its own for each node"
    taken: set[tuple[str, str, int]] = set()
    for index, other in enumerate(nodes.others):
        key = f"cluster.node.others[{index}]"
        if not other.ip.strip():
            yield f"{key}.ip is empty: needs an address"
        for transport in ("tcp", "quic", "http", "websocket"):
            port = getattr(other.ports, transport)
            if port == 0:
                yield f"{key}.ports.{transport} is 0: needs a port of 1 to 65535"
            elif port is not None and (other.ip, transport, port) in taken:
                yield f"{key}.ports.{transport} is {port}, which another node has at {other.ip}"
            elif port is not None:
                taken.add((other.ip, transport, port))


def _metrics(config: Config) -> Iterator[str]:
    metrics, endpoint = config.metrics, config.http.metrics.endpoint
    if not metrics.enabled:
        return
    if not PATH.fullmatch(endpoint):
        yield f'http.metrics.endpoint is {endpoint!r}: needs a path like "/metrics"'
    if not 0 < metrics.series_max <= SERIES_MAX:
        yield f"metrics.series_max is {metrics.series_max}: needs a number of 1 to {SERIES_MAX}"
    address = parse_address(metrics.address)
    if config.tcp.enabled and address.port and address == parse_address(config.tcp.address):
        yield f"metrics.address is {metrics.address} like tcp.address: needs one of its own"


def _limits(limits: Limits) -> Iterator[str]:
    if 0 < limits.heartbeat_timeout < HEARTBEAT_TIMEOUT_MIN:
        yield (
            f"limits.heartbeat_timeout is {format_duration(limits.heartbeat_timeout)}: needs at"
            f" least {format_duration(HEARTBEAT_TIMEOUT_MIN)}, workers beat once a second"
        )
    for name in Limits.__struct_fields__:
        yield from _above_zero(f"limits.{name}", getattr(limits, name))
    if limits.login_backoff_min > limits.login_backoff_max:
        yield (
            f"limits.login_backoff_min is {format_duration(limits.login_backoff_min)}: needs at"
            f" most limits.login_backoff_max, {format_duration(limits.login_backoff_max)}"
        )
    for key, size, bound_name, bound in (
        ("frame_size_max", limits.frame_size_max, "the largest buffer", FRAME_SIZE_MAX),
        (
            "control_frame_size_max",
            limits.control_frame_size_max,
            "limits.frame_size_max",
            limits.frame_size_max,
        ),
        (
            "frame_size_max_before_login",
            limits.frame_size_max_before_login,
            "limits.control_frame_size_max",
            limits.control_frame_size_max,
        ),
        (
            "response_size_max",
            limits.response_size_max,
            "what the length field holds",
            RESPONSE_SIZE_MAX,
        ),
    ):
        if size > bound:
            yield (
                f"limits.{key} is {format_size(size)}: needs at most {bound_name},"
                f" {format_size(bound)}"
            )


def _above_zero(key: str, value: int) -> Iterator[str]:
    if value == 0:
        yield f"{key} is 0: needs more than zero"
