"""The one server of the tests that is no broker: a loopback listener with a function behind it.

Every connection is served in a thread of its own, so clients may have an event loop or none. A
connection that a client drops ends quietly; every other failure is raised when the server closes.
"""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER

JOIN_TIMEOUT_S: Final = 10.0

Serve: TypeAlias = Callable[[socket.socket], None]


class Request(NamedTuple):
    """One whole request, also as the bytes it came in."""

    code: int
    payload: bytes
    frame: bytes


class FakeServer:
    """Made by serving()."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._begin(self._accept)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def close(self) -> None:
        """Take no more connections."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        finally:
            self._listener.close()

    def finish(self) -> None:
        """Wait for every connection to be served; a failure is raised."""
        for thread in self._threads:
            thread.join(JOIN_TIMEOUT_S)
            assert not thread.is_alive(), "a connection is still being served"
        for failure in self._failures:
            raise failure

    def _begin(self, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the test is over
                return
            self.connections += 1
            self._begin(partial(self._run, connection))

    def _run(self, connection: socket.socket) -> None:
        with connection:
            try:
                self._serve(connection)
            except ConnectionError:
                pass
            except BaseException as failure:
                self._failures.append(failure)


@contextmanager
def serving(serve: Serve) -> Iterator[FakeServer]:
    """A server that answers as `serve` does."""
    server = FakeServer(serve)
    try:
        yield server
    finally:
        server.close()
    server.finish()


def requests(connection: socket.socket) -> Iterator[Request]:
    """Every request until the client closes its side."""
    while len(header := connection.recv(REQUEST_HEADER.size, socket.MSG_WAITALL)) > 0:
        if len(header) < REQUEST_HEADER.size:
            return
        length, code = REQUEST_HEADER.unpack(header)
        payload = _exactly(connection, length - CODE_SIZE)
        yield Request(code, payload, header + payload)


def _exactly(connection: socket.socket, size: int) -> bytes:
    payload = connection.recv(size, socket.MSG_WAITALL) if size else b""
    if len(payload) < size:
        raise ConnectionError("the client went away within a request")
    return payload
