"""Who asks: the part of a session that handlers see."""

from typing import Protocol

from borzoi.protocol.generations import Generation
from borzoi.protocol.responses.clients import Transport


class Caller(Protocol):
    """A session without its transport."""

    client_id: int
    user_id: int | None
    transport: Transport
    address: str
    generation: Generation
    knows_all_codecs: bool
    last_heartbeat: float

    @property
    def user(self) -> int:
        """The user who is logged in."""
