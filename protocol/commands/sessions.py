"""Requests that begin and end a session, and personal access tokens.

Passwords and tokens stay out of every repr.
"""

from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from borzoi.protocol.commands.request import Request
from borzoi.protocol.kinds import name8, text32, trailing, u64

# Clients of older generations leave both out; those of the oldest have no version.
trailing_version: TypeAlias = Annotated[str | None, trailing(text32, without=None)]
trailing_text: TypeAlias = Annotated[str, trailing(text32, without="")]


class LogoutUser(Request):
    """End the login, keep the connection."""

    __slots__ = ()


class GetPersonalAccessTokens(Request):
    """The tokens of this session's user."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class CreatePersonalAccessToken(Request):
    """A new token; expiry in microseconds from now, 0 or u64 max never."""

    name: name8
    expiry: u64


@dataclass(frozen=True, slots=True)
class DeletePersonalAccessToken(Request):
    """Withdraw a token."""

    name: name8


@dataclass(frozen=True, slots=True)
class LoginWithPersonalAccessToken(Request):
    """Log in with a token instead of a password."""

    token: name8 = field(repr=False)


@dataclass(frozen=True, slots=True)
class Register(Request):
    """Log in and get a session number: with name and password, or with a token if these are None.

    The protocol version is major << 20 | minor << 10 | patch.
    """

    protocol_version: int
    sdk_name: str
    sdk_version: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    context: str = ""


@dataclass(frozen=True, slots=True)
class LoginUser(Request):
    """Log in. Version and context say what the client is; both may be empty.

    The version is None if the payload ends before it. Such a command is read, never written.
    """

    username: name8
    password: name8 = field(repr=False)
    version: trailing_version = ""
    context: trailing_text = ""
