"""What a session needs of a connection, whatever carries it: commands in, values out.

Connection speaks the binary protocol over TCP or WebSocket, WebConnection speaks HTTP. The calls of
a client are written once, as command values; a link turns each into what its transport knows.
"""

from typing import Any, NamedTuple, Protocol

from borzoi.protocol.commands import Command
from borzoi.protocol.identifiers import Identifier, Partitioning
from borzoi.protocol.send_messages import PreparedBatch


class OutgoingBatch(NamedTuple):
    """Messages that are checked and encoded, and where they go."""

    stream: Identifier
    topic: Identifier
    partitioning: Partitioning
    prepared: PreparedBatch


class Link(Protocol):
    """One connection to a broker. Not logged in; that is a request like any other."""

    @property
    def is_open(self) -> bool:
        """Whether requests can still be sent."""

    async def request(self, command: Command) -> Any:
        """The value a command is answered with; None where it has none or found nothing."""

    async def send_batch(self, batch: OutgoingBatch) -> None:
        """Returns when the batch is acknowledged."""

    async def close(self) -> None:
        """Close at once; a request that is still unanswered fails. May be called twice."""
