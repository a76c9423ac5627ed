"""Peers that send too much, too slowly, or nonsense: answered or dropped, and others go on."""

import gzip
import socket
import sys
from contextlib import closing

import psutil
import pytest

from borzoi.shards.web_forms.limits import HEADERS_MAX, LINE_SIZE_MAX
from tests.broker import BrokerProcess, wait_for
from tests.http_client import HttpClient

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SIZE_MAX = 2_000_000
MIB = 1 << 20


def connect(broker: BrokerProcess) -> socket.socket:
    host, _, port = broker.http_address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def raw(broker: BrokerProcess, data: bytes) -> bytes:
    """What comes back for these bytes, until the broker closes."""
    with closing(connect(broker)) as peer:
        try:
            peer.sendall(data)
            pieces = []
            while piece := peer.recv(65536):
                pieces.append(piece)
        except ConnectionError:
            # Cut off while it still sent: the answer may be lost with the connection.
            pass
        return b"".join(pieces)


def memory(broker: BrokerProcess) -> int:
    return sum(psutil.Process(pid).memory_info().rss for pid in broker.workers().values())


@pytest.mark.slow
@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"\0\1\2\3" * 100,
        b"GET /" + b"x" * (LINE_SIZE_MAX + 100) + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nLong: " + b"x" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * (HEADERS_MAX * 4) + b"\r\n",
        b"POST /streams HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /streams HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
    ],
    ids=range(8),
)
def test_heads_that_are_no_request(http_broker: BrokerProcess, head: bytes) -> None:
    answer = raw(http_broker, head)
    assert answer == b"" or answer.split(b" ")[1] == b"400", answer[:200]
    assert HttpClient(http_broker).ask("GET", "/ping").body == b"pong"


@pytest.mark.slow
def test_bodies_over_the_limit(http_broker: BrokerProcess, root: HttpClient) -> None:
    fits = b'{"name":"fits"' + b" " * (SIZE_MAX - 15) + b"}"
    headers = {"Content-Type": "application/json"}
    assert len(fits) == SIZE_MAX
    assert root.ask("POST", "/streams", fits, headers).status == 200
    assert root.ask("DELETE", "/streams/fits").status == 204
    assert root.ask("POST", "/streams", fits + b" ", headers).status == 413
    head = (
        f"POST /streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {root.token}\r\n"
        "Content-Type: application/json\r\n"
    ).encode()
    # It says so before it has read any of it.
    announced = raw(http_broker, head + b"Connection: close\r\nContent-Length: 99999999999\r\n\r\n")
    assert announced.startswith(b"HTTP/1.1 413 ")
    chunk = b"%x\r\n%s\r\n" % (MIB, b" " * MIB)
    without_length = raw(http_broker, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4)
    assert without_length == b"" or without_length.startswith(b"HTTP/1.1 413 ")


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["gzip", "zstd"])
def test_bombs_do_not_unpack(http_broker: BrokerProcess, root: HttpClient, packing: str) -> None:
    plain = bytes(256 * MIB)
    bomb = gzip.compress(plain) if packing == "gzip" else zstd.compress(plain)
    assert len(bomb) < SIZE_MAX
    before = memory(http_broker)
    headers = {"Content-Type": "application/json", "Content-Encoding": packing}
    for _ in range(4):
        assert root.ask("POST", "/streams", bomb, headers).status == 413
    assert memory(http_broker) - before < 64 * MIB
    assert root.ask("POST", "/streams", bomb[: len(bomb) // 2], headers).status in (400, 413)
    assert root.ask("POST", "/streams", b"no such thing", headers).status == 400


@pytest.mark.slow
def test_a_window_that_is_too_large_is_refused(root: HttpClient) -> None:
    options: dict[int, int] = {zstd.CompressionParameter.window_log: 27}
    packed = zstd.ZstdCompressor(options=options).compress(
        bytes(SIZE_MAX), zstd.ZstdCompressor.FLUSH_BLOCK
    )
    headers = {"Content-Type": "application/json", "Content-Encoding": "zstd"}
    assert root.ask("POST", "/streams", packed, headers).status == 400


@pytest.mark.slow
def test_other_types_and_packings_are_refused(root: HttpClient) -> None:
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json", "Content-Encoding": "br"},
    ):
        assert root.ask("POST", "/streams", b'{"name":"x"}', headers).status == 415
    deep = b"[" * 100_000
    assert root.ask("POST", "/streams", deep, {"Content-Type": "application/json"}).status in (
        400,
        422,
    )


@pytest.mark.slow
def test_many_idle_connections_cost_little(http_broker: BrokerProcess, root: HttpClient) -> None:
    before = memory(http_broker)
    peers = [connect(http_broker) for _ in range(500)]
    try:
        for peer in peers:
            peer.sendall(b"GET / HT")
        assert root.ask("GET", "/streams").status == 200
        assert memory(http_broker) - before < 64 * MIB
    finally:
        for peer in peers:
            peer.close()


@pytest.mark.slow
def test_expect_continue_is_answered(http_broker: BrokerProcess, root: HttpClient) -> None:
    body = b'{"name":"continued"}'
    head = (
        f"POST /streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {root.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        "Expect: 100-continue\r\nConnection: close\r\n\r\n"
    ).encode()
    with closing(connect(http_broker)) as peer:
        peer.sendall(head)
        assert peer.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(body)
        assert peer.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert root.ask("DELETE", "/streams/continued").status == 204


@pytest.mark.slow
def test_a_head_that_does_not_come_is_dropped(http_broker: BrokerProcess) -> None:
    with closing(connect(http_broker)) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHo")

        def is_dropped() -> bool:
            try:
                slow.sendall(b"s")
            except ConnectionError:
                return True
            return False

        wait_for(is_dropped)
    assert HttpClient(http_broker).ask("GET", "/ping").status == 200
