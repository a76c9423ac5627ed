"""Logging in and out."""

import secrets
from typing import Final

from borzoi.protocol.commands.sessions import (
    LoginUser,
    LoginWithPersonalAccessToken,
    LogoutUser,
    Register,
)
from borzoi.protocol.errors import (
    BrokerError,
    ClientNotFound,
    InvalidPersonalAccessToken,
    PersonalAccessTokenExpired,
    ResourceNotFound,
)
from borzoi.protocol.generations import CLASSIC, generation_for
from borzoi.protocol.responses.users import Identity, Registered
from borzoi.shards.handlers.caller import Caller, who_asks
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.origins import host_of
from borzoi.shards.identity.tokens import check_token
from borzoi.shards.observing.statistics import SERVED_VERSION
from borzoi.shards.rosters.share import Turns

SESSION_MAX: Final = 2**63 - 1
"""Session numbers are drawn at random: no shard and no later start gives one out again."""


async def login_user(services: Services, caller: Caller, command: LoginUser) -> Identity:
    """Become a user. A failed login leaves the old identity in place.

    The version counts in any case: it tells in which form the client reads an error, too.
    """
    caller.speak(generation_for(command.version, command.context, caller.has_pinged))
    # Before the check: a refusal says why, too.
    caller.reads_texts = "texts" in command.context and caller.generation is CLASSIC
    _check_door(services, caller)
    user_id = await services.logins.check(command.username, command.password, who_asks(caller))
    return _become(services, caller, user_id, command.context)


def login_with_personal_access_token(
    services: Services, caller: Caller, command: LoginWithPersonalAccessToken
) -> Identity:
    """The same with a token, which tells the user by itself."""
    _check_door(services, caller)
    return _become(services, caller, _owner_of_token(services, caller, command.token), "")


async def register(services: Services, caller: Caller, command: Register) -> Registered:
    """Become a user and get a session number, which all further requests have to carry."""
    _check_door(services, caller)
    if command.token is not None:
        try:
            user_id = _owner_of_token(services, caller, command.token)
        except (ResourceNotFound, PersonalAccessTokenExpired) as error:
            # The clients of this login know one status for both.
            raise InvalidPersonalAccessToken(str(error)) from error
    else:
        assert command.username is not None, "a login has a token or a name"
        assert command.password is not None, "a name comes with a password"
        user_id = await services.logins.check(command.username, command.password, who_asks(caller))
    _become(services, caller, user_id, command.context)
    _end_memberships(services, caller)
    session = 1 + secrets.randbelow(SESSION_MAX)
    caller.bind(session)
    await caller.number_requests()
    return Registered(user_id, session, command.protocol_version, SERVED_VERSION)


def logout_user(services: Services, caller: Caller, _command: LogoutUser) -> None:
    """The session has no user any more; the connection stays."""
    caller.user_id = caller.suspended_user = None
    if caller.generation.has_sessions:
        _end_memberships(services, caller)
        caller.bind(0)


def _check_door(services: Services, caller: Caller) -> None:
    services.clear_text.check_login(caller.transport, host_of(caller.address))


def _owner_of_token(services: Services, caller: Caller, token: str) -> int:
    try:
        return check_token(services.metadata.refresh(), token, services.clock.now_us())
    except BrokerError as error:
        services.logins.note_other_failure("token", "a token", who_asks(caller), str(error))
        raise


def _end_memberships(services: Services, caller: Caller) -> None:
    """The clients that get session numbers join their groups again in each session."""
    services.groups.client_gone(caller.client_id)
    caller.turns = Turns()


def _become(services: Services, caller: Caller, user_id: int, context: str) -> Identity:
    if not services.clients.is_registered(caller):
        raise ClientNotFound(f"client {caller.client_id} is not registered any more")
    caller.knows_all_codecs = "codecs" in context
    caller.user_id = user_id
    caller.suspended_user = None
    return Identity(user_id)
