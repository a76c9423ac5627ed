"""Peers that send too much, too slowly, or nonsense: answered or dropped, and others go on."""

import gzip
import socket
import sys
from contextlib import ExitStack, closing

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
SKIPPED = bytes.fromhex("502a4d1800000000")
"""A frame of zstd that holds nothing and is to be passed over."""


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


def is_not_read(peer: socket.socket, data: bytes) -> bool:
    try:
        peer.sendall(data)
    except TimeoutError:
        return True
    return False


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


@pytest.mark.slow
@pytest.mark.parametrize("member", [gzip.compress(b""), zstd.compress(b""), SKIPPED], ids=range(3))
def test_many_small_parts_do_not_stop_the_shard(root: HttpClient, member: bytes) -> None:
    """Each part costs a copy of the rest: 2 MB of them took a minute, and the worker's life."""
    packing = "gzip" if member.startswith(b"\x1f\x8b") else "zstd"
    headers = {"Content-Type": "application/json", "Content-Encoding": packing}
    answer = root.ask("POST", "/streams", member * (SIZE_MAX // len(member)), headers)
    assert answer.status == 400
    assert b"more than 64 parts" in answer.body
    # Some are fine: packers write one for each file or block.
    name = b'{"name":"in-parts"}'
    pack = gzip.compress if packing == "gzip" else zstd.compress
    parts = b"".join(pack(name[at : at + 1]) for at in range(len(name)))
    assert root.ask("POST", "/streams", parts, headers).status == 200
    assert root.ask("DELETE", "/streams/in-parts").status == 204


@pytest.mark.slow
def test_a_body_before_the_login_is_small(http_broker: BrokerProcess, root: HttpClient) -> None:
    """As on other doors: 8 KiB, for a password needs no more."""
    login = b'{"username":"iggy","password":"iggy"'
    fits = login + b" " * (8192 - len(login) - 1) + b"}"
    stranger = HttpClient(http_broker)
    headers = {"Content-Type": "application/json"}
    assert stranger.ask("POST", "/users/login", fits, headers).status == 200
    answer = stranger.ask("POST", "/users/login", fits + b" ", headers)
    assert (answer.status, b"8192 are allowed" in answer.body) == (413, True)
    packed = {**headers, "Content-Encoding": "gzip"}
    bomb = gzip.compress(b" " * MIB)
    assert stranger.ask("POST", "/users/login", bomb, packed).status == 413
    assert root.ask("POST", "/users/login", fits + b" ", headers).status == 200


@pytest.mark.slow
def test_the_head_of_a_stream_has_no_body(http_broker: BrokerProcess, topic: str) -> None:
    """Events behind it would be taken for the answer to the next request."""
    root = HttpClient(http_broker).login()
    lines = {"Content-Type": "application/x-ndjson"}
    sent = root.ask("POST", f"{topic}/messages?partition_id=0", b'{"payload":"eA=="}\n', lines)
    assert sent.status == 201
    for path in ("/messages/stream", "/messages"):
        said = raw(
            http_broker,
            f"HEAD {topic}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {root.token}\r\n\r\n"
            "GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode(),
        )
        assert b"data:" not in said
        assert said.count(b"HTTP/1.1 200 ") == 2
        assert said.endswith(b"pong")


@pytest.mark.slow
def test_requests_behind_one_that_waits_keep_little(
    http_broker: BrokerProcess, root: HttpClient, topic: str
) -> None:
    """A flood of pipelined requests behind a long poll is not read."""
    before = memory(http_broker)
    waiting = (
        f"GET {topic}/messages?wait=60s HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {root.token}\r\n\r\n"
    ).encode()
    flood = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n" * 1000
    with ExitStack() as opened:
        for _ in range(8):
            peer = opened.enter_context(closing(connect(http_broker)))
            peer.sendall(waiting)
            peer.settimeout(0.5)
            assert is_not_read(peer, flood * 1024)
        assert root.ask("GET", "/streams").status == 200
        assert memory(http_broker) - before < 32 * MIB


@pytest.mark.slow
def test_a_chunk_for_every_byte(http_broker: BrokerProcess, root: HttpClient) -> None:
    body = b'{"name":"' + b"c" * 50_000 + b'"}'
    chunks = b"".join(b"1;%s\r\n%c\r\n" % (b"x" * 50, byte) for byte in body)
    head = (
        f"POST /streams HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {root.token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    ).encode()
    before = memory(http_broker)
    said = raw(http_broker, head + chunks + b"0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 400 "), said[:100]
    assert b"a name of 50000 bytes" in said
    assert memory(http_broker) - before < 32 * MIB
