"""Everything a bench asks of a server beside the load itself: log in, make streams, look.

One blocking socket, one request at a time, encoded by borzoi.protocol; works against any server
of this wire. A refusal is raised as the BrokerError of its status.
"""

from typing import Any, Final

from borzoi.bench.carriers import Carrier, dialled
from borzoi.bench.plans import Credentials
from borzoi.protocol import commands
from borzoi.protocol.errors import (
    BrokerError,
    StreamIdNotFound,
    error_for,
)
from borzoi.protocol.framing import RESPONSE_HEADER, encode_request
from borzoi.protocol.generations import code_of, decode_reply, encode_command
from borzoi.protocol.identifiers import U64_MAX, Identifier
from borzoi.protocol.responses import Stats, StreamDetails, StreamInfo, TopicDetails

# Tells the server which generation of codecs we speak.
WIRE_VERSION: Final = "0.10.0"
TIMEOUT_S: Final = 60.0
NO_COMPRESSION: Final = 1
TOPIC: Final = "topic-1"
STREAM_PREFIX: Final = "bench-stream-"


class Admin:
    """A connection for questions and orders."""

    def __init__(self, connection: Carrier) -> None:
        self._socket = connection
        self._memory = memoryview(bytearray(1 << 20))

    @classmethod
    def connect(
        cls,
        host: str,
        port: int,
        credentials: Credentials,
        transport: str = "tcp",
        ca_file: str = "",
    ) -> "Admin":
        """Returns a connection that is logged in; the socket is closed if that fails."""
        connection = dialled(host, port, transport, ca_file, TIMEOUT_S)
        try:
            admin = cls(connection)
            log_in(admin, credentials)
        except BaseException:
            connection.close()
            raise
        return admin

    def ask(self, command: commands.Command) -> Any:
        """The value of the answer; None where there is none."""
        code = code_of(command)
        answer = self._exchange(encode_request(code, encode_command(command)))
        return decode_reply(code, memoryview(bytes(answer)))

    def send_raw(self, frame: bytes | bytearray) -> int:
        """A prebuilt request. Its answer is not decoded: how many bytes it has."""
        return len(self._exchange(frame))

    @property
    def local_port(self) -> int:
        """The port of this end, by which the server names the connection."""
        return self._socket.getsockname()[1]

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()

    def _exchange(self, frame: bytes | bytearray) -> memoryview:
        """The answer, until the next one comes."""
        self._socket.sendall(frame)
        status, length = RESPONSE_HEADER.unpack(self._exactly(RESPONSE_HEADER.size))
        if status:
            raise error_for(status)
        return self._exactly(length)

    def _exactly(self, size: int) -> memoryview:
        if size > len(self._memory):
            self._memory = memoryview(bytearray(size))
        view = self._memory[:size]
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                raise ConnectionError("the server closed the connection")
            view = view[count:]
        return self._memory[:size]


def log_in(admin: Admin, credentials: Credentials) -> None:
    """Logs the connection in; raises the status if the server refuses."""
    admin.ask(
        commands.LoginUser(
            credentials.username, credentials.password, version=WIRE_VERSION, context="bench"
        )
    )


def join_group(admin: Admin, stream: Identifier, topic: Identifier, group: Identifier) -> None:
    """Makes the connection a member of a consumer group."""
    admin.ask(commands.JoinConsumerGroup(stream, topic, group))


def stream_name(number: int) -> str:
    """Streams are counted from 1."""
    return f"{STREAM_PREFIX}{number}"


def make_stream(
    admin: Admin,
    name: str,
    partitions: int,
    *,
    reuse: bool = False,
    max_topic_size: int = U64_MAX,
    message_expiry: int = U64_MAX,
) -> tuple[int, int]:
    """The ids of an empty stream of this name and its topic; with `reuse` an existing one."""
    found = find_stream(admin, name)
    if found is not None:
        if reuse:
            return found
        admin.ask(commands.DeleteStream(name))
    stream: StreamInfo = admin.ask(commands.CreateStream(name))
    topic: TopicDetails = admin.ask(
        commands.CreateTopic(
            stream=stream.id,
            partitions_count=partitions,
            compression_algorithm=NO_COMPRESSION,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
            replication_factor=1,
            name=TOPIC,
        )
    )
    return stream.id, topic.topic.id


def find_stream(admin: Admin, name: str) -> tuple[int, int] | None:
    """The ids of a bench stream and its topic, None when there is no such stream."""
    try:
        stream: StreamDetails | None = admin.ask(commands.GetStream(name))
    except StreamIdNotFound:
        return None
    if stream is None:
        return None
    topic = next((topic for topic in stream.topics if topic.name == TOPIC), None)
    return None if topic is None else (stream.stream.id, topic.id)


def delete_stream(admin: Admin, name: str) -> None:
    """Deletes the stream of this name, if there is one."""
    if find_stream(admin, name) is not None:
        admin.ask(commands.DeleteStream(name))


def partition_message_counts(admin: Admin, stream: Identifier, topic: Identifier) -> dict[int, int]:
    """How many messages lie in each partition."""
    details: TopicDetails = admin.ask(commands.GetTopic(stream, topic))
    return {partition.id: partition.messages_count for partition in details.partitions}


def stats_of(admin: Admin) -> Stats | None:
    """What the server says about itself; None when it does not."""
    try:
        stats: Stats = admin.ask(commands.GetStats())
    except BrokerError:
        return None
    return stats
