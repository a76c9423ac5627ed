"""A server that plays a script over a real loopback socket: read one request, do one step."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from borzoi.protocol.commands import Command
from borzoi.protocol.framing import LENGTH_SIZE, REQUEST_HEADER
from borzoi.protocol.generations import CLASSIC


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
    _playing: set[asyncio.Task[None]] = field(default_factory=set)

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

    async def play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._playing.add(task)
        self.connections += 1
        script = self.script
        if 0 <= self.connections - 2 < len(self.later):
            script = self.later[self.connections - 2]
        try:
            for step in script:
                length = await reader.readexactly(LENGTH_SIZE)
                rest = await reader.readexactly(int.from_bytes(length, "little"))
                self.requests.append(length + rest)
                if isinstance(step, Answer):
                    await send(writer, step.wire, step.piece_size or len(step.wire))
                elif isinstance(step, CloseAfter):
                    writer.write(step.wire)
                    return
                else:
                    break
            writer.write(self.farewell)
            unexpected = await reader.read()
            assert not unexpected, "more requests than the script has steps"
            self.clients_gone += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            self.clients_gone += 1
        finally:
            writer.close()

    async def wait_requested(self) -> None:
        """Return when there was a request; the test's own deadline bounds this."""
        while not self.requests:
            await asyncio.sleep(0)

    async def wait_client_gone(self) -> None:
        """Return when a client has closed its connection; bounded in the same way."""
        while not self.clients_gone:
            await asyncio.sleep(0)

    async def finish(self) -> None:
        """Wait for every connection to have played its script; its failures are raised here."""
        async with asyncio.timeout(5):
            await asyncio.gather(*self._playing)


async def send(writer: asyncio.StreamWriter, wire: bytes, piece_size: int) -> None:
    for at in range(0, len(wire), piece_size):
        writer.write(wire[at : at + piece_size])
        await writer.drain()


@asynccontextmanager
async def scripted(
    *script: Step, farewell: bytes = b"", later: Sequence[Sequence[Step]] = ()
) -> AsyncIterator[ScriptedServer]:
    scripted_server = ScriptedServer(script, later, farewell)
    server = await asyncio.start_server(scripted_server.play, "127.0.0.1", 0)
    scripted_server.port = server.sockets[0].getsockname()[1]
    try:
        yield scripted_server
        await scripted_server.finish()
    finally:
        server.close()
        await server.wait_closed()


@contextmanager
def scripted_in_a_thread(*script: Step) -> Iterator[ScriptedServer]:
    """For clients that have an event loop of their own."""
    with asyncio.Runner() as runner:
        serving = scripted(*script)
        server = runner.run(serving.__aenter__())
        loop = runner.get_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        try:
            yield server
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
        runner.run(serving.__aexit__(None, None, None))
