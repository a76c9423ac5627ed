"""Peers that do not take their answers: they hold little memory, are closed, and harm no others."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from threading import Thread
from typing import Final

import pytest

from tests.broker import BrokerProcess, standing, wait_for
from tests.hostile.memory import MIB, counted_memory, memory_peak
from tests.hostile.neighbour import good_neighbour
from tests.http_client import HttpClient
from tests.shard_wires import ONE_SHARD
from tests.topics import make_topic
from tests.wire import Wire

pytestmark = pytest.mark.slow

READERS_EACH: Final = 4
MESSAGES: Final = 3
SIZE: Final = 12 * MIB
"""More than a window of the mapped log: messages are cut, and must not be copied as a whole."""

GROWTH_MAX: Final = 48 * MIB
"""Of all readers together: each holds a piece of its answer or two."""

WAYS: Final = {
    "JSON": ("messages?count=9", ""),
    "lines": ("messages?count=9", "Accept: application/x-ndjson\r\n"),
    "bytes": ("messages?count=9", "Accept: application/octet-stream\r\n"),
    "events": ("messages/stream", ""),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**ONE_SHARD, "IGGY_LIMITS_WRITE_TIMEOUT": "2s"}
    with standing(tmp_path_factory.mktemp("slow") / "data", settings) as broker:
        with Wire(broker) as wire:
            make_topic(wire, "s", "t")
            for _ in range(MESSAGES):
                wire.append("s", "t", 0, [b"x" * SIZE])
        yield broker


def ask(broker: BrokerProcess, token: str, way: str) -> socket.socket:
    """A peer that has asked for much more than its sockets hold."""
    path, accept = WAYS[way]
    peer = socket.socket()
    peer.settimeout(60)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, _, port = broker.http_address.rpartition(":")
    peer.connect((host, int(port)))
    peer.sendall(
        f"GET /streams/s/topics/t/{path} HTTP/1.1\r\nHost: x\r\n{accept}"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    return peer


def is_cut_off(peer: socket.socket) -> bool:
    try:
        while peer.recv(65_536):
            continue
    except ConnectionResetError:
        return True
    return False


def test_what_is_not_taken_is_not_made(broker: BrokerProcess) -> None:
    root = HttpClient(broker).login()
    before = counted_memory(broker)
    count = READERS_EACH * len(WAYS)
    with good_neighbour(broker) as neighbour, memory_peak(broker) as peak, ExitStack() as opened:
        peers = [
            opened.enter_context(closing(ask(broker, root.token, way)))
            for way in WAYS
            for _ in range(READERS_EACH)
        ]
        neighbour.check()
        assert root.ask("GET", "/streams").status == 200
        # Each is closed after the window in which it has taken nothing.
        wait_for(lambda: broker.output().count("less than 8192 a second") == count)
        assert all(is_cut_off(peer) for peer in peers)
    assert peak() - before < GROWTH_MAX


def test_a_little_now_and_then_is_too_slow(broker: BrokerProcess) -> None:
    """A byte in time is not enough: what waits to be sent may be memory that others want."""
    root = HttpClient(broker).login()
    with ExitStack() as opened:
        peers = [opened.enter_context(closing(ask(broker, root.token, way))) for way in WAYS]
        threads = [Thread(target=sip, args=(peer,)) for peer in peers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "it was never cut off"


def sip(peer: socket.socket) -> None:
    """Take a little now and then, until the end."""
    with suppress(ConnectionResetError):
        while peer.recv(64):
            time.sleep(0.1)


def test_a_steady_reader_gets_everything(broker: BrokerProcess) -> None:
    root = HttpClient(broker).login()
    with closing(ask(broker, root.token, "JSON")) as peer:
        began = time.monotonic()
        size = 0
        ended = b""
        while not ended.endswith(b"0\r\n\r\n"):
            piece = peer.recv(MIB)
            assert piece, f"cut off after {size} bytes"
            size += len(piece)
            ended = (ended + piece)[-5:]
            if time.monotonic() - began < 3:
                # Longer than the window, and always at more than the rate that is asked for.
                time.sleep(0.005)
    assert size > MESSAGES * SIZE * 4 // 3
