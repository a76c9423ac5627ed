"""What the parts of a connection know of each other: its session, its framing, its door."""

from typing import TYPE_CHECKING, Protocol

from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.framing import Framing
from borzoi.protocol.generations import Generation
from borzoi.shards.faults.poison import Guard
from borzoi.shards.serving.numbered import CarryOut
from borzoi.shards.tallies.meters import Meters

if TYPE_CHECKING:
    from borzoi.shards.doors.tcp import Connection


class Framed(Protocol):
    """A connection as far as its framing goes, which may change with what its client says."""

    framing: Framing

    def unreadable(self) -> None:
        """What the client sends is no request of any generation served."""


class SessionOfConnection(Protocol):
    """What a connection needs of the session it carries."""

    user_id: int | None
    generation: Generation

    def speak(self, generation: Generation) -> None:
        """The client is of this generation, as its first bytes tell."""

    @property
    def status_without_login(self) -> int | None:
        """What larger frames are refused with; None: a user is logged in, they are welcome."""

    @property
    def taker(self) -> str:
        """In whose name memory is taken for what the client sends."""

    def refusal_of_send(self, head: memoryview) -> int:
        """The status with which a SEND_MESSAGES will be refused that begins so; 0: not by this.

        `head` is the first HEAD_SIZE_MAX bytes of the payload, or more.
        """

    @property
    def carry_out(self) -> CarryOut:
        """Carries out one request; it ends with one `reply` to the connection.

        The payload begins where it is said in the buffer, or lies in private memory if that is
        None. It is valid until the call returns; that of SEND_MESSAGES until the reply.
        """

    def closed(self) -> None:
        """The peer is gone."""


class Connections(Protocol):
    """Makes sessions and counts connections."""

    @property
    def guard(self) -> Guard | None:
        """Refuses requests that kill workers; None while there are none."""

    @property
    def meters(self) -> Meters:
        """Counts what connections carry."""

    def opened(self, connection: "Connection", address: str) -> SessionOfConnection | None:
        """A session for a new connection, or None when there are too many."""

    def evicted(self, connection: "Connection") -> None:
        """A connection is closed because its client sends no requests of a generation served."""

    def damaged(self, connection: "Connection", damage: CannotReadMessage) -> None:
        """Messages that were polled could not be converted, because their lengths are wrong."""

    def lost(self, connection: "Connection") -> None:
        """A connection has ended."""
