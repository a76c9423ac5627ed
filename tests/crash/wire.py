"""A blocking client for tests that kill servers: one socket, no retries, no hidden waiting.

Every request ends in one of four ways, and the tests depend on telling them apart: an answer,
a BrokerError (the server says that nothing was done), Closed (the outcome is unknown), or Hung
(nothing at all within the deadline, which is always a failure of the server).
"""

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.errors import error_for
from borzoi.protocol.framing import RESPONSE_HEADER, encode_request
from borzoi.protocol.generations import code_of, decode_reply, encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PartitionId,
    Partitioning,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.responses.polled import PolledMessages
from borzoi.protocol.send_messages import encode_send_messages
from tests.broker import BrokerProcess, wait_for

REQUEST_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 30.0
CONNECTIONS_MAX: Final = 16
POLL_COUNT: Final = 2000


class Closed(Exception):
    """The connection ended before the answer: nobody knows what was done."""


class Hung(AssertionError):
    """No answer within the deadline."""


class Wire:
    """One connection, logged in as root unless that is left for later."""

    def __init__(self, broker: BrokerProcess, *, login: bool = True) -> None:
        try:
            self._socket = socket.create_connection((broker.host, broker.port), REQUEST_TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.local_port: int = self._socket.getsockname()[1]
        except OSError as error:
            raise Closed(str(error)) from error
        if login:
            self.login()

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def abort(self) -> None:
        """End the connection at once, from any thread, with a reset instead of a goodbye."""
        linger = struct.pack("ii", 1, 0)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._socket.shutdown(socket.SHUT_RDWR)

    def login(self) -> None:
        try:
            self.call(LoginUser("iggy", "iggy"))
        except BaseException:
            self.close()
            raise

    def call(self, command: Any) -> Any:
        """Any command; the value of its answer."""
        self.begin(command)
        return decode_reply(code_of(command), memoryview(self.answer()))

    def begin(self, command: Any) -> None:
        """Send a command without waiting; `answer` waits."""
        self.put(encode_request(code_of(command), encode_command(command)))

    def send(
        self, stream: Identifier, topic: Identifier, partition: int, payloads: Sequence[bytes]
    ) -> None:
        self.begin_send(stream, topic, partition, payloads)
        self.answer()

    def begin_send(
        self, stream: Identifier, topic: Identifier, partition: int, payloads: Sequence[bytes]
    ) -> None:
        """Send a batch without waiting; `answer` waits."""
        messages = [Message(payload) for payload in payloads]
        self._begin_batch(stream, topic, PartitionId(partition), messages)

    def send_batch(
        self,
        stream: Identifier,
        topic: Identifier,
        partitioning: Partitioning,
        messages: Sequence[Message],
    ) -> None:
        """A batch with everything that messages may have, to wherever that leads."""
        self._begin_batch(stream, topic, partitioning, messages)
        self.answer()

    def _begin_batch(
        self,
        stream: Identifier,
        topic: Identifier,
        partitioning: Partitioning,
        messages: Sequence[Message],
    ) -> None:
        payload = encode_send_messages(stream, topic, partitioning, messages)
        self.put(encode_request(Code.SEND_MESSAGES, payload))

    def poll(
        self, stream: Identifier, topic: Identifier, partition: int, offset: int, count: int
    ) -> PolledMessages:
        strategy = PollingStrategy(StrategyKind.OFFSET, offset)
        consumer = Consumer(ConsumerKind.CONSUMER, 1)
        command = PollMessages(consumer, stream, topic, partition, strategy, count, False)
        polled = self.call(command)
        assert isinstance(polled, PolledMessages)
        return polled

    def read(self, stream: Identifier, topic: Identifier, partition: int) -> Iterator[Message]:
        """Every message of a partition; offsets are checked to be dense from 0."""
        offset = 0
        while messages := self.poll(stream, topic, partition, offset, POLL_COUNT).messages:
            for message in messages:
                assert message.offset == offset, f"offset {message.offset} where {offset} follows"
                offset += 1
                yield message

    def answer(self) -> bytes:
        """The payload of the next answer; an error status is raised."""
        status, length = RESPONSE_HEADER.unpack(self._take(RESPONSE_HEADER.size))
        if status:
            raise error_for(status)
        return self._take(length)

    def put(self, frame: bytes) -> None:
        """Send a whole frame without waiting; `answer` waits."""
        try:
            self._socket.sendall(frame)
        except TimeoutError as error:
            raise Hung(f"nothing was taken within {REQUEST_TIMEOUT_S} s") from error
        except OSError as error:
            raise Closed(str(error)) from error

    def _take(self, size: int) -> bytes:
        taken = bytearray()
        while len(taken) < size:
            try:
                piece = self._socket.recv(size - len(taken))
            except TimeoutError as error:
                raise Hung(f"no answer within {REQUEST_TIMEOUT_S} s") from error
            except OSError as error:
                raise Closed(str(error)) from error
            if not piece:
                raise Closed("the server closed the connection")
            taken += piece
        return bytes(taken)


def connect(broker: BrokerProcess, *, login: bool = True) -> Wire:
    """A connection to any shard, tried again while workers are being replaced."""

    def attempt() -> Wire | None:
        try:
            return Wire(broker, login=login)
        except Closed:
            return None

    wire = wait_for(attempt, CONNECT_TIMEOUT_S)
    assert wire is not None
    return wire


def connect_to_shard(broker: BrokerProcess, shard: int, *, login: bool = True) -> Wire:
    """A connection that this shard has accepted: the kernel chooses, so it may take several.

    While the shard's worker is being replaced nothing goes there, so it may take a while too.
    """
    wire = wait_for(lambda: _try_shard(broker, shard, login), CONNECT_TIMEOUT_S)
    assert wire is not None
    return wire


def _try_shard(broker: BrokerProcess, shard: int, login: bool) -> Wire | None:
    others: list[Wire] = []
    try:
        for _ in range(CONNECTIONS_MAX):
            # A login costs far more than a connection, so it waits until we know.
            wire = connect(broker, login=False)
            if shard_of_connection(broker, wire) == shard:
                if login:
                    wire.login()
                return wire
            others.append(wire)
    except Closed:
        # The worker died with our connection.
        return None
    finally:
        for other in others:
            other.close()
    return None


def shard_of_connection(broker: BrokerProcess, wire: Wire) -> int | None:
    """Which worker holds the server's end: the one with a descriptor for that socket's inode."""
    inode = _server_inode(broker.port, wire.local_port)
    for shard, pid in broker.workers().items():
        if inode is not None and _holds_socket(pid, inode):
            return shard
    return None


def _server_inode(server_port: int, client_port: int) -> str | None:
    with open("/proc/net/tcp", encoding="ascii") as table:
        next(table)
        for line in table:
            fields = line.split()
            local_port = int(fields[1].rpartition(":")[2], 16)
            remote_port = int(fields[2].rpartition(":")[2], 16)
            if (local_port, remote_port) == (server_port, client_port):
                return fields[9]
    return None


def _holds_socket(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    directory = f"/proc/{pid}/fd"
    try:
        return any(_link(f"{directory}/{fd}") == wanted for fd in os.listdir(directory))
    except FileNotFoundError:
        return False


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""
