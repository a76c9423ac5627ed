"""Answers about users, logins and personal access tokens."""

from dataclasses import dataclass, field
from typing import Annotated, Final

from borzoi.protocol.kinds import id32, name8, optional, time_or_none, u32, u64
from borzoi.protocol.permissions import Permissions, UserStatus

# One flag byte would do, but the official clients insist on four.
NO_PERMISSIONS: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who just logged in."""

    user_id: id32


@dataclass(frozen=True, slots=True)
class Registered:
    """Who just logged in, and the number that all requests of the session carry."""

    user_id: id32
    session: u64
    protocol_version: u32
    server_version: name8


@dataclass(frozen=True, slots=True)
class UserInfo:
    """A user; `created_at` in microseconds since 1970."""

    id: id32
    created_at: u64
    status: UserStatus
    username: name8


@dataclass(frozen=True, slots=True)
class UserDetails:
    """A user and all rights; None without any."""

    user: UserInfo
    permissions: Annotated[Permissions | None, optional(Permissions, without=NO_PERMISSIONS)]


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as its owner may list it; `expiry_at` is None when it never expires."""

    name: name8
    expiry_at: time_or_none


@dataclass(frozen=True, slots=True)
class RawToken:
    """The secret itself, shown once."""

    token: name8 = field(repr=False)
