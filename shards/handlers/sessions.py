"""Logging in and out."""

from borzoi.protocol.commands.sessions import LoginUser, LogoutUser
from borzoi.protocol.errors import ClientNotFound
from borzoi.protocol.generations import generation_for
from borzoi.protocol.responses.users import Identity
from borzoi.shards.handlers.caller import Caller
from borzoi.shards.services import Services


async def login_user(services: Services, caller: Caller, command: LoginUser) -> Identity:
    """Become a user. A failed login leaves the old identity in place."""
    user_id = await services.logins.check(command.username, command.password)
    if not services.clients.is_registered(caller):
        raise ClientNotFound(f"client {caller.client_id} is not registered any more")
    caller.generation = generation_for(command.version)
    caller.knows_all_codecs = "codecs" in command.context
    caller.user_id = user_id
    return Identity(user_id)


def logout_user(_services: Services, caller: Caller, _command: LogoutUser) -> None:
    """Be nobody again; the connection stays."""
    caller.user_id = None
