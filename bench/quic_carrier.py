"""A QUIC client that looks like a socket: the client of this project in a thread of its own.

    actor ── pair of sockets ── thread: one request at a time ── QUIC

QUIC has timers, and the loop of actors has none. What the pair costs, some 0.3 ms for a megabyte,
is the generator's.
"""

import asyncio
import socket
from concurrent.futures import Future
from threading import Thread
from typing import Final

from borzoi.client.address import TlsOptions
from borzoi.client.connection import Connection
from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER, RESPONSE_HEADER

TIMEOUT_S: Final = 60.0
LIMIT: Final = 4 * 1024 * 1024
"""Of a request that is buffered: more than the largest batch of a load."""


class QuicCarrier:
    """The end of the pair that an actor has. Without a file no certificate is verified."""

    def __init__(self, host: str, port: int, ca_file: str) -> None:
        self._socket, beyond = socket.socketpair()
        self._address = (host, port)
        tls = TlsOptions(ca_file=ca_file, validates=bool(ca_file))
        opened: Future[None] = Future()
        thread = Thread(target=_run, args=(host, port, tls, beyond, opened), daemon=True)
        thread.start()
        try:
            opened.result()
        except BaseException:
            self._socket.close()
            raise
        self.fileno = self._socket.fileno
        self.setblocking = self._socket.setblocking
        self.send = self._socket.send
        self.sendall = self._socket.sendall
        self.recv_into = self._socket.recv_into
        self.close = self._socket.close

    def getsockname(self) -> tuple[str, int]:
        """That of the server: all connections come to the shard with the door."""
        return self._address


def _run(
    host: str, port: int, tls: TlsOptions, beyond: socket.socket, opened: Future[None]
) -> None:
    asyncio.run(_carry(host, port, tls, beyond, opened))


async def _carry(
    host: str, port: int, tls: TlsOptions, beyond: socket.socket, opened: Future[None]
) -> None:
    try:
        connection = await Connection.open(host, port, TIMEOUT_S, transport="quic", tls=tls)
    except BaseException as error:
        beyond.close()
        opened.set_exception(error)
        return
    reader, writer = await asyncio.open_connection(sock=beyond, limit=LIMIT)
    opened.set_result(None)
    try:
        while True:
            head = await reader.readexactly(REQUEST_HEADER.size)
            length, code = REQUEST_HEADER.unpack(head)
            payload = await reader.readexactly(length - CODE_SIZE)
            status, answer = await connection.send_raw(code, payload)
            writer.writelines((RESPONSE_HEADER.pack(status, len(answer)), answer))
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass  # The actor is done, or hears of it by the end of the pair.
    finally:
        writer.close()
        await connection.close()
