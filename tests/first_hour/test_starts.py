"""Starts that must not happen, and what a start that happens says."""

import json
import socket
from pathlib import Path

import pytest

from tests.broker import BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.integration.launching import run_to_its_end
from tests.shard_wires import ONE_SHARD

pytestmark = pytest.mark.slow

EVERYWHERE = {"IGGY_TCP_ADDRESS": "0.0.0.0:0"}


def heard(broker: BrokerProcess, words: str) -> str:
    """What the broker has said, once these words are among it."""
    wait_for(lambda: f"{words}" in broker.output())
    return broker.output()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"IGGY_CONFIG_PATH": "/nosuch.toml"},
            "IGGY_CONFIG_PATH names '/nosuch.toml', which does not exist",
        ),
        ({"IGGY_CONFIG_PATH": "/"}, "IGGY_CONFIG_PATH names '/', which is no file"),
        (
            {"IGGY_SYSTEM_ENCRYPTION_ENABLE": "true"},
            "unknown variable IGGY_SYSTEM_ENCRYPTION_ENABLE: it would leave something"
            " unprotected; IGGY_SYSTEM_ENCRYPTION_ENABLED is meant",
        ),
        (
            {"IGGY_TCP_TSL_ENABLED": "true"},
            "unknown variable IGGY_TCP_TSL_ENABLED: it would leave something unprotected;"
            " IGGY_TCP_TLS_ENABLED is meant",
        ),
        (
            {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true"},
            "system.encryption.enabled is true without a key: needs system.encryption.key or"
            " system.encryption.key_file",
        ),
        (
            {
                "IGGY_TCP_TLS_ENABLED": "true",
                "IGGY_TCP_TLS_SELF_SIGNED": "false",
                "IGGY_TCP_TLS_CERT_FILE": "/nosuch.pem",
            },
            "/nosuch.pem",
        ),
        (
            {"BORZOI_STRICT": "1", "IGGY_SYSTEM_SEGMNT_SIZE": "1 MiB"},
            "unknown variable IGGY_SYSTEM_SEGMNT_SIZE: the nearest known one is"
            " IGGY_SYSTEM_SEGMENT_SIZE",
        ),
    ],
)
def test_a_protection_that_cannot_be_honoured_stops_the_start(
    tmp_path: Path, settings: dict[str, str], said: str
) -> None:
    data = tmp_path / "data"
    done = run_to_its_end(data, **settings)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not data.exists()


def test_a_missing_parent_is_not_made(tmp_path: Path) -> None:
    done = run_to_its_end(tmp_path / "data", IGGY_SYSTEM_PATH=str(tmp_path / "disk" / "borzoi"))
    assert done.returncode == 1
    parent = tmp_path / "disk"
    assert f"system.path is {parent / 'borzoi'}: its parent {parent} does not exist" in done.stderr
    assert not parent.exists()


@pytest.mark.parametrize("door", ["tcp", "http", "websocket", "metrics", "quic"])
def test_a_busy_port_names_its_setting_before_anything_is_made(tmp_path: Path, door: str) -> None:
    kind = socket.SOCK_DGRAM if door == "quic" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        if door != "quic":
            taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        variable = f"IGGY_{door.upper()}"
        settings = {f"{variable}_ADDRESS": address, f"{variable}_ENABLED": "true"}
        done = run_to_its_end(tmp_path / "data", **settings)
    assert done.returncode == 1
    assert done.stderr == (
        f"borzoi: cannot listen on {address}: Address already in use;"
        f" {door}.address or {variable}_ADDRESS names another address\n"
    )
    assert not (tmp_path / "data").exists()


def test_several_busy_ports_are_a_line_each(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as another,
    ):
        addresses = [f"127.0.0.1:{taken.getsockname()[1]}" for taken in (one, another)]
        doors = zip(("IGGY_TCP_ADDRESS", "IGGY_HTTP_ADDRESS"), addresses, strict=True)
        done = run_to_its_end(tmp_path / "data", **dict(doors))
    lines = done.stderr.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        f"borzoi: cannot listen on {address}: Address already in use" for address in addresses
    ]


def test_a_file_in_the_place_of_the_data_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    done = run_to_its_end(tmp_path / "data")
    said = f"borzoi: system.path is {tmp_path / 'data'}: a file, and has to be a directory\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_a_well_known_password_stays_on_loopback(new_broker: NewBroker, tmp_path: Path) -> None:
    broker = new_broker(**ONE_SHARD)
    broker.stop()
    refused = run_to_its_end(broker.data, **ONE_SHARD, **EVERYWHERE)
    assert refused.returncode == 1
    assert "tcp.address is 0.0.0.0:0, and the password of 'iggy' is the well-known one" in (
        refused.stderr
    )
    assert "--with-default-root-credentials" in refused.stderr
    agreed = BrokerProcess(broker.data, ONE_SHARD | EVERYWHERE | {"IGGY_ROOT_PASSWORD": "iggy"})
    agreed.start()
    try:
        assert "the password of iggy is the default: change it" in agreed.output()
        assert agreed.stop() == 0
    finally:
        agreed.close()


def test_a_start_says_where_everything_is(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, BORZOI_COMMAND="borzoi")
    said = heard(broker, "tail demo/orders")
    assert f"  TCP         {broker.address}\n" in said
    assert f"  HTTP        http://{broker.http_address}\n" in said
    assert f"  Console     http://{broker.http_address}/ui\n" in said
    assert f"  Data        {broker.data}\n" in said
    login = f"--server iggy://iggy:iggy@{broker.address}"
    assert f"  borzoi {login} demo --count 1000\n  borzoi {login} tail demo/orders\n" in said
    assert "\x1b" not in said


def test_a_start_in_json_is_json_throughout(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_SYSTEM_LOGGING_JSON="true")
    lines = [json.loads(line) for line in heard(broker, '"ready":').splitlines()]
    (ready,) = [line["ready"] for line in lines if "ready" in line]
    assert ready["addresses"]["TCP"] == broker.address


def test_plain_loops_are_one_warning_with_the_remedy(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, BORZOI_PLAIN_LOOPS="1")
    said = heard(broker, "are plain Python")
    (warning,) = [line for line in said.splitlines() if "are plain Python" in line]
    assert " WARN " in warning
    assert "gcc python3-dev" in warning
