"""Password logins: hashing off the loop, one at a time, as slow for unknown names as for known."""

import asyncio
from concurrent.futures import Executor
from typing import Final

from borzoi.protocol.commands.users import UserStatus
from borzoi.protocol.errors import (
    InvalidCredentials,
    InvalidPassword,
    InvalidUsername,
    UserInactive,
)
from borzoi.shards.metadata_service import MetadataService
from borzoi.shards.passwords import hash_password, verify_password

USERNAME_SIZE_MIN: Final = 3
USERNAME_SIZE_MAX: Final = 50
PASSWORD_SIZE_MIN: Final = 3
PASSWORD_SIZE_MAX: Final = 100


class Logins:
    """Checks credentials in the one thread that hashes."""

    def __init__(self, metadata: MetadataService, hashing: Executor) -> None:
        self._metadata = metadata
        self._hashing = hashing
        self._dummy_hash: str | None = None

    async def check(self, username: str, password: str) -> int:
        """The id of the user these credentials belong to."""
        if not USERNAME_SIZE_MIN <= len(username.encode()) <= USERNAME_SIZE_MAX:
            raise InvalidUsername(
                f"a username has {USERNAME_SIZE_MIN} to {USERNAME_SIZE_MAX} bytes"
            )
        if not PASSWORD_SIZE_MIN <= len(password.encode()) <= PASSWORD_SIZE_MAX:
            raise InvalidPassword(
                f"a password has {PASSWORD_SIZE_MIN} to {PASSWORD_SIZE_MAX} bytes"
            )
        # By name only: a name made of digits is a name.
        state = self._metadata.refresh()
        user_id = state.usernames.get(username)
        user = None if user_id is None else state.users[user_id]
        if user is not None and user.status != UserStatus.ACTIVE:
            raise UserInactive(f"user {user.id} is inactive")
        stored = user.password_hash if user is not None else None
        matches = await asyncio.get_running_loop().run_in_executor(
            self._hashing, self._verify, stored, password
        )
        if user is None or not matches:
            raise InvalidCredentials("unknown user or wrong password")
        return user.id

    def _verify(self, stored: str | None, password: str) -> bool:
        if stored is None:
            if self._dummy_hash is None:
                self._dummy_hash = hash_password("nobody has this password")
            verify_password(self._dummy_hash, password)
            return False
        return verify_password(stored, password)
