"""The client an application uses: one method per command, typed, and what stands on them.

    async with BorzoiClient.connect("127.0.0.1:8090", username="iggy", password="iggy") as client:
        await client.send_messages("orders", "events", ["hello"], partition_id=0)

A stream, topic, user, group or consumer is named by its id (int) or its name (str). What does
not exist is None where something is looked up, and a BrokerError such as StreamIdNotFound where
something is to be done with it. Arguments that cannot be sent raise InvalidArgument before
anything is.

Several tasks may use one client; their requests take turns. A lost connection is made again, with
the login and the group memberships it had. The file session.py says what that means for a request
that was on its way.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, Self, TypedDict, Unpack

from borzoi.client.address import Login, ServerAddress, parse_address
from borzoi.client.arguments import (
    InvalidArgument,
    check_identifier,
    check_number,
    check_partition_id,
)
from borzoi.client.calls.groups import GroupCalls
from borzoi.client.calls.messages import MessageCalls
from borzoi.client.calls.offsets import DEFAULT_CONSUMER, OffsetCalls, as_consumer
from borzoi.client.calls.sessions import SessionCalls
from borzoi.client.calls.streams import StreamCalls
from borzoi.client.calls.system import SystemCalls
from borzoi.client.calls.topics import TopicCalls
from borzoi.client.calls.users import UserCalls
from borzoi.client.committing import commit_every
from borzoi.client.connection import RESPONSE_SIZE_MAX, TIMEOUT_S, Connection
from borzoi.client.consumer import BATCH_SIZE, ConsumerOptions, MessageConsumer
from borzoi.client.idling import Idling
from borzoi.client.link import Link
from borzoi.client.producer import Producer, ProducerOptions
from borzoi.client.reading import Reading
from borzoi.client.reconnect import Reconnect
from borzoi.client.session import Session
from borzoi.client.sources import GroupMember, OwnPartitions, Source
from borzoi.client.strategies import NEXT
from borzoi.protocol.identifiers import U32_MAX, Consumer, ConsumerKind, Identifier

# Servers that look for heartbeats want one every few seconds; the official clients send as often.
HEARTBEAT_S: Final = 5.0
DEFAULT_RECONNECT: Final = Reconnect()
DEFAULT_COMMIT: Final = commit_every(1.0)
DEFAULT_IDLING: Final = Idling()


class OpenOptions(TypedDict, total=False):
    """The keywords of BorzoiClient.open(), where they are explained."""

    username: str | None
    password: str | None
    token: str | None
    timeout_s: float
    response_size_max: int
    reconnect: Reconnect | None
    heartbeat_s: float | None


class BorzoiClient(
    SystemCalls,
    SessionCalls,
    UserCalls,
    StreamCalls,
    TopicCalls,
    MessageCalls,
    OffsetCalls,
    GroupCalls,
):
    """Made by connect() or open(); the constructor takes a session that exists already."""

    @classmethod
    @asynccontextmanager
    async def connect(cls, address: str, **options: Unpack[OpenOptions]) -> AsyncIterator[Self]:
        """open() for a `with` block, and close() at its end."""
        async with await cls.open(address, **options) as client:
            yield client

    @classmethod
    async def open(
        cls,
        address: str,
        *,
        username: str | None = None,
        password: str | None = None,
        token: str | None = None,
        timeout_s: float = TIMEOUT_S,
        response_size_max: int = RESPONSE_SIZE_MAX,
        reconnect: Reconnect | None = DEFAULT_RECONNECT,
        heartbeat_s: float | None = HEARTBEAT_S,
    ) -> Self:
        """Connect, and log in with what is given: a password, a token, a connection string.

        `timeout_s` is for connecting and for each answer. `reconnect` says how a lost connection
        is made again; None leaves it lost. The first connection is tried once.
        """
        server = parse_address(address)
        login = _only_login(server, username, password, token)

        async def dial() -> Link:
            return await _dial(server, timeout_s, response_size_max)

        connection = await dial()
        session = Session(connection, dial if reconnect else None, reconnect)
        client = cls(session)
        try:
            if isinstance(login, Login):
                await client.login_user(login.username, login.password)
            elif login is not None:
                await client.login_with_personal_access_token(login)
        except BaseException:  # cancelled as well: nothing else would close the socket
            await client.close()
            raise
        if heartbeat_s is not None:
            session.beat(heartbeat_s)
        return client

    @property
    def is_open(self) -> bool:
        """Whether there is a connection right now."""
        return self._session.connection.is_open

    def producer(
        self, stream: Identifier, topic: Identifier, **options: Unpack[ProducerOptions]
    ) -> Producer:
        """For sending messages one by one, as batches; see producer.py."""
        return Producer(self, stream, topic, **options)

    def consumer(
        self,
        stream: Identifier,
        topic: Identifier,
        consumer: Identifier = DEFAULT_CONSUMER,
        *,
        partitions: Sequence[int] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> MessageConsumer:
        """For iterating over the messages of these partitions, or of all; see consumer.py."""
        if partitions is not None and not partitions:
            raise InvalidArgument("partitions has no partition; None stands for all")
        for partition_id in partitions or ():
            check_partition_id(partition_id)
        reading = self._reading(stream, topic, as_consumer(consumer), options)
        source = OwnPartitions(reading, partitions, time.monotonic)
        return _consumer_of(reading, source, options)

    def group_consumer(
        self,
        stream: Identifier,
        topic: Identifier,
        group: Identifier,
        *,
        create_group: bool = True,
        **options: Unpack[ConsumerOptions],
    ) -> MessageConsumer:
        """For iterating as a member of a group, which is created when it is not there.

        A session is a member once: two members need two clients.
        """
        reading = self._reading(stream, topic, Consumer(ConsumerKind.GROUP, group), options)
        source = GroupMember(reading, creates_group=create_group)
        return _consumer_of(reading, source, options)

    def _reading(
        self, stream: Identifier, topic: Identifier, consumer: Consumer, options: ConsumerOptions
    ) -> Reading:
        check_identifier("stream", stream)
        check_identifier("topic", topic)
        check_identifier("consumer", consumer.id)
        batch_size, last_count = options.get("batch_size", BATCH_SIZE), options.get("last_count", 1)
        check_number("batch_size", batch_size, U32_MAX, 1)
        check_number("last_count", last_count, U32_MAX)
        return Reading(
            self,
            stream,
            topic,
            consumer,
            start=options.get("start", NEXT),
            last_count=last_count,
            count=batch_size,
            auto_commit=options.get("commit", DEFAULT_COMMIT).on_poll,
        )

    async def close(self) -> None:
        """Close at once; requests that are still unanswered fail. May be called twice."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()


def _consumer_of(reading: Reading, source: Source, options: ConsumerOptions) -> MessageConsumer:
    commit = options.get("commit", DEFAULT_COMMIT)
    return MessageConsumer(reading, source, commit, options.get("idling", DEFAULT_IDLING))


async def _dial(server: ServerAddress, timeout_s: float, response_size_max: int) -> Link:
    if server.transport == "http":
        # Imported here: most programs do not speak HTTP, and the processes of Spark start often.
        from borzoi.client.web.connection import WebConnection

        return await WebConnection.open(
            server.host,
            server.port,
            timeout_s,
            response_size_max=response_size_max,
            tls=server.tls,
        )
    return await Connection.open(
        server.host,
        server.port,
        timeout_s,
        response_size_max=response_size_max,
        transport=server.transport,
        tls=server.tls,
    )


def _only_login(
    server: ServerAddress, username: str | None, password: str | None, token: str | None
) -> Login | str | None:
    """A login, a token, or None; more than one of them is a mistake."""
    if username is None and password is None:
        login = None
    elif username is None or password is None:
        missing = "username" if username is None else "password"
        raise InvalidArgument(f"{missing} is missing; username and password are given together")
    else:
        login = Login(username, password)
    given = [one for one in (server.login, server.token, login, token) if one is not None]
    if len(given) > 1:
        raise InvalidArgument(
            "the address, username and password, or token: the login is given in one place only"
        )
    return given[0] if given else None
