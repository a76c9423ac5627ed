"""Logins with a password: with back-off, and as slow for unknown names as for known ones.

Always: the answer does not depend on whether the name exists: the same status after the same work.
Failures are logged with name and address, never with the password that was tried. They also go to
the other shards, so that five tries are five tries wherever the connections land.

Connections that are not logged in do not delay others. Hashing is shared by address. An address
with many failures is slowed down, except for users that logged in from there (login_failures.py).
Attempts that are refused without a check are answered at a pace.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import Final, NamedTuple

from borzoi.protocol.errors import Disconnected, InvalidCredentials, UserInactive
from borzoi.protocol.permissions import UserStatus
from borzoi.quantities import seconds
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.identity.credentials import check_password, check_username
from borzoi.shards.identity.hashing import Asker, Hashing
from borzoi.shards.identity.login_failures import (
    Attempt,
    Failed,
    FailureLimits,
    LoginFailures,
    attempt_of,
    is_worth_a_line,
)
from borzoi.shards.loop.pace import Pace, Paces
from borzoi.shards.metadata.state import State, User
from borzoi.shards.rings.requests import DeathRule, Done, Request
from borzoi.shards.settings.schema import Limits
from borzoi.shares import address_taker, user_taker

LOG: Final = logging.getLogger(__name__)

REFUSALS: Final = Pace(200, 500)
"""How often one address gets a refusal without a check and without a delay. A refusal takes 0.1 ms
of the loop: without a pace a few hundred connections that always retry would take all of it."""
SLOWED_LINES: Final = Pace(1 / 60, 1)
"""How often a slowed address is named in the log."""
REFUSAL_WAIT_MAX_S: Final = 1.0
"""A refusal above the pace is delayed by so much at most."""


class Who(NamedTuple):
    """The client of a request: its address, its user, and whether it is still connected."""

    host: str
    origin: str
    user_id: int | None
    is_there: Callable[[], bool]


class Account(NamedTuple):
    """The name to be, and what is stored under it, if anything is."""

    username: str
    user_id: int | None = None
    stored: str | None = None


class NotLookedAt(Exception):
    """There were too many failures before this attempt."""


class Note(IntEnum):
    """What shards tell each other about an attempt."""

    FAILED = 1
    SUCCEEDED = 2


class LoginNote(Request):
    """To all other shards: how an attempt ended, with its digests."""

    KIND = 64
    RULE = DeathRule.COMPLETE

    note: int
    pair: int
    host: int
    name: int


class Logins:
    """Checks credentials, and hashes new passwords."""

    def __init__(
        self,
        metadata: MetadataService,
        hashing: Hashing,
        failures: LoginFailures,
        limits: FailureLimits,
        tell_peers: Callable[[LoginNote], None],
    ) -> None:
        self._metadata = metadata
        self._hashing = hashing
        self._failures = failures
        self._limits = limits
        self._tell_peers = tell_peers
        self._refusals = Paces[str](REFUSALS, limits.rows_max, time.monotonic)
        self._slowed_lines = Paces[str](SLOWED_LINES, limits.rows_max, time.monotonic)

    async def check(self, username: str, password: str, who: Who) -> int:
        """The id of the active user these credentials belong to."""
        check_username(username)
        check_password(password)
        user = _named(self._metadata.refresh(), username)
        if user is not None and user.status != UserStatus.ACTIVE:
            self.note_other_failure("inactive", repr(username), who, "it is inactive")
            raise UserInactive(f"user {user.id} is inactive")
        account = Account(username) if user is None else account_of(user)
        await self.verify(account, password, who)
        # Hashing takes its time, and waiting for it more. The account that has the name now must
        # still be the one whose password was right.
        user = _named(self._metadata.refresh(), username)
        if user is None or user.password_hash != account.stored:
            raise InvalidCredentials("the account was changed meanwhile")
        if user.status != UserStatus.ACTIVE:
            raise UserInactive(f"user {user.id} is inactive")
        return user.id

    async def verify(self, account: Account, password: str, who: Who) -> None:
        """Raise InvalidCredentials unless the password fits; failures count against the name."""
        attempt = attempt_of("password", account.username, who.origin)
        asker = self._asker(account, attempt, who)
        try:
            # Before the queue: most of a flood shall not get as far.
            was_slowed = self._is_slowed(account, attempt, who)
            self._look_or_refuse(attempt, is_slowed=was_slowed)
            async with self._hashing.turn(asker):
                # Others may have failed while this one waited.
                is_slowed = not was_slowed and self._is_slowed(account, attempt, who)
                self._look_or_refuse(attempt, is_slowed=is_slowed)
                fits = await self._hashing.verify(account.stored, password)
                failed = self._note(attempt, fits=fits)
        except (NotLookedAt, Disconnected) as refused:
            await self._pause(who)
            if isinstance(refused, NotLookedAt):
                raise InvalidCredentials(str(refused)) from refused
            raise
        if failed is not None:
            self._tell(account.username, who, failed)
            raise InvalidCredentials("wrong name or password")

    async def hash(self, password: str, who: Who) -> str:
        """The hash of a new password."""
        assert who.user_id is not None, "a new password needs a session that is logged in"
        async with self._hashing.turn(Asker(user_taker(who.user_id), who.is_there)):
            return await self._hashing.hash(password)

    def note_other_failure(self, kind: str, account: str, who: Who, reason: str) -> None:
        """Logs and counts a failure that took no hashing; it delays no further attempt."""
        attempt = attempt_of(kind, account, who.origin)
        count = self._failures.failed(attempt, took_work=False).in_a_row
        if is_worth_a_line(count, self._limits.free):
            LOG.warning(
                "login of %s from %s failed: %s, %d lately", account, who.host, reason, count
            )

    def serve(self, _shard: int, request: LoginNote, _lent: memoryview, done: Done) -> None:
        """A note of another shard."""
        attempt = Attempt(request.pair, request.host, request.name)
        if request.note == Note.FAILED:
            self._failures.failed(attempt)
        else:
            self._failures.succeeded(attempt)
        done(0)

    def _asker(self, account: Account, attempt: Attempt, who: Who) -> Asker:
        """Returns the taker of turns: a user that is logged in, or has been from there lately.

        All other attempts take turns as their address, whatever the name: it may be invented.
        """
        of_name = partial(self._failures.of_name, attempt)
        if who.user_id is not None:
            return Asker(user_taker(who.user_id), who.is_there, order=of_name)
        if account.user_id is not None and self._failures.is_known(attempt):
            return Asker(user_taker(account.user_id), who.is_there, order=of_name)
        rank = partial(self._failures.rank, attempt)
        return Asker(address_taker(who.origin), who.is_there, rank, of_name)

    def _is_slowed(self, account: Account, attempt: Attempt, who: Who) -> bool:
        """A user who is logged in is not suspected of guessing its own password."""
        is_own = who.user_id is not None and who.user_id == account.user_id
        return not is_own and self._failures.is_slowed(attempt)

    def _look_or_refuse(self, attempt: Attempt, *, is_slowed: bool) -> None:
        wait_s = self._failures.wait_s(attempt)
        if wait_s:
            raise NotLookedAt(
                f"too many failed logins of this name from here: wait {wait_s:.1f} s and try again"
            )
        if not is_slowed:
            return
        wait_s = self._failures.slowed_wait_s(attempt)
        if wait_s:
            raise NotLookedAt(
                f"too many failed logins from this address: wait {wait_s:.1f} s and try again"
            )
        self._failures.look_at_slowed(attempt)

    def _note(self, attempt: Attempt, *, fits: bool) -> Failed | None:
        """Remember the outcome here and on the other shards."""
        if fits:
            if self._failures.succeeded(attempt):
                self._tell_peers(LoginNote(Note.SUCCEEDED, *attempt))
            return None
        self._tell_peers(LoginNote(Note.FAILED, *attempt))
        return self._failures.failed(attempt)

    def _tell(self, username: str, who: Who, failed: Failed) -> None:
        if failed.slowed_s:
            # One line for a flood now and then, not one for each of its failures.
            if self._slowed_lines.wait_s(who.origin):
                return
            self._slowed_lines.spend(who.origin)
            LOG.warning(
                "%d logins from %s failed lately: names that have not logged in from there are"
                " looked at %d times a second by each shard for %.0f s",
                failed.from_address,
                who.origin,
                self._limits.slowed_per_second,
                failed.slowed_s,
            )
        LOG.warning(
            "login of %r from %s failed: wrong name or password, %d in a row%s",
            username,
            who.host,
            failed.in_a_row,
            f"; no more for {failed.wait_s:.0f} s" if failed.wait_s else "",
        )

    async def _pause(self, who: Who) -> None:
        """Waits before a refusal, if the address had more of them than its pace allows."""
        wait_s = self._refusals.wait_s(who.origin)
        if wait_s < REFUSAL_WAIT_MAX_S:
            self._refusals.spend(who.origin)
        if wait_s:
            await asyncio.sleep(min(wait_s, REFUSAL_WAIT_MAX_S))


def account_of(user: User) -> Account:
    """The account of a user."""
    return Account(user.username, user.id, user.password_hash)


def failure_limits(limits: Limits) -> FailureLimits:
    """The bounds as the configuration has them."""
    return FailureLimits(
        limits.login_failures_free,
        seconds(limits.login_backoff_min),
        seconds(limits.login_backoff_max),
        seconds(limits.login_failures_forgotten_after),
        limits.login_failures_kept_max,
        limits.login_failures_free_per_address,
        limits.logins_slowed_per_second,
        seconds(limits.logins_known_for),
    )


def _named(state: State, username: str) -> User | None:
    # By name only: a name made of digits is a name.
    user_id = state.usernames.get(username)
    return None if user_id is None else state.users[user_id]
