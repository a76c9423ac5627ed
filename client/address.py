"""The address of a broker, how it is reached, and a login: `iggy://user:password@host:port`.

A personal access token stands alone before the @: `iggy://token@host:port`. Without an @ the login
comes from elsewhere (ours).

    host:port                  plain TCP
    iggy://, iggy+tcp://       TCP; with the option tls=true encrypted, as the official clients
    iggy+ws://                 WebSocket, the same
    iggy+http://               HTTP, the same
    iggy+quic://               QUIC, which is always encrypted
    iggy+tls://, iggy+wss://, iggy+https://   the first three encrypted (ours)

The official clients take connection strings apart without any unescaping, so the same string must
mean the same here. Everything up to the last @ is user and password; the first colon parts these
two. Errors never repeat the text they are about; it may hold a password.
"""

from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from borzoi.client.arguments import InvalidArgument

DEFAULT_PORT: Final = 8090
PORT_MAX: Final = 65535

Transport: TypeAlias = Literal["tcp", "ws", "http", "quic"]

DEFAULT_PORTS: Final[dict[Transport, int]] = {
    "tcp": DEFAULT_PORT,
    "ws": 8092,
    "http": 3000,
    "quic": 8080,
}

SCHEMES: Final[dict[str, tuple[Transport, bool]]] = {
    "iggy": ("tcp", False),
    "iggy+tcp": ("tcp", False),
    "iggy+tls": ("tcp", True),
    "iggy+ws": ("ws", False),
    "iggy+wss": ("ws", True),
    "iggy+http": ("http", False),
    "iggy+https": ("http", True),
    "iggy+quic": ("quic", True),
}
"""What carries the protocol, and whether it is encrypted without being asked for."""

TLS_OPTIONS: Final = (
    "tls", "tls_domain", "tls_ca_file", "tls_validate_certificate", "tls_cert_file",
    "tls_key_file",
)  # fmt: skip
BOOLEANS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Login:
    """A username and a password, which repr() does not show."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """How the server proves who it is, and the client too if it has a certificate.

    Without `domain` the name in the certificate is the host; without `ca_file` an authority that
    this machine trusts has to vouch for it.
    """

    domain: str = ""
    ca_file: str = ""
    validates: bool = True
    cert_file: str = ""
    key_file: str = ""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """`login` and `token` are None where the text does not have them; `tls` without encryption."""

    host: str
    port: int
    login: Login | None = None
    transport: Transport = "tcp"
    tls: TlsOptions | None = None
    token: str | None = field(default=None, repr=False)


def parse_address(text: str) -> ServerAddress:
    """Returns host, port and login of `host:port` or a connection string; else InvalidArgument."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return _host_and_port(text, None)
    if scheme not in SCHEMES:
        nearest = f"iggy+{scheme}"
        needed = nearest if nearest in SCHEMES else " or ".join(SCHEMES)
        raise InvalidArgument(f"a connection string for {scheme}; {needed} is needed")
    credentials, at, place = rest.rpartition("@")
    username, colon, password = credentials.partition(":")
    if at and (not username or (colon and not password)):
        raise InvalidArgument(
            "the connection string has no username and password, and no token;"
            " iggy://username:password@host:port or iggy://token@host:port is needed"
        )
    place, _, options = place.partition("?")
    transport, is_encrypted = SCHEMES[scheme]
    login = Login(username, password) if colon else None
    found = _host_and_port(place, login, DEFAULT_PORTS[transport])
    tls = _tls(options, is_encrypted)
    if transport == "quic" and tls is None:
        raise InvalidArgument("the connection string has tls=false; QUIC is always encrypted")
    return replace(found, transport=transport, tls=tls, token=None if colon else username or None)


def _tls(options: str, is_encrypted: bool) -> TlsOptions | None:
    """What the options of a connection string say about TLS; None: it is not wanted."""
    given = dict(option.partition("=")[::2] for option in options.split("&") if option)
    unknown = ", ".join(name for name in given if name not in TLS_OPTIONS)
    if unknown:
        raise InvalidArgument(
            f"the connection string has options ({unknown}); only {', '.join(TLS_OPTIONS)} are"
            " supported"
        )
    if not _boolean(given, "tls", is_encrypted):
        return None
    return TlsOptions(
        given.get("tls_domain", ""),
        given.get("tls_ca_file", ""),
        _boolean(given, "tls_validate_certificate", True),
        given.get("tls_cert_file", ""),
        given.get("tls_key_file", ""),
    )


def _boolean(given: dict[str, str], name: str, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text not in BOOLEANS:
        raise InvalidArgument(f"the option {name} of the connection string is not true or false")
    return BOOLEANS[text]


def _host_and_port(
    place: str, login: Login | None, default_port: int = DEFAULT_PORT
) -> ServerAddress:
    if place.startswith("["):  # an IPv6 address, whose own colons part nothing
        host, _, port_part = place[1:].partition("]")
    else:
        host, colon, digits = place.partition(":")
        port_part = colon + digits
    if not host or "@" in place:
        raise InvalidArgument("the server's address is not host:port")
    if not port_part:
        return ServerAddress(host, default_port, login)
    digits = port_part[1:]
    is_number = port_part[0] == ":" and digits.isascii() and digits.isdigit()
    if not is_number or not 1 <= int(digits) <= PORT_MAX:
        raise InvalidArgument(f"the server's port is not a number from 1 to {PORT_MAX}")
    return ServerAddress(host, int(digits), login)
