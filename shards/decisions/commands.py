"""Metadata commands that never travel as a client sent them, because they hold secrets then.

The handler hashes first, off the loop, and hands these on. `decide` takes no command with a
password or a raw token in it, so neither can get into the log by mistake.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.protocol.identifiers import U64_MAX, Identifier
from borzoi.protocol.permissions import Permissions


@dataclass(frozen=True, slots=True)
class CreateHashedUser:
    """CREATE_USER after the password was hashed."""

    username: str
    password_hash: str = field(repr=False)
    status: int
    permissions: Permissions | None


@dataclass(frozen=True, slots=True)
class SetPasswordHash:
    """CHANGE_PASSWORD after the current password was checked and the new one hashed.

    `checked_hash` is the stored hash the current password was checked against. Hashing takes its
    time; after another change of the password meanwhile the check no longer counts.
    """

    user: Identifier
    password_hash: str = field(repr=False)
    checked_hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class CreateToken:
    """CREATE_PERSONAL_ACCESS_TOKEN after the raw token was made and hashed.

    `expiry_at` 0 means never. `user_created_at` tells which user of that id has asked: if that one
    was removed meanwhile, its successor must not get a token that is known elsewhere.
    """

    user_id: int
    user_created_at: int
    name: str
    hash: str = field(repr=False)
    expiry_at: int


@dataclass(frozen=True, slots=True)
class DeleteExpiredTokens:
    """Clear away the tokens that have expired. No client sends this."""


NEVER: Final = 0


def token_expiry_at(timestamp: int, expiry: int) -> int:
    """When a token made at `timestamp` expires. 0 and u64 max ask for one that never does."""
    if expiry in (0, U64_MAX) or timestamp + expiry > U64_MAX:
        return NEVER
    return timestamp + expiry
