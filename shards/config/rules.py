"""The rules a configuration must keep, beyond each value having its kind: one table.

A row is about one setting and says what it needs, or names a function about several of them. Pure:
from a Config to sentences. Rules about this machine's memory and NUMA nodes live in
borzoi.shards.host, because they need the machine.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, le
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple

from borzoi.protocol.batch import ENTRIES_MAX
from borzoi.quantities import GIB, MIB, SECOND, format_duration, format_size
from borzoi.shards.settings.addresses import Address, parse_address
from borzoi.shards.settings.cpu_allocation import KEY as CPU_KEY
from borzoi.shards.settings.cpu_allocation import CpuCount, CpuRange, parse_cpu_allocation
from borzoi.shards.settings.errors import ConfigError
from borzoi.shards.settings.kinds import SERVER_DEFAULT
from borzoi.shards.settings.open_doors import open_doors
from borzoi.shards.settings.schema import Config, Limits, archives

POOL_SIZE_MIN: Final = 512 * MIB
POOL_SIZE_STEP: Final = 4096
BUCKET_CAPACITY_MIN: Final = 128
SEGMENT_SIZE_MAX: Final = GIB
SEGMENT_SIZE_STEP: Final = 512
KEY_SIZE: Final = 32
# The largest buffer of the pool: a frame must fit into one.
FRAME_SIZE_MAX: Final = 512 * MIB
HEARTBEAT_TIMEOUT_MIN: Final = 2 * SECOND
# Twice the largest message of a NATS server: a partition may have half of what is free.
NATS_PENDING_SIZE_MIN: Final = 2 * MIB
RESPONSE_SIZE_MAX: Final = 2**32 - 1
SERIES_MAX: Final = 1_000_000
PATH: Final = re.compile(r"/[!$-;=@-~]*")
URL: Final = re.compile(r"https?://|$")

JWT_ALGORITHMS: Final = ("HS256", "HS384", "HS512", "RS256", "RS384", "RS512")
CORS_METHODS: Final = frozenset(
    "GET POST PUT DELETE HEAD OPTIONS CONNECT PATCH TRACE".split()  # noqa: SIM905 - reads better
)
# Directories of the data directory that no setting may name.
STATE_DIRECTORY: Final = "state"


S3: Final = "data_maintenance.archiver.s3"
POOL: Final = "system.memory_pool"
NATS: Final = "liftbridge.nats"
REPLICATION: Final = "replication"
REPLICATED: Final = "replicated"
CLUSTER_ID: Final = re.compile(r"[0-9a-f]{32}")
NODE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
LANES_MAX: Final = 10_000
OBJECT_SIZE_MAX: Final = 64 * MIB
CHECKPOINT_SIZE_MAX: Final = 256 * MIB
NATS_URL: Final = re.compile(r"(?:nats|tls)://[^@/\s]+:\d{1,5}")


class SettingRule(NamedTuple):
    """Says "<key> is <found>: needs <needs>" of a value that does not pass."""

    key: str
    passes: Callable[[Any], object]
    needs: str
    found: Callable[[Any], str] = repr

    def broken(self, config: Config, _available: Sequence[int]) -> Iterator[str]:
        """The sentence about the value, if it does not pass."""
        value = attrgetter(self.key)(config)
        if not self.passes(value):
            yield f"{self.key} is {self.found(value)}: needs {self.needs}"


class Compared(NamedTuple):
    """Says "<key> is <value>: needs at most <other>, <its value>", or at least."""

    key: str
    other: str
    show: Callable[[int], str]
    passes: Callable[[int, int], bool] = le
    needs: str = "at most"

    def broken(self, config: Config, _available: Sequence[int]) -> Iterator[str]:
        """The sentence about the value, if it is on the wrong side of the other."""
        value, bound = attrgetter(self.key, self.other)(config)
        if not self.passes(value, bound):
            shown = f"{self.key} is {self.show(value)}"
            yield f"{shown}: needs {self.needs} {self.other}, {self.show(bound)}"


class Several(NamedTuple):
    """Settings below a key, judged together by a function."""

    key: str
    broken: Callable[[Config, Sequence[int]], Iterator[str]]


def broken_rules(config: Config, available_cpus: Sequence[int]) -> list[str]:
    """One sentence per broken rule, in the order of the schema."""
    return [
        sentence
        for rule in RULES
        if _counts(rule.key, config)
        for sentence in rule.broken(config, available_cpus)
    ]


def _counts(key: str, config: Config) -> bool:
    """Whether the part that a setting belongs to is switched on."""
    return next((is_on(config) for part, is_on in SWITCHES.items() if key.startswith(part)), True)


def _above_zero(key: str) -> SettingRule:
    return SettingRule(key, bool, "more than zero")


def _not_blank(key: str, needs: str) -> SettingRule:
    return SettingRule(key, str.strip, needs, lambda _: "empty")


def _no_default(key: str, needs: str) -> SettingRule:
    return SettingRule(key, bool, needs, lambda _: "the server default")


def _archives_to(config: Config, kind: str) -> bool:
    return archives(config) and config.data_maintenance.archiver.kind == kind


def _is_own_directory(path: str) -> bool:
    return bool(path.strip()) and PurePosixPath(path) != PurePosixPath("/")


def _is_below_bucket(prefix: str) -> bool:
    return set(prefix.split("/")).isdisjoint((".", "..")) and not prefix.startswith("/")


def _is_a_second(duration_us: int) -> bool:
    return duration_us >= SECOND


def _s3_login(config: Config, _available: Sequence[int]) -> Iterator[str]:
    s3 = config.data_maintenance.archiver.s3
    if bool(s3.key_id) != bool(s3.key_secret):
        yield f"{S3}.key_id and key_secret: needs both of them, or neither"
    if s3.key_id and s3.credentials_file:
        yield f"{S3}.key_id and credentials_file: needs one of them, not both"


def _backup_path(config: Config, _available: Sequence[int]) -> Iterator[str]:
    """Below the data directory it may lie, but not where something else does."""
    system, path = config.system, config.system.backup.path
    parts = PurePosixPath(path).parts
    taken = (system.runtime.path, system.logging.path, system.stream.path, "trash", "..")
    if not parts or "\0" in path or parts[0] in taken or parts == ("/",):
        yield f"system.backup.path is {path!r}: needs a directory of its own"


def _cors(config: Config, _available: Sequence[int]) -> Iterator[str]:
    if unknown := sorted({m.upper() for m in config.http.cors.allowed_methods} - CORS_METHODS):
        yield f"http.cors.allowed_methods has {', '.join(unknown)}: needs names of HTTP methods"


def _directories(config: Config, _available: Sequence[int]) -> Iterator[str]:
    """The runtime directory is deleted at each boot, so it must share its name with nothing."""
    parts = ("runtime", "logging", "stream", "topic", "partition")
    keys = [f"system.{part}.path" for part in parts]
    named = {key: attrgetter(key)(config) for key in keys}
    for key, name in named.items():
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            yield f"{key} is {name!r}: needs the plain name of a directory"
    siblings: dict[str, str] = {STATE_DIRECTORY: "the metadata"}
    for key in keys[:3]:
        if other := siblings.get(named[key]):
            yield f"{key} is {named[key]!r} like that of {other}: needs a name of its own"
        siblings.setdefault(named[key], key)


def _encryption(config: Config, _available: Sequence[int]) -> Iterator[str]:
    encryption = config.system.encryption
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


def _cpus(config: Config, available: Sequence[int]) -> Iterator[str]:
    try:
        allocation = parse_cpu_allocation(config.system.sharding.cpu_allocation)
    except ConfigError as error:
        yield str(error)
        return
    match allocation:
        case CpuCount(count) if count > len(available):
            yield f"{CPU_KEY} is {count}: needs at most the {len(available)} CPUs available here"
        case CpuRange(first, end) if end > len(available):
            # A range of CPUs that this process may all use is fine even when their numbers are
            # high.
            if not set(range(first, end)) <= set(available):
                yield (
                    f"{CPU_KEY} is {first}..{end}: needs an end of at most {len(available)}, the"
                    " CPUs available here"
                )


def _nodes(config: Config, _available: Sequence[int]) -> Iterator[str]:
    nodes = config.cluster.node
    names = [nodes.current.name, *(other.name for other in nodes.others)]
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


def _http_metrics(config: Config) -> bool:
    return config.http.enabled and config.http.metrics.enabled


def _addresses(config: Config, _available: Sequence[int]) -> Iterator[str]:
    taken: dict[Address, str] = {}
    for name, text in open_doors(config).items():
        if name == "quic":
            # A port of UDP is another one.
            continue
        address = parse_address(text)
        if address.port and address in taken:
            yield f"{name}.address is {text} like {taken[address]}.address: needs one of its own"
        taken.setdefault(address, name)


def _replication(config: Config, _available: Sequence[int]) -> Iterator[str]:
    """What contradicts it, and what it cannot do yet."""
    settings, system = config.replication, config.system
    durability = system.partition.durability
    if not settings.enabled:
        if durability == REPLICATED:
            yield (
                f"system.partition.durability is {REPLICATED!r} and replication.enabled is false:"
                " needs both, or neither"
            )
        return
    if durability != REPLICATED:
        yield (
            f"replication.enabled is true and system.partition.durability is {durability!r}:"
            f" needs {REPLICATED!r}"
        )
    if settings.cluster and CLUSTER_ID.fullmatch(settings.cluster) is None:
        yield f"{REPLICATION}.cluster is {settings.cluster!r}: needs 32 hex digits, or nothing"
    if NODE_NAME.fullmatch(settings.node) is None:
        yield f"{REPLICATION}.node is {settings.node!r}: needs letters, digits, dots and dashes"
    compression = system.compression
    for key, is_set in {
        "system.encryption.enabled": system.encryption.enabled,
        "system.compression.allow_override": compression.allow_override,
        "system.compression.default_algorithm": compression.default_algorithm != "none",
        "data_maintenance.archiver": archives(config),
    }.items():
        if is_set:
            yield f"{key} is set and replication.enabled is true: needs one of them, not both yet"


def _nats(config: Config, _available: Sequence[int]) -> Iterator[str]:
    nats = config.liftbridge.nats
    for server in nats.servers:
        if NATS_URL.fullmatch(server) is None:
            shown = repr(server.rpartition("@")[2])
            needs = "nats:// or tls://, a host and a port, no login"
            yield f"{NATS}.servers has {shown}: needs {needs}"
    if bool(nats.username) != bool(nats.password):
        yield f"{NATS}.username and password: needs both of them, or neither"
    if nats.username and nats.token:
        yield f"{NATS}.username and token: needs one of them, not both"
    if nats.tls.client_key_file and not nats.tls.client_cert_file:
        yield f"{NATS}.tls.client_key_file without client_cert_file: needs both, or neither"
    if any(server.startswith("tls://") for server in nats.servers) and not nats.tls.enabled:
        yield f"{NATS}.servers has a tls:// address: needs {NATS}.tls.enabled"


SWITCHES: Final[dict[str, Callable[[Config], bool]]] = {
    S3: lambda config: _archives_to(config, "s3"),
    "system.backup.path": lambda config: _archives_to(config, "disk"),
    "data_maintenance.archiver": archives,
    "data_maintenance.messages": attrgetter("data_maintenance.messages.cleaner_enabled"),
    "message_saver": attrgetter("message_saver.enabled"),
    "personal_access_token.cleaner": attrgetter("personal_access_token.cleaner.enabled"),
    "heartbeat": attrgetter("heartbeat.enabled"),
    "http.metrics": lambda config: config.metrics.enabled or _http_metrics(config),
    "http": attrgetter("http.enabled"),
    "telemetry": attrgetter("telemetry.enabled"),
    POOL: attrgetter(f"{POOL}.enabled"),
    NATS: lambda config: config.liftbridge.enabled and bool(config.liftbridge.nats.servers),
    "cluster": attrgetter("cluster.enabled"),
    REPLICATION: attrgetter("replication.enabled"),
    "metrics": attrgetter("metrics.enabled"),
}
"""Rules of a part that is switched off do not count; the first prefix of a key decides."""

# Without a number, or with a meaning of its own for 0.
OTHER_LIMITS: Final = frozenset({"plain_login", "slow_request"})
LIMITS_IN_NUMBERS: Final = tuple(
    name for name in Limits.__struct_fields__ if name not in OTHER_LIMITS
)

RULES: Final[tuple[SettingRule | Compared | Several, ...]] = (
    _above_zero("data_maintenance.archiver.interval"),
    Several("system.backup.path", _backup_path),
    _not_blank(f"{S3}.bucket", "the name of a bucket"),
    SettingRule(f"{S3}.endpoint", URL.match, "a URL that begins with http:// or https://"),
    SettingRule(f"{S3}.prefix", _is_below_bucket, "a path below the bucket"),
    Several(S3, _s3_login),
    _above_zero("data_maintenance.messages.interval"),
    _above_zero("message_saver.interval"),
    _above_zero("personal_access_token.max_tokens_per_user"),
    _above_zero("personal_access_token.cleaner.interval"),
    _above_zero("heartbeat.interval"),
    _no_default("http.jwt.access_token_expiry", 'a duration or "none"'),
    SettingRule(
        "http.jwt.algorithm", JWT_ALGORITHMS.__contains__, f"one of {', '.join(JWT_ALGORITHMS)}"
    ),
    Several("http.cors", _cors),
    _not_blank("telemetry.service_name", "text while telemetry is enabled"),
    _not_blank("telemetry.logs.endpoint", "text while telemetry is enabled"),
    _not_blank("telemetry.traces.endpoint", "text while telemetry is enabled"),
    SettingRule("system.path", _is_own_directory, "a directory that is the broker's own"),
    Several("system", _directories),
    _above_zero("system.stop_timeout"),
    _not_blank("system.logging.level", 'a level like "info"'),
    SettingRule("system.logging.retention", _is_a_second, "at least 1 s", "{} us".format),
    SettingRule(
        "system.logging.rotation_check_interval", _is_a_second, "at least 1 s", "{} us".format
    ),
    Compared(
        "system.logging.max_file_size",
        "system.logging.max_total_size",
        format_size,
        lambda size, total: size <= total or total == 0,  # which is no limit
    ),
    _above_zero("system.state.snapshot_entries"),
    _above_zero("system.state.snapshot_size"),
    SettingRule(
        "system.segment.size",
        lambda size: 0 < size <= SEGMENT_SIZE_MAX and size % SEGMENT_SIZE_STEP == 0,
        f"a multiple of {SEGMENT_SIZE_STEP} B up to {format_size(SEGMENT_SIZE_MAX)}",
        format_size,
    ),
    _no_default("system.topic.max_size", 'a size or "unlimited"'),
    Compared(
        "system.topic.max_size",
        "system.segment.size",
        format_size,
        lambda size, least: size >= least or size == SERVER_DEFAULT,
        "at least",
    ),
    _no_default("system.topic.message_expiry", 'a duration or "none"'),
    _above_zero("system.partition.messages_required_to_save"),
    SettingRule(
        "system.message_deduplication.max_entries",
        lambda entries: entries <= ENTRIES_MAX,
        f"at most {ENTRIES_MAX}, or 0 for that many",
    ),
    Several("system.encryption", _encryption),
    Several(NATS, _nats),
    Several("", _replication),
    _not_blank(f"{REPLICATION}.store", "a directory or s3://BUCKET/PREFIX"),
    SettingRule(
        f"{REPLICATION}.lanes", lambda lanes: lanes <= LANES_MAX, f"at most {LANES_MAX}, or 0"
    ),
    SettingRule(
        f"{REPLICATION}.object_size",
        lambda size: 0 < size <= OBJECT_SIZE_MAX,
        f"a size up to {format_size(OBJECT_SIZE_MAX)}",
        format_size,
    ),
    *(
        _above_zero(f"{REPLICATION}.{name}")
        for name in ("store_timeout", "checkpoint_size", "checkpoint_interval")
    ),
    SettingRule(
        f"{REPLICATION}.checkpoint_size",
        lambda size: size <= CHECKPOINT_SIZE_MAX,
        f"at most {format_size(CHECKPOINT_SIZE_MAX)}",
        format_size,
    ),
    SettingRule(
        f"{NATS}.pending_size_max",
        lambda size: size >= NATS_PENDING_SIZE_MIN,
        f"at least {format_size(NATS_PENDING_SIZE_MIN)}",
        format_size,
    ),
    _above_zero(f"{NATS}.reconnect_interval"),
    SettingRule(
        f"{POOL}.size",
        lambda size: size >= POOL_SIZE_MIN and size % POOL_SIZE_STEP == 0,
        f"a multiple of {POOL_SIZE_STEP} B of at least {format_size(POOL_SIZE_MIN)}",
        format_size,
    ),
    SettingRule(
        f"{POOL}.bucket_capacity",
        lambda capacity: capacity >= BUCKET_CAPACITY_MIN and capacity.bit_count() == 1,
        f"a power of two of at least {BUCKET_CAPACITY_MIN}",
    ),
    Several(CPU_KEY, _cpus),
    _not_blank("cluster.name", "a name"),
    Several("cluster.node", _nodes),
    SettingRule("http.metrics.endpoint", PATH.fullmatch, 'a path like "/metrics"'),
    SettingRule(
        "metrics.series_max",
        range(1, SERIES_MAX + 1).__contains__,
        f"a number of 1 to {SERIES_MAX}",
    ),
    Several("", _addresses),
    SettingRule(
        "limits.heartbeat_timeout",
        lambda timeout: timeout == 0 or timeout >= HEARTBEAT_TIMEOUT_MIN,
        f"at least {format_duration(HEARTBEAT_TIMEOUT_MIN)}, workers beat once a second",
        format_duration,
    ),
    *(_above_zero(f"limits.{name}") for name in LIMITS_IN_NUMBERS),
    Compared("limits.login_backoff_min", "limits.login_backoff_max", format_duration),
    SettingRule(
        "limits.frame_size_max",
        lambda size: size <= FRAME_SIZE_MAX,
        f"at most the largest buffer, {format_size(FRAME_SIZE_MAX)}",
        format_size,
    ),
    Compared("limits.control_frame_size_max", "limits.frame_size_max", format_size),
    Compared("limits.frame_size_max_before_login", "limits.control_frame_size_max", format_size),
    SettingRule(
        "limits.mapped_size_max",
        lambda size: size >= MIB,
        f"at least {format_size(MIB)}",
        format_size,
    ),
    SettingRule(
        "limits.response_size_max",
        lambda size: size <= RESPONSE_SIZE_MAX,
        f"at most what the length field holds, {format_size(RESPONSE_SIZE_MAX)}",
        format_size,
    ),
)
