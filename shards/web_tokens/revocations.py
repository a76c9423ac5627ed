"""Access tokens that were withdrawn by a logout or a refresh, on every shard and across restarts.

Every shard has all of them in memory. Shard 0 is the one that writes them: a revocation goes there,
is durable in `revoked-tokens` of the data directory, then known to all shards, and only then is it
answered. A shard that starts reads the file after its ring is open, so what it missed of the ring
it finds in the file.

The file is MessagePack: when the oldest tokens that still count were issued, and per token the
second in which it would have ended and its user. Tokens that have ended by themselves are left out.

Always: a row is in the file before its request is answered. One user has at most
REVOKED_PER_USER_MAX rows.
"""

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final

import msgspec

from borzoi.messagepack import NotPacked, pack, unpack
from borzoi.protocol.errors import InvalidAccessToken, IoError
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.rings.asking import asked
from borzoi.shards.rings.requests import DeathRule, Done, Request
from borzoi.shards.web_forms.limits import REVOKED_PER_USER_MAX
from borzoi.shards.web_tokens.tokens import TokenClaims
from borzoi.storage.files import Files

LOG: Final = logging.getLogger(__name__)

DIGEST_SIZE: Final = 16
WRITER_SHARD: Final = 0
WORD: Final = 1 << 64


class Revoke(Request):
    """To shard 0: withdraw a token. Answered when it is durable and known to all shards."""

    KIND = 70

    high: int
    low: int
    expiry: int
    user_id: int


class Revoked(Request):
    """From shard 0 to all others: a token was withdrawn. One that starts reads the file."""

    KIND = 71
    RULE = DeathRule.COMPLETE

    high: int
    low: int
    expiry: int
    user_id: int


class RevokedRow(msgspec.Struct, frozen=True, array_like=True):
    """When the token would have ended, and its user."""

    expiry: int
    user_id: int


class RevokedFile(msgspec.Struct, frozen=True):
    """The file: rows by the digest of the token's id. Tokens issued before `valid_from` count."""

    valid_from: int
    rows: dict[str, RevokedRow]


class TooManyRevoked(Exception):
    """The user has withdrawn as many tokens as are remembered."""


class Revocations:
    """The withdrawn tokens of the broker, as one shard knows them."""

    def __init__(
        self,
        shard: int,
        path: str,
        files: Files,
        tasks: Tasks,
        ask_writer: Callable[[Request, Done], None],
        tell_peers: Callable[[Request], Awaitable[object]],
        thread: Executor,
        kept_s: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`kept_s`: so long a row outlives its token, which no clock skew exceeds."""
        self._shard = shard
        self._path = path
        self._files = files
        self._tasks = tasks
        self._ask_writer = ask_writer
        self._tell_peers = tell_peers
        self._thread = thread
        self._kept_s = kept_s
        self._clock = clock
        self._valid_from = 0
        self._rows: dict[int, RevokedRow] = {}
        self._by_user: Counter[int] = Counter()
        self._waiting: list[tuple[Revoked, Done]] = []
        self._writes = False

    def load(self) -> None:
        """Read what was withdrawn before this shard began. After its ring is open."""
        data = self._files.read_whole(self._path)
        if data is None:
            return
        try:
            found = unpack(data, RevokedFile)
        except NotPacked as error:
            # Which tokens were withdrawn is lost: so none that was issued until now counts.
            self._valid_from = int(self._clock()) + 1
            LOG.error("%s is damaged, every login over HTTP ends: %s", self._path, error)
            if self._shard == WRITER_SHARD:
                self._files.write_atomically(self._path, self._content())
            return
        self._valid_from = max(self._valid_from, found.valid_from)
        for digest, row in found.rows.items():
            self._add(int(digest, 16), row)

    def covers(self, claims: TokenClaims) -> bool:
        """Whether the token was withdrawn."""
        if claims.issued_at < self._valid_from:
            return True
        return bool(self._rows) and digest_of(claims.token_id) in self._rows

    async def revoke(self, claims: TokenClaims) -> None:
        """Withdraw a token: durable and known to every shard when this returns."""
        if self._by_user[claims.user_id] >= REVOKED_PER_USER_MAX:
            self.purge()
        if self._by_user[claims.user_id] >= REVOKED_PER_USER_MAX:
            raise TooManyRevoked(f"{REVOKED_PER_USER_MAX} of user {claims.user_id}")
        high, low = divmod(digest_of(claims.token_id), WORD)
        request = Revoke(high, low, int(claims.expiry), claims.user_id)
        if self._shard == WRITER_SHARD:
            await asked(lambda done: self._write(request, done))
        else:
            await asked(lambda done: self._ask_writer(request, done))

    def serve_revoke(self, _shard: int, request: Revoke, _lent: memoryview, done: Done) -> None:
        """Shard 0: withdraw a token for a client of another shard."""
        self._write(request, done)

    def serve_revoked(self, _shard: int, request: Revoked, _lent: memoryview, done: Done) -> None:
        """Shard 0 has withdrawn a token."""
        self._take(request)
        done(0)

    def purge(self) -> None:
        """Forget tokens that have ended by themselves, a while ago."""
        now = self._clock()
        for digest in [one for one, row in self._rows.items() if row.expiry + self._kept_s < now]:
            self._by_user[self._rows.pop(digest).user_id] -= 1
        self._by_user = +self._by_user

    def _write(self, request: Revoke, done: Done) -> None:
        if request.high * WORD + request.low in self._rows:
            # Of two requests that refresh one token, one gets another.
            done(InvalidAccessToken.status)
            return
        revoked = Revoked(request.high, request.low, request.expiry, request.user_id)
        self._take(revoked)
        self._waiting.append((revoked, done))
        if not self._writes:
            self._writes = True
            self._tasks.start(self._write_waiting())

    async def _write_waiting(self) -> None:
        """One file for all that came while the last was written."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                self.purge()
                content = self._content()
                status = 0
                try:
                    await loop.run_in_executor(
                        self._thread, self._files.write_atomically, self._path, content
                    )
                except OSError as error:
                    LOG.error("tokens are withdrawn until the next start only: %s", error)
                    status = IoError.status
                await asyncio.gather(*(self._tell_peers(one) for one, _ in taken))
                for _, done in taken:
                    done(status)
        finally:
            self._writes = False

    def _content(self) -> bytes:
        rows = {f"{digest:032x}": row for digest, row in self._rows.items()}
        return pack(RevokedFile(self._valid_from, rows))

    def _take(self, request: Revoked) -> None:
        digest = request.high * WORD + request.low
        self._add(digest, RevokedRow(request.expiry, request.user_id))

    def _add(self, digest: int, row: RevokedRow) -> None:
        if digest not in self._rows:
            self._rows[digest] = row
            self._by_user[row.user_id] += 1


def digest_of(token_id: str) -> int:
    """What is kept of the id of a token; another issuer's may have any length."""
    return int.from_bytes(hashlib.blake2b(token_id.encode(), digest_size=DIGEST_SIZE).digest())
