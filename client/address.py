"""The address of a broker and a login: `host:port` or `iggy://user:password@host:port`.

The official clients take connection strings apart without any unescaping, so the same string must
mean the same here. Everything up to the last @ is user and password; the first colon parts these
two. Errors never repeat the text they are about; it may hold a password.
"""

from dataclasses import dataclass, field
from typing import Final

from borzoi.client.arguments import InvalidArgument

DEFAULT_PORT: Final = 8090
PORT_MAX: Final = 65535
SCHEMES: Final = ("iggy", "iggy+tcp")


@dataclass(frozen=True, slots=True)
class Login:
    """A username and a password, which repr() does not show."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """`login` is None where the text says nothing about it."""

    host: str
    port: int
    login: Login | None = None


def parse_address(text: str) -> ServerAddress:
    """Returns host, port and login of `host:port` or a connection string; else InvalidArgument."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _host_and_port(text, None)
    if scheme not in SCHEMES:
        raise InvalidArgument(f"a connection string for {scheme}; {' or '.join(SCHEMES)} is needed")
    credentials, _, place = rest.rpartition("@")
    username, _, password = credentials.partition(":")
    if not username or not password:
        raise InvalidArgument(
            "the connection string has no username and password;"
            " iggy://username:password@host:port is needed"
        )
    place, _, options = place.partition("?")
    if options:
        names = ", ".join(option.partition("=")[0] for option in options.split("&"))
        raise InvalidArgument(f"the connection string has options ({names}); none are supported")
    return _host_and_port(place, Login(username, password))


def _host_and_port(place: str, login: Login | None) -> ServerAddress:
    if place.startswith("["):  # an IPv6 address, whose own colons part nothing
        host, _, port_part = place[1:].partition("]")
    else:
        host, colon, digits = place.partition(":")
        port_part = colon + digits
    if not host or "@" in place:
        raise InvalidArgument("the server's address is not host:port")
    if not port_part:
        return ServerAddress(host, DEFAULT_PORT, login)
    digits = port_part[1:]
    is_number = port_part[0] == ":" and digits.isascii() and digits.isdigit()
    if not is_number or not 1 <= int(digits) <= PORT_MAX:
        raise InvalidArgument(f"the server's port is not a number from 1 to {PORT_MAX}")
    return ServerAddress(host, int(digits), login)
