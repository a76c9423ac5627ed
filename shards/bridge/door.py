"""The gRPC door of Liftbridge on one shard: its listener, TLS, and the parts that answer calls.

Every shard opens it on one port that they share. A call needs no session, so any shard answers any
of them; what belongs to another shard's partition goes over the rings, as from all doors.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from borzoi.liftbridge.appending import Appending
from borzoi.liftbridge.bridge import Bridge
from borzoi.liftbridge.describing import Advertised, Describing
from borzoi.liftbridge.health import Health
from borzoi.liftbridge.publishing import Publishing
from borzoi.liftbridge.server import Api
from borzoi.shards.admission.frames import connection_limits
from borzoi.shards.admission.places import ConnectionPlaces
from borzoi.shards.bridge.members import MemberHeard, MemberWatch
from borzoi.shards.bridge.seats import Seats, SeatTaken
from borzoi.shards.bridge.store import BridgeStore
from borzoi.shards.bridge_connections.callers import Callers
from borzoi.shards.bridge_connections.connections import BridgeConnection, BridgeServer, new_shares
from borzoi.shards.handlers.services import Services
from borzoi.shards.listening.handshakes import Handshake
from borzoi.shards.listening.sockets import bound_address, open_socket
from borzoi.shards.metrics.shard_figures import NatsFigures
from borzoi.shards.ports.arrivals import Arrivals
from borzoi.shards.rings.requests import Request, Serve
from borzoi.shards.settings.addresses import is_loopback, parse_address
from borzoi.shards.settings.schema import Liftbridge, Limits, TcpSocket
from borzoi.shards.tls.certificate import Certificate
from borzoi.shards.tls.context import ServerContext

if TYPE_CHECKING:
    from borzoi.shards.bridge.nats import NatsPartitions

LOG: Final = logging.getLogger(__name__)

STOP_TIME_MAX_S: Final = 1.0
HTTP_2: Final = (b"h2",)
"""The protocols that the door offers in a handshake of TLS."""

ANY_HOST: Final = ("0.0.0.0", "::", "[::]")


class BridgeDoor:
    """Listens for Liftbridge clients."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        services: Services,
        store: BridgeStore,
        arrivals: Arrivals,
        members: MemberWatch,
        seats: Seats,
        settings: Liftbridge,
        limits: Limits,
    ) -> None:
        self._loop = loop
        self._services = services
        self._arrivals = arrivals
        self.members = members
        self._seats = seats
        self._settings = settings
        self._limits = limits
        self.bridge = Bridge(store)
        self.publishing = Publishing(self.bridge, Appending(store, loop))
        self._health = Health()
        self._context: ServerContext | None = None
        self.places = ConnectionPlaces[BridgeConnection | Handshake](
            max(1, limits.connections_max // 2),
            limits.connections_per_address_max,
            limits.connections_before_login_max,
            limits.share_weight,
        )
        self.shares = new_shares(limits.share_weight)
        self._server: BridgeServer | None = None
        self.nats: NatsPartitions | None = None
        """The subjects of this shard's partitions, where NATS servers are configured."""

    def show(self, certificates: Mapping[str, Certificate]) -> None:
        """Encrypt this door if it has a certificate; connections keep what they have."""
        shown = certificates.get("liftbridge")
        self._context = None if shown is None else ServerContext(shown, HTTP_2)

    async def listen(self, address: str) -> str:
        """Open the socket; the address with the real port."""
        is_plain = self._context is None and not is_loopback(address)
        callers = Callers(
            self._services.metadata,
            self._services.logins,
            self._services.clock,
            self._anonymous_user(address),
            self._identified,
            self._refused,
            refuses_passwords=is_plain and self._limits.plain_login == "refuse",
        )
        listening = open_socket(address, TcpSocket())
        bound = bound_address(listening)
        api = Api(
            self.bridge,
            self.publishing,
            Describing(self.bridge, _advertised(self._settings, bound)),
            callers.identify,
        )
        self._server = BridgeServer(
            self._loop,
            self._services.tasks,
            [api, self._health],
            self.places,
            connection_limits(self._limits),
            self.shares,
        )
        await self._server.open(listening, lambda: self._context)
        if self.nats is not None:
            self.nats.start()
        return bound

    @property
    def ring_table(self) -> dict[type[Request], Serve]:
        """What other shards may ask of this door."""
        of_nats = {} if self.nats is None else self.nats.ring_table
        return {MemberHeard: self.members.serve, SeatTaken: self._seats.serve, **of_nats}

    def nats_figures(self) -> NatsFigures | None:
        """What came from NATS; None where there is none."""
        return None if self.nats is None else self.nats.figures()

    def streams_changed(self) -> None:
        """Let subscriptions look at their streams."""
        self._arrivals.wake_all()
        if self.nats is not None:
            self.nats.changed()

    def _anonymous_user(self, address: str) -> str:
        """Whom clients without a login are: nothing but a door on loopback lets them in."""
        user = self._settings.anonymous_user
        if user and not is_loopback(address):
            LOG.warning(
                "liftbridge.anonymous_user has no effect at %s, which other hosts reach", address
            )
            return ""
        return user

    def _identified(self, transport: Any, user_id: int) -> None:
        if self._server is not None:
            self._server.identified(transport, user_id)

    def _refused(self, transport: Any) -> None:
        if self._server is not None:
            self._server.refused(transport)

    def check_deadlines(self) -> None:
        """Once a second."""
        if self._server is not None:
            self._server.check_deadlines()

    async def close(self) -> None:
        """Stop accepting, end calls, drop connections."""
        await self._health.stop()
        if self.nats is not None:
            await self.nats.stop()
        self._arrivals.wake_all()
        if self._server is None:
            return
        try:
            async with asyncio.timeout(STOP_TIME_MAX_S):
                await self._server.shut()
        except TimeoutError:
            LOG.warning("calls of Liftbridge clients were cut off")


def _advertised(settings: Liftbridge, bound: str) -> Advertised:
    """Where clients are sent: as configured, or where the door is bound."""
    host, port = parse_address(settings.advertised_address or bound)
    return Advertised("localhost" if host in ANY_HOST else host, port or parse_address(bound).port)
