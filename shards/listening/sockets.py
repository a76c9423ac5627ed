"""Listening sockets: opened with their options, shared by all shards, free or taken."""

import socket
from typing import Any, Final

from borzoi.shards.settings.addresses import format_address, parse_address
from borzoi.shards.settings.schema import TcpSocket

BACKLOG: Final = 1024
"""So many connections wait to be accepted at most."""


def open_socket(address: str, options: TcpSocket) -> socket.socket:
    """A bound socket that shares its port with the other shards, not with other users."""
    family, where = _resolved(address)
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if options.override_defaults:
            _set_options(opened, options)
        opened.bind(where)
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def check_port_is_free(address: str, kind: socket.SocketKind = socket.SOCK_STREAM) -> None:
    """OSError if anybody listens there already, be it another broker that shares its port."""
    family, where = _resolved(address)
    with socket.socket(family, kind) as alone:
        if kind == socket.SOCK_STREAM:
            # Only this: connections of an earlier run that linger are no hindrance.
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        alone.bind(where)


def _resolved(address: str) -> tuple[socket.AddressFamily, tuple[Any, ...]]:
    host, port = parse_address(address)
    family, _, _, _, where = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return family, where


def _set_options(listening: socket.socket, options: TcpSocket) -> None:
    """Accepted connections inherit these from the listening socket."""
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.recv_buffer_size)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_size)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(options.keepalive))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(options.nodelay))


def bound_address(listening: socket.socket) -> str:
    """Where it listens, with the real port."""
    host, port = listening.getsockname()[:2]
    return format_address(host, port)
