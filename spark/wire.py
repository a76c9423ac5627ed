"""A blocking connection to a broker, for driver and executors: Spark calls us in plain threads.

Connections are kept for the next task of the same Python worker, by address and login, and only in
the process that made them. Spark forks its workers, and a forked socket would be shared. A
connection with which anything went wrong is closed and never used again.

Requests that only look or that set an exact value are repeated over a new connection when the old
one breaks, with growing pauses. So a broker that is restarted is waited for. Requests may be sent
ahead of the answers to others; answers come in the same order.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from borzoi.protocol import commands
from borzoi.protocol.commands import Command
from borzoi.protocol.errors import (
    BrokerError,
    ConnectionClosed,
    Disconnected,
    StaleClient,
    Unauthorized,
    error_for,
)
from borzoi.protocol.framing import CODE_SIZE, REQUEST_HEADER, RESPONSE_HEADER
from borzoi.protocol.generations import code_of, decode_reply, encode_command
from borzoi.spark.failures import LoginFailed, NotAllowed, Unreachable
from borzoi.spark.options import Access

# Tells the server which generation of codecs we speak.
WIRE_VERSION: Final = "0.10.0"
CONTEXT: Final = "spark"
RESPONSE_SIZE_MAX: Final = 256 * 1024 * 1024
PAUSE_MAX_S: Final = 2.0
PIECE_SIZE: Final = 64 * 1024  # below this, copying is cheaper than one more call
IDLE_MAX: Final = 8  # connections kept per address, in one process

# As the status of an answer, these mean the same as a connection that broke.
BROKEN: Final = (OSError, ConnectionClosed, Disconnected, StaleClient)

Found = TypeVar("Found")


class Wire:
    """One logged-in connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    @classmethod
    def open(cls, access: Access) -> "Wire":
        """Returns a connection that is logged in; the socket is closed if that fails."""
        address = (access.server.host, access.server.port)
        connection = socket.create_connection(address, timeout=access.timeout_s)
        wire = cls(connection)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire._log_in(access)
        except BaseException:
            wire.close()
            raise
        return wire

    def ask(self, command: Command) -> Any:
        """The value of the answer; None where there is none, or nothing was found."""
        self.send(code_of(command), encode_command(command))
        return decode_reply(code_of(command), memoryview(self.receive()))

    def send(self, code: int, *payload: bytes | memoryview) -> None:
        """A request whose answer receive() will give."""
        parts = [REQUEST_HEADER.pack(CODE_SIZE + sum(map(len, payload)), code), *payload]
        # Small parts travel together; a large one is not copied once more.
        together: list[bytes | memoryview] = []
        for part in parts:
            if len(part) >= PIECE_SIZE and together:
                self._socket.sendall(b"".join(together))
                together.clear()
            if len(part) >= PIECE_SIZE:
                self._socket.sendall(part)
            else:
                together.append(part)
        if together:
            self._socket.sendall(b"".join(together))

    def receive(self) -> bytearray:
        """The payload of the next answer."""
        status, size = RESPONSE_HEADER.unpack(self._exactly(RESPONSE_HEADER.size))
        if size > RESPONSE_SIZE_MAX:
            raise OSError(f"an answer of {size} bytes; at most {RESPONSE_SIZE_MAX} are taken")
        payload = self._exactly(size)
        if status == Unauthorized.status:
            raise NotAllowed(f"the broker refuses it: {error_for(status)}")
        if status:
            raise error_for(status)
        return payload

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _log_in(self, access: Access) -> None:
        try:
            self.ask(_login(access))
        except BROKEN:
            raise
        except BrokerError as error:
            who = "the token" if access.server.login is None else access.server.login.username
            raise LoginFailed(
                f"{access.server.host}:{access.server.port} does not let {who} in: {error}"
            ) from error

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise ConnectionResetError("the server closed the connection")
            view = view[count:]
        return data


_idle: dict[tuple[int, Access], list[Wire]] = {}


@contextmanager
def borrowed(access: Access) -> Iterator[Wire]:
    """A connection for the block; kept if the block ends well."""
    wire = lend(access)
    try:
        yield wire
    except BaseException:  # also GeneratorExit: answers may be on their way
        wire.close()
        raise
    give_back(access, wire)


def lend(access: Access) -> Wire:
    """A connection that is the caller's until it is given back, or closed."""
    idle = _idle.get((os.getpid(), access))
    return idle.pop() if idle else Wire.open(access)


def give_back(access: Access, wire: Wire) -> None:
    """Keeps a connection for the next task; every answer has been received."""
    idle = _idle.setdefault((os.getpid(), access), [])
    if len(idle) < IDLE_MAX:
        idle.append(wire)
    else:
        wire.close()


def close_idle() -> None:
    """For the end of a query."""
    for (pid, _), wires in _idle.items():
        while wires:
            wire = wires.pop()
            if pid == os.getpid():
                wire.close()


class Patience:
    """Counts failures in a row and waits between attempts; a success sets the count to 0."""

    def __init__(self, access: Access, sleep: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._sleep = sleep
        self._failures = 0

    def reset(self) -> None:
        """Sets the count of failures to 0."""
        self._failures = 0

    def wait(self, error: Exception) -> None:
        """Raises when it was tried often enough."""
        if self._failures >= self._access.retries:
            raise Unreachable(
                f"{self._access.server.host}:{self._access.server.port} after"
                f" {self._failures + 1} attempts: {error}"
            ) from error
        pause_s = self._access.retry_interval_s * 2**self._failures
        self._failures += 1
        self._sleep(min(pause_s, PAUSE_MAX_S))


def repeated(access: Access, request: Callable[[Wire], Found]) -> Found:
    """The answer to something that may be asked twice."""
    patience = Patience(access)
    while True:
        try:
            with borrowed(access) as wire:
                return request(wire)
        except BROKEN as error:
            forget(access)
            patience.wait(error)


def ask(access: Access, command: Command) -> Any:
    """repeated(), for one command."""
    return repeated(access, lambda wire: wire.ask(command))


def forget(access: Access) -> None:
    """What broke one connection has probably broken the others."""
    for wire in _idle.pop((os.getpid(), access), []):
        wire.close()


def _login(access: Access) -> Command:
    if access.token is not None:
        return commands.LoginWithPersonalAccessToken(access.token)
    login = access.server.login
    assert login is not None, "options are only complete with a login"
    return commands.LoginUser(login.username, login.password, WIRE_VERSION, CONTEXT)


__all__ = [
    "BROKEN",
    "BrokerError",
    "Patience",
    "Wire",
    "ask",
    "borrowed",
    "close_idle",
    "forget",
    "give_back",
    "lend",
    "repeated",
]
