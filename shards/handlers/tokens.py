"""Commands about personal access tokens. They act on the caller's own tokens, always."""

from borzoi.protocol.commands.sessions import (
    CreatePersonalAccessToken,
    DeletePersonalAccessToken,
    GetPersonalAccessTokens,
)
from borzoi.protocol.errors import RequestAlreadyApplied, Unauthorized
from borzoi.protocol.responses.users import RawToken, TokenInfo
from borzoi.shards.decisions.commands import CreateToken, token_expiry_at
from borzoi.shards.decisions.decide import check_arguments
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.tokens import hash_token, new_token
from borzoi.shards.metadata.state import User


def get_personal_access_tokens(
    services: Services, caller: Caller, _command: GetPersonalAccessTokens
) -> list[TokenInfo]:
    """Name and expiry of each; expired ones too, until they are cleared away."""
    user = _owner(services, caller)
    return [
        TokenInfo(token.name, token.expiry_at or None)
        for token in sorted(user.tokens.values(), key=lambda token: token.name)
    ]


async def create_personal_access_token(
    services: Services, caller: Caller, command: CreatePersonalAccessToken
) -> RawToken:
    """A new token. The answer is the only place where it can ever be read."""
    user = _owner(services, caller)
    raw = new_token()
    expiry_at = token_expiry_at(services.clock.now_us(), command.expiry)
    wanted = CreateToken(user.id, user.created_at, command.name, hash_token(raw), expiry_at)
    check_arguments(wanted)
    await services.metadata.change(wanted, user.id, caller.request)
    if services.metadata.state.find_token(wanted.hash) is None:
        raise RequestAlreadyApplied("the token was made by this request before, with other bytes")
    return RawToken(raw)


async def delete_personal_access_token(
    services: Services, caller: Caller, command: DeletePersonalAccessToken
) -> None:
    """Withdraw a token: no shard accepts a login with it any more."""
    user = _owner(services, caller)
    await services.metadata.change(command, user.id, caller.request)


def _owner(services: Services, caller: Caller) -> User:
    user = services.metadata.refresh().users.get(caller.user)
    if user is None:
        raise Unauthorized(f"user {caller.user} was removed")
    return user
