"""Personal access tokens: secrets of 50 random bytes, of which only a hash is kept.

There is nothing to guess, so looking one up needs neither a slow hash nor back-off.
"""

import base64
import hashlib
import secrets
from typing import Final

from borzoi.protocol.errors import PersonalAccessTokenExpired, ResourceNotFound, UserInactive
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.metadata.state import State

TOKEN_SIZE: Final = 50


def new_token() -> str:
    """A fresh token as its owner will see it, once: 68 characters."""
    return base64.b64encode(secrets.token_bytes(TOKEN_SIZE)).decode()


def hash_token(token: str) -> str:
    """What is kept of it."""
    return hashlib.sha256(token.encode()).hexdigest()


def check_token(state: State, token: str, now_us: int) -> int:
    """The id of the active user whose token this is."""
    found = state.find_token(hash_token(token))
    if found is None:
        raise ResourceNotFound("no user has this token")
    user, kept = found
    if kept.expired(now_us):
        raise PersonalAccessTokenExpired(f"token {kept.name!r} of user {user.id} has expired")
    if user.status != UserStatus.ACTIVE:
        raise UserInactive(f"user {user.id} is inactive")
    return user.id
