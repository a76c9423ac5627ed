"""Who asks: the part of a session that handlers see."""

from typing import Protocol

from borzoi.protocol.generations import Generation
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.identity.logins import Who
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.rosters.share import Turns


class Caller(Protocol):
    """A session without its transport."""

    client_id: int
    user_id: int | None
    transport: Transport
    address: str
    generation: Generation
    knows_all_codecs: bool
    reads_texts: bool
    is_open: bool
    was_removed: bool
    suspended_user: int | None
    turns: Turns
    last_heartbeat: float
    has_pinged: bool
    request: RequestKey | None
    """The request in work, if the client numbers its requests."""

    def speak(self, generation: Generation) -> None:
        """The client is of this generation, from the answer to the request in work on."""

    def bind(self, session: int) -> None:
        """The login in work has got this session number; 0: the session ends with this request."""

    async def number_requests(self) -> None:
        """The login in work is of a client that numbers its requests: go on where it was."""

    @property
    def local_host(self) -> str | None:
        """The address of this machine that the client has reached; None if that is unknown."""

    @property
    def user(self) -> int:
        """The user who is logged in. Raises if none is, which may have changed meanwhile."""


def who_asks(caller: Caller) -> Who:
    """Where a login or a password comes from."""
    host = host_of(caller.address)
    return Who(host, origin_of(host), caller.user_id, lambda: caller.is_open)
