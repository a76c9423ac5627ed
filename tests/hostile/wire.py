"""One plain socket that speaks to a broker byte by byte, as badly as a test wants it to.

Nothing here protects the broker from the test: bytes go out as they are given. Every wait has a
deadline, so a broker that hangs fails the test.
"""

import select
import socket
import struct
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final, NamedTuple, Protocol

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command, CreateStream, CreateTopic, LoginUser, PollMessages
from borzoi.protocol.framing import RESPONSE_HEADER, encode_request
from borzoi.protocol.generations import code_of, encode_command
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.send_messages import encode_send_messages

ANSWER_TIMEOUT_S: Final = 60.0
RECEIVE_SIZE: Final = 1 << 20
PING: Final = encode_request(Code.PING)
RESET_WHEN_CLOSED: Final = struct.pack("ii", 1, 0)


class Answer(NamedTuple):
    """One response frame."""

    status: int
    payload: bytes


class ConnectionEnded(Exception):
    """The broker closed the connection, or reset it."""


class Listening(Protocol):
    """A broker, as far as a client has to know it."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Wire(AbstractContextManager["Wire"]):
    """A connection to a broker."""

    def __init__(self, broker: Listening, source: str | None = None) -> None:
        self.socket = socket.create_connection(
            (broker.host, broker.port),
            timeout=ANSWER_TIMEOUT_S,
            source_address=None if source is None else (source, 0),
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close with a reset instead of an end of file."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_WHEN_CLOSED)
        self.socket.close()

    def send(self, data: bytes | memoryview) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionEnded from error

    def answer(self) -> Answer:
        """The next response; ConnectionEnded when there is none."""
        status, length = RESPONSE_HEADER.unpack(self._exactly(RESPONSE_HEADER.size))
        return Answer(status, self._exactly(length))

    def answers(self, count: int) -> list[Answer]:
        return [self.answer() for _ in range(count)]

    def ask(self, command: Command) -> Answer:
        self.send(frame_of(command))
        return self.answer()

    def request(self, code: int, payload: bytes = b"") -> Answer:
        self.send(encode_request(code, payload))
        return self.answer()

    def log_in(self, username: str = "iggy", password: str = "iggy") -> "Wire":
        answer = self.ask(LoginUser(username, password, "0.10.0", ""))
        assert answer.status == 0, f"the login was answered with {answer.status}"
        return self

    def is_in_step(self) -> bool:
        """Whether a PING is answered, and nothing else lies before its answer."""
        self.send(PING)
        return self.answer() == Answer(0, b"")

    def was_closed(self) -> bool:
        """Wait for the end of the connection; False if something else comes."""
        try:
            return self.socket.recv(RECEIVE_SIZE) == b"" and not self._received
        except ConnectionResetError:
            return not self._received

    def was_reset(self) -> bool:
        """Whether the broker ended the connection, whatever has not been read yet."""
        poller = select.poll()
        poller.register(self.socket, 0)
        return any(event & select.POLLERR for _, event in poller.poll(0))

    def read_some(self, size: int) -> int:
        """Read at least one byte and at most `size`, and throw them away; how many."""
        got = len(self.socket.recv(size))
        if not got:
            raise ConnectionEnded
        return got

    def is_quiet_for(self, seconds: float) -> bool:
        """Wait so long for bytes or the end of the connection; True when nothing came."""
        readable, _, _ = select.select([self.socket], [], [], seconds)
        return not readable

    def drain_until_closed(self) -> int:
        """Read whatever comes until the broker closes; how many bytes came."""
        count = len(self._received)
        with suppress(ConnectionResetError):
            while got := self.socket.recv(RECEIVE_SIZE):
                count += len(got)
        return count

    def _exactly(self, size: int) -> bytes:
        while len(self._received) < size:
            try:
                got = self.socket.recv(RECEIVE_SIZE)
            except ConnectionResetError as error:
                raise ConnectionEnded from error
            if not got:
                raise ConnectionEnded
            self._received += got
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken


def frame_of(command: Command) -> bytes:
    return encode_request(code_of(command), encode_command(command))


def send_frame(stream: str, topic: str, payloads: Sequence[bytes], partition_id: int = 0) -> bytes:
    """A valid SEND_MESSAGES request."""
    messages = [Message(payload=payload) for payload in payloads]
    payload = encode_send_messages(stream, topic, PartitionId(partition_id), messages)
    return encode_request(Code.SEND_MESSAGES, payload)


def poll_frame(stream: str, topic: str, offset: int, count: int, partition_id: int = 0) -> bytes:
    """A valid POLL_MESSAGES request."""
    return frame_of(
        PollMessages(
            consumer=Consumer(ConsumerKind.CONSUMER, 1),
            stream=stream,
            topic=topic,
            partition_id=partition_id,
            strategy=PollingStrategy(StrategyKind.OFFSET, offset),
            count=count,
            auto_commit=False,
        )
    )


def make_topic(wire: Wire, stream: str, topic: str, partitions_count: int = 1) -> None:
    """Create a stream with a topic."""
    assert wire.ask(CreateStream(stream)).status == 0
    assert wire.ask(topic_command(stream, topic, partitions_count)).status == 0


def topic_command(stream: str, topic: str, partitions_count: int) -> CreateTopic:
    return CreateTopic(
        stream=stream,
        partitions_count=partitions_count,
        compression_algorithm=1,
        message_expiry=0,
        max_topic_size=0,
        replication_factor=1,
        name=topic,
    )


def clients_count(wire: Wire) -> int:
    """How many clients the broker believes to have, counted by their constant part."""
    answer = wire.request(Code.GET_CLIENTS)
    assert answer.status == 0
    count = at = 0
    while at < len(answer.payload):
        (address_size,) = struct.unpack_from("<I", answer.payload, at + 9)
        at += 17 + address_size
        count += 1
    return count
