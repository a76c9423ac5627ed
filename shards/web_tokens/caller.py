"""Who asks over HTTP: a user that a token names, for the time of one request."""

import time

from borzoi.protocol.errors import Unauthenticated, Unauthorized
from borzoi.protocol.generations import CLASSIC, Generation
from borzoi.protocol.permissions import UserStatus
from borzoi.protocol.responses.clients import Transport
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.metadata.state import User
from borzoi.shards.rosters.share import Turns
from borzoi.shards.web_tokens.tokens import TokenClaims

NO_CLIENT = 0
"""The client id of all HTTP requests: they have no session, and are in no list of clients."""


class HttpCaller:
    """Implements Caller. Always: `user` is the one that the token was issued for, or an error."""

    __slots__ = (
        "_claims", "_metadata", "address", "client_id", "generation", "has_pinged", "is_open",
        "knows_all_codecs", "last_heartbeat", "local_host", "reads_texts", "request",
        "suspended_user",
        "transport", "turns", "user_id", "was_removed",
    )  # fmt: skip

    def __init__(self, metadata: MetadataService, address: str, claims: TokenClaims | None) -> None:
        self._metadata = metadata
        self._claims = claims
        self.address = address
        self.client_id = NO_CLIENT
        self.user_id: int | None = None if claims is None else claims.user_id
        self.transport = Transport.HTTP
        self.generation: Generation = CLASSIC
        self.knows_all_codecs = claims is not None and claims.knows_all_codecs
        self.reads_texts = False  # JSON always has the text of an error
        self.is_open = True
        self.has_pinged = False
        self.request: RequestKey | None = None
        self.local_host: str | None = None
        self.was_removed = False
        self.suspended_user: int | None = None
        self.turns = Turns()
        self.last_heartbeat = time.monotonic()

    def speak(self, generation: Generation) -> None:
        """JSON is the same for all generations."""

    def bind(self, session: int) -> None:
        """There is no session to number."""

    async def number_requests(self) -> None:
        """Requests over HTTP have no numbers."""

    @property
    def claims(self) -> TokenClaims:
        """What the token says. Unauthenticated without one."""
        if self._claims is None:
            raise Unauthenticated("this needs a login")
        return self._claims

    @property
    def user(self) -> int:
        """The user of the token, as the metadata has it now."""
        return self.account.id

    @property
    def account(self) -> User:
        """The same with its properties. Unauthorized once it was removed, as on other doors."""
        claims = self.claims
        user = self._metadata.state.users.get(claims.user_id)
        if user is None or not _is_of(claims, user):
            raise Unauthorized(f"user {claims.user_id} was removed")
        if user.status != UserStatus.ACTIVE:
            raise Unauthenticated(f"user {user.id} is inactive")
        return user


def _is_of(claims: TokenClaims, user: User) -> bool:
    """Ids of users are given out again: a later user of that id is another one."""
    if claims.born is not None:
        return user.created_at == claims.born
    return user.created_at // 1_000_000 <= claims.issued_at
