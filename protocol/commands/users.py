"""Requests about users, their passwords and permissions.

Optional parts are preceded by a flag. Behind the flag that says "no permissions" some clients
send more bytes; they are ignored like all trailing bytes.
"""

from dataclasses import dataclass, field

from borzoi.protocol.commands.request import Request
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.kinds import name8, no_options
from borzoi.protocol.permissions import Permissions
from borzoi.protocol.permissions import UserStatus as UserStatus


@dataclass(frozen=True, slots=True)
class GetUser(Request):
    """One user with permissions."""

    user: Identifier


class GetUsers(Request):
    """All users."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DeleteUser(Request):
    """Remove a user."""

    user: Identifier


@dataclass(frozen=True, slots=True)
class ChangePassword(Request):
    """A new password, given the current one."""

    user: Identifier
    current_password: name8 = field(repr=False)
    new_password: name8 = field(repr=False)


@dataclass(frozen=True, slots=True)
class CreateUser(Request):
    """A new user; the server chooses the id."""

    username: name8
    password: name8 = field(repr=False)
    status: UserStatus = UserStatus.ACTIVE
    permissions: Permissions | None = None
    options: no_options = b""


@dataclass(frozen=True, slots=True)
class UpdateUser(Request):
    """A new name, a new status, or both; None leaves a thing as it is."""

    user: Identifier
    username: name8 | None = None
    status: UserStatus | None = None
    options: no_options = b""


@dataclass(frozen=True, slots=True)
class UpdatePermissions(Request):
    """Replace all permissions of a user; None takes them away."""

    user: Identifier
    permissions: Permissions | None
