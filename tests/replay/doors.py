"""Doors through which a session is replayed: how a client comes in, and how it says that it goes.

The end of a client is complete when the broker has ended its side, too. Over QUIC no end is
answered: there the broker reads its one socket in order, so the end comes before what follows.
"""

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple, cast

from borzoi.protocol.responses.clients import Transport
from tests.broker import BrokerProcess
from tests.quic_socket import Quic, QuicSocket
from tests.ways import door_of
from tests.websocket_frames import as_socket

TIMEOUT_S: Final = 60.0


class Door(NamedTuple):
    """One way in."""

    connect: Callable[[], socket.socket]
    end: Callable[[socket.socket], None]
    transport: Transport = Transport.TCP


def plain(broker: BrokerProcess) -> Door:
    """TCP."""
    return Door(lambda: _dial(broker, "tcp"), _shut)


def door_through(broker: BrokerProcess, way: str, context: ssl.SSLContext) -> Door:
    """Any door but TCP; `context` is for those with TLS."""

    def shaken() -> socket.socket:
        return context.wrap_socket(_dial(broker, way), server_hostname="localhost")

    return {
        "tls": Door(shaken, _say_goodbye),
        "ws": Door(lambda: as_socket(_dial(broker, way)), _shut, Transport.WEBSOCKET),
        "wss": Door(lambda: as_socket(shaken()), _say_goodbye, Transport.WEBSOCKET),
        "quic": Door(lambda: _quic(broker), lambda opened: opened.close(), Transport.QUIC),
    }[way]


def _quic(broker: BrokerProcess) -> socket.socket:
    return cast(socket.socket, QuicSocket(Quic(broker.quic_address, TIMEOUT_S).open()))


def _dial(broker: BrokerProcess, way: str) -> socket.socket:
    dialled = socket.create_connection(door_of(broker, way), TIMEOUT_S)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return dialled


def _shut(opened: socket.socket) -> None:
    opened.shutdown(socket.SHUT_WR)


def _say_goodbye(opened: socket.socket) -> None:
    # A WebSocket has what the socket below it has.
    with suppress(ssl.SSLZeroReturnError):
        cast(ssl.SSLSocket, opened).unwrap()
