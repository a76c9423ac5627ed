"""Sources and their order, warnings, complaints, and the strict check of a file."""

from pathlib import Path

import pytest

from borzoi.quantities import GIB, HOUR, MIB
from borzoi.shards.config import (
    Config,
    ConfigError,
    Loaded,
    check_file,
    from_json,
    load_config,
    to_json,
)
from borzoi.shards.config.loading import FILE_SIZE_MAX
from borzoi.shards.config.not_yet import NOT_YET
from borzoi.shards.config.tree import key_text, leaf_paths
from borzoi.shards.settings.kinds import UNLIMITED

CPUS = range(4)


def load(cwd: Path, toml: str = "", **environ: str) -> Loaded:
    if toml:
        path = cwd / "config.toml"
        path.write_text(toml)
        environ["IGGY_CONFIG_PATH"] = str(path)
    return load_config(environ, cwd, available_cpus=CPUS)


def test_nothing_set_gives_the_defaults_without_a_word(tmp_path: Path) -> None:
    loaded = load(tmp_path)
    assert loaded.config == Config()
    assert loaded.warnings == ()
    assert loaded.sources == ("defaults",)


def test_the_defaults_that_are_ours() -> None:
    config = Config()
    assert config.system.sharding.cpu_allocation == "all"
    assert config.system.partition.durability == "written"
    assert config.system.state.enforce_fsync is True
    assert config.system.segment.protect_unread == "bounded"
    assert config.system.segment.unread_grace == HOUR
    assert config.limits.frame_size_max == 128 * MIB
    assert config.limits.partitions_total_max == 16_777_216


def test_the_defaults_that_are_not(tmp_path: Path) -> None:
    config = Config()
    assert config.tcp.address == "127.0.0.1:8090"
    assert config.system.path == "local_data"
    assert config.system.segment.size == GIB
    assert config.system.topic.max_size == UNLIMITED
    assert config.system.memory_pool.size == 4 * GIB
    assert config.cluster.node.others[0].ports.websocket == 8093


def test_environment_over_file_over_defaults(tmp_path: Path) -> None:
    toml = '[tcp]\naddress = "127.0.0.1:1"\n[system]\npath = "here"\n'
    loaded = load(tmp_path, toml, IGGY_TCP_ADDRESS="127.0.0.1:2")
    assert loaded.config.tcp.address == "127.0.0.1:2"
    assert loaded.config.system.path == "here"
    assert loaded.config.tcp.enabled is True
    assert loaded.sources[1:] == (
        f"file {tmp_path / 'config.toml'}",
        "environment (IGGY_TCP_ADDRESS)",
    )


def test_the_default_file_is_found_in_a_parent(tmp_path: Path) -> None:
    (tmp_path / "core/server").mkdir(parents=True)
    (tmp_path / "core/server/config.toml").write_text('[system]\npath = "found"\n')
    below = tmp_path / "a/b"
    below.mkdir(parents=True)
    assert load(below).config.system.path == "found"


def test_a_relative_path_is_found_in_a_parent(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text('[system]\npath = "found"\n')
    below = tmp_path / "a"
    below.mkdir()
    assert load(below, IGGY_CONFIG_PATH="my.toml").config.system.path == "found"


def test_a_missing_file_that_is_named_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"IGGY_CONFIG_PATH names 'nowhere\.toml'.*nor above it"):
        load(tmp_path, IGGY_CONFIG_PATH="nowhere.toml")
    with pytest.raises(ConfigError, match=r"which does not exist$"):
        load(tmp_path, IGGY_CONFIG_PATH="/nowhere.toml")
    assert load(tmp_path).config == Config()


def test_broken_toml_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml is not valid TOML"):
        load(tmp_path, "[tcp\n")


def test_a_file_that_is_no_text_or_too_large(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path, IGGY_CONFIG_PATH=str(path))
    path.write_bytes(b"#" * FILE_SIZE_MAX)
    load(tmp_path, IGGY_CONFIG_PATH=str(path))
    path.write_bytes(b"#" * (FILE_SIZE_MAX + 1))
    with pytest.raises(ConfigError, match="larger"):
        load(tmp_path, IGGY_CONFIG_PATH=str(path))


def test_the_dotenv_file_lies_below_the_environment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("IGGY_SYSTEM_PATH=one\nIGGY_TCP_ADDRESS=127.0.0.1:5\noops\n")
    loaded = load(tmp_path, IGGY_SYSTEM_PATH="two", RUST_LOG="debug")
    assert loaded.config.system.path == "two"
    assert loaded.config.tcp.address == "127.0.0.1:5"
    assert loaded.environ["RUST_LOG"] == "debug"
    assert loaded.warnings == (f"{tmp_path / '.env'}:3 is no assignment and is ignored",)


def test_a_named_dotenv_file(tmp_path: Path) -> None:
    (tmp_path / "vars").write_text("IGGY_SYSTEM_PATH=one\n")
    assert load(tmp_path, IGGY_ENV_PATH=str(tmp_path / "vars")).config.system.path == "one"
    with pytest.raises(ConfigError, match="IGGY_ENV_PATH names 'gone'"):
        load(tmp_path, IGGY_ENV_PATH="gone")


def test_unknown_keys_and_tables_are_one_warning_each(tmp_path: Path) -> None:
    toml = '[tcp]\nadress = "x"\n[system.segmnt]\nsize = 1\nother = 2\n'
    warnings = load(tmp_path, toml).warnings
    assert warnings == (
        "unknown key 'tcp.adress' is ignored, the nearest known one is 'tcp.address'",
        "unknown table 'system.segmnt' is ignored, the nearest known one is 'system.segment'",
    )


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[tcp]\nenabled = 1\n", "tcp.enabled is 1 (no boolean): needs true or false"),
        ("tcp = 1\n", "tcp is 1: needs a table"),
        ('[system]\nsegment.size = "x"\n', "system.segment.size is 'x'"),
        ("[message_saver]\ninterval = 30\n", "message_saver.interval is 30 (no text): needs a dur"),
        ("[system]\npath = 5\n", "system.path is 5 (no text): needs text"),
        ("[system.segment]\nsize = true\n", "system.segment.size is True"),
        ("[http.cors]\nallowed_methods = 'GET'\n", "http.cors.allowed_methods is 'GET'"),
        ("[cluster.node]\nothers = 5\n", "cluster.node.others is 5: needs an array of tables"),
        (
            "[[cluster.node.others]]\nname = 'b'\n",
            "cluster.node.others[0].ip is missing: needs text",
        ),
        ("[http.jwt]\nencoding_secret = 77\n", "http.jwt.encoding_secret is ******"),
    ],
)
def test_a_wrong_type_is_fatal_and_says_what_is_needed(
    tmp_path: Path, toml: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, toml)
    assert said in str(raised.value)
    assert len(raised.value.problems) == 1


def test_all_problems_are_in_one_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, "[tcp]\nenabled = 1\naddress = 2\n")
    assert len(raised.value.problems) == 2


def test_broken_rules_are_fatal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"system\.segment\.size is 513 B"):
        load(tmp_path, IGGY_SYSTEM_SEGMENT_SIZE="513")


def test_enforce_fsync_means_durability_fsync(tmp_path: Path) -> None:
    loaded = load(tmp_path, IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC="true")
    assert loaded.config.system.partition.durability == "fsync"
    assert loaded.warnings == ()
    loaded = load(tmp_path, "[system.partition]\nenforce_fsync = true\ndurability = 'buffered'\n")
    assert loaded.config.system.partition.durability == "fsync"
    assert len(loaded.warnings) == 1


SECRET = "c2VjcmV0" * 5 + "c2U="


def test_what_has_no_effect_yet_is_one_warning_without_secrets(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        IGGY_SYSTEM_ENCRYPTION_KEY=SECRET,
        IGGY_TELEMETRY_SERVICE_NAME="mine",
        IGGY_HTTP_ENABLED="false",
        IGGY_HEARTBEAT_INTERVAL="5 s",
    )
    if "telemetry" in NOT_YET:
        assert sum("telemetry.service_name" in line for line in loaded.warnings) == 1
    assert not any(SECRET in line for line in loaded.warnings)
    # Switched off, or set to what it is anyway.
    assert not any("http" in line or "heartbeat" in line for line in loaded.warnings)


def test_not_yet_names_real_keys() -> None:
    keys = [key_text(path) for path, _ in leaf_paths()]
    for prefix in NOT_YET:
        assert any(key == prefix or key.startswith((f"{prefix}.", f"{prefix}[")) for key in keys)


def test_what_is_served_today_warns_of_nothing(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        IGGY_TCP_ADDRESS="127.0.0.1:0",
        IGGY_TCP_SOCKET_OVERRIDE_DEFAULTS="true",
        IGGY_METRICS_ENABLED="true",
        IGGY_HTTP_METRICS_ENDPOINT="/figures",
        IGGY_MESSAGE_SAVER_INTERVAL="1s",
        IGGY_SYSTEM_SEGMENT_SIZE="5KiB",
        IGGY_SYSTEM_LOGGING_MAX_FILE_SIZE="100.00 KB",
        IGGY_SYSTEM_TOPIC_MAX_SIZE="10 GiB",
        IGGY_SYSTEM_SHARDING_CPU_ALLOCATION="0..4",
        IGGY_LIMITS_CONNECTIONS_MAX="5",
        IGGY_CLUSTER_ENABLED="false",
    )
    assert loaded.warnings == ()


def test_a_file_of_the_harness_boots(tmp_path: Path) -> None:
    """An official test starts with obsolete keys and a trusted issuer in the environment."""
    loaded = load(
        tmp_path,
        '[system.cache]\nsize = "4 GB"\n[http.jwt]\nissuer = "iggy"\naudience = "iggy"\n',
        IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_ISSUER="https://test-issuer.com",
        IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_JWKS_URL="http://127.0.0.1:1/keys",
        IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_AUDIENCE="iggy",
        IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_USER_ID="1",
    )
    (issuer,) = loaded.config.http.jwt.trusted_issuers
    assert (issuer.issuer, issuer.user_id) == ("https://test-issuer.com", 1)


def test_the_config_travels_as_json(tmp_path: Path) -> None:
    config = load(tmp_path, IGGY_WEBSOCKET_MAX_FRAME_SIZE="1 MiB").config
    assert from_json(to_json(config)) == config


def test_checking_a_file_is_strict(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[tcp]\nenabled = true\n")
    assert check_file(path, available_cpus=CPUS) == []
    path.write_text("[tcp]\nenabld = true\nenabled = 5\n[system.segment]\nsize = 100\n")
    problems = check_file(path, available_cpus=CPUS)
    assert len(problems) == 3
    assert "tcp.enabled" in problems[0]
    assert "tcp.enabld" in problems[1]
    assert "system.segment.size" in problems[2]
    path.write_text("[")
    assert len(check_file(path)) == 1
    assert len(check_file(tmp_path / "gone")) == 1
