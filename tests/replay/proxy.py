"""A TCP proxy that notes what clients write and what a broker answers, in one order for all.

A chunk of a client goes on to the broker when no other connection waits for an answer: what the
broker decides first is written down first. The proxy knows how many answers a chunk asks for by
cutting it into requests; a malformed chunk may have another number, so the wait has a deadline.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from tests.replay.cutting import AnswerCutter, RequestCutter
from tests.replay.session import Event, Kind

CHUNK_SIZE: Final = 1 << 20
ANSWER_WAIT_S: Final = 2.0


class Proxy:
    """Listens on a port of its own; `events` grows while clients talk."""

    def __init__(self, host: str, port: int) -> None:
        self._broker = (host, port)
        self._turn = asyncio.Lock()
        self._idle = asyncio.Condition()
        self._clients: dict[int, asyncio.StreamReader] = {}
        self._connections_count = 0
        self.events: list[Event] = []
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=CHUNK_SIZE)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
            # The official client has no close: its side of the connection ends here.
            for client in self._clients.values():
                client.feed_eof()
            await self.wait_all_closed()
        finally:
            server.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def wait_all_closed(self, but: int = 0) -> None:
        """Waits until no more than so many connections are left, and the broker knows it."""
        async with asyncio.timeout(60), self._idle:
            await self._idle.wait_for(lambda: len(self._clients) <= but)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        number = self._connections_count
        self._connections_count += 1
        self._clients[number] = client
        async with self._turn:
            broker, to_broker = await asyncio.open_connection(*self._broker, limit=CHUNK_SIZE)
            self._note(number, Kind.OPEN)
        flow = _Flow(self, number, to_client)
        answers = asyncio.create_task(flow.pass_answers(broker))
        cutter = RequestCutter()
        try:
            while data := await client.read(CHUNK_SIZE):
                async with self._turn:
                    self._note(number, Kind.WRITTEN, data)
                    flow.expected += len(cutter.cut(data))
                    to_broker.write(data)
                    await to_broker.drain()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(flow.wait_answered(), ANSWER_WAIT_S)
            async with self._turn:
                if not flow.has_ended:
                    to_broker.write_eof()
                    self._note(number, Kind.EOF)
                    flow.is_closing = True
                await answers
        except (ConnectionError, OSError):
            await answers
        finally:
            to_broker.close()
            to_client.close()
            async with self._idle:
                del self._clients[number]
                self._idle.notify_all()

    def _note(self, number: int, kind: Kind, data: bytes = b"") -> None:
        self.events.append(Event(number, kind, data))

    def note_answer(self, number: int, answer: bytes) -> None:
        self._note(number, Kind.ANSWER, answer)

    def note_closed(self, number: int) -> None:
        self._note(number, Kind.CLOSED)


class _Flow:
    """The broker's side of one connection."""

    def __init__(self, proxy: Proxy, number: int, to_client: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._number = number
        self._to_client = to_client
        self._changed = asyncio.Condition()
        self._answered = 0
        self.expected = 0
        self.has_ended = False
        self.is_closing = False

    async def wait_answered(self) -> None:
        """Waits for as many answers as requests, or for the end of the connection."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.has_ended or self._answered >= self.expected)

    async def pass_answers(self, broker: asyncio.StreamReader) -> None:
        cutter = AnswerCutter()
        try:
            while data := await broker.read(CHUNK_SIZE):
                found = cutter.cut(data)
                for answer in found:
                    self._proxy.note_answer(self._number, answer)
                self._to_client.write(data)
                async with self._changed:
                    self._answered += len(found)
                    self._changed.notify_all()
        except ConnectionError:
            pass
        assert not cutter.waiting, "the broker ended within an answer"
        if not self.is_closing:
            self._proxy.note_closed(self._number)
        with suppress(OSError):
            self._to_client.close()
        async with self._changed:
            self.has_ended = True
            self._changed.notify_all()
