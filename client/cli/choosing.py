"""Which broker a command talks to, and as whom: options, environment, context, in this order.

Options behind the verb win over those before it, these over the environment, the environment over
the context that is in use, and the context over 127.0.0.1:8090. A login that is given beats the one
in an address from further down; without any, a token that `borzoi login` has kept for that server
is used.
"""

import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from borzoi.client.address import parse_address
from borzoi.client.cli.contexts import Contexts, Profile
from borzoi.client.cli.naming import NEEDS_LOGIN
from borzoi.client.cli.tokens import Tokens
from borzoi.client.client import OpenOptions
from borzoi.visible import visible

ENVIRONMENT: Final = "BORZOI_"
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_SERVER: Final = f"{DEFAULT_HOST}:8090"
SCHEMES: Final = {
    "tcp_server_address": ("iggy+tcp", "iggy+tls"),
    "http_api_url": ("iggy+http", "iggy+https"),
    "quic_server_address": ("iggy+quic", "iggy+quic"),
    "websocket_server_address": ("iggy+ws", "iggy+wss"),
}
TRANSPORTS: Final = {
    "tcp": "tcp_server_address",
    "http": "http_api_url",
    "quic": "quic_server_address",
    "ws": "websocket_server_address",
    "websocket": "websocket_server_address",
}


ENCRYPTED: Final = {
    "": "iggy+tls",
    "iggy": "iggy+tls",
    "iggy+tcp": "iggy+tls",
    "iggy+http": "iggy+https",
    "iggy+ws": "iggy+wss",
}
"""What --tcp-tls-enabled makes of a server that is reached in clear."""


class Chosen(NamedTuple):
    """A server without its login, and what logs in."""

    server: str
    options: OpenOptions
    is_kept: bool = False  # the token was kept by an earlier command

    @property
    def who(self) -> str:
        """Who logs in, for sentences."""
        if self.is_kept:
            return "the token that is kept (`borzoi login` makes a new one)"
        return self.options.get("username") or "this token"

    @property
    def place(self) -> str:
        """Host and port, for sentences."""
        address = parse_address(self.server)
        return f"{address.host}:{address.port}"


def choose(given: Mapping[str, Any], *, needs_login: bool) -> Chosen:
    """The server and the login of a command with these options."""
    profile = _profile()
    server, is_explicit = _server(given, profile)
    place, login = _parted(server)
    explicit = _given_login(given)
    if not explicit and given.get("token_name"):
        explicit, is_explicit = _kept(given, place, profile), False
    if explicit and login and is_explicit:
        # As the client itself does: it says that a login is given in one place only.
        return Chosen(server, explicit)
    found = explicit or login or _of_environment()
    is_kept = not found
    if is_kept:
        found = _kept(given, place, profile)
    if needs_login and not found:
        raise click.ClickException(NEEDS_LOGIN)
    return Chosen(place, found, is_kept and "token" in found)


def place_of(given: Mapping[str, Any]) -> str:
    """The server alone, as it is dialled."""
    return _parted(_server(given, _profile())[0])[0]


def _server(given: Mapping[str, Any], profile: Profile | None) -> tuple[str, bool]:
    server, is_explicit = _named_server(given, profile)
    return _as_asked(server, given), is_explicit


def _as_asked(server: str, given: Mapping[str, Any]) -> str:
    """The server over the transport and with the encryption that is asked for; never without."""
    scheme, separator, rest = server.partition("://")
    if not separator:
        scheme, rest = "", server
    transport = given.get("transport")
    if transport is not None:
        option = TRANSPORTS[transport]
        if not scheme:
            scheme = SCHEMES[option][0]
        elif scheme not in (*SCHEMES[option], *(("iggy",) if transport == "tcp" else ())):
            raise click.UsageError(
                f"--transport {transport}: the server is given as {scheme}://; give"
                f" --{option.replace('_', '-')}, or an address with {SCHEMES[option][0]}://"
            )
    if given.get("tcp_tls_enabled"):
        scheme = ENCRYPTED.get(scheme, scheme)
    return f"{scheme}://{rest}" if scheme else rest


def _named_server(given: Mapping[str, Any], profile: Profile | None) -> tuple[str, bool]:
    if given.get("server"):
        return str(given["server"]), True
    wanted = TRANSPORTS.get(given.get("transport") or "tcp")
    for option, schemes in SCHEMES.items():
        address = given.get(option)
        if address and (given.get("transport") is None or option == wanted):
            return _with_scheme(str(address), schemes[_is_encrypted(given, option)]), True
    if os.environ.get(f"{ENVIRONMENT}SERVER"):
        return os.environ[f"{ENVIRONMENT}SERVER"], False
    server = profile.server if profile is not None else DEFAULT_SERVER
    if server == DEFAULT_SERVER and given.get("transport") not in (None, "tcp"):
        server = DEFAULT_HOST  # each transport has a port of its own
    return server, False


def _is_encrypted(given: Mapping[str, Any], option: str) -> bool:
    if option == "http_api_url":
        return str(given[option]).startswith("https://")
    return bool(given.get("tcp_tls_enabled"))


def _with_scheme(address: str, scheme: str) -> str:
    return f"{scheme}://{address.rpartition('://')[2].rstrip('/')}"


def _parted(server: str) -> tuple[str, OpenOptions]:
    """The server as it is dialled, and the login that its text holds."""
    address = parse_address(server)
    scheme, separator, rest = server.partition("://")
    place = f"{scheme}{separator}{rest.rpartition('@')[2]}"
    if address.login is not None:
        return place, {"username": address.login.username, "password": address.login.password}
    return place, {} if address.token is None else {"token": address.token}


def _given_login(given: Mapping[str, Any]) -> OpenOptions:
    if given.get("token"):
        return {"token": str(given["token"])}
    if given.get("username"):
        return _with_password(str(given["username"]), given.get("password"))
    return {}


def _of_environment() -> OpenOptions:
    token, username = (os.environ.get(f"{ENVIRONMENT}{name}") for name in ("TOKEN", "USERNAME"))
    if token:
        return {"token": token}
    return _with_password(username, None) if username else {}


def _with_password(username: str, password: object) -> OpenOptions:
    known = password if password is not None else os.environ.get(f"{ENVIRONMENT}PASSWORD")
    if known is None:
        known = click.prompt(f"Password of {visible(username)}", hide_input=True, err=True)
    return {"username": username, "password": str(known)}


def _kept(given: Mapping[str, Any], place: str, profile: Profile | None) -> OpenOptions:
    name = str(given.get("token_name") or "")
    token = Tokens().find(place, name)
    if name and token is None:
        raise click.ClickException(
            f"no token {name} is kept for this server; `borzoi pat create {name} --store-token`"
            " makes one"
        )
    if token is not None:
        return {"token": token}
    if profile is not None and profile.username:
        return _with_password(profile.username, None)
    return {}


def _profile() -> Profile | None:
    return Contexts().current()
