"""Proving who one is: passwords, with back-off and as slow for unknown names as for known ones.

What is told to a client does not depend on whether the name exists: the same status, the same
work. Failures go to the log with name and address, never with what was tried, and to the other
shards, so that five tries are five tries wherever the connections land.
"""

import logging
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple, Protocol

from borzoi.protocol.errors import InvalidCredentials, UserInactive
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.config.durations import seconds
from borzoi.shards.config.schema import Limits
from borzoi.shards.credentials import check_password, check_username
from borzoi.shards.descriptors import Request
from borzoi.shards.hashing import Hashing
from borzoi.shards.login_failures import (
    Attempt,
    FailureLimits,
    LoginFailures,
    attempt_of,
    is_worth_a_line,
)
from borzoi.shards.metadata.state import State, User
from borzoi.shards.metadata_service import MetadataService

LOG: Final = logging.getLogger(__name__)


class Who(NamedTuple):
    """Where a request comes from, and whether anybody still waits for its answer."""

    host: str
    is_there: Callable[[], bool]


class Note(IntEnum):
    """What shards tell each other about an attempt."""

    FAILED = 1
    SUCCEEDED = 2


class TellPeers(Protocol):
    """How a note reaches the other shards."""

    def __call__(self, note: Note, attempt: Attempt) -> None:
        """Without waiting for anybody."""


class Logins:
    """Checks credentials, and hashes new passwords."""

    def __init__(
        self,
        metadata: MetadataService,
        hashing: Hashing,
        failures: LoginFailures,
        failures_free: int,
        tell_peers: TellPeers,
    ) -> None:
        self._metadata = metadata
        self._hashing = hashing
        self._failures = failures
        self._failures_free = failures_free
        self._tell_peers = tell_peers

    async def check(self, username: str, password: str, who: Who) -> int:
        """The id of the active user these credentials belong to."""
        check_username(username)
        check_password(password)
        user = _named(self._metadata.refresh(), username)
        if user is not None and user.status != UserStatus.ACTIVE:
            self.note_other_failure("inactive", repr(username), who.host, "it is inactive")
            raise UserInactive(f"user {user.id} is inactive")
        stored = None if user is None else user.password_hash
        await self.verify(username, stored, password, who)
        # Hashing takes its time, and waiting for it more. Whoever has the name now must be the
        # one whose password was right.
        user = _named(self._metadata.refresh(), username)
        if user is None or user.password_hash != stored:
            raise InvalidCredentials("the account was changed meanwhile")
        if user.status != UserStatus.ACTIVE:
            raise UserInactive(f"user {user.id} is inactive")
        return user.id

    async def verify(self, username: str, stored: str | None, password: str, who: Who) -> None:
        """Raise InvalidCredentials unless the password fits; failures count against the name."""
        attempt = attempt_of("password", username, who.host)
        self._refuse_while_waiting(attempt)
        async with self._hashing.turn(partial(self._failures.rank, attempt), who.is_there):
            # Others may have failed while this one waited.
            self._refuse_while_waiting(attempt)
            if await self._hashing.verify(stored, password):
                if self._failures.succeeded(attempt):
                    self._tell_peers(Note.SUCCEEDED, attempt)
                return
            failed = self._failures.failed(attempt)
            self._tell_peers(Note.FAILED, attempt)
        LOG.warning(
            "login of %r from %s failed: wrong name or password, %d in a row%s",
            username,
            who.host,
            failed.in_a_row,
            f"; no more for {failed.wait_s:.0f} s" if failed.wait_s else "",
        )
        raise InvalidCredentials("wrong name or password")

    async def hash(self, password: str, who: Who) -> str:
        """The hash of a new password."""
        async with self._hashing.turn(_first_of_all, who.is_there):
            return await self._hashing.hash(password)

    def note_other_failure(self, kind: str, account: str, host: str, reason: str) -> None:
        """A failure that took no work, so nobody has to wait; but somebody should know of it."""
        count = self._failures.failed(attempt_of(kind, account, host)).in_a_row
        if is_worth_a_line(count, self._failures_free):
            LOG.warning("login of %s from %s failed: %s, %d lately", account, host, reason, count)

    def serve(self, request: Request) -> None:
        """A note of another shard."""
        attempt = Attempt(request.first, request.second, request.namespace)
        if request.option == Note.FAILED:
            self._failures.failed(attempt)
        else:
            self._failures.succeeded(attempt)

    def _refuse_while_waiting(self, attempt: Attempt) -> None:
        wait_s = self._failures.wait_s(attempt)
        if wait_s:
            raise InvalidCredentials(f"too many failures, nothing is looked at for {wait_s:.1f} s")


def _first_of_all() -> int:
    """The rank of somebody who is logged in already."""
    return 0


def failure_limits(limits: Limits) -> FailureLimits:
    """The bounds as the configuration has them."""
    return FailureLimits(
        limits.login_failures_free,
        seconds(limits.login_backoff_min),
        seconds(limits.login_backoff_max),
        seconds(limits.login_failures_forgotten_after),
        limits.login_failures_kept_max,
    )


def _named(state: State, username: str) -> User | None:
    # By name only: a name made of digits is a name.
    user_id = state.usernames.get(username)
    return None if user_id is None else state.users[user_id]
