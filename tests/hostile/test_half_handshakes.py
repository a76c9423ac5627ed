"""Peers that never finish a handshake or a first request: bounded in number and in time."""

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.broker import BrokerProcess, standing, wait_for
from tests.certificates import Authority
from tests.http_client import HttpClient
from tests.shard_wires import ONE_SHARD
from tests.ways import client_context, door_of, wire_through, with_tls
from tests.websocket_frames import request

pytestmark = pytest.mark.slow

BEFORE_LOGIN_MAX = 8
PEERS = 40
GIVING_WAY_S = 5.0
"""They leave at once when others come, long before the deadline of a handshake."""
LIMITS = {
    "IGGY_LIMITS_CONNECTIONS_BEFORE_LOGIN_MAX": str(BEFORE_LOGIN_MAX),
    "IGGY_LIMITS_LOGIN_TIMEOUT": "2 s",
}

# What a peer sends before it says no more: by the door at which that is half a handshake.
HALVES = {
    "nothing, TLS": ("tls", b""),
    "a part of a hello": ("tls", bytes.fromhex("160301020001")),
    "nothing, HTTPS": ("https", b""),
    "a part of a hello, HTTPS": ("https", bytes.fromhex("160301020001")),
    "nothing, HTTP": ("http", b""),
    "a part of a head, HTTP": ("http", b"GET / HTTP/1.1\r\nX: " + b"x" * 4000),
    "nothing, WebSocket": ("ws", b""),
    "a part of a request": ("ws", request()[:60]),
    "an endless head": ("ws", b"GET / HTTP/1.1\r\nX: " + b"x" * 4000),
}


class Ground(NamedTuple):
    plain: BrokerProcess
    encrypted: BrokerProcess
    context: ssl.SSLContext

    def of(self, way: str) -> BrokerProcess:
        return self.encrypted if way in ("tls", "wss", "https") else self.plain

    def is_served(self, way: str) -> bool:
        """Whether a client that behaves gets its answer."""
        if way.startswith("http"):
            client = HttpClient(self.of(way), context=self.context if way == "https" else None)
            return client.ask("GET", "/ping").body == b"pong"
        with wire_through(self.of(way), way, self.context) as wire:
            return wire.is_in_step()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    folder: Path = tmp_path_factory.mktemp("halves")
    authority = Authority()
    tls = with_tls(authority.issue(folder))
    with (
        standing(folder / "plain", {**ONE_SHARD, **LIMITS}) as plain,
        standing(folder / "encrypted", {**ONE_SHARD, **LIMITS, **tls}) as encrypted,
    ):
        yield Ground(plain, encrypted, client_context(authority.pem))


def accepted(broker: BrokerProcess, way: str) -> int:
    """How many sockets of that door the workers hold."""
    port = door_of(broker, way).port
    return sum(
        1
        for pid in broker.workers().values()
        for one in psutil.Process(pid).net_connections("tcp")
        if one.laddr.port == port and one.raddr
    )


def is_ended(peer: socket.socket) -> bool:
    """Wait until the broker ends the connection; it may say why before."""
    peer.settimeout(30)
    try:
        while peer.recv(4096):
            continue
    except ConnectionResetError:
        return True
    return True


@pytest.mark.parametrize("what", HALVES)
def test_others_are_let_in_and_the_half_are_ended(ground: Ground, what: str) -> None:
    way, sent = HALVES[what]
    broker = ground.of(way)
    with ExitStack() as stack:
        peers = []
        for _ in range(PEERS):
            peer = stack.enter_context(socket.create_connection(door_of(broker, way), 30))
            peer.sendall(sent)
            peers.append(peer)
        # All places before the login are taken by half handshakes; they give way.
        for _ in range(3):
            assert ground.is_served(way)
        # What came later was served, so all of them were accepted, and most have left again.
        wait_for(lambda: accepted(broker, way) <= BEFORE_LOGIN_MAX, GIVING_WAY_S)
        assert all(is_ended(peer) for peer in peers)


def test_a_handshake_that_fails_keeps_no_place(ground: Ground) -> None:
    for way in ("tls", "https"):
        for _ in range(PEERS):
            with socket.create_connection(door_of(ground.encrypted, way), 30) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert is_ended(peer)
        assert ground.is_served(way)
    with ExitStack() as stack:
        for _ in range(BEFORE_LOGIN_MAX):
            wire = wire_through(ground.encrypted, "tls", ground.context, login=False)
            stack.enter_context(wire)
        assert wire.is_in_step()
    assert "no TLS with a client" in ground.encrypted.output()


@pytest.mark.parametrize("way", ["tls", "wss", "https"])
def test_a_handshake_byte_by_byte(ground: Ground, way: str) -> None:
    """A record that comes byte by byte is a handshake all the same, if it comes in time."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = ground.context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with socket.create_connection(door_of(ground.encrypted, way), 30) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_done = False
        while not is_done:
            try:
                tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            for byte in outgoing.read():
                peer.sendall(bytes((byte,)))
            if not is_done:
                incoming.write(peer.recv(65_536))
        assert tls.version() == "TLSv1.3"
    assert ground.is_served(way)


@pytest.mark.parametrize("way", ["tls", "wss", "https"])
def test_a_client_does_not_renegotiate(ground: Ground, way: str) -> None:
    """TLS 1.2 would let a client ask for one handshake after the other, each a millisecond."""
    where = door_of(ground.encrypted, way)
    asked = subprocess.run(
        ["openssl", "s_client", "-connect", f"{where.host}:{where.port}", "-tls1_2"],
        input="R\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "RENEGOTIATING" in asked.stdout + asked.stderr
    assert "no renegotiation" in asked.stdout + asked.stderr
    assert asked.returncode != 0
    assert ground.is_served(way)


def test_a_certificate_is_not_read_as_a_request(ground: Ground) -> None:
    """A TLS client at a plain door, and a plain one at a door with TLS, are ended."""
    ways = ("tcp", "ws", "http")
    with ExitStack() as stack:
        peers = [
            stack.enter_context(socket.create_connection(door_of(ground.plain, way), 30))
            for way in ways
        ]
        for peer in peers:
            peer.sendall(bytes.fromhex("16030100a5010000a10303") + bytes(160))
        assert all(is_ended(peer) for peer in peers)
    assert all(ground.is_served(way) for way in ways)
