"""Answers about users, logins and personal access tokens.

Identity       user_id u32
UserInfo       id u32 | created_at u64 | status u8 | username str8
UserDetails    UserInfo, then 1 u8 | length u32 | permissions, or four zero bytes for none
TokenInfo      name str8 | expiry_at u64, 0 = never
RawToken       token str8
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from borzoi.protocol.payload import U32, U64, PayloadReader, pack_str8
from borzoi.protocol.permissions import (
    Permissions,
    UserStatus,
    decode_permissions,
    pack_permissions,
)

USER: Final = struct.Struct("<IQB")
HAS_PERMISSIONS: Final = b"\1"
# One flag byte would do, but the official clients insist on four.
NO_PERMISSIONS: Final = bytes(4)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who just logged in."""

    user_id: int


@dataclass(frozen=True, slots=True)
class UserInfo:
    id: int
    created_at: int
    status: UserStatus
    username: str


@dataclass(frozen=True, slots=True)
class UserDetails:
    user: UserInfo
    permissions: Permissions | None


@dataclass(frozen=True, slots=True)
class TokenInfo:
    """A token as its owner may list it; `expiry_at` is None when it never expires."""

    name: str
    expiry_at: int | None


@dataclass(frozen=True, slots=True)
class RawToken:
    """The secret itself, shown once."""

    token: str = field(repr=False)


def encode_identity(identity: Identity) -> bytes:
    return U32.pack(identity.user_id)


def decode_identity(payload: memoryview) -> Identity:
    return Identity(PayloadReader(payload).u32())


def encode_user(user: UserInfo) -> bytes:
    return USER.pack(user.id, user.created_at, user.status) + pack_str8(user.username)


def encode_users(users: Iterable[UserInfo]) -> bytes:
    return b"".join(map(encode_user, users))


def decode_users(payload: memoryview) -> tuple[UserInfo, ...]:
    reader = PayloadReader(payload)
    users = []
    while reader.remaining:
        users.append(_user(reader))
    return tuple(users)


def encode_user_details(details: UserDetails) -> bytes:
    if details.permissions is None:
        return encode_user(details.user) + NO_PERMISSIONS
    return encode_user(details.user) + HAS_PERMISSIONS + pack_permissions(details.permissions)


def decode_user_details(payload: memoryview) -> UserDetails:
    reader = PayloadReader(payload)
    user = _user(reader)
    return UserDetails(user, decode_permissions(reader) if reader.flag() else None)


def encode_tokens(tokens: Iterable[TokenInfo]) -> bytes:
    return b"".join([pack_str8(token.name) + U64.pack(token.expiry_at or 0) for token in tokens])


def decode_tokens(payload: memoryview) -> tuple[TokenInfo, ...]:
    reader = PayloadReader(payload)
    tokens = []
    while reader.remaining:
        name = reader.str8()
        tokens.append(TokenInfo(name, reader.u64() or None))
    return tuple(tokens)


def encode_raw_token(raw: RawToken) -> bytes:
    return pack_str8(raw.token)


def decode_raw_token(payload: memoryview) -> RawToken:
    return RawToken(PayloadReader(payload).str8())


def _user(reader: PayloadReader) -> UserInfo:
    return UserInfo(
        id=reader.u32(),
        created_at=reader.u64(),
        status=reader.enumeration(UserStatus),
        username=reader.str8(),
    )
