"""A server that plays a script over a real loopback socket: read one request, do one step."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from borzoi.protocol.commands import Command
from borzoi.protocol.framing import REQUEST_HEADER
from borzoi.protocol.generations import CLASSIC
from tests.conditions import until
from tests.fake_server import FakeServer, requests, serving


@dataclass(frozen=True)
class Answer:
    """Send these bytes, at most `piece_size` in one go if that is given."""

    wire: bytes
    piece_size: int | None = None


@dataclass(frozen=True)
class CloseAfter:
    """Send these bytes and close the connection."""

    wire: bytes = b""


@dataclass(frozen=True)
class Silence:
    """Say nothing until the client goes away."""


Step: TypeAlias = Answer | CloseAfter | Silence


@dataclass
class ScriptedServer:
    """Every connection plays the script, but for the later ones that have one of their own."""

    script: Sequence[Step]
    later: Sequence[Sequence[Step]] = ()  # for the second connection, the third, ...
    farewell: bytes = b""  # sent unasked after the script
    port: int = 0
    requests: list[bytes] = field(default_factory=list)  # whole frames
    connections: int = 0
    clients_gone: int = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def commands(self) -> list[Command]:
        """What the clients wanted."""
        found = []
        for frame in self.requests:
            _length, code = REQUEST_HEADER.unpack_from(frame)
            found.append(CLASSIC.requests[code](memoryview(frame)[REQUEST_HEADER.size :]))
        return found

    def play(self, connection: socket.socket) -> None:
        """One connection, to its end."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        script = self.script
        if 0 <= self.connections - 2 < len(self.later):
            script = self.later[self.connections - 2]
        try:
            if self._has_played(connection, script):
                return
        except ConnectionError:
            pass
        self.clients_gone += 1

    def _has_played(self, connection: socket.socket, script: Sequence[Step]) -> bool:
        """True if the script ends the connection, False once the client has."""
        coming = requests(connection)
        for step in script:
            request = next(coming, None)
            if request is None:
                return False
            self.requests.append(request.frame)
            if isinstance(step, Answer):
                send(connection, step.wire, step.piece_size or len(step.wire))
            elif isinstance(step, CloseAfter):
                connection.sendall(step.wire)
                return True
            else:
                break
        connection.sendall(self.farewell)
        assert not connection.recv(1), "more requests than the script has steps"
        return False

    async def wait_requested(self) -> None:
        """Return when there was a request; the test's own deadline bounds this."""
        await until(lambda: self.requests)

    async def wait_client_gone(self) -> None:
        """Return when a client has closed its connection; bounded in the same way."""
        await until(lambda: self.clients_gone)


def send(connection: socket.socket, wire: bytes, piece_size: int) -> None:
    for at in range(0, len(wire), piece_size):
        connection.sendall(wire[at : at + piece_size])


@contextmanager
def scripted_in_a_thread(*script: Step) -> Iterator[ScriptedServer]:
    """For clients that have an event loop of their own."""
    played = ScriptedServer(script)
    with serving(played.play) as server:
        played.port = server.port
        yield played


@asynccontextmanager
async def scripted(
    *script: Step, farewell: bytes = b"", later: Sequence[Sequence[Step]] = ()
) -> AsyncIterator[ScriptedServer]:
    """For clients of this event loop."""
    played = ScriptedServer(script, later, farewell)
    server = FakeServer(played.play)
    played.port = server.port
    try:
        yield played
    finally:
        server.close()
    # The loop has to run meanwhile: the clients close their connections in it.
    await asyncio.to_thread(server.finish)
