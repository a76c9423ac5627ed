"""The one client of the tests: a blocking socket, every byte in the test's hands.

Blocking on purpose: a test reads from top to bottom. Nothing is retried and nothing protects the
broker from the test. Commands and answers are the values of borzoi.protocol. A request ends in one
of four ways, and tests depend on telling them apart: an answer, a BrokerError (the broker says that
nothing was done), Closed (the outcome is unknown), or Hung (nothing at all within the deadline).

Always: what was not asked for is not read from the socket, so `socket` may be used beside it.
"""

import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command, LoginUser, PollMessages
from borzoi.protocol.errors import BrokerError, error_for
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
from borzoi.protocol.responses import PolledMessages
from borzoi.protocol.send_messages import encode_send_messages
from tests.readable import is_readable

TIMEOUT_S: Final = 60.0
RECEIVE_SIZE: Final = 1 << 20
POLL_COUNT: Final = 2000
RESET_WHEN_CLOSED: Final = struct.pack("ii", 1, 0)

ROOT: Final = LoginUser("iggy", "iggy")
PING: Final = encode_request(Code.PING)
FIRST: Final = PollingStrategy(StrategyKind.FIRST)
NEXT: Final = PollingStrategy(StrategyKind.NEXT)
ANYBODY: Final = Consumer(ConsumerKind.CONSUMER, 0)
READER: Final = Consumer(ConsumerKind.CONSUMER, 1)


class Closed(ConnectionError):
    """The connection ended before the answer: what was done is unknown."""


class Hung(AssertionError, TimeoutError):
    """No answer within the deadline."""


class Answer(NamedTuple):
    """One response frame."""

    status: int
    payload: bytes


class Listening(Protocol):
    """A broker, as far as a client has to know it."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class Wire:
    """One connection, logged in as root unless that is left for later."""

    opened: ClassVar[list["Wire"]] = []
    """Those that are not closed yet; fixtures close what a test or a module has not."""

    def __init__(
        self,
        broker: Listening,
        *,
        login: bool = True,
        source: str | None = None,
        timeout_s: float = TIMEOUT_S,
        through: Callable[[socket.socket], socket.socket] | None = None,
    ) -> None:
        """`source` is the address to come from; all of 127.0.0.0/8 is this machine.

        `through` makes of the connected socket the one that is used, as TLS does. A broker may
        have one for all its connections.
        """
        try:
            self.socket = socket.create_connection(
                (broker.host, broker.port), timeout_s, None if source is None else (source, 0)
            )
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.port: int = self.socket.getsockname()[1]
            """Our own port: how the broker tells its clients apart."""
            through = through or getattr(broker, "through", None)
            if through is not None:
                self.socket = through(self.socket)
        except OSError as error:
            raise Closed(str(error)) from error
        self.opened.append(self)
        if login:
            self.log_in()

    @classmethod
    def over(cls, connected: Any, *, login: bool = True) -> Self:
        """A connection over something that behaves as a connected socket."""
        wire = cls.__new__(cls)
        wire.socket = connected
        wire.port = connected.getsockname()[1]
        cls.opened.append(wire)
        if login:
            wire.log_in()
        return wire

    @classmethod
    def close_all(cls) -> None:
        """Close what is open; what is to outlive this is taken out of `opened`."""
        for wire in list(cls.opened):
            wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def log_in(self, username: str = ROOT.username, password: str = ROOT.password) -> Self:
        """A connection that is refused here is closed."""
        try:
            self.ask(LoginUser(username, password))
        except BaseException:
            self.close()
            raise
        return self

    # The end of the connection.

    def close(self) -> None:
        self.socket.close()
        if self in self.opened:
            self.opened.remove(self)

    def reset(self) -> None:
        """Close with a reset instead of an end of file."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_WHEN_CLOSED)
        self.close()

    def abort(self) -> None:
        """End the connection at once, from any thread, with a reset instead of a goodbye."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_WHEN_CLOSED)
        self.socket.shutdown(socket.SHUT_RDWR)

    def is_closed(self) -> bool:
        """Wait until the broker closes the connection; False if it has something to say first."""
        try:
            return self.socket.recv(RECEIVE_SIZE) == b""
        except ConnectionResetError:
            return True

    def was_reset(self) -> bool:
        """Whether the broker ended the connection, whatever has not been read yet."""
        poller = select.poll()
        poller.register(self.socket, 0)
        return any(event & select.POLLERR for _, event in poller.poll(0))

    def drain_until_closed(self) -> int:
        """Read whatever comes until the broker closes; how many bytes came."""
        count = 0
        with suppress(ConnectionResetError):
            while got := self.socket.recv(RECEIVE_SIZE):
                count += len(got)
        return count

    # Bytes.

    def fileno(self) -> int:
        return self.socket.fileno()

    def put(self, data: bytes | memoryview) -> None:
        """Write without waiting for anything; `answer` waits."""
        try:
            self.socket.sendall(data)
        except TimeoutError as error:
            raise Hung(f"nothing was taken within {self.socket.gettimeout()} s") from error
        except OSError as error:
            raise Closed(str(error)) from error

    def answer(self) -> Answer:
        """The next answer, whatever it says."""
        status, length = RESPONSE_HEADER.unpack(self._take(RESPONSE_HEADER.size))
        return Answer(status, self._take(length))

    def answers(self, count: int) -> list[Answer]:
        return [self.answer() for _ in range(count)]

    def request(self, code: int, payload: bytes = b"") -> Answer:
        """Any request, however wrong, and what is answered to it."""
        self.put(encode_request(code, payload))
        return self.answer()

    def read_some(self, size: int) -> int:
        """Read at least one byte and at most `size`, and throw them away; how many."""
        return self._receive(memoryview(bytearray(size)))

    def is_quiet_for(self, seconds: float) -> bool:
        """Wait so long for bytes or the end of the connection; True when nothing came."""
        return not is_readable(self.socket, seconds)

    def is_in_step(self) -> bool:
        """Whether a PING is answered, and nothing else lies before its answer."""
        return self.request(Code.PING) == Answer(0, b"")

    # Values.

    def ask(self, command: Command) -> Any:
        """The value that a command answers with, None for an empty answer; errors are raised."""
        self.begin(command)
        return decode_reply(code_of(command), memoryview(self.result()))

    def begin(self, command: Command) -> None:
        """Write a command without waiting; `result` or `answer` waits."""
        self.put(frame_of(command))

    def result(self) -> bytes:
        """The payload of the next answer; an error status is raised."""
        status, payload = self.answer()
        if status:
            raise error_for(status)
        return payload

    def answer_to(self, command: Command) -> Answer:
        """What is answered to a command, errors included."""
        self.begin(command)
        return self.answer()

    def status(self, command: Command) -> int:
        """The status that a command is answered with; a success has to be readable."""
        try:
            self.ask(command)
        except BrokerError as error:
            return error.status
        return 0

    # Messages.

    def send(
        self,
        topic: Identifier,
        partitioning: Partitioning | int,
        *messages: Message | bytes,
        stream: Identifier | None = None,
    ) -> int:
        """Send a batch; its status. Stream and topic have the same name unless said otherwise."""
        self.begin_append(topic if stream is None else stream, topic, partitioning, messages)
        return self.answer().status

    def append(
        self,
        stream: Identifier,
        topic: Identifier,
        partitioning: Partitioning | int,
        messages: Iterable[Message | bytes],
    ) -> None:
        """Send a batch; an error is raised."""
        self.begin_append(stream, topic, partitioning, messages)
        self.result()

    def begin_append(
        self,
        stream: Identifier,
        topic: Identifier,
        partitioning: Partitioning | int,
        messages: Iterable[Message | bytes],
    ) -> None:
        """Write a batch without waiting; `result` or `answer` waits."""
        if isinstance(partitioning, int):
            partitioning = PartitionId(partitioning)
        batch = [Message(one) if isinstance(one, bytes) else one for one in messages]
        payload = encode_send_messages(stream, topic, partitioning, batch)
        self.put(encode_request(Code.SEND_MESSAGES, payload))

    def poll(
        self,
        topic: Identifier,
        partition_id: int | None = 0,
        strategy: PollingStrategy = FIRST,
        count: int = 1000,
        *,
        consumer: Consumer = ANYBODY,
        auto_commit: bool = False,
        stream: Identifier | None = None,
    ) -> PolledMessages:
        """Poll; an error is raised. Stream and topic have the same name unless said otherwise."""
        polled = self.ask(
            PollMessages(
                consumer,
                topic if stream is None else stream,
                topic,
                partition_id,
                strategy,
                count,
                auto_commit,
            )
        )
        assert isinstance(polled, PolledMessages)
        return polled

    def payloads(self, topic: Identifier, partition_id: int = 0) -> list[bytes]:
        """Everything in a partition."""
        return [message.payload for message in self.poll(topic, partition_id).messages]

    def poll_at(
        self, stream: Identifier, topic: Identifier, partition: int, offset: int, count: int
    ) -> PolledMessages:
        """Poll by offset."""
        strategy = PollingStrategy(StrategyKind.OFFSET, offset)
        return self.poll(topic, partition, strategy, count, consumer=READER, stream=stream)

    def read(self, stream: Identifier, topic: Identifier, partition: int) -> Iterator[Message]:
        """Every message of a partition; offsets are checked to be dense from 0."""
        offset = 0
        while messages := self.poll_at(stream, topic, partition, offset, POLL_COUNT).messages:
            for message in messages:
                assert message.offset == offset, f"offset {message.offset} where {offset} follows"
                offset += 1
                yield message

    def _take(self, size: int) -> bytes:
        taken = bytearray(size)
        view = memoryview(taken)
        while view:
            view = view[self._receive(view) :]
        return bytes(taken)

    def _receive(self, view: memoryview) -> int:
        """Fill at least the first byte; how many were filled."""
        try:
            count = self.socket.recv_into(view)
        except TimeoutError as error:
            raise Hung(f"no answer within {self.socket.gettimeout()} s") from error
        except OSError as error:
            raise Closed(str(error)) from error
        if not count:
            raise Closed(f"the broker closed the connection, {len(view)} bytes are missing")
        return count


def frame_of(command: Command) -> bytes:
    """A command as its frame."""
    return encode_request(code_of(command), encode_command(command))


def send_frame(stream: str, topic: str, payloads: Sequence[bytes], partition_id: int = 0) -> bytes:
    """A valid SEND_MESSAGES request."""
    messages = [Message(payload) for payload in payloads]
    payload = encode_send_messages(stream, topic, PartitionId(partition_id), messages)
    return encode_request(Code.SEND_MESSAGES, payload)


def poll_frame(stream: str, topic: str, offset: int, count: int, partition_id: int = 0) -> bytes:
    """A valid POLL_MESSAGES request."""
    strategy = PollingStrategy(StrategyKind.OFFSET, offset)
    return frame_of(PollMessages(READER, stream, topic, partition_id, strategy, count, False))
