"""The ways into a broker that carry the binary protocol, as a test goes them: five, one Wire.

A broker has TLS on all of its TCP doors or on none, so there are two brokers for five ways. QUIC
is one of the plain broker, if that was started with it.
"""

import socket
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from tests.broker import BrokerProcess
from tests.certificates import Files
from tests.quic_socket import Quic, QuicSocket
from tests.websocket_frames import as_socket
from tests.wire import TIMEOUT_S, Wire

WAYS: Final = ("tcp", "tls", "ws", "wss", "quic")
DOORS: Final = ("TCP", "WEBSOCKET", "HTTP")


class At(NamedTuple):
    """Where a door is."""

    host: str
    port: int


def with_tls(files: Files, **more: str) -> dict[str, str]:
    """Settings for TLS on all doors; `more` are further settings of `tls`, by their names."""
    own = {"enabled": "true", "cert_file": str(files.cert), "key_file": str(files.key), **more}
    return {f"IGGY_{door}_TLS_{name.upper()}": text for door in DOORS for name, text in own.items()}


def door_of(broker: BrokerProcess, way: str) -> At:
    """Where a way begins; that of HTTP is "http" or "https"."""
    addresses = {
        "ws": broker.websocket_address,
        "ht": broker.http_address,
        "qu": broker.quic_address,
    }
    address = addresses.get(way[:2], broker.address)
    host, _, port = address.rpartition(":")
    return At(host, int(port))


def client_context(ca: Path | bytes, own: Files | None = None) -> ssl.SSLContext:
    """A client's that trusts one authority, and shows a certificate if it has one."""
    pem = ca if isinstance(ca, bytes) else ca.read_bytes()
    context = ssl.create_default_context(cadata=pem.decode())
    if own is not None:
        context.load_cert_chain(own.cert, own.key)
    return context


def wire_through(
    broker: BrokerProcess,
    way: str,
    context: ssl.SSLContext | None = None,
    *,
    login: bool = True,
    timeout_s: float = TIMEOUT_S,
) -> Wire:
    """A connection through one of the doors; `context` is for those with TLS."""
    if way == "quic":
        opened = Quic(broker.quic_address, timeout_s).open()
        return Wire.over(QuicSocket(opened), login=login)

    def through(connected: socket.socket) -> socket.socket:
        if way in ("tls", "wss"):
            assert context is not None, "TLS needs to know whom to trust"
            connected = context.wrap_socket(connected, server_hostname="localhost")
        try:
            return as_socket(connected) if way.startswith("ws") else connected
        except BaseException:
            connected.close()
            raise

    return Wire(door_of(broker, way), login=login, timeout_s=timeout_s, through=through)
