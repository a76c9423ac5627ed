"""Which user a call stands for: by token, by password, by certificate, or without any of them.

    authorization: Bearer <personal access token>
    authorization: Basic <base64 of name:password>     one hash per connection, then remembered
    a client certificate                               its common name is the name of the user
    none                                               liftbridge.anonymous_user, on loopback alone

Always: the user is there and active at each call, whatever was remembered.
"""

import base64
import binascii
import ipaddress
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from borzoi.liftbridge.calls import Call
from borzoi.liftbridge.ports import User
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.permissions import UserStatus
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.identity.logins import Logins, Who
from borzoi.shards.identity.origins import host_of, origin_of
from borzoi.shards.identity.tokens import check_token
from borzoi.shards.loop.clock import BrokerClock

BEARER: Final = "bearer "
BASIC: Final = "basic "
AUTHORIZATION_SIZE_MAX: Final = 4096
COMMON_NAME: Final = "commonName"


def unauthenticated(text: str) -> GRPCError:
    """No user is known for the call."""
    return GRPCError(Status.UNAUTHENTICATED, text)


class Callers:
    """Identifies calls of one shard."""

    def __init__(
        self,
        metadata: MetadataService,
        logins: Logins,
        clock: BrokerClock,
        anonymous_user: str,
        identified: Callable[[Any, int], None],
        refused: Callable[[Any], None],
        *,
        refuses_passwords: bool,
    ) -> None:
        """`identified` is called with the connection of each call and its user.

        `refused` is called with that of each call that is not let in.
        """
        self._metadata = metadata
        self._logins = logins
        self._clock = clock
        self._anonymous_user = anonymous_user
        self._identified = identified
        self._refused = refused
        self._refuses_passwords = refuses_passwords
        self._remembered: WeakKeyDictionary[Any, tuple[str, User]] = WeakKeyDictionary()

    async def identify(self, call: Call) -> User:
        """The user of a call; UNAUTHENTICATED if there is none."""
        try:
            user = await self._user_of(call)
        except GRPCError:
            self._refused(call.transport)
            raise
        self._identified(call.transport, user.id)
        return user

    async def _user_of(self, call: Call) -> User:
        given = call.authorization
        if given is None:
            return self._without_authorization(call)
        if len(given) > AUTHORIZATION_SIZE_MAX:
            raise unauthenticated(f"authorization has more than {AUTHORIZATION_SIZE_MAX} bytes")
        kind = given[: len(BEARER)].lower()
        if kind == BEARER:
            return self._by_token(call, given[len(BEARER) :].strip())
        if kind.startswith(BASIC):
            return await self._by_password(call, given[len(BASIC) :].strip())
        raise unauthenticated('authorization is neither "Bearer" nor "Basic"')

    def _by_token(self, call: Call, token: str) -> User:
        state = self._metadata.refresh()
        try:
            user_id = check_token(state, token, self._clock.now_us())
        except BrokerError as error:
            self._logins.note_other_failure("token", "a token", _who(call), str(error))
            raise unauthenticated("the token is not valid") from None
        return User(user_id, state.users[user_id].created_at)

    async def _by_password(self, call: Call, encoded: str) -> User:
        if self._refuses_passwords:
            raise unauthenticated(
                "a password over plain gRPC: limits.plain_login refuses it here, use TLS or a"
                " personal access token"
            )
        remembered = self._remembered.get(call.transport)
        if remembered is not None and remembered[0] == encoded:
            return self._active(remembered[1])
        try:
            name, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            raise unauthenticated("authorization is no base64 of a name and a password") from None
        try:
            user_id = await self._logins.check(name, password, _who(call))
        except BrokerError:
            raise unauthenticated("the name or the password is wrong") from None
        user = User(user_id, self._metadata.state.user(user_id).created_at)
        self._remembered[call.transport] = (encoded, user)
        return user

    def _without_authorization(self, call: Call) -> User:
        certificate = call.certificate
        if certificate:
            return self._named(_common_name(certificate), "the common name of the certificate")
        if self._anonymous_user and _is_local(call.address):
            return self._named(self._anonymous_user, "liftbridge.anonymous_user")
        raise unauthenticated(
            'the call has no authorization: needs "Bearer" and a personal access token'
        )

    def _named(self, name: str, where: str) -> User:
        user = self._metadata.refresh().find_user(name)
        if user is None or not name:
            raise unauthenticated(f"{where} is {name!r}, which is no user")
        return self._active(User(user.id, user.created_at))

    def _active(self, user: User) -> User:
        known = self._metadata.refresh().users.get(user.id)
        if known is None or known.created_at != user.born or known.status != UserStatus.ACTIVE:
            raise unauthenticated(f"user {user.id} was removed or is inactive")
        return user


def _who(call: Call) -> Who:
    host = host_of(call.address)
    return Who(host, origin_of(host), None, lambda: True)


def _common_name(certificate: dict[str, Any]) -> str:
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == COMMON_NAME:
                return str(value)
    return ""


def _is_local(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.rpartition(":")[0].strip("[]")).is_loopback
    except ValueError:
        return False
