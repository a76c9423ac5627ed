"""The connections of HTTP clients: how many, from where, and how long each may take.

The library parses requests and writes responses; here is what it does not bound: how long a head
may take, how slowly an answer may be read, how long a peer may stay without a token, and how many
connections there are. All of it is as on other doors (admission/places.py, deadlines.py).

Always: each connection counts for the user of its last request, before that for its address. With
TLS it has its place from the moment it is accepted (listening/handshakes.py).
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from borzoi.shards.admission.deadlines import Patience, give_up
from borzoi.shards.admission.frames import ConnectionLimits
from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.listening.handshakes import Handshake, Handshakes
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.settings.addresses import format_address
from borzoi.shards.tls.context import ServerContext
from borzoi.shards.web_forms.failures import PLAIN
from borzoi.shards.web_forms.limits import (
    HEAD_TIME_MAX_S,
    HEADER_SIZE_MAX,
    HEADERS_MAX,
    IDLE_TIME_MAX_S,
    LINE_SIZE_MAX,
    LINGER_TIME_S,
)

LOG: Final = logging.getLogger(__name__)

LIBRARY_LOG: Final = logging.getLogger("borzoi.shards.web_connections.library")
# What peers get wrong is answered, and what goes wrong here is logged by the door.
LIBRARY_LOG.setLevel(logging.CRITICAL + 1)

SERVER: Final = "borzoi"
"""What answers call the server: neither the library nor a version."""

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class WebConnection(web.RequestHandler):
    """One connection, as the library serves it, with the times at which it began to wait."""

    __slots__ = (
        "_patience", "_pool", "address", "ended", "head_since", "in_request", "user_id",
    )  # fmt: skip

    def __init__(self, pool: "WebServer", server: web.Server, **options: Any) -> None:
        super().__init__(server, **options)
        self._pool = pool
        self._patience = Patience(pool.limits, pool.now())
        self.address = ""
        self.user_id: int | None = None
        self.in_request = False
        self.head_since: float | None = None
        self.ended = False

    @property
    def is_idle(self) -> bool:
        """Whether no request is in work."""
        return not self.in_request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place; without one the connection ends at once."""
        peer = transport.get_extra_info("peername")
        self.address = format_address(*peer[:2]) if peer else ""
        super().connection_made(transport)
        if not self._pool.opened(self):
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place back."""
        self.ended = True
        self._pool.lost(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Note when a head begins, and leave the rest to the library."""
        if not self.in_request and self.head_since is None:
            self.head_since = self._pool.now()
        super().data_received(data)

    def pause_writing(self) -> None:
        """The peer does not take its answer: it has a while to do so."""
        super().pause_writing()
        if self.transport is not None:
            self._patience.wait_for_reader(self.transport, self._pool.now())

    def resume_writing(self) -> None:
        """The peer takes it again."""
        super().resume_writing()
        self._patience.reader_is_back()

    def begins(self) -> None:
        """A request is in work."""
        self.in_request = True
        self.head_since = None

    def ends(self) -> None:
        """Its answer is about to be written."""
        self.in_request = False

    def abort(self) -> None:
        """Drop the connection and what is not sent yet."""
        if self.transport is not None:
            give_up(self.transport)

    def is_late(self, now: float) -> str | None:
        """Why this connection has to go, if it has to."""
        if self.head_since is not None and now - self.head_since > HEAD_TIME_MAX_S:
            return f"did not send the whole head of a request within {HEAD_TIME_MAX_S:.0f} s"
        if self.transport is None:
            return None
        return self._patience.overdue(
            self.transport, now, authenticated=self.user_id is not None, busy=self.in_request
        )

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What the library refuses by itself is answered as everything else, and is the last."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun: there is no place for another one")
        text = (message or str(exc or "")).partition("\n")[0].rstrip(": ")
        response = web.Response(
            status=status,
            body=f"this is no request: {text}".encode(),
            headers={"Server": SERVER, "Content-Type": PLAIN},
        )
        response.force_close()
        return response


class WebServer(web.Server):
    """Makes connections and knows the open ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        handle: Handle,
        places: ConnectionPlaces[WebConnection | Handshake],
        limits: ConnectionLimits,
        on_refused: Callable[[], None],
    ) -> None:
        super().__init__(
            handle,
            loop=loop,
            access_log=None,
            logger=LIBRARY_LOG,
            auto_decompress=False,
            keepalive_timeout=IDLE_TIME_MAX_S,
            lingering_time=LINGER_TIME_S,
            max_line_size=LINE_SIZE_MAX,
            max_field_size=HEADER_SIZE_MAX,
            max_headers=HEADERS_MAX,
        )
        self.places = places
        self.limits = limits
        self.now = loop.time
        self._on_refused = on_refused
        self._open: set[WebConnection] = set()
        self._handshakes = Handshakes(loop, tasks, places, self._give_way, limits.login_timeout_s)

    def __call__(self) -> WebConnection:
        """A connection that is about to open."""
        return WebConnection(self, self, loop=self._loop, **self._kwargs)

    def arrived(self, accepted: socket.socket, host: str, context: ServerContext) -> None:
        """A socket of the door with TLS: shake hands first."""
        connection = self()
        self._handshakes.begin(accepted, host, context, connection, connection)

    def opened(self, connection: WebConnection) -> bool:
        """Whether there is room for one more, if need be because another one gives way."""
        origin = origin_of(host_of(connection.address))
        # A handshake was let in, and has made room already.
        if not self._handshakes.is_done(connection):
            if not self.places.admits(origin):
                self._on_refused()
                return False
            self._give_way()
        self._open.add(connection)
        self.places.add(connection, connection, origin)
        return True

    def lost(self, connection: WebConnection) -> None:
        """A connection has ended; its place is free."""
        if connection in self._open:
            self._open.discard(connection)
            self.places.remove(connection)

    def check_deadlines(self) -> None:
        """Drop connections that keep us waiting too long, and count who is logged in."""
        self.places.settle()
        now = self.now()
        for connection in list(self._open):
            reason = connection.is_late(now)
            if reason is not None:
                LOG.info("closed the HTTP connection of %s: it %s", connection.address, reason)
                connection.abort()

    def give_up_handshakes(self) -> None:
        """The door closes."""
        self._handshakes.close()

    def _give_way(self) -> None:
        if (leaving := self.places.giving_way()) is not None:
            leaving.abort()
