"""The doors of a shard with connections, TCP and WebSocket, and the connections that came through.

Every worker opens its own sockets with SO_REUSEPORT; when one dies, the kernel sends new
connections to the living. Counts are bounded and shared by address and user, over all doors: too
many connections are closed at once, and those that do not log in give way (admission/places.py).

A door with a certificate accepts through handshakes.py. A WebSocket lies between the transport and
its connection (websocket/websocket.py). Neither changes what a connection is.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from borzoi.protocol.errors import CannotReadMessage, Disconnected
from borzoi.protocol.generations import SERVED
from borzoi.protocol.responses.clients import Transport
from borzoi.router.pool import MemoryPool
from borzoi.router.receive import ReceiveBlocks
from borzoi.shards.admission.frames import connection_limits
from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.doors.carried import SessionOfConnection
from borzoi.shards.doors.tcp import Connection
from borzoi.shards.faults.in_work import InWork
from borzoi.shards.faults.poison import Guard, Refusal
from borzoi.shards.identity.clear_text import ClearText
from borzoi.shards.identity.clients import Clients
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.listening.handshakes import EncryptedDoor, Handshakes, Leaving
from borzoi.shards.listening.sockets import BACKLOG, bound_address, open_socket
from borzoi.shards.loop.rarely import Rarely
from borzoi.shards.loop.slow_requests import SlowRequests
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.orders.spec import SessionState
from borzoi.shards.serving.session import Link, Session
from borzoi.shards.settings.schema import Limits, TcpSocket
from borzoi.shards.tallies.meters import Meters
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.context import ServerContext
from borzoi.shards.websocket.rules import WebSocketRules
from borzoi.shards.websocket.websocket import WebSocket

LOG: Final = logging.getLogger(__name__)

TCP: Final = "tcp"
KINDS: Final = {TCP: Transport.TCP, "websocket": Transport.WEBSOCKET, "quic": Transport.QUIC}
"""What clients are shown as, by door."""


C = TypeVar("C", bound=Connection)


class Listener:
    """Accepts connections and knows the open ones. Implements Connections."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        receive: ReceiveBlocks,
        pool: MemoryPool,
        clients: Clients,
        limits: Limits,
        in_work: InWork,
        new_session: Callable[[Link, str, Transport], Session],
        adopt_session: Callable[[Link, SessionState], Session],
        lost_session: Callable[[SessionState], None],
        tasks: Tasks,
        websocket: WebSocketRules,
        clear_text: ClearText,
        meters: Meters,
        slow: SlowRequests | None = None,
    ) -> None:
        self._loop = loop
        self._receive = receive
        self._pool = pool
        self._clients = clients
        self._in_work = in_work
        self._refusals = Guard(time.monotonic)
        self.guard: Guard | None = None
        self._new_session = new_session
        self._adopt_session = adopt_session
        self._lost_session = lost_session
        # By address: sockets that another shard has let go of and that are about to open here.
        self._arriving: dict[str, SessionState] = {}
        self.places = ConnectionPlaces[Leaving](
            limits.connections_max,
            limits.connections_per_address_max,
            limits.connections_before_login_max,
            limits.share_weight,
        )
        self._limits = connection_limits(limits)
        self._open: dict[Connection, Session] = {}
        self._rarely = Rarely()
        self._websocket = websocket
        self._clear_text = clear_text
        self._slow = slow
        self.meters = meters
        self._handshakes = Handshakes(
            loop,
            tasks,
            self.places,
            self._give_way,
            self._limits.login_timeout_s,
        )
        # By door; without one a door is in clear text.
        self._contexts: dict[str, ServerContext] = {}
        self._servers: list[asyncio.Server | EncryptedDoor] = []

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return len(self._open)

    def show(self, certificates: Mapping[str, Certificate]) -> None:
        """Encrypt these doors, from the next handshake on; connections keep what they have."""
        self._contexts = {door: ServerContext(one) for door, one in certificates.items()}

    async def listen(self, door: str, address: str, options: TcpSocket) -> str:
        """Open the socket of a door; the address with the real port."""
        listening = open_socket(address, options)
        where = bound_address(listening)
        is_encrypted = door in self._contexts
        self._clear_text.opened(KINDS[door], address, encrypted=is_encrypted)
        if is_encrypted:
            arrived = partial(self._arrived, door)
            self._servers.append(EncryptedDoor(self._loop, listening, arrived))
        else:
            self._servers.append(
                await self._loop.create_server(
                    lambda: self._protocol(door, self._new_connection(door)),
                    sock=listening,
                    backlog=BACKLOG,
                )
            )
        return where

    async def adopt(self, arrived: socket.socket, state: SessionState) -> None:
        """Serve a connection that another shard has let go of."""
        arrived.setblocking(False)
        self._arriving[state.address] = state
        try:
            await self._loop.connect_accepted_socket(partial(self._new_connection, TCP), arrived)
        except OSError as error:
            LOG.info("%s was gone before it arrived: %s", state.address, error)
            arrived.close()
        finally:
            if self._arriving.pop(state.address, None) is not None:
                # Refused, or gone: its end is ours to tell.
                self._lost_session(state)

    def opened(self, connection: Connection, address: str) -> SessionOfConnection | None:
        """A session for a new connection, None when there are too many."""
        origin = origin_of(host_of(address))
        arriving = self._arriving.get(address)
        if arriving is None:
            # A handshake was let in, and has made room already.
            if not self._handshakes.is_done(connection):
                if not self.places.admits(origin):
                    return None
                self._give_way()
        elif self.places.is_full:
            LOG.warning("refused %s of another shard: %d are open", address, len(self._open))
            return None
        if arriving is not None:
            del self._arriving[address]
            session = self._adopt_session(connection, arriving)
        else:
            session = self._new_session(connection, address, connection.kind)
            if not connection.can_move:
                session.stay()
        self._open[connection] = session
        self.places.add(connection, session, origin)
        self._clients.add(session)
        if arriving is not None:
            session.settle_in(arriving)
        return session

    def _give_way(self) -> None:
        """Make room for one more connection without a login."""
        if (leaving := self.places.giving_way()) is not None:
            leaving.close(Disconnected.status)

    def evicted(self, connection: Connection) -> None:
        """Log that bytes frame no request of any client served here, now and then by address."""
        address = self._open[connection].address
        if self._rarely.is_due(host_of(address), self._loop.time()):
            LOG.warning(
                "closed %s: its bytes are no request of the generations served, which are %s",
                address,
                SERVED,
            )

    def damaged(self, connection: Connection, damage: CannotReadMessage) -> None:
        """Log that messages could not be shown to a client of another generation."""
        LOG.error(
            "a poll by %s is refused, stored messages are damaged: %s. `borzoi check` on the"
            " stopped broker says where",
            self._open[connection].address if connection in self._open else "a client",
            damage,
        )

    def lost(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        session = self._open.pop(connection, None)
        if session is None:
            return
        self._clients.remove(session)
        self.places.remove(connection)

    def check_deadlines(self) -> None:
        """Close connections that keep us waiting too long, and count who is logged in."""
        self.places.settle()
        now = self._loop.time()
        for connection, session in list(self._open.items()):
            reason = connection.check_deadlines(now)
            if reason is not None:
                client, address = session.client_id, session.address
                if session.user_id is None:
                    reason = f"{reason}; the generations served are {SERVED}"
                LOG.info("closed client %d of %s: it %s", client, address, reason)

    def close(self) -> None:
        """Stop accepting and say goodbye to everybody."""
        for server in self._servers:
            server.close()
        self._handshakes.close()
        for connection in list(self._open):
            connection.close(Disconnected.status)

    def new_connection(self, door: str, made: type[C]) -> C:
        """A connection of a kind, for a door with sockets of its own, which makes it."""
        return made(
            self._loop,
            self,
            self._receive,
            self._pool,
            self._limits,
            self._in_work,
            KINDS[door],
            can_move=door == TCP and door not in self._contexts,
            slow=self._slow,
        )

    def _arrived(self, door: str, accepted: socket.socket, host: str) -> None:
        connection = self._new_connection(door)
        protocol = self._protocol(door, connection)
        self._handshakes.begin(accepted, host, self._contexts[door], connection, protocol)

    def _new_connection(self, door: str) -> Connection:
        return self.new_connection(door, Connection)

    def _protocol(self, door: str, connection: Connection) -> asyncio.BaseProtocol:
        """What the transport of a connection is given."""
        if door == TCP:
            return connection
        return WebSocket(self._loop, connection, self._websocket)

    # Requests that kill workers.

    def refuse(self, refusals: Sequence[Refusal]) -> None:
        """Do not carry these out as long as they say."""
        self._refusals.refuse(refusals)
        self._guard_connections()

    def _guard_connections(self) -> None:
        """A guard before every session while something is refused, and none afterwards."""
        ends_in_s = self._refusals.ends_in_s()
        self.guard = self._refusals if ends_in_s > 0 else None
        for connection in self._open:
            connection.guard(self.guard)
        if self.guard is not None:
            self._loop.call_later(ends_in_s, self._guard_connections)
