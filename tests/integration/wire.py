"""A client for tests: one socket, one request at a time, every byte in the test's hands.

Blocking on purpose: a test reads from top to bottom. Commands and answers are the values of
borzoi.protocol; a status that is not 0 is raised as its BrokerError.
"""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import psutil

from borzoi.protocol.codes import Code
from borzoi.protocol.commands import Command, PollMessages
from borzoi.protocol.commands.sessions import LoginUser
from borzoi.protocol.commands.topics import CreateTopic, GetTopic
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
from borzoi.protocol.responses.polled import PolledMessages
from borzoi.protocol.responses.streams import TopicDetails
from borzoi.protocol.send_messages import encode_send_messages
from tests.broker import BrokerProcess, wait_for

# Whatever the machine has: tests that look at both shards need exactly two.
TWO_SHARDS: Final = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "2"}
# For what one worker decides or the supervisor does: the other would only have to be started.
ONE_SHARD: Final = {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION": "1"}

ROOT: Final = LoginUser("iggy", "iggy")
TIMEOUT_S: Final = 60.0
TRIES_MAX: Final = 64
FIRST: Final = PollingStrategy(StrategyKind.FIRST)
NEXT: Final = PollingStrategy(StrategyKind.NEXT)
ANYBODY: Final = Consumer(ConsumerKind.CONSUMER, 0)


class ConnectionClosed(Exception):
    """The broker has closed the connection."""


class Wire:
    """One connection."""

    opened: ClassVar[list["Wire"]] = []
    """All of the test that runs; a fixture closes what the test has not."""

    def __init__(
        self, broker: BrokerProcess, *, login: bool = True, source: str | None = None
    ) -> None:
        """`source` is the address we come from; all of 127.0.0.0/8 is this machine."""
        self.opened.append(self)
        self.socket = socket.create_connection(
            (broker.host, broker.port), TIMEOUT_S, None if source is None else (source, 0)
        )
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if login:
            self.ask(ROOT)

    @property
    def port(self) -> int:
        """Our own port: how the broker tells its clients apart."""
        port = self.socket.getsockname()[1]
        assert isinstance(port, int)
        return port

    def close(self) -> None:
        self.socket.close()

    # Bytes.

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_answer(self) -> tuple[int, bytes]:
        """Status and payload of the next answer."""
        status, length = RESPONSE_HEADER.unpack(self._read(RESPONSE_HEADER.size))
        return status, self._read(length)

    def is_closed(self) -> bool:
        """Whether the broker closes the connection, with nothing more to say."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def call(self, code: int, payload: bytes = b"") -> tuple[int, bytes]:
        """Any request, however wrong; its status and the payload of its answer."""
        self.write(encode_request(code, payload))
        return self.read_answer()

    # Values.

    def ask(self, command: Command) -> Any:
        """The value that a command answers with, None for an empty answer."""
        code = code_of(command)
        status, payload = self.call(code, encode_command(command))
        if status:
            raise error_for(status)
        return decode_reply(code, memoryview(payload))

    def status(self, command: Command) -> int:
        """The status that a command is answered with."""
        try:
            self.ask(command)
        except BrokerError as error:
            return error.status
        return 0

    def send(
        self,
        topic: Identifier,
        partitioning: Partitioning | int,
        *messages: Message | bytes,
        stream: Identifier | None = None,
    ) -> int:
        """Send a batch; its status. Stream and topic have the same name unless said otherwise."""
        if isinstance(partitioning, int):
            partitioning = PartitionId(partitioning)
        batch = [Message(one) if isinstance(one, bytes) else one for one in messages]
        payload = encode_send_messages(
            topic if stream is None else stream, topic, partitioning, batch
        )
        return self.call(Code.SEND_MESSAGES, payload)[0]

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
        """Poll; an error is raised."""
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

    def _read(self, size: int) -> bytes:
        parts = bytearray(size)
        view = memoryview(parts)
        while view:
            count = self.socket.recv_into(view)
            if count == 0:
                raise ConnectionClosed(f"{len(view)} of {size} bytes are missing")
            view = view[count:]
        return bytes(parts)


def topic_of(name: str, partitions_count: int = 1, stream: Identifier | None = None) -> CreateTopic:
    """A topic with default settings, in a stream of the same name unless said otherwise."""
    return CreateTopic(
        stream=name if stream is None else stream,
        partitions_count=partitions_count,
        compression_algorithm=1,
        message_expiry=0,
        max_topic_size=0,
        replication_factor=1,
        name=name,
    )


def described(wire: Wire, name: str) -> TopicDetails:
    """The topic `name` of the stream `name`."""
    details = wire.ask(GetTopic(name, name))
    assert isinstance(details, TopicDetails)
    return details


def shard_of_wire(broker: BrokerProcess, wire: Wire) -> int:
    """Which worker has accepted the connection: the one whose socket has our port as its peer."""

    def holder() -> list[int]:
        found = [
            shard
            for shard, pid in broker.workers().items()
            for connection in psutil.Process(pid).net_connections("tcp")
            if connection.raddr and connection.raddr.port == wire.port
        ]
        # While it moves from one to the other, both have it.
        return found if len(found) == 1 else []

    (shard,) = wait_for(holder)
    return shard


@contextmanager
def one_per_shard(broker: BrokerProcess, login: LoginUser = ROOT) -> Iterator[Sequence[Wire]]:
    """Logged-in connections, one on each shard, by shard. The kernel chooses: it takes several."""
    opened: list[Wire] = []
    found: dict[int, Wire] = {}
    shards = broker.workers()
    try:
        for _ in range(TRIES_MAX):
            wire = Wire(broker, login=False)
            opened.append(wire)
            shard = shard_of_wire(broker, wire)
            if shard in found:
                wire.close()
                continue
            found[shard] = wire
            wire.ask(login)
            if len(found) == len(shards):
                break
        assert len(found) == len(shards), f"{TRIES_MAX} connections missed a shard"
        yield [found[shard] for shard in sorted(found)]
    finally:
        for wire in opened:
            wire.close()
