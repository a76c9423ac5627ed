"""Requests that begin and end a session, and personal access tokens.

Passwords and tokens stay out of every repr.
"""

from dataclasses import dataclass, field

from borzoi.protocol.payload import U64, PayloadReader, pack_str8, pack_str32


@dataclass(frozen=True, slots=True)
class LogoutUser:
    """End the login, keep the connection."""


def decode_logout_user(_payload: memoryview) -> LogoutUser:
    return LogoutUser()


def encode_logout_user(_command: LogoutUser) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class GetPersonalAccessTokens:
    """The tokens of this session's user."""


def decode_get_personal_access_tokens(_payload: memoryview) -> GetPersonalAccessTokens:
    return GetPersonalAccessTokens()


def encode_get_personal_access_tokens(_command: GetPersonalAccessTokens) -> bytes:
    return b""


@dataclass(frozen=True, slots=True)
class CreatePersonalAccessToken:
    """A new token; expiry in microseconds from now, 0 or u64 max never."""

    name: str
    expiry: int


def decode_create_personal_access_token(payload: memoryview) -> CreatePersonalAccessToken:
    reader = PayloadReader(payload)
    return CreatePersonalAccessToken(reader.str8(), reader.u64())


def encode_create_personal_access_token(command: CreatePersonalAccessToken) -> bytes:
    return pack_str8(command.name) + U64.pack(command.expiry)


@dataclass(frozen=True, slots=True)
class DeletePersonalAccessToken:
    """Withdraw a token."""

    name: str


def decode_delete_personal_access_token(payload: memoryview) -> DeletePersonalAccessToken:
    return DeletePersonalAccessToken(PayloadReader(payload).str8())


def encode_delete_personal_access_token(command: DeletePersonalAccessToken) -> bytes:
    return pack_str8(command.name)


@dataclass(frozen=True, slots=True)
class LoginWithPersonalAccessToken:
    """Log in with a token instead of a password."""

    token: str = field(repr=False)


def decode_login_with_personal_access_token(payload: memoryview) -> LoginWithPersonalAccessToken:
    return LoginWithPersonalAccessToken(PayloadReader(payload).str8())


def encode_login_with_personal_access_token(command: LoginWithPersonalAccessToken) -> bytes:
    return pack_str8(command.token)


@dataclass(frozen=True, slots=True)
class LoginUser:
    """Log in. Version and context say what the client is; both may be empty."""

    username: str
    password: str = field(repr=False)
    version: str = ""
    context: str = ""


def decode_login_user(payload: memoryview) -> LoginUser:
    reader = PayloadReader(payload)
    username = reader.str8()
    password = reader.str8()
    # Clients of older generations end here.
    version = reader.str32() if reader.remaining else ""
    context = reader.str32() if reader.remaining else ""
    return LoginUser(username, password, version, context)


def encode_login_user(command: LoginUser) -> bytes:
    return b"".join(
        (
            pack_str8(command.username),
            pack_str8(command.password),
            pack_str32(command.version),
            pack_str32(command.context),
        )
    )
