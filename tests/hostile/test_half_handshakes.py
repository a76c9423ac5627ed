"""Peers that never finish a handshake, of TLS or of a WebSocket: bounded in number and in time."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.broker import BrokerProcess, standing
from tests.certificates import Authority
from tests.shard_wires import ONE_SHARD
from tests.ways import client_context, door_of, wire_through, with_tls
from tests.websocket_frames import request

pytestmark = pytest.mark.slow

BEFORE_LOGIN_MAX = 8
PEERS = 40
LIMITS = {
    "IGGY_LIMITS_CONNECTIONS_BEFORE_LOGIN_MAX": str(BEFORE_LOGIN_MAX),
    "IGGY_LIMITS_LOGIN_TIMEOUT": "2 s",
}

# What a peer sends before it says no more: by the door at which that is half a handshake.
HALVES = {
    "nothing, TLS": ("tls", b""),
    "a part of a hello": ("tls", bytes.fromhex("160301020001")),
    "nothing, WebSocket": ("ws", b""),
    "a part of a request": ("ws", request()[:60]),
    "an endless head": ("ws", b"GET / HTTP/1.1\r\nX: " + b"x" * 4000),
}


class Ground(NamedTuple):
    plain: BrokerProcess
    encrypted: BrokerProcess
    context: ssl.SSLContext

    def of(self, way: str) -> BrokerProcess:
        return self.encrypted if way in ("tls", "wss") else self.plain


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
            with wire_through(broker, way, ground.context) as wire:
                assert wire.is_in_step()
        assert all(is_ended(peer) for peer in peers)


def test_a_handshake_that_fails_keeps_no_place(ground: Ground) -> None:
    for _ in range(PEERS):
        with socket.create_connection(door_of(ground.encrypted, "tls"), 30) as peer:
            peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert is_ended(peer)
    with ExitStack() as stack:
        for _ in range(BEFORE_LOGIN_MAX):
            wire = wire_through(ground.encrypted, "tls", ground.context, login=False)
            stack.enter_context(wire)
        assert wire.is_in_step()
    assert "no TLS with a client" in ground.encrypted.output()
