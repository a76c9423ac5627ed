"""Requests about users, their passwords and permissions.

Optional parts are preceded by a flag. Behind the flag that says "no permissions" some clients
send more bytes; they are ignored like all trailing bytes.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.payload import PayloadReader, pack_identifier, pack_str8
from borzoi.protocol.permissions import Permissions, decode_permissions, pack_permissions
from borzoi.protocol.permissions import UserStatus as UserStatus

ABSENT: Final = b"\0"
PRESENT: Final = b"\1"


@dataclass(frozen=True, slots=True)
class GetUser:
    """One user with permissions."""

    user: Identifier


def decode_get_user(payload: memoryview) -> GetUser:
    return GetUser(PayloadReader(payload).identifier())


def encode_get_user(command: GetUser) -> bytes:
    return pack_identifier(command.user)


@dataclass(frozen=True, slots=True)
class GetUsers:
    """All users."""


def decode_get_users(_payload: memoryview) -> GetUsers:
    return GetUsers()


def encode_get_users(_command: GetUsers) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """Remove a user."""

    user: Identifier


def decode_delete_user(payload: memoryview) -> DeleteUser:
    return DeleteUser(PayloadReader(payload).identifier())


def encode_delete_user(command: DeleteUser) -> bytes:
    return pack_identifier(command.user)


@dataclass(frozen=True, slots=True)
class ChangePassword:
    """A new password, given the current one."""

    user: Identifier
    current_password: str = field(repr=False)
    new_password: str = field(repr=False)


def decode_change_password(payload: memoryview) -> ChangePassword:
    reader = PayloadReader(payload)
    return ChangePassword(reader.identifier(), reader.str8(), reader.str8())


def encode_change_password(command: ChangePassword) -> bytes:
    return b"".join(
        (
            pack_identifier(command.user),
            pack_str8(command.current_password),
            pack_str8(command.new_password),
        )
    )


@dataclass(frozen=True, slots=True)
class CreateUser:
    """A new user; the server chooses the id."""

    username: str
    password: str = field(repr=False)
    status: UserStatus = UserStatus.ACTIVE
    permissions: Permissions | None = None


def decode_create_user(payload: memoryview) -> CreateUser:
    reader = PayloadReader(payload)
    return CreateUser(
        username=reader.str8(),
        password=reader.str8(),
        status=reader.enumeration(UserStatus),
        permissions=decode_permissions(reader) if reader.flag() else None,
    )


def encode_create_user(command: CreateUser) -> bytes:
    return b"".join(
        (
            pack_str8(command.username),
            pack_str8(command.password),
            bytes((command.status,)),
            _pack_optional_permissions(command.permissions),
        )
    )


@dataclass(frozen=True, slots=True)
class UpdateUser:
    """A new name, a new status, or both; None leaves a thing as it is."""

    user: Identifier
    username: str | None = None
    status: UserStatus | None = None


def decode_update_user(payload: memoryview) -> UpdateUser:
    reader = PayloadReader(payload)
    return UpdateUser(
        user=reader.identifier(),
        username=reader.str8() if reader.flag() else None,
        status=reader.enumeration(UserStatus) if reader.flag() else None,
    )


def encode_update_user(command: UpdateUser) -> bytes:
    username, status = command.username, command.status
    return b"".join(
        (
            pack_identifier(command.user),
            ABSENT if username is None else PRESENT + pack_str8(username),
            ABSENT if status is None else PRESENT + bytes((status,)),
        )
    )


@dataclass(frozen=True, slots=True)
class UpdatePermissions:
    """Replace all permissions of a user; None takes them away."""

    user: Identifier
    permissions: Permissions | None


def decode_update_permissions(payload: memoryview) -> UpdatePermissions:
    reader = PayloadReader(payload)
    user = reader.identifier()
    return UpdatePermissions(user, decode_permissions(reader) if reader.flag() else None)


def encode_update_permissions(command: UpdatePermissions) -> bytes:
    return pack_identifier(command.user) + _pack_optional_permissions(command.permissions)


def _pack_optional_permissions(permissions: Permissions | None) -> bytes:
    return ABSENT if permissions is None else PRESENT + pack_permissions(permissions)
