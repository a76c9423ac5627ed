"""Commands about users, their permissions and passwords.

Most ask for the permission before they look whether the user is there; only reading a user
and changing a password look first. The order is the one clients know.
"""

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.users import (
    ChangePassword,
    CreateUser,
    DeleteUser,
    GetUser,
    GetUsers,
    UpdatePermissions,
    UpdateUser,
)
from borzoi.protocol.errors import UserAlreadyExists
from borzoi.protocol.permissions import UserStatus
from borzoi.protocol.responses.users import UserDetails, UserInfo
from borzoi.shards.decisions.commands import CreateHashedUser, SetPasswordHash
from borzoi.shards.handlers.caller import Caller, who_asks
from borzoi.shards.handlers.options import refuse_options
from borzoi.shards.handlers.services import Services
from borzoi.shards.identity.credentials import check_password, check_username
from borzoi.shards.identity.logins import account_of
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.state import User


def get_user(services: Services, caller: Caller, command: GetUser) -> UserDetails | None:
    """A user with permissions, or nothing. Everybody may read themselves."""
    state = services.metadata.refresh()
    user = state.find_user(command.user)
    if user is None:
        return None
    if user.id != caller.user:
        require(state, caller.user, Code.GET_USER)
    return details_of(user)


def get_users(services: Services, caller: Caller, _command: GetUsers) -> list[UserInfo]:
    """All users by id."""
    state = services.metadata.refresh()
    require(state, caller.user, Code.GET_USERS)
    return [_info(state.users[key]) for key in sorted(state.users)]


async def create_user(services: Services, caller: Caller, command: CreateUser) -> UserDetails:
    """Make a user who may log in at once."""
    refuse_options(caller, "users", command.options)
    state = services.metadata.refresh()
    require(state, caller.user, Code.CREATE_USER)
    check_username(command.username)
    check_password(command.password)
    if command.username in state.usernames:
        # Shard 0 will look again; but hashing for nothing is dear.
        raise UserAlreadyExists(f"there is a user {command.username!r} already")
    hashed = await services.logins.hash(command.password, who_asks(caller))
    wanted = CreateHashedUser(command.username, hashed, command.status, command.permissions)
    # Waiting for the hash took a while, in which the permission may have been withdrawn.
    require(services.metadata.refresh(), caller.user, Code.CREATE_USER)
    change = await services.metadata.change(wanted, caller.user, caller.request)
    return details_of(services.metadata.state.user(change.new_id))


async def update_user(services: Services, caller: Caller, command: UpdateUser) -> None:
    """Rename a user, or switch it on or off."""
    refuse_options(caller, "users", command.options)
    require(services.metadata.refresh(), caller.user, Code.UPDATE_USER)
    if command.username is not None:
        check_username(command.username)
    await services.metadata.change(command, caller.user, caller.request)


async def delete_user(services: Services, caller: Caller, command: DeleteUser) -> None:
    """Remove a user with its tokens; its sessions have no user from now on."""
    require(services.metadata.refresh(), caller.user, Code.DELETE_USER)
    await services.metadata.change(command, caller.user, caller.request)


async def update_permissions(
    services: Services, caller: Caller, command: UpdatePermissions
) -> None:
    """Replace what a user may do, on every shard from the next request on."""
    require(services.metadata.refresh(), caller.user, Code.UPDATE_PERMISSIONS)
    await services.metadata.change(command, caller.user, caller.request)


async def change_password(services: Services, caller: Caller, command: ChangePassword) -> None:
    """A new password for the caller, or for a user whose password an administrator knows."""
    check_password(command.current_password)
    check_password(command.new_password)
    user = _may_change_password(services, caller, command)
    user_id, stored = user.id, user.password_hash
    who = who_asks(caller)
    await services.logins.verify(account_of(user), command.current_password, who)
    hashed = await services.logins.hash(command.new_password, who)
    _may_change_password(services, caller, command)
    # The log takes it only if `stored` is still that user's hash: the id may be another's by now.
    wanted = SetPasswordHash(user_id, hashed, stored)
    await services.metadata.change(wanted, caller.user, caller.request)


def _may_change_password(services: Services, caller: Caller, command: ChangePassword) -> User:
    state = services.metadata.refresh()
    user = state.user(command.user)
    if user.id != caller.user:
        require(state, caller.user, Code.CHANGE_PASSWORD)
    return user


def details_of(user: User) -> UserDetails:
    """A user as its creator and GET_USER see it."""
    return UserDetails(_info(user), user.permissions)


def _info(user: User) -> UserInfo:
    return UserInfo(user.id, user.created_at, UserStatus(user.status), user.username)
