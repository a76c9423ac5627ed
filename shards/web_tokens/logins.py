"""Logging in and out over HTTP: a login ends with a token, a logout withdraws it."""

import logging
from typing import Final

from borzoi.protocol.errors import (
    BrokerError,
    InvalidAccessToken,
    InvalidCredentials,
    InvalidPassword,
    InvalidUsername,
)
from borzoi.shards.handlers.caller import who_asks
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.origins import host_of
from borzoi.shards.identity.tokens import check_token
from borzoi.shards.web_forms.bodies import LoginBody, TokenBody
from borzoi.shards.web_forms.failures import failure_of, plain
from borzoi.shards.web_forms.objects import IdentityAnswer
from borzoi.shards.web_tokens.caller import HttpCaller
from borzoi.shards.web_tokens.revocations import Revocations, TooManyRevoked
from borzoi.shards.web_tokens.tokens import InvalidToken, TokenClaims, Tokens

LOG: Final = logging.getLogger(__name__)

CODECS: Final = "codecs"
"""A client says so in its context if it knows lz4 and zstd, as on other doors."""


class HttpLogins:
    """Logins of one shard. Stateless, but for the withdrawn tokens."""

    def __init__(self, services: Services, tokens: Tokens, revocations: Revocations) -> None:
        self._services = services
        self._tokens = tokens
        self._revocations = revocations

    async def login(self, caller: HttpCaller, body: LoginBody) -> IdentityAnswer:
        """With name and password."""
        self._services.clear_text.check_login(caller.transport, host_of(caller.address))
        try:
            user_id = await self._services.logins.check(
                body.username, body.password, who_asks(caller)
            )
        except (InvalidUsername, InvalidPassword) as error:
            # No user can have such a name or password. Over HTTP no length is spoken of.
            raise InvalidCredentials from error
        except BrokerError as error:
            # How an attempt was counted is for the log alone.
            raise failure_of(error, error.says) from error
        return self._identity(user_id, CODECS in (body.context or ""))

    def login_with_token(self, caller: HttpCaller, body: TokenBody) -> IdentityAnswer:
        """With a personal access token."""
        services = self._services
        services.clear_text.check_login(caller.transport, host_of(caller.address))
        try:
            user_id = check_token(services.metadata.refresh(), body.token, services.clock.now_us())
        except BrokerError as error:
            services.logins.note_other_failure("token", "a token", who_asks(caller), str(error))
            raise
        return self._identity(user_id, knows_all_codecs=False)

    async def refresh(self, _caller: HttpCaller, body: TokenBody) -> IdentityAnswer:
        """A later token for one that is still valid, which is withdrawn."""
        try:
            claims = self._tokens.check(body.token)
        except InvalidToken as error:
            raise InvalidAccessToken(str(error)) from error
        owner = HttpCaller(self._services.metadata, "", claims)
        self._services.metadata.refresh()
        user_id = owner.user
        await self._withdraw(claims)
        return self._identity(user_id, claims.knows_all_codecs)

    async def logout(self, caller: HttpCaller) -> None:
        """Withdraw the token of this request."""
        await self._withdraw(caller.claims)

    async def _withdraw(self, claims: TokenClaims) -> None:
        try:
            await self._revocations.revoke(claims)
        except TooManyRevoked as error:
            raise plain(
                429, f"too many tokens were withdrawn lately: {error}", Retry_After="60"
            ) from error

    def _identity(self, user_id: int, knows_all_codecs: bool) -> IdentityAnswer:
        user = self._services.metadata.state.user(user_id)
        token = self._tokens.issue(user.id, user.created_at, knows_all_codecs=knows_all_codecs)
        return IdentityAnswer(user.id, token)
