"""The door itself: where it opens, what browsers hear, how it is described, how it ends."""

import json
import os
import re
import socket
import ssl
import subprocess
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tests.broker import HTTP, BrokerProcess, wait_for
from tests.conftest import NewBroker
from tests.http.rows import ROWS
from tests.http_client import HttpClient
from tests.integration.launching import run_to_its_end
from tests.shard_wires import ONE_SHARD, TWO_SHARDS


@pytest.mark.slow
def test_the_real_address_is_written_down(http_broker: BrokerProcess, root: HttpClient) -> None:
    written = http_broker.data / "runtime" / "current_config.toml"
    address = tomllib.loads(written.read_text())["http"]["address"]
    assert int(address.rpartition(":")[2]) > 0
    node = root.ask("GET", "/cluster/metadata").json["nodes"][0]
    assert f"127.0.0.1:{node['endpoints']['http']}" == address
    assert f"HTTP is at http://{address}" in http_broker.output()


@pytest.mark.slow
def test_both_shards_answer(http_broker: BrokerProcess, root: HttpClient) -> None:
    for _ in range(20):
        assert root.ask("GET", "/streams").status == 200
    text = HttpClient(http_broker).ask("GET", "/metrics").body.decode()
    assert text.endswith("# EOF\n")
    counted = dict(re.findall(r'^http_requests_total\{shard="(\d)"\} (\d+)', text, re.MULTILINE))
    assert all(int(count) > 0 for count in counted.values())
    assert set(counted) == {"0", "1"}


@pytest.mark.slow
def test_requests_are_in_no_list_of_clients(root: HttpClient) -> None:
    assert root.ask("GET", "/clients").json == []
    assert root.ask("GET", "/stats").json["clients_count"] == 0


@pytest.mark.slow
def test_browsers(http_broker: BrokerProcess) -> None:
    client = HttpClient(http_broker)
    asked = {
        "Origin": "https://example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization",
    }
    answer = client.ask("OPTIONS", "/streams", headers=asked)
    assert answer.status == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Access-Control-Allow-Methods"] == "GET, POST, PUT, DELETE"
    assert answer.headers["Access-Control-Allow-Headers"] == "content-type, authorization"
    refused = client.ask("GET", "/streams", headers={"Origin": "https://example.org"})
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (401, "*")


@pytest.mark.slow
def test_every_row_is_described(http_broker: BrokerProcess) -> None:
    answer = HttpClient(http_broker).ask("GET", "/openapi.json")
    assert answer.headers["Content-Type"] == "application/json"
    described = answer.json
    assert described["openapi"] == "3.1.0"
    patterns = {
        re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): operations
        for path, operations in described["paths"].items()
    }
    for row in ROWS:
        path = row.path.partition("?")[0]
        found = [
            operations[row.method.lower()]
            for pattern, operations in patterns.items()
            if pattern.fullmatch(path) and row.method.lower() in operations
        ]
        if row.status < 300:
            assert any(str(row.status) in one["responses"] for one in found), row
    names = set(re.findall(r"#/components/schemas/(\w+)", answer.body.decode()))
    assert names <= set(described["components"]["schemas"])


@pytest.mark.slow
def test_switched_off(new_broker: NewBroker) -> None:
    broker = new_broker(**ONE_SHARD, IGGY_HTTP_ENABLED="false")
    assert "HTTP is at" not in broker.output()
    assert not (broker.data / "jwt-key").exists()


@pytest.mark.slow
def test_a_port_in_use_names_the_setting(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        settings = {**ONE_SHARD, **HTTP, "IGGY_HTTP_ADDRESS": address}
        done = run_to_its_end(tmp_path / "data", **settings)
    assert done.returncode != 0
    assert f"cannot listen on {address}" in done.stderr
    assert "http.address or IGGY_HTTP_ADDRESS names another address" in done.stderr


@pytest.mark.slow
def test_tls(new_broker: NewBroker, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = {
        "IGGY_HTTP_TLS_ENABLED": "true",
        "IGGY_HTTP_TLS_CERT_FILE": str(cert),
        "IGGY_HTTP_TLS_KEY_FILE": str(key),
    }
    broker = new_broker(**ONE_SHARD, **HTTP, **tls)
    port = broker.http_address.rpartition(":")[2]
    context = ssl.create_default_context(cafile=str(cert))
    with urllib.request.urlopen(f"https://localhost:{port}/ping", context=context) as answer:
        assert answer.read() == b"pong"
    missing = {**tls, "IGGY_HTTP_TLS_CERT_FILE": str(tmp_path / "none")}
    done = run_to_its_end(tmp_path / "other", **ONE_SHARD, **HTTP, **missing)
    assert done.returncode != 0
    assert "http.tls.cert_file" in done.stderr


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS, **HTTP)
    root = HttpClient(broker).login()
    assert root.ask("POST", "/streams", {"name": "s"}).status == 200
    new = {"name": "t", "partitions_count": 2}
    assert root.ask("POST", "/streams/s/topics", new).status == 200
    line = json.dumps({"payload": "eA=="}).encode()
    lines = {"Content-Type": "application/x-ndjson"}
    acknowledged = 0
    for number in range(30):
        if number == 10:
            os.kill(broker.workers()[1], 9)
        try:
            answer = root.ask("POST", "/streams/s/topics/t/messages", line, lines)
        except (ConnectionError, OSError):
            # The shard that had the connection is gone: the client comes back to another.
            continue
        assert answer.status in (201, 400, 503), answer
        acknowledged += answer.status == 201
    wait_for(lambda: len(broker.workers()) == 2)

    def kept() -> int:
        answer = root.ask("GET", "/streams/s/topics/t")
        return int(answer.json["messages_count"]) if answer.status == 200 else 0

    wait_for(lambda: kept() >= acknowledged)
    assert acknowledged >= 10


@pytest.mark.slow
def test_a_stop_ends_what_waits(new_broker: NewBroker) -> None:
    broker = new_broker(**TWO_SHARDS, **HTTP)
    root = HttpClient(broker).login()
    assert root.ask("POST", "/streams", {"name": "s"}).status == 200
    new = {"name": "t", "partitions_count": 1}
    assert root.ask("POST", "/streams/s/topics", new).status == 200
    host, _, port = broker.http_address.rpartition(":")
    waiting = [socket.create_connection((host, int(port)), timeout=60) for _ in range(4)]
    for number, peer in enumerate(waiting):
        path = "messages/stream" if number % 2 else "messages?wait=60s"
        peer.sendall(
            f"GET /streams/s/topics/t/{path} HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {root.token}\r\n\r\n".encode()
        )
    assert broker.stop() == 0
    for peer in waiting:
        peer.close()
