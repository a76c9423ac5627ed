"""Each rule of the configuration, on both sides of its bound."""

from typing import Any

import msgspec
import pytest

from borzoi.quantities import GIB, MIB, SECOND
from borzoi.shards.config.rules import broken_rules
from borzoi.shards.settings.kinds import UNLIMITED
from borzoi.shards.settings.schema import Config, NodePorts, OtherNode, Table

CPUS = (0, 1, 2, 3)


def changed(table: Any, key: str, value: Any) -> Any:
    name, _, rest = key.partition(".")
    inner = changed(getattr(table, name), rest, value) if rest else value
    return msgspec.structs.replace(table, **{name: inner})


def config_with(settings: dict[str, Any]) -> Config:
    config = Config()
    for key, value in settings.items():
        config = changed(config, key, value)
    assert isinstance(config, Table)
    return config


def said(settings: dict[str, Any]) -> list[str]:
    return broken_rules(config_with(settings), CPUS)


POOL = "system.memory_pool"
LOGGING = "system.logging"
TOKENS = "personal_access_token"
ARCHIVER = "data_maintenance.archiver"
METRICS = {"metrics.enabled": True}
ENABLED = {f"{ARCHIVER}.enabled": True}
S3 = {**ENABLED, f"{ARCHIVER}.kind": "s3", f"{ARCHIVER}.s3.bucket": "backups"}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {f"{POOL}.size": 512 * MIB},
        {f"{POOL}.bucket_capacity": 128},
        {f"{POOL}.enabled": False, f"{POOL}.size": 0, f"{POOL}.bucket_capacity": 3},
        {"data_maintenance.messages.interval": 0},
        {"message_saver.enabled": False, "message_saver.interval": 0},
        {"message_saver.interval": 1},
        {f"{TOKENS}.max_tokens_per_user": 1},
        {f"{TOKENS}.cleaner.enabled": False, f"{TOKENS}.cleaner.interval": 0},
        {"system.segment.size": GIB},
        {"system.segment.size": 512},
        {"telemetry.service_name": ""},
        {f"{LOGGING}.retention": SECOND, f"{LOGGING}.rotation_check_interval": SECOND},
        {f"{LOGGING}.max_file_size": 400, f"{LOGGING}.max_total_size": 400},
        {f"{LOGGING}.max_file_size": 401, f"{LOGGING}.max_total_size": 0},
        {f"{LOGGING}.max_file_size": 0, f"{LOGGING}.max_total_size": 400},
        {"system.topic.max_size": GIB},
        {"system.topic.max_size": UNLIMITED},
        {"http.enabled": False, "http.jwt.access_token_expiry": 0},
        {"system.partition.messages_required_to_save": 1},
        {"system.sharding.cpu_allocation": "4"},
        {"system.sharding.cpu_allocation": "0..4"},
        {"system.sharding.cpu_allocation": "numa:auto"},
        {"cluster.name": ""},
        {"limits.frame_size_max": 512 * MIB},
        {"limits.frame_size_max": 10 * MIB},
        {"limits.frame_size_max_before_login": 10 * MIB},
        {"limits.response_size_max": 2**32 - 1},
        {"limits.connections_max": 1},
        {"limits.heartbeat_timeout": 2_000_000},
        {"heartbeat.interval": 0},
        {"http.enabled": False, "http.metrics.endpoint": "", "metrics.series_max": 0},
        {"http.metrics.enabled": False, "http.metrics.endpoint": ""},
        {"http.enabled": False, "http.address": "127.0.0.1:8090"},
        {**METRICS, "metrics.address": "0.0.0.0:0", "tcp.address": "0.0.0.0:0"},
        {**METRICS, "metrics.address": "127.0.0.1:8090", "tcp.enabled": False},
        {**METRICS, "metrics.series_max": 1_000_000, "http.metrics.endpoint": "/"},
    ],
)
def test_kept(settings: dict[str, Any]) -> None:
    assert said(settings) == []


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({f"{POOL}.size": 0}, f"{POOL}.size"),
        ({f"{POOL}.size": 512 * MIB - 4096}, f"{POOL}.size"),
        ({f"{POOL}.size": GIB + 1}, f"{POOL}.size"),
        ({f"{POOL}.bucket_capacity": 64}, f"{POOL}.bucket_capacity"),
        ({f"{POOL}.bucket_capacity": 129}, f"{POOL}.bucket_capacity"),
        (
            {
                "data_maintenance.messages.cleaner_enabled": True,
                "data_maintenance.messages.interval": 0,
            },
            "data_maintenance.messages.interval",
        ),
        ({"message_saver.interval": 0}, "message_saver.interval"),
        ({f"{TOKENS}.max_tokens_per_user": 0}, f"{TOKENS}.max_tokens_per_user"),
        ({f"{TOKENS}.cleaner.interval": 0}, f"{TOKENS}.cleaner.interval"),
        ({"heartbeat.enabled": True, "heartbeat.interval": 0}, "heartbeat.interval"),
        ({"system.state.snapshot_entries": 0}, "system.state.snapshot_entries"),
        ({"system.state.snapshot_size": 0}, "system.state.snapshot_size"),
        ({"system.segment.size": GIB + 512}, "system.segment.size"),
        ({"system.segment.size": 511}, "system.segment.size"),
        ({"system.segment.size": 0}, "system.segment.size"),
        ({"telemetry.enabled": True, "telemetry.service_name": " "}, "telemetry.service_name"),
        ({"telemetry.enabled": True, "telemetry.logs.endpoint": ""}, "telemetry.logs.endpoint"),
        (
            {"telemetry.enabled": True, "telemetry.traces.endpoint": ""},
            "telemetry.traces.endpoint",
        ),
        ({f"{LOGGING}.level": " "}, f"{LOGGING}.level"),
        ({f"{LOGGING}.retention": SECOND - 1}, f"{LOGGING}.retention"),
        (
            {f"{LOGGING}.rotation_check_interval": SECOND - 1},
            f"{LOGGING}.rotation_check_interval",
        ),
        (
            {f"{LOGGING}.max_file_size": 401, f"{LOGGING}.max_total_size": 400},
            f"{LOGGING}.max_file_size",
        ),
        ({"system.topic.max_size": 0}, "system.topic.max_size"),
        ({"system.topic.max_size": GIB - 1}, "system.topic.max_size"),
        ({"system.topic.message_expiry": 0}, "system.topic.message_expiry"),
        ({"http.jwt.access_token_expiry": 0}, "http.jwt.access_token_expiry"),
        ({"http.jwt.algorithm": "none"}, "http.jwt.algorithm"),
        ({"http.cors.allowed_methods": ("GET", "FETCH")}, "http.cors.allowed_methods"),
        (
            {"system.partition.messages_required_to_save": 0},
            "system.partition.messages_required_to_save",
        ),
        (
            {"system.message_deduplication.max_entries": 1 << 24},
            "system.message_deduplication.max_entries",
        ),
        ({"system.sharding.cpu_allocation": "0"}, "system.sharding.cpu_allocation"),
        ({"system.sharding.cpu_allocation": "5"}, "system.sharding.cpu_allocation"),
        ({"system.sharding.cpu_allocation": "2..2"}, "system.sharding.cpu_allocation"),
        ({"system.sharding.cpu_allocation": "1..5"}, "system.sharding.cpu_allocation"),
        ({"system.sharding.cpu_allocation": "numa:x=1"}, "system.sharding.cpu_allocation"),
        ({"system.path": ""}, "system.path"),
        ({"system.path": "/"}, "system.path"),
        ({"system.runtime.path": "."}, "system.runtime.path"),
        ({"system.runtime.path": ".."}, "system.runtime.path"),
        ({"system.runtime.path": "streams"}, "system.stream.path"),
        ({"system.runtime.path": "state"}, "system.runtime.path"),
        ({"system.logging.path": "a/b"}, "system.logging.path"),
        ({"system.topic.path": ""}, "system.topic.path"),
        ({"limits.frame_size_max": 512 * MIB + 1}, "limits.frame_size_max"),
        ({"limits.control_frame_size_max": 128 * MIB + 1}, "limits.control_frame_size_max"),
        (
            {"limits.frame_size_max_before_login": 10 * MIB + 1},
            "limits.frame_size_max_before_login",
        ),
        ({"limits.response_size_max": 2**32}, "limits.response_size_max"),
        ({"limits.connections_max": 0}, "limits.connections_max"),
        ({"limits.login_failures_free": 0}, "limits.login_failures_free"),
        ({"limits.login_backoff_min": 60_000_001}, "limits.login_backoff_min"),
        ({**METRICS, "metrics.series_max": 0}, "metrics.series_max"),
        ({**METRICS, "metrics.series_max": 1_000_001}, "metrics.series_max"),
        ({**METRICS, "metrics.address": "127.0.0.1:8090"}, "metrics.address"),
        ({**METRICS, "http.metrics.endpoint": "metrics"}, "http.metrics.endpoint"),
        ({**METRICS, "http.metrics.endpoint": "/metrics?x"}, "http.metrics.endpoint"),
        ({**METRICS, "http.metrics.endpoint": "/a b"}, "http.metrics.endpoint"),
        ({"http.metrics.endpoint": "metrics"}, "http.metrics.endpoint"),
        ({"http.address": "127.0.0.1:8090"}, "http.address"),
        ({"limits.heartbeat_timeout": 0}, "limits.heartbeat_timeout"),
        ({"system.stop_timeout": 0}, "system.stop_timeout"),
        ({"limits.heartbeat_timeout": 1_999_999}, "limits.heartbeat_timeout"),
    ],
)
def test_broken(settings: dict[str, Any], key: str) -> None:
    sentences = said(settings)
    assert len(sentences) == 1
    assert sentences[0].startswith(f"{key} ")
    assert "needs" in sentences[0] or "start must lie" in sentences[0]


def test_high_numbers_that_are_all_available_are_fine() -> None:
    config = config_with({"system.sharding.cpu_allocation": "4..8"})
    assert broken_rules(config, (4, 5, 6, 7)) == []
    assert len(broken_rules(config, (4, 5, 6))) == 1


NODE = OtherNode(name="b", ip="10.0.0.1", ports=NodePorts(tcp=1, http=2))


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"cluster.name": ""}, "cluster.name"),
        ({"cluster.node.current.name": ""}, "empty name"),
        ({"cluster.node.others": (NODE, msgspec.structs.replace(NODE, ip="10.0.0.2"))}, "twice"),
        ({"cluster.node.others": (msgspec.structs.replace(NODE, ip=""),)}, "others[0].ip"),
        (
            {"cluster.node.others": (msgspec.structs.replace(NODE, ports=NodePorts(tcp=0)),)},
            "others[0].ports.tcp is 0",
        ),
        (
            {
                "cluster.node.others": (
                    NODE,
                    msgspec.structs.replace(NODE, name="c", ports=NodePorts(tcp=1)),
                )
            },
            "others[1].ports.tcp is 1",
        ),
    ],
)
def test_clusters(settings: dict[str, Any], part: str) -> None:
    sentences = said({"cluster.enabled": True, **settings})
    assert len(sentences) == 1
    assert part in sentences[0]
    assert said({"cluster.enabled": False, **settings}) == []


def test_a_good_cluster() -> None:
    other = msgspec.structs.replace(NODE, name="c", ip="10.0.0.2")
    assert said({"cluster.enabled": True, "cluster.node.others": (NODE, other)}) == []


def test_encryption_needs_a_key_that_is_one_and_never_shows_it() -> None:
    key = "system.encryption.key"
    good = "A" * 43 + "="
    assert said({"system.encryption.enabled": True, key: good}) == []
    assert said({"system.encryption.enabled": True, "system.encryption.key_file": "/x"}) == []
    assert said({key: good}) == []
    (text,) = said({"system.encryption.enabled": True})
    assert "without a key" in text
    for bad in ("hunter2", "A" * 42 + "==", "A" * 44, "\u00e4"):
        (text,) = said({"system.encryption.enabled": True, key: bad})
        assert text.startswith("system.encryption.key cannot be used")
        assert bad not in text


@pytest.mark.parametrize(
    "settings",
    [
        {f"{ARCHIVER}.interval": 0, "system.backup.path": ""},  # switched off
        ENABLED,
        {**ENABLED, "system.backup.path": "/mnt/nas/borzoi"},
        {**ENABLED, "system.backup.path": "backup/weekly"},
        S3,
        {**S3, f"{ARCHIVER}.s3.endpoint": "http://127.0.0.1:9000"},
        {**S3, f"{ARCHIVER}.s3.key_id": "a", f"{ARCHIVER}.s3.key_secret": "b"},
        {**S3, f"{ARCHIVER}.s3.credentials_file": "/run/secrets/s3"},
    ],
)
def test_good_archives(settings: dict[str, Any]) -> None:
    assert said(settings) == []


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({**ENABLED, f"{ARCHIVER}.interval": 0}, "archiver.interval is 0"),
        ({"system.segment.archive_expired": True, f"{ARCHIVER}.interval": 0}, "interval is 0"),
        ({**ENABLED, "system.backup.path": ""}, "system.backup.path is ''"),
        ({**ENABLED, "system.backup.path": "streams/x"}, "system.backup.path is 'streams/x'"),
        ({**ENABLED, "system.backup.path": "runtime"}, "system.backup.path is 'runtime'"),
        ({**ENABLED, "system.backup.path": "/"}, "system.backup.path is '/'"),
        ({**S3, f"{ARCHIVER}.s3.bucket": ""}, "s3.bucket is empty"),
        ({**S3, f"{ARCHIVER}.s3.endpoint": "127.0.0.1:9000"}, "s3.endpoint is"),
        ({**S3, f"{ARCHIVER}.s3.prefix": "../x"}, "s3.prefix is"),
        ({**S3, f"{ARCHIVER}.s3.key_id": "a"}, "both of them"),
        (
            {
                **S3,
                f"{ARCHIVER}.s3.key_id": "a",
                f"{ARCHIVER}.s3.key_secret": "b",
                f"{ARCHIVER}.s3.credentials_file": "c",
            },
            "not both",
        ),
    ],
)
def test_bad_archives(settings: dict[str, Any], part: str) -> None:
    (problem,) = said(settings)
    assert part in problem


DURABILITY = "system.partition.durability"
REPLICATED = {
    DURABILITY: "replicated",
    "replication.enabled": True,
    "replication.store": "s3://bucket/prefix",
}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({DURABILITY: "written"}, "replication.enabled"),
        ({"replication.store": " "}, "replication.store"),
        ({"replication.cluster": "abc"}, "replication.cluster"),
        ({"replication.node": "a/b"}, "replication.node"),
        ({"replication.lanes": 10_001}, "replication.lanes"),
        ({"replication.object_size": 0}, "replication.object_size"),
        ({"replication.object_size": 65 * MIB}, "replication.object_size"),
        ({"replication.store_timeout": 0}, "replication.store_timeout"),
        ({"replication.checkpoint_size": 0}, "replication.checkpoint_size"),
        ({"replication.checkpoint_size": 257 * MIB}, "replication.checkpoint_size"),
        ({"replication.checkpoint_interval": 0}, "replication.checkpoint_interval"),
        (
            {"system.encryption.enabled": True, "system.encryption.key": "A" * 43 + "="},
            "system.encryption.enabled",
        ),
        ({"system.compression.allow_override": True}, "system.compression.allow_override"),
        (
            {"system.compression.default_algorithm": "zstd"},
            "system.compression.default_algorithm",
        ),
        (ENABLED, ARCHIVER),
    ],
)
def test_replication_does_not_go_with_everything(settings: dict[str, Any], key: str) -> None:
    assert said(REPLICATED) == []
    (sentence,) = said({**REPLICATED, **settings})
    assert sentence.startswith(f"{key} ")
    assert "needs" in sentence


def test_durability_replicated_needs_replication() -> None:
    (sentence,) = said({DURABILITY: "replicated"})
    assert "needs both, or neither" in sentence
    assert said({"replication.lanes": 10_001, "replication.store": ""}) == []
