"""IGGY_... variables: names, typing, arrays, unknown ones."""

from typing import Any

import pytest

from borzoi.shards.config.documents import Findings, Settings
from borzoi.shards.config.environment import (
    OTHER_NAMES,
    apply_environment,
    displays_config,
)
from borzoi.shards.config.tree import environment_names, leaf_paths


def read(**variables: str) -> tuple[Settings, Findings]:
    settings: Settings = {}
    findings = Findings()
    apply_environment(variables, settings, findings)
    return settings, findings


def value_of(name: str, text: str) -> Any:
    settings, findings = read(**{name: text})
    assert findings == Findings()
    here: Any = settings
    path, _ = environment_names()[name]
    for part in path:
        here = here[part]
    return here


def test_every_setting_has_its_own_name() -> None:
    assert len(environment_names()) == len(list(leaf_paths()))
    assert OTHER_NAMES.isdisjoint(environment_names())


def test_names_join_the_path() -> None:
    names = environment_names()
    assert "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC" in names
    assert "IGGY_TCP_TLS_CERT_FILE" in names
    assert "IGGY_CLUSTER_NODE_OTHERS_9_PORTS_TCP" in names
    assert "IGGY_CLUSTER_NODE_OTHERS_10_PORTS_TCP" not in names
    assert "IGGY_LIMITS_FRAME_SIZE_MAX" in names


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("IGGY_TCP_ENABLED", "FALSE", False),
        ("IGGY_TCP_ENABLED", "true", True),
        ("IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE", "100000", 100_000),
        ("IGGY_SYSTEM_SEGMENT_SIZE", "5KiB", 5120),
        ("IGGY_SYSTEM_SEGMENT_SIZE", "5120", 5120),
        ("IGGY_MESSAGE_SAVER_INTERVAL", "100ms", 100_000),
        ("IGGY_SYSTEM_LOGGING_SYSINFO_PRINT_INTERVAL", "0", 0),
        ("IGGY_SYSTEM_SEGMENT_CACHE_INDEXES", "True", "all"),
        ("IGGY_SYSTEM_SEGMENT_CACHE_INDEXES", "false", "none"),
        ("IGGY_SYSTEM_SEGMENT_CACHE_INDEXES", "Open_Segment", "open_segment"),
        ("IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "4", "4"),
        ("IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "3..7", "3..7"),
        # Text keys keep text that looks like something else.
        ("IGGY_HTTP_JWT_ENCODING_SECRET", "12345", "12345"),
        ("IGGY_CLUSTER_NAME", "true", "true"),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", '["a","b"]', ("a", "b")),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", "[a, b]", ("a", "b")),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", "['a,b' , \"c d\"]", ("a,b", "c d")),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", "[]", ()),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", '[""]', ("",)),
        ("IGGY_WEBSOCKET_MAX_FRAME_SIZE", "1 MiB", 2**20),
    ],
)
def test_the_key_says_what_the_text_means(name: str, text: str, value: object) -> None:
    assert value_of(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "needs"),
    [
        ("IGGY_TCP_ENABLED", "1", "true or false"),
        ("IGGY_SYSTEM_SEGMENT_SIZE", "big", "size"),
        ("IGGY_MESSAGE_SAVER_INTERVAL", "30", "duration"),
        ("IGGY_TCP_ADDRESS", "8090", "address"),
        ("IGGY_CLUSTER_NODE_OTHERS_0_PORTS_TCP", "65536", "0 to 65535"),
        ("IGGY_PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER", "-1", "number"),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", "a,b", "list"),
        ("IGGY_HTTP_CORS_ALLOWED_ORIGINS", '["a]', "list"),
        ("IGGY_SYSTEM_PARTITION_DURABILITY", "never", '"fsync"'),
    ],
)
def test_a_misfit_names_variable_value_and_need(name: str, text: str, needs: str) -> None:
    _, findings = read(**{name: text})
    assert len(findings.problems) == 1
    problem = findings.problems[0]
    assert name in problem
    assert repr(text) in problem
    assert needs in problem


def test_an_empty_value_is_not_set() -> None:
    assert read(IGGY_TCP_ENABLED="", IGGY_NONSENSE="") == ({}, Findings())


def test_elements_of_arrays() -> None:
    settings, findings = read(
        IGGY_CLUSTER_NODE_OTHERS_1_NAME="c",
        IGGY_CLUSTER_NODE_OTHERS_0_NAME="b",
        IGGY_CLUSTER_NODE_OTHERS_0_PORTS_TCP="8091",
    )
    assert findings == Findings()
    assert settings["cluster"]["node"]["others"] == [
        {"name": "b", "ports": {"tcp": 8091}},
        {"name": "c"},
    ]


def test_elements_are_laid_over_those_of_the_file() -> None:
    settings: Settings = {"cluster": {"node": {"others": [{"name": "b", "ip": "::1"}]}}}
    apply_environment({"IGGY_CLUSTER_NODE_OTHERS_0_NAME": "z"}, settings, Findings())
    assert settings["cluster"]["node"]["others"] == [{"name": "z", "ip": "::1"}]


def test_a_gap_in_an_array_is_a_problem() -> None:
    _, findings = read(IGGY_CLUSTER_NODE_OTHERS_2_NAME="d")
    assert findings.problems == [
        "IGGY_CLUSTER_NODE_OTHERS_2_NAME is set, but the elements before it do not exist"
    ]


def test_an_unknown_name_is_one_warning_with_the_nearest() -> None:
    _, findings = read(IGGY_SYSTEM_SEGMNT_SIZE="super secret")
    assert findings.problems == []
    assert len(findings.unknown) == 1
    assert "IGGY_SYSTEM_SEGMNT_SIZE" in findings.unknown[0]
    assert "IGGY_SYSTEM_SEGMENT_SIZE" in findings.unknown[0]
    assert "super secret" not in findings.unknown[0]


def test_an_index_of_two_digits_is_unknown() -> None:
    _, findings = read(IGGY_CLUSTER_NODE_OTHERS_10_NAME="k")
    assert len(findings.unknown) == 1
    assert "0 to 9" in findings.unknown[0]


def test_other_programs_variables_are_left_alone() -> None:
    _, findings = read(
        IGGY_ROOT_PASSWORD="x",
        IGGY_CONFIG_PATH="x",
        IGGY_CONNECTORS_SINK_STDOUT_X="x",
        IGGYX="x",
        HOME="x",
    )
    assert findings == Findings()


def test_a_secret_is_not_in_its_complaint() -> None:
    from borzoi.shards.config.documents import complaint
    from borzoi.shards.settings.kinds import SECRET

    assert "hunter2" not in complaint("http.jwt.encoding_secret", SECRET, "hunter2", ValueError())


@pytest.mark.parametrize(
    ("text", "shown"), [("1", True), ("TRUE", True), ("", True), ("0", False), ("no", False)]
)
def test_whether_the_configuration_is_logged(text: str, shown: bool) -> None:
    assert displays_config({"IGGY_DISPLAY_CONFIG": text}) is shown
    assert displays_config({})
