"""The effective configuration as TOML."""

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from borzoi.shards.config import Config, load_config, render_toml
from borzoi.shards.config.documents import Findings, build_config, read_document


def read_back(text: str) -> Config | None:
    findings = Findings()
    config = build_config(read_document(tomllib.loads(text), findings), findings)
    assert findings == Findings()
    return config


def test_the_defaults_read_back() -> None:
    assert read_back(render_toml(Config())) == Config()


def test_odd_values_read_back(tmp_path: Path) -> None:
    environ = {
        "IGGY_CLUSTER_NAME": 'a "quoted" \\ name\twith\x01 controls\x7f and é',
        "IGGY_WEBSOCKET_MAX_FRAME_SIZE": "1025",
        "IGGY_MESSAGE_SAVER_INTERVAL": "1day 2h 3min 1us",
        "IGGY_HTTP_CORS_ALLOWED_ORIGINS": '["a,b", "c"]',
        "IGGY_CLUSTER_NODE_OTHERS_0_NAME": "b",
        "IGGY_CLUSTER_NODE_OTHERS_0_IP": "::1",
        "IGGY_CLUSTER_NODE_OTHERS_1_NAME": "c",
        "IGGY_CLUSTER_NODE_OTHERS_1_IP": "::2",
        "IGGY_CLUSTER_NODE_OTHERS_1_PORTS_TCP": "9",
        "IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1",
    }
    config = load_config(environ, tmp_path).config
    assert read_back(render_toml(config)) == config


def test_sizes_and_durations_are_shown_as_people_write_them() -> None:
    document: dict[str, Any] = tomllib.loads(render_toml(Config()))
    assert document["system"]["segment"]["size"] == "1 GiB"
    assert document["system"]["logging"]["retention"] == "7 days"
    assert document["system"]["topic"]["max_size"] == "unlimited"
    assert document["system"]["topic"]["message_expiry"] == "none"
    assert document["tcp"]["socket"]["recv_buffer_size"] == "100 KB"
    assert "max_frame_size" not in document["websocket"]


LISTENERS = {"tcp", "http", "quic", "websocket", "metrics"}


@pytest.mark.parametrize("transport", sorted(LISTENERS))
def test_bound_addresses_replace_the_configured(transport: str) -> None:
    text = render_toml(Config(), {transport: "127.0.0.1:40001"})
    document: dict[str, Any] = tomllib.loads(text)
    assert document[transport]["address"] == "127.0.0.1:40001"
    others = LISTENERS - {transport}
    assert all(document[name]["address"] == getattr(Config(), name).address for name in others)


def test_secrets_are_masked() -> None:
    config = Config()
    jwt = msgspec.structs.replace(config.http.jwt, encoding_secret="hunter2")
    config = msgspec.structs.replace(config, http=msgspec.structs.replace(config.http, jwt=jwt))
    text = render_toml(config)
    assert "hunter2" not in text
    assert 'encoding_secret = "******"' in text
    assert 'decoding_secret = ""' in text
