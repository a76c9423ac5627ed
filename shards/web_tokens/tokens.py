"""Access tokens: JSON Web Tokens that stand for a login, issued and checked.

Claims: jti, iss, aud, sub (the user's id), iat, exp, nbf, as Iggy has them; and two of ours, which
other issuers may leave out: `born`, when the user was created, because ids of users are given out
again; `codecs`, whether the client knows all of them.

A signature is checked once: what a token said is kept, at most TOKENS_KEPT_MAX of them. Always: a
token is refused from the second on in which it ends, and as soon as this shard knows that it was
withdrawn (revocations.py).
"""

import time
import uuid
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import jwt
from jwt.warnings import InsecureKeyLengthWarning

from borzoi.protocol.identifiers import U32_MAX
from borzoi.quantities import SECOND
from borzoi.shards.settings.kinds import NEVER
from borzoi.shards.settings.schema import Jwt
from borzoi.shards.web_forms.limits import TOKEN_SIZE_MAX, TOKENS_KEPT_MAX
from borzoi.shards.web_forms.objects import AccessToken
from borzoi.shards.web_tokens.keys import Keys

REQUIRED: Final = ["jti", "iss", "aud", "sub", "iat", "exp", "nbf"]
NEVER_S: Final = 1_000_000_000
"""A token that never expires does so in thirty years, as Iggy's do."""

EXPIRY_MAX_S: Final = 1 << 40
"""No token ends later: the second fits all that is written of it."""

# A secret of the configuration may be short; that is said once, at the start (door.py).
warnings.simplefilter("ignore", InsecureKeyLengthWarning)


class InvalidToken(Exception):
    """The token is none, not ours, not valid now, or withdrawn."""


class TokenClaims(NamedTuple):
    """What a token says of a login."""

    user_id: int
    born: int | None
    token_id: str
    issued_at: float
    not_before: float
    expiry: float
    knows_all_codecs: bool


class Tokens:
    """Issues and checks tokens of this broker."""

    def __init__(
        self,
        settings: Jwt,
        keys: Keys,
        is_revoked: Callable[[TokenClaims], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._is_revoked = is_revoked
        self._clock = clock
        self._leeway_s = settings.clock_skew // SECOND
        self._seen: OrderedDict[str, TokenClaims] = OrderedDict()

    def issue(self, user_id: int, born: int, *, knows_all_codecs: bool = False) -> AccessToken:
        """A token for a user, valid from now on or from `http.jwt.not_before` later."""
        settings = self._settings
        now = int(self._clock())
        lives = settings.access_token_expiry
        expiry = now + (NEVER_S if lives == NEVER else lives // SECOND)
        claims: dict[str, Any] = {
            "jti": str(uuid.uuid4()),
            "iss": settings.issuer,
            "aud": settings.audience,
            "sub": str(user_id),
            "iat": now,
            "exp": expiry,
            "nbf": now + settings.not_before // SECOND,
            "born": born,
        }
        if knows_all_codecs:
            claims["codecs"] = True
        return AccessToken(jwt.encode(claims, self._keys.signing, self._keys.algorithm), expiry)

    def check(self, token: str) -> TokenClaims:
        """What a token says, if it is valid now. InvalidToken otherwise."""
        claims = self._seen.get(token)
        if claims is None:
            claims = self._read(token)
            self._seen[token] = claims
            if len(self._seen) > TOKENS_KEPT_MAX:
                self._seen.popitem(last=False)
        self.check_again(claims)
        return claims

    def check_again(self, claims: TokenClaims) -> None:
        """Raise InvalidToken if what a token said before does not hold any more."""
        now = self._clock()
        if claims.expiry + self._leeway_s <= now or claims.not_before - self._leeway_s > now:
            raise InvalidToken("not valid now")
        if self._is_revoked(claims):
            raise InvalidToken("withdrawn")

    def _read(self, token: str) -> TokenClaims:
        if len(token) > TOKEN_SIZE_MAX:
            raise InvalidToken(f"{len(token)} characters where {TOKEN_SIZE_MAX} are allowed")
        try:
            # Only the configured algorithm: a token does not choose how it is verified.
            said = jwt.decode(
                token,
                self._keys.verifying,
                algorithms=[self._keys.algorithm],
                issuer=list(self._settings.valid_issuers),
                audience=list(self._settings.valid_audiences),
                leeway=self._leeway_s,
                options={"require": REQUIRED, "verify_jti": True, "verify_sub": True},
            )
            return claims_of(said)
        except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError) as error:
            raise InvalidToken(str(error)) from error


def claims_of(said: dict[str, Any]) -> TokenClaims:
    """The claims of a token whose signature is right; ValueError or TypeError for odd ones."""
    born = said.get("born")
    if born is not None and not isinstance(born, int):
        raise TypeError("born is no number")
    user_id, expiry = int(said["sub"]), float(said["exp"])
    if not 0 <= user_id <= U32_MAX or not 0 <= expiry <= EXPIRY_MAX_S:
        raise ValueError(f"user {user_id} until {expiry}")
    return TokenClaims(
        user_id,
        born,
        str(said["jti"]),
        float(said["iat"]),
        float(said["nbf"]),
        expiry,
        said.get("codecs") is True,
    )
