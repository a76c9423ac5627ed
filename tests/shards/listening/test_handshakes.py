"""Handshakes of TLS hold places like connections, give way, end in time, and hand theirs over."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest

from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.listening.handshakes import (
    ACCEPTED_PER_TURN_MAX,
    EncryptedDoor,
    Handshakes,
    Leaving,
)
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.context import ServerContext
from tests.certificates import Authority
from tests.conditions import until
from tests.ways import client_context

BEFORE_LOGIN_MAX = 3
WAIT_S = 30.0
PAUSE_S = 0.01


class Greeting(asyncio.Protocol):
    """Says hello behind the handshake; what has a place then is another one's business."""

    def __init__(self, is_done: Callable[[object], bool]) -> None:
        self._is_done = is_done
        self.had_place = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.had_place = self._is_done(self)
        cast(asyncio.Transport, transport).write(b"hello")


class Door:
    """An encrypted door on loopback, and everything around it."""

    def __init__(self, context: ServerContext, timeout_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.broken: list[BaseException] = []
        self.tasks = Tasks(self.broken.append)
        self.places = ConnectionPlaces[Leaving](100, 100, BEFORE_LOGIN_MAX)
        self.handshakes = Handshakes(self.loop, self.tasks, self.places, self.give_way, timeout_s)
        self.greetings: list[Greeting] = []
        self._context = context
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        self.address: tuple[str, int] = listening.getsockname()
        self.door = EncryptedDoor(self.loop, listening, self.arrived, PAUSE_S)

    def give_way(self) -> None:
        if (leaving := self.places.giving_way()) is not None:
            leaving.close(0)

    def arrived(self, accepted: socket.socket, host: str) -> None:
        greeting = Greeting(self.handshakes.is_done)
        self.greetings.append(greeting)
        self.handshakes.begin(accepted, host, self._context, greeting, greeting)

    @property
    def waiting(self) -> int:
        return self.places.before_login.taken

    async def close(self) -> None:
        self.door.close()
        self.handshakes.close()
        await self.tasks.drain(1)
        assert self.places.shares.taken == 0
        assert self.broken == []


Contexts = tuple[ServerContext, ssl.SSLContext]


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> Contexts:
    folder: Path = tmp_path_factory.mktemp("handshakes")
    authority = Authority()
    files = authority.issue(folder)
    served = Certificate(files.cert.read_bytes(), files.key.read_bytes())
    return ServerContext(served), client_context(authority.pem)


def run(
    contexts: Contexts, check: Callable[[Door], Awaitable[None]], timeout_s: float = WAIT_S
) -> None:
    async def around() -> None:
        door = Door(contexts[0], timeout_s)
        try:
            await check(door)
        finally:
            await door.close()

    asyncio.run(around())


async def read_to_end(peer: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    peer.setblocking(False)
    async with asyncio.timeout(WAIT_S):
        try:
            return await loop.sock_recv(peer, 100)
        except ConnectionResetError:
            return b""


def test_a_handshake_hands_its_place_over(contexts: Contexts) -> None:
    async def check(door: Door) -> None:
        reader, writer = await asyncio.open_connection(
            *door.address, ssl=contexts[1], server_hostname="localhost"
        )
        assert await reader.readexactly(5) == b"hello"
        (greeting,) = door.greetings
        assert greeting.had_place
        assert door.waiting == 0
        writer.transport.abort()

    run(contexts, check)


def test_half_handshakes_have_places_and_give_way(contexts: Contexts) -> None:
    async def check(door: Door) -> None:
        peers = [socket.create_connection(door.address) for _ in range(BEFORE_LOGIN_MAX + 2)]
        await until(lambda: len(door.greetings) == len(peers))
        assert door.waiting == BEFORE_LOGIN_MAX
        # The oldest went.
        for peer in peers[:2]:
            assert await read_to_end(peer) == b""
        assert not any(greeting.had_place for greeting in door.greetings)
        for peer in peers:
            peer.close()
        await until(lambda: door.waiting == 0)
        assert door.handshakes.failed_count == BEFORE_LOGIN_MAX

    run(contexts, check)


def test_half_handshakes_end_in_time(contexts: Contexts) -> None:
    async def check(door: Door) -> None:
        peers = [socket.create_connection(door.address) for _ in range(BEFORE_LOGIN_MAX)]
        peers[0].sendall(bytes.fromhex("1603010200"))
        for peer in peers:
            assert await read_to_end(peer) == b""
            peer.close()
        assert door.waiting == 0
        assert door.handshakes.failed_count == BEFORE_LOGIN_MAX

    run(contexts, check, timeout_s=0.05)


def test_an_address_that_has_enough_is_not_accepted(contexts: Contexts) -> None:
    async def check(door: Door) -> None:
        door.places._per_address_max = 0
        with socket.create_connection(door.address) as peer:
            assert await read_to_end(peer) == b""

    run(contexts, check)


def test_a_flood_is_accepted_in_turns(contexts: Contexts) -> None:
    async def check(door: Door) -> None:
        peers = [socket.create_connection(door.address) for _ in range(2 * ACCEPTED_PER_TURN_MAX)]
        seen = []
        async with asyncio.timeout(WAIT_S):
            while len(door.greetings) < len(peers):
                await asyncio.sleep(0)
                seen.append(len(door.greetings))
        assert max(later - former for former, later in pairwise(seen)) <= (ACCEPTED_PER_TURN_MAX)
        for peer in peers:
            peer.close()

    run(contexts, check)


def test_without_descriptors_it_waits(
    contexts: Contexts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Scarce:
        """A listening socket that fails once as if no descriptor were left."""

        def __init__(self, listening: socket.socket) -> None:
            self._listening = listening
            self.has_failed = False

        def fileno(self) -> int:
            return self._listening.fileno()

        def close(self) -> None:
            self._listening.close()

        def accept(self) -> tuple[socket.socket, object]:
            if not self.has_failed:
                self.has_failed = True
                raise OSError(24, "Too many open files")
            return self._listening.accept()

    async def check(door: Door) -> None:
        monkeypatch.setattr(door.door, "_listening", Scarce(door.door._listening))
        with socket.create_connection(door.address):
            await until(lambda: bool(door.greetings))
        assert "cannot accept a connection: [Errno 24] Too many open files" in caplog.text

    run(contexts, check)
