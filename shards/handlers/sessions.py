"""Logging in and out."""

from borzoi.protocol.commands.sessions import (
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
)
from borzoi.protocol.errors import BrokerError, ClientNotFound
from borzoi.protocol.generations import generation_for
from borzoi.protocol.responses.users import Identity
from borzoi.shards.handlers.caller import Caller, who_asks
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.tokens import check_token


async def login_user(services: Services, caller: Caller, command: LoginUser) -> Identity:
    """Become a user. A failed login leaves the old identity in place.

    The version counts in any case: it tells in which form the client reads an error, too.
    """
    caller.speak(generation_for(command.version, caller.has_pinged))
    user_id = await services.logins.check(command.username, command.password, who_asks(caller))
    return _become(services, caller, user_id, command.context)


def login_with_personal_access_token(
    services: Services, caller: Caller, command: LoginWithPersonalAccessToken
) -> Identity:
    """The same with a token, which tells the user by itself."""
    state = services.metadata.refresh()
    try:
        user_id = check_token(state, command.token, services.clock.now_us())
    except BrokerError as error:
        services.logins.note_other_failure("token", "a token", who_asks(caller), str(error))
        raise
    return _become(services, caller, user_id, "")


def logout_user(_services: Services, caller: Caller, _command: LogoutUser) -> None:
    """The session has no user any more; the connection stays."""
    caller.user_id = caller.suspended_user = None


def _become(services: Services, caller: Caller, user_id: int, context: str) -> Identity:
    if not services.clients.is_registered(caller):
        raise ClientNotFound(f"client {caller.client_id} is not registered any more")
    caller.knows_all_codecs = "codecs" in context
    caller.user_id = user_id
    caller.suspended_user = None
    return Identity(user_id)
