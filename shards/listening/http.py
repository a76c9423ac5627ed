"""The door for metrics: an HTTP listener that answers one path and nothing else.

Every shard opens it, on one port that they share, so there is an answer while others are being
replaced; whom a stuck one has accepted waits until it is. It is meant for a few readers that ask
now and then, and for whatever else finds the port: heads, times and the number of connections are
bounded. A connection is answered once, and a fault in here is answered with a 500 and costs no
client its messages.

    accept ── HEAD_TIME_MAX_S ──> head ── ANSWER_TIME_MAX_S ──> answer, end of our side, gone

Always: connections that ask for nothing keep no reader out. When all places are taken, one that
waits for a request gives way to a new connection, the oldest of the address that holds most places;
metrics on their way give way only to an address that holds fewer of the places.

Bytes that come after the head are thrown away until the reader closes: closing with unread
bytes would make the kernel reset the connection, and the answer be lost on its way.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from borzoi.protocol.http_head import (
    HEAD_SIZE_MAX,
    METHOD_NOT_ALLOWED,
    OK,
    REASONS,
    HttpRefused,
    HttpRequest,
    read_head,
    response_head,
)
from borzoi.protocol.openmetrics import CONTENT_TYPE
from borzoi.shards.listening.sockets import bound_address, open_socket
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.settings.schema import TcpSocket

LOG: Final = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 16
HEAD_TIME_MAX_S: Final = 3.0
ANSWER_TIME_MAX_S: Final = 15.0
PARTING_TIME_MAX_S: Final = 1.0
"""So long a refused peer has to read its answer and close."""

IGNORED_SIZE_MAX: Final = 1 << 20
"""A peer that sends more than this behind its head is cut off."""

METHODS: Final = ("GET", "HEAD")
PLAIN: Final = "text/plain; charset=utf-8"


class HttpLimits(NamedTuple):
    """What a peer may take before it is cut off."""

    head_time_s: float = HEAD_TIME_MAX_S
    answer_time_s: float = ANSWER_TIME_MAX_S
    parting_time_s: float = PARTING_TIME_MAX_S
    ignored_size: int = IGNORED_SIZE_MAX


LIMITS: Final = HttpLimits()


@dataclass(slots=True)
class HttpCounts:
    """Since the start of this worker."""

    requests: int = 0
    refused: int = 0


class HttpDoor:
    """Accepts connections, and knows the open ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        path: str,
        text: Callable[[], Awaitable[bytes]],
        counts: HttpCounts,
        limits: HttpLimits = LIMITS,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self._tasks = tasks
        self._path = path
        self._text = text
        self._counts = counts
        # In the order of their arrival.
        self._open: dict[HttpConnection, None] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, address: str) -> str:
        """Open the socket; the address with the real port."""
        listening = open_socket(address, TcpSocket())
        self._server = await self.loop.create_server(lambda: HttpConnection(self), sock=listening)
        return bound_address(listening)

    def close(self) -> None:
        """Stop accepting, and cut everybody off."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._open):
            connection.abort()

    def opened(self, connection: "HttpConnection") -> bool:
        """Whether there is room for one more, if need be because another one gives way."""
        if len(self._open) >= CONNECTIONS_MAX:
            self._counts.refused += 1
            places = [(one.address, one.is_served) for one in self._open]
            number = gives_way(places, connection.address)
            if number is None:
                return False
            victim = list(self._open)[number]
            del self._open[victim]
            victim.abort()
        self._open[connection] = None
        return True

    def lost(self, connection: "HttpConnection") -> None:
        """A connection is gone; its place is free."""
        self._open.pop(connection, None)

    def misread(self, connection: "HttpConnection", refused: HttpRefused) -> None:
        """Something has come that is no request."""
        self._counts.requests += 1
        connection.answer(refused.status)

    def asked(self, connection: "HttpConnection", request: HttpRequest) -> None:
        """A whole head has come."""
        self._counts.requests += 1
        without_body = request.method == "HEAD"
        if request.path != self._path:
            connection.answer(404, without_body=without_body)
        elif request.method not in METHODS:
            connection.answer(METHOD_NOT_ALLOWED)
        else:
            connection.is_served = True
            self._tasks.start(self._answer(connection, without_body))

    async def _answer(self, connection: "HttpConnection", without_body: bool) -> None:
        try:
            text = await self._text()
        except TimeoutError:
            LOG.warning("metrics could not be gathered in time")
            connection.answer(503, without_body=without_body)
        except Exception:
            # Not worth the life of a worker: partitions would be away for a figure.
            LOG.exception("metrics cannot be gathered: the request is answered with 500")
            connection.answer(500, without_body=without_body)
        else:
            connection.answer(OK, text, CONTENT_TYPE, without_body=without_body)


def gives_way(places: Sequence[tuple[str, bool]], newcomer: str) -> int | None:
    """Which place a new connection takes over, of those taken: (address, is served), oldest first.

    None if it is the new one that has to go.
    """
    held = Counter(address for address, _ in places)
    waiting = [
        (held[address], -number) for number, (address, served) in enumerate(places) if not served
    ]
    if waiting:
        return -max(waiting)[1]
    count, number = max((held[address], -number) for number, (address, _) in enumerate(places))
    # Two more: with the place taken over the newcomer's address holds no more than the other one.
    return -number if count >= held[newcomer] + 2 else None


class HttpConnection(asyncio.Protocol):
    """One connection: a head, an answer, the end."""

    def __init__(self, door: HttpDoor) -> None:
        self.address = ""
        self.is_served = False
        """Whether it has asked for the metrics; everything else that connects gives way."""

        self._door = door
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head = bytearray()
        self._head_is_read = False
        self._is_answered = False
        self._peer_has_ended = False
        self._ignored_bytes = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place; without one the connection ends at once."""
        # Of uvloop's own kind, which is no subclass of asyncio's.
        connected = cast("asyncio.Transport", transport)
        peer = connected.get_extra_info("peername")
        self.address = peer[0] if peer else ""
        if not self._door.opened(self):
            connected.abort()
            return
        self._transport = connected
        self._timer = self._door.loop.call_later(self._door.limits.head_time_s, self._head_is_late)

    def data_received(self, data: bytes) -> None:
        """Collect the head, and pass the request on once it is whole."""
        if self._head_is_read:
            self._ignored_bytes += len(data)
            if self._ignored_bytes > self._door.limits.ignored_size:
                self.abort()
            return
        self._head += data[: HEAD_SIZE_MAX - len(self._head)]
        if b"\n" not in data and len(self._head) < HEAD_SIZE_MAX:
            # A head is parsed per line, not per byte: some peers send bytes one by one.
            return
        try:
            request = read_head(self._head)
        except HttpRefused as refused:
            self._read()
            self._door.misread(self, refused)
            return
        if request is not None:
            self._read()
            self._door.asked(self, request)

    def eof_received(self) -> bool:
        """Returns True while an answer is due: the peer may have ended its side and still read."""
        self._peer_has_ended = True
        return self._head_is_read and not self._is_answered

    def connection_lost(self, _error: Exception | None) -> None:
        """Give the place back."""
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._door.lost(self)

    # What the door does.

    def answer(
        self,
        status: int,
        body: bytes | None = None,
        content_type: str = PLAIN,
        *,
        without_body: bool = False,
    ) -> None:
        """Write the answer and end our side. Nothing happens if the peer is gone."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._is_answered = True
        if status != OK:
            self._end_in(self._door.limits.parting_time_s)
        if body is None:
            body = f"{status} {REASONS[status]}\n".encode()
        transport.write(response_head(status, content_type, len(body)))
        if not without_body:
            transport.write(body)
        if self._peer_has_ended:
            transport.close()
        else:
            transport.write_eof()

    def abort(self) -> None:
        """End the connection at once; what is not sent yet is dropped."""
        if self._transport is not None:
            self._transport.abort()

    def _read(self) -> None:
        """Nothing of what comes from now on is looked at."""
        self._head_is_read = True
        self._head.clear()
        self._end_in(self._door.limits.answer_time_s)

    def _end_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._door.loop.call_later(delay_s, self.abort)

    def _head_is_late(self) -> None:
        self._read()
        self.answer(408)
