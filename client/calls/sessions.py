"""Sessions: logging in and out, personal access tokens, the clients of the server."""

from typing import Final

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.responses import ClientDetails, ClientInfo, Identity, RawToken, TokenInfo

# Tells the server which generation of codecs this client speaks.
WIRE_VERSION: Final = "0.10.0"
# In the context of a login: show lz4 and zstd as what they are, and say behind the status of an
# error what is wrong.
CONTEXT: Final = "codecs texts"
NEVER_EXPIRES: Final = 0


class SessionCalls(Calling):
    """The calls of a client that are about logins, tokens and connected clients."""

    async def login_user(self, username: str, password: str, *, context: str = CONTEXT) -> Identity:
        """Log in; after a lost connection this happens again by itself."""
        identity: Identity = await self._ask(
            commands.LoginUser(username, password, WIRE_VERSION, context)
        )
        return identity

    async def login_with_personal_access_token(self, token: str) -> Identity:
        """Log in with a token instead of a password; repeated in the same way."""
        identity: Identity = await self._ask(commands.LoginWithPersonalAccessToken(token))
        return identity

    async def logout_user(self) -> None:
        """End the login and keep the connection."""
        await self._ask(commands.LogoutUser())

    async def get_me(self) -> ClientDetails:
        """Returns the own session as the server sees it, with the groups it is a member of."""
        details: ClientDetails = await self._ask(commands.GetMe())
        return details

    async def get_client(self, client_id: int) -> ClientDetails | None:
        """Returns a connected client with its groups; None if there is none."""
        details: ClientDetails | None = await self._ask(commands.GetClient(client_id))
        return details

    async def get_clients(self) -> tuple[ClientInfo, ...]:
        """Returns all connected clients."""
        clients: tuple[ClientInfo, ...] = await self._ask(commands.GetClients())
        return clients

    async def create_personal_access_token(
        self, name: str, *, expiry: int = NEVER_EXPIRES
    ) -> RawToken:
        """A new token of the user who is logged in. It is shown here and never again.

        `expiry` in microseconds from now, 0 for never.
        """
        token: RawToken = await self._ask(commands.CreatePersonalAccessToken(name, expiry))
        return token

    async def get_personal_access_tokens(self) -> tuple[TokenInfo, ...]:
        """Names and expiry times of the tokens of the user who is logged in."""
        tokens: tuple[TokenInfo, ...] = await self._ask(commands.GetPersonalAccessTokens())
        return tokens

    async def delete_personal_access_token(self, name: str) -> None:
        """Deletes a token of the own user; it cannot log in any more."""
        await self._ask(commands.DeletePersonalAccessToken(name))
