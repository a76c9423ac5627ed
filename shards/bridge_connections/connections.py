"""The connections of Liftbridge clients: how many there are, and what each may have open.

The library does HTTP/2 and calls. Here is what it does not bound. Places and deadlines are as on
the other doors (admission/places.py, deadlines.py). A client that does not read is not read from
either: answers to its pings would pile up. Calls, and the bytes that a client may send before they
are taken, are shares of what a shard has, by user and before the first call by address.

Always: each connection counts for the user of its last call. With TLS it has its place from the
moment it is accepted (listening/handshakes.py).
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple, cast

from grpclib.config import Configuration
from grpclib.protocol import H2Protocol
from grpclib.server import Server
from h2.events import UnknownFrameReceived
from h2.settings import SettingCodes

from borzoi.liftbridge.allowance import Allowance, CallMemory
from borzoi.liftbridge.calls import give_allowance
from borzoi.shards.admission.deadlines import Patience, give_up
from borzoi.shards.admission.frames import ConnectionLimits
from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.bridge_connections.calls_in_work import CallsInWork
from borzoi.shards.bridge_connections.often import Often
from borzoi.shards.bridge_connections.reading import ReadingTurns, Unread
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.listening.handshakes import EncryptedDoor, Handshake, Handshakes
from borzoi.shards.listening.sockets import BACKLOG
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.settings.addresses import format_address
from borzoi.shards.tls.context import ServerContext
from borzoi.shares import Shares, address_taker, user_taker

LOG: Final = logging.getLogger(__name__)
LIBRARY_LOG: Final = logging.getLogger("grpclib")
# A client that hangs up is no event; what goes wrong here is logged by the door.
LIBRARY_LOG.setLevel(logging.CRITICAL + 1)

CALLS_MAX: Final = 1000
"""Calls of one connection that are open at once."""

CALLS_TOTAL_MAX: Final = 20_000
"""Calls of one shard that are open at once: each takes about 20 KB."""

NARROW_SIZE: Final = 65_535
"""Bytes that a client may send before they are taken, as HTTP/2 begins."""

WIDE_SIZE: Final = 4 * 1024 * 1024
"""The same once a user is known, and of one call."""

WIDE_TOTAL_SIZE_MAX: Final = 256 * 1024 * 1024
"""The wide windows of one shard; connections beyond keep narrow ones."""

MEMORY_SIZE_MAX: Final = 256 * 1024 * 1024
"""What calls of one shard hold: taken and not stored yet, answers that are not sent yet."""

UNREAD_SIZE_MAX: Final = 64 * 1024 * 1024
"""What connections of one shard have sent and is not looked at yet; 256 KiB each at most."""

IDLE_FRAMES_MAX: Final = 1000
"""Frames in a second that are no part of a call, of a connection whose user is not known yet."""

IDLE_FRAMES_OF_USER_MAX: Final = 20_000
"""The same of a user: clients answer each piece of a fast subscription with two."""

REFUSALS_MAX: Final = 100
"""Calls in a second of one connection that nothing lets in."""

IDLE_TIME_MAX_S: Final = 300.0
"""A connection without a call goes after so long."""

CONFIGURATION: Final = Configuration(
    _keepalive_time=60.0,
    _keepalive_timeout=20.0,
    http2_connection_window_size=NARROW_SIZE,
    http2_stream_window_size=WIDE_SIZE,
)


class BridgeShares(NamedTuple):
    """What the connections of one shard share, by user."""

    calls: Shares
    windows: Shares
    memory: CallMemory
    unread: Shares


def new_shares(weight: int) -> BridgeShares:
    """All of it is there."""
    return BridgeShares(
        Shares("Liftbridge calls", CALLS_TOTAL_MAX, weight),
        Shares("bytes of Liftbridge windows", WIDE_TOTAL_SIZE_MAX, weight),
        CallMemory(MEMORY_SIZE_MAX, weight),
        Shares("bytes of Liftbridge clients that wait for their turn", UNREAD_SIZE_MAX, weight),
    )


class BridgeConnection(H2Protocol):
    """One connection, as the library serves it, with the times since which it waits."""

    def __init__(self, server: "BridgeServer", handler: CallsInWork, *settings: Any) -> None:
        super().__init__(handler, *settings)
        handler.visitor = self
        self._server = server
        self._patience = Patience(server.limits, server.now())
        self._transport: asyncio.Transport | None = None
        self._calls = 0
        self._wide_taker: str | None = None
        self.address = ""
        self.taker = ""
        self.user_id: int | None = None
        self.quiet_since = server.now()
        self.unread = Unread()
        self._unread = (self.taker, 0)
        """Whose bytes wait for their turn, and how many."""

        self._waits_for_turn = False
        self._waits_for_reader = False
        self._idle_frames = Often()
        self._refusals = Often()

    @property
    def is_idle(self) -> bool:
        """Whether no call is open, and nothing that came waits for its turn."""
        return not self._calls and not self._waits_for_turn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a place; without one the connection ends at once."""
        peer = transport.get_extra_info("peername")
        self.address = format_address(*peer[:2]) if peer else ""
        self.taker = address_taker(origin_of(host_of(self.address)))
        # uvloop's transports do what asyncio's do without being of its classes.
        self._transport = cast("asyncio.Transport", transport)
        super().connection_made(transport)
        # RFC 9113: frames that are not known are ignored.
        self.processor.processors[UnknownFrameReceived] = _ignore
        self._allowance = Allowance(self._server.memory, self.taker)
        give_allowance(self.connection, self._allowance)
        if not self._server.opened(self):
            self.abort()
            return
        connection = self.connection._connection
        connection.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: CALLS_MAX})
        self.connection.flush()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Give the place back, and what calls hold."""
        self._server.lost(self)
        self._allowance.give_back_all()
        if self._calls:
            self._server.calls.give_back(self.taker, self._calls)
            self._calls = 0
        if self._wide_taker is not None:
            self._server.windows.give_back(self._wide_taker, WIDE_SIZE)
            self._wide_taker = None
        self.unread.clear()
        self._forget_unread()
        super().connection_lost(exc)
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Bytes of a client, which are looked at in turns."""
        self.unread.add(data)
        if not self._waits_for_turn:
            self._server.turns.come(self)

    def read_bite(self, work_max: int) -> int:
        """Look at some of what came. A client that makes no sense loses its connection."""
        before = self.unread.idle_frames
        data, work = self.unread.take(work_max)
        try:
            super().data_received(data)
        except Exception as error:  # headers that are no text, and whatever else is made up
            self._end(f"sent what cannot be read: {error!r}")
        idle = self.unread.idle_frames - before
        most = IDLE_FRAMES_MAX if self.user_id is None else IDLE_FRAMES_OF_USER_MAX
        if idle and self._idle_frames.is_too_often(self._server.now(), most, idle):
            self._end(f"sent more than {most} frames in a second that are no part of a call")
        return work

    def wait_for_turn(self) -> None:
        """Receive nothing until all that came was looked at."""
        self._waits_for_turn = True
        shares, self._unread = self._server.unread, (self.taker, self.unread.size)
        if self.user_id is None and not shares.allows(*self._unread):
            self._end(f"sent {self.unread.size} bytes without a login, and its address has no room")
        shares.take_anyway(*self._unread)
        self._read_on_or_not()

    def turn_is_over(self) -> None:
        """Receive again."""
        self._forget_unread()
        self._read_on_or_not()

    def _forget_unread(self) -> None:
        if self._waits_for_turn:
            self._waits_for_turn = False
            self._server.unread.give_back(*self._unread)

    def pause_writing(self) -> None:
        """The client does not read: it has a while to do so, and nothing is read from it."""
        super().pause_writing()
        self._waits_for_reader = True
        if self._transport is not None and not self._transport.is_closing():
            self._patience.wait_for_reader(self._transport, self._server.now())
        self._read_on_or_not()

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        self._waits_for_reader = False
        self._patience.reader_is_back()
        self._read_on_or_not()

    def _read_on_or_not(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._waits_for_turn or self._waits_for_reader:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def call_is_refused(self) -> None:
        """A call has said nothing that lets it in."""
        if self._refusals.is_too_often(self._server.now(), REFUSALS_MAX):
            self._end(f"made more than {REFUSALS_MAX} calls in a second without a login")

    def _end(self, reason: str) -> None:
        LOG.info("closed the Liftbridge connection of %s: it %s", self.address, reason)
        self.abort()

    def call_begins(self) -> bool:
        """One more call; False if the taker has its share."""
        if not self._server.calls.take(self.taker, 1):
            self._server.calls.note_refusal(self.taker, 1)
            return False
        self._calls += 1
        return True

    def call_ends(self) -> None:
        """One call less."""
        if self._calls:
            self._calls -= 1
            self._server.calls.give_back(self.taker, 1)
            self.quiet_since = self._server.now()

    def count_for(self, user_id: int) -> None:
        """A call stands for this user, who has the connection from now on."""
        if user_id == self.user_id:
            return
        calls = self._server.calls
        if self._calls:
            calls.give_back(self.taker, self._calls)
        self.user_id, self.taker = user_id, user_taker(user_id)
        if self._calls:
            calls.take_anyway(self.taker, self._calls)
        self._allowance.count_for(self.taker)
        if self._wide_taker is None and self._server.windows.take(self.taker, WIDE_SIZE):
            self._wide_taker = self.taker
            self.connection._connection.increment_flow_control_window(WIDE_SIZE - NARROW_SIZE)
            self.connection.flush()

    def abort(self) -> None:
        """Drop the connection and what is not sent yet."""
        self.unread.clear()
        if self._transport is not None:
            give_up(self._transport)

    def is_late(self, now: float) -> str | None:
        """Why this connection has to go, if it has to."""
        if self._transport is None:
            return None
        if not self.is_idle:
            self.quiet_since = now
        elif now - self.quiet_since > IDLE_TIME_MAX_S:
            return f"had no call for {IDLE_TIME_MAX_S:.0f} s"
        is_known = self.user_id is not None
        return self._patience.overdue(
            self._transport, now, authenticated=is_known, busy=not self.is_idle
        )


class BridgeServer(Server):
    """Makes connections and knows the open ones."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        handlers: Collection[Any],
        places: ConnectionPlaces[BridgeConnection | Handshake],
        limits: ConnectionLimits,
        shares: BridgeShares,
    ) -> None:
        super().__init__(handlers, config=CONFIGURATION)
        self.places = places
        self.limits = limits
        self.now = loop.time
        self.calls, self.windows, self.memory, self.unread = shares
        self._loop = loop
        self._context: Callable[[], ServerContext | None] = lambda: None
        self._encrypted: EncryptedDoor | None = None
        self._handshakes = Handshakes(loop, tasks, places, self._give_way, limits.login_timeout_s)
        self._open: dict[Any, BridgeConnection] = {}
        self.turns = ReadingTurns(loop)

    async def open(
        self, listening: socket.socket, context: Callable[[], ServerContext | None]
    ) -> None:
        """Accept connections; each handshake takes the context of its time."""
        self._context = context
        if context() is None:
            await self.start(sock=listening, backlog=BACKLOG)
        else:
            self._encrypted = EncryptedDoor(self._loop, listening, self._arrived)

    def opened(self, connection: BridgeConnection) -> bool:
        """Whether there is room for one more, if need be because another one gives way."""
        origin = origin_of(host_of(connection.address))
        # A handshake was let in, and has made room already.
        if not self._handshakes.is_done(connection):
            if not self.places.admits(origin):
                return False
            self._give_way()
        self._open[connection.connection] = connection
        self.places.add(connection, connection, origin)
        return True

    def lost(self, connection: BridgeConnection) -> None:
        """A connection is gone."""
        if self._open.pop(connection.connection, None) is not None:
            self.places.remove(connection)

    def identified(self, transport: Any, user_id: int) -> None:
        """A call of this connection stands for a user."""
        connection = self._open.get(transport)
        if connection is not None:
            connection.count_for(user_id)

    def refused(self, transport: Any) -> None:
        """A call of this connection has said nothing that lets it in."""
        connection = self._open.get(transport)
        if connection is not None:
            connection.call_is_refused()

    def check_deadlines(self) -> None:
        """Once a second: drop connections that wait for too long, and count who is logged in."""
        self.places.settle()
        now = self.now()
        for connection in list(self._open.values()):
            if (reason := connection.is_late(now)) is not None:
                LOG.info(
                    "closed the Liftbridge connection of %s: it %s", connection.address, reason
                )
                connection.abort()

    async def shut(self) -> None:
        """Accept no more, end all calls, drop all connections."""
        if self._encrypted is not None:
            self._encrypted.close()
        elif self._server is not None:
            self._server.close()
        self._handshakes.close()
        handlers = list(self._handlers)
        for handler in handlers:
            handler.close()
        for connection in list(self._open.values()):
            connection.abort()
        for handler in handlers:
            await handler.wait_closed()

    def _arrived(self, accepted: socket.socket, host: str) -> None:
        context = self._context()
        assert context is not None, "a door with TLS keeps it"
        connection = self._protocol_factory()
        self._handshakes.begin(accepted, host, context, connection, connection)

    def _give_way(self) -> None:
        if (leaving := self.places.giving_way()) is not None:
            leaving.abort()

    def _protocol_factory(self) -> H2Protocol:
        self.__gc_step__()
        handler = CallsInWork(
            self._mapping, self._codec, self._status_details_codec, self.__dispatch__
        )
        self._handlers.add(handler)
        return BridgeConnection(self, handler, self._config, self._h2_config)


def _ignore(_event: object) -> None:
    """Nothing happens."""
