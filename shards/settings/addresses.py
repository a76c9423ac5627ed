"""Listener addresses: "127.0.0.1:8090", "[::1]:8090", "localhost:0".

Pure functions between text and (host, port). Always: format_address(*parse_address(t)) means the
same t.
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

PORT_MAX: Final = 65535


class Address(NamedTuple):
    """Where a listener is bound; the host is a name or an address without brackets."""

    host: str
    port: int


def parse_address(text: str) -> Address:
    """Host and port of `text`, an IPv6 host without its brackets. ValueError when malformed."""
    host, colon, port_text = text.strip().rpartition(":")
    if not colon or not host:
        raise ValueError("no host and port")
    if host.startswith("[") and host.endswith("]"):
        host = str(ipaddress.IPv6Address(host[1:-1]))
    elif ":" in host:
        raise ValueError("an IPv6 host stands in brackets")
    if not (port_text.isascii() and port_text.isdigit() and int(port_text) <= PORT_MAX):
        raise ValueError(f"no port of 0 to {PORT_MAX}")
    return Address(host, int(port_text))


def format_address(host: str, port: int) -> str:
    """The text of an address; an IPv6 host gets its brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(text: str) -> bool:
    """Whether only this machine can reach a listener at `text`."""
    host = parse_address(text).host
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        # Some other name: where it points to is decided later and elsewhere, so it counts as
        # reachable.
        return False
