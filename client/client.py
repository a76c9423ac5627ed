"""The client an application uses: one method per command, typed, over one connection.

    async with BorzoiClient.connect("127.0.0.1:8090", username="iggy", password="iggy") as client:
        await client.send_messages("orders", "events", ["hello"], partition_id=0)

A stream, topic or consumer is named by its id (int) or its name (str). What does not exist is
None where something is looked up, and a BrokerError such as StreamIdNotFound where something
is to be done with it. Arguments that cannot be sent raise InvalidArgument before anything is.

Holds no state of its own but the connection, so several tasks may use one client; their
requests take turns. A client whose connection broke stays broken: open another one.
"""

import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, Self

from borzoi.client.address import Login, parse_address
from borzoi.client.arguments import (
    InvalidArgument,
    check_command,
    check_identifier,
    check_partitioning,
)
from borzoi.client.connection import RESPONSE_SIZE_MAX, TIMEOUT_S, Connection
from borzoi.client.outgoing import Outgoing, check_batch_size, prepare_outgoing
from borzoi.protocol import commands
from borzoi.protocol.codes import Code
from borzoi.protocol.identifiers import (
    Balanced,
    Consumer,
    ConsumerKind,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
    PollingStrategy,
)
from borzoi.protocol.responses import (
    ClientDetails,
    ClientInfo,
    ClusterMetadata,
    ConsumerOffsetInfo,
    Identity,
    PolledMessages,
    Stats,
    StreamDetails,
    StreamInfo,
    TopicDetails,
    TopicInfo,
)
from borzoi.protocol.send_messages import PreparedBatch, encode_prepared_messages

# Tells the server which generation of codecs this client speaks.
WIRE_VERSION: Final = "0.10.0"
NO_COMPRESSION: Final = 1
DEFAULT_CONSUMER: Final = 0  # the official clients poll as this one when nothing is said
NO_MESSAGES: Final = b""


def now_us() -> int:
    return time.time_ns() // 1_000


class BorzoiClient:
    """Made by connect() or open(); the constructor takes a connection that exists already."""

    def __init__(self, connection: Connection, clock_us: Callable[[], int] = now_us) -> None:
        self.connection = connection
        self._clock_us = clock_us

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        address: str,
        *,
        username: str | None = None,
        password: str | None = None,
        timeout_s: float = TIMEOUT_S,
        response_size_max: int = RESPONSE_SIZE_MAX,
    ) -> AsyncIterator[Self]:
        """open() for a `with` block, and close() at its end."""
        client = await cls.open(
            address,
            username=username,
            password=password,
            timeout_s=timeout_s,
            response_size_max=response_size_max,
        )
        try:
            yield client
        finally:
            await client.close()

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        username: str | None = None,
        password: str | None = None,
        timeout_s: float = TIMEOUT_S,
        response_size_max: int = RESPONSE_SIZE_MAX,
    ) -> Self:
        """Connect, and log in when a username or a connection string with one is given."""
        server = parse_address(address)
        login = _only_login(server.login, username, password)
        connection = await Connection.open(
            server.host, server.port, timeout_s, response_size_max=response_size_max
        )
        client = cls(connection)
        if login is not None:
            try:
                await client.login_user(login.username, login.password)
            except BaseException:  # cancelled as well: nobody else would close the socket
                await connection.close()
                raise
        return client

    async def close(self) -> None:
        await self.connection.close()

    # The server and its sessions.

    async def ping(self) -> None:
        await self._ask(commands.Ping())

    async def login_user(self, username: str, password: str) -> Identity:
        identity: Identity = await self._ask(commands.LoginUser(username, password, WIRE_VERSION))
        return identity

    async def logout_user(self) -> None:
        await self._ask(commands.LogoutUser())

    async def get_me(self) -> ClientDetails:
        details: ClientDetails = await self._ask(commands.GetMe())
        return details

    async def get_client(self, client_id: int) -> ClientDetails | None:
        details: ClientDetails | None = await self._ask(commands.GetClient(client_id))
        return details

    async def get_clients(self) -> tuple[ClientInfo, ...]:
        clients: tuple[ClientInfo, ...] = await self._ask(commands.GetClients())
        return clients

    async def get_stats(self) -> Stats:
        stats: Stats = await self._ask(commands.GetStats())
        return stats

    async def get_cluster_metadata(self) -> ClusterMetadata:
        metadata: ClusterMetadata = await self._ask(commands.GetClusterMetadata())
        return metadata

    # Streams.

    async def create_stream(self, name: str) -> StreamInfo:
        stream: StreamInfo = await self._ask(commands.CreateStream(name))
        return stream

    async def get_stream(self, stream: Identifier) -> StreamDetails | None:
        details: StreamDetails | None = await self._ask(commands.GetStream(stream))
        return details

    async def get_streams(self) -> tuple[StreamInfo, ...]:
        streams: tuple[StreamInfo, ...] = await self._ask(commands.GetStreams())
        return streams

    async def update_stream(self, stream: Identifier, name: str) -> None:
        await self._ask(commands.UpdateStream(stream, name))

    async def delete_stream(self, stream: Identifier) -> None:
        await self._ask(commands.DeleteStream(stream))

    async def purge_stream(self, stream: Identifier) -> None:
        await self._ask(commands.PurgeStream(stream))

    # Topics and partitions. Expiry in microseconds, size in bytes, 0 for the server's default.

    async def create_topic(
        self,
        stream: Identifier,
        name: str,
        partitions_count: int = 1,
        *,
        compression_algorithm: int = NO_COMPRESSION,
        message_expiry: int = 0,
        max_topic_size: int = 0,
        replication_factor: int = 0,
    ) -> TopicDetails:
        command = commands.CreateTopic(
            stream=stream,
            partitions_count=partitions_count,
            compression_algorithm=compression_algorithm,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
            replication_factor=replication_factor,
            name=name,
        )
        details: TopicDetails = await self._ask(command)
        return details

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        details: TopicDetails | None = await self._ask(commands.GetTopic(stream, topic))
        return details

    async def get_topics(self, stream: Identifier) -> tuple[TopicInfo, ...]:
        """Empty also for a stream that does not exist."""
        topics: tuple[TopicInfo, ...] = await self._ask(commands.GetTopics(stream))
        return topics

    async def update_topic(
        self,
        stream: Identifier,
        topic: Identifier,
        name: str,
        *,
        compression_algorithm: int = NO_COMPRESSION,
        message_expiry: int = 0,
        max_topic_size: int = 0,
        replication_factor: int = 0,
    ) -> None:
        """Replaces all of these settings, also those that are not given."""
        command = commands.UpdateTopic(
            stream=stream,
            topic=topic,
            compression_algorithm=compression_algorithm,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
            replication_factor=replication_factor,
            name=name,
        )
        await self._ask(command)

    async def delete_topic(self, stream: Identifier, topic: Identifier) -> None:
        await self._ask(commands.DeleteTopic(stream, topic))

    async def purge_topic(self, stream: Identifier, topic: Identifier) -> None:
        await self._ask(commands.PurgeTopic(stream, topic))

    async def create_partitions(
        self, stream: Identifier, topic: Identifier, partitions_count: int
    ) -> None:
        await self._ask(commands.CreatePartitions(stream, topic, partitions_count))

    async def delete_partitions(
        self, stream: Identifier, topic: Identifier, partitions_count: int
    ) -> None:
        await self._ask(commands.DeletePartitions(stream, topic, partitions_count))

    # Messages.

    async def send_messages(
        self,
        stream: Identifier,
        topic: Identifier,
        messages: Iterable[Outgoing],
        *,
        partition_id: int | None = None,
        key: bytes | str | None = None,
    ) -> None:
        """All messages land in one partition: the given one, the key's, or the server's choice."""
        partitioning = _partitioning(partition_id, key)
        prepared = prepare_outgoing(messages, self._clock_us())
        await self.send_prepared(stream, topic, prepared, partitioning)

    async def send_prepared(
        self,
        stream: Identifier,
        topic: Identifier,
        prepared: PreparedBatch,
        partitioning: Partitioning,
    ) -> None:
        """A batch that was encoded before; it may be sent any number of times."""
        check_identifier("stream", stream)
        check_identifier("topic", topic)
        check_partitioning(partitioning)
        count, index_and_messages = prepared
        check_batch_size(len(index_and_messages))
        target = PreparedBatch(count, NO_MESSAGES)
        metadata = encode_prepared_messages(stream, topic, partitioning, target)
        await self.connection.request_parts(Code.SEND_MESSAGES, metadata, index_and_messages)

    async def poll_messages(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        strategy: PollingStrategy,
        count: int,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
        auto_commit: bool = False,
    ) -> PolledMessages:
        """At most `count` messages. Without a partition it is 0, or for a group its choice."""
        command = commands.PollMessages(
            consumer=_as_consumer(consumer),
            stream=stream,
            topic=topic,
            partition_id=partition_id,
            strategy=strategy,
            count=count,
            auto_commit=auto_commit,
        )
        polled: PolledMessages = await self._ask(command)
        return polled

    async def flush_unsaved_buffer(
        self, stream: Identifier, topic: Identifier, partition_id: int, *, fsync: bool = False
    ) -> None:
        await self._ask(commands.FlushUnsavedBuffer(stream, topic, partition_id, fsync))

    # Consumer offsets.

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
    ) -> ConsumerOffsetInfo | None:
        command = commands.GetConsumerOffset(_as_consumer(consumer), stream, topic, partition_id)
        info: ConsumerOffsetInfo | None = await self._ask(command)
        return info

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        offset: int,
        *,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
    ) -> None:
        """`offset` is that of the last message dealt with; going back is allowed."""
        who = _as_consumer(consumer)
        await self._ask(commands.StoreConsumerOffset(who, stream, topic, partition_id, offset))

    async def delete_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        consumer: Consumer | Identifier = DEFAULT_CONSUMER,
    ) -> None:
        who = _as_consumer(consumer)
        await self._ask(commands.DeleteConsumerOffset(who, stream, topic, partition_id))

    async def _ask(self, command: commands.Command) -> Any:
        check_command(command)
        return await self.connection.request(command)


def _only_login(
    from_address: Login | None, username: str | None, password: str | None
) -> Login | None:
    if username is None and password is None:
        return from_address
    if from_address is not None:
        raise InvalidArgument("the address has a username already; give it in one place only")
    if username is None or password is None:
        missing = "username" if username is None else "password"
        raise InvalidArgument(f"{missing} is missing; username and password are given together")
    return Login(username, password)


def _as_consumer(consumer: Consumer | Identifier) -> Consumer:
    return consumer if isinstance(consumer, Consumer) else Consumer(ConsumerKind.CONSUMER, consumer)


def _partitioning(partition_id: int | None, key: bytes | str | None) -> Partitioning:
    if partition_id is not None and key is not None:
        raise InvalidArgument("partition_id and key are both given; at most one can be")
    if partition_id is not None:
        return PartitionId(partition_id)
    if key is not None:
        return MessagesKey(key.encode() if isinstance(key, str) else key)
    return Balanced()
