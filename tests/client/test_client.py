"""Every method of the client sends the checked-in bytes and understands their answers."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any, NamedTuple

import pytest

from borzoi.client import FIRST, NEXT, BorzoiClient, InvalidArgument, from_offset, from_timestamp
from borzoi.client.connection import Connection
from borzoi.client.session import Session
from borzoi.client.strategies import LAST
from borzoi.protocol.codes import Code
from borzoi.protocol.commands import LoginUser, Ping, SnapshotType
from borzoi.protocol.errors import InvalidCredentials, StreamIdNotFound, error_for
from borzoi.protocol.framing import OK, encode_request, encode_response
from borzoi.protocol.generations import CLASSIC, decode_reply
from borzoi.protocol.headers import HeaderKind, encode_user_headers, header_field
from borzoi.protocol.identifiers import (
    U64_MAX,
    Balanced,
    Consumer,
    ConsumerKind,
    MessagesKey,
    PartitionId,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import UserStatus
from borzoi.protocol.send_messages import encode_send_messages, prepare_messages
from tests.client.conftest import Run
from tests.client.scripted_server import Answer, Silence, scripted
from tests.protocol.values import Vector, vectors

NOW_US = 1_700_000_000_000_000
GROUP = Consumer(ConsumerKind.GROUP, "grp")
HELLO = Message(b"hello", origin_timestamp=0x0006605B8ECD778D)
WORLD = Message(b"world!", origin_timestamp=0x0006605B8ECD7797)
WITH_HEADERS = Message(
    b"hi",
    id=1,
    user_headers=encode_user_headers({header_field("k"): header_field(7, HeaderKind.UINT32)}),
    origin_timestamp=0x0000018BCFE56800,
)


VECTORS = {vector.name: vector for vector in vectors()}


def requested(name: str) -> Any:
    """The command that a checked-in frame carries."""
    vector = VECTORS[name]
    return CLASSIC.requests[vector.code](memoryview(vector.request))


TOKEN = requested("V5").token
PASSWORDS = {name: requested(name).password for name in ("V31", "V48")}


class Call(NamedTuple):
    vector: str
    method: str
    make: Callable[[BorzoiClient], Awaitable[Any]]


CALLS = [
    Call("V1", "ping", lambda c: c.ping()),
    Call("V2", "login_user", lambda c: c.login_user("iggy", "iggy", context="")),
    Call("V4", "login_user", lambda c: c.login_user("iggy", "iggy", context="")),
    Call(
        "V5",
        "login_with_personal_access_token",
        lambda c: c.login_with_personal_access_token(TOKEN),
    ),
    Call("V56", "logout_user", lambda c: c.logout_user()),
    Call("V34", "get_me", lambda c: c.get_me()),
    Call("V45", "get_client", lambda c: c.get_client(2650268133)),
    Call("V46", "get_clients", lambda c: c.get_clients()),
    Call("V33", "get_stats", lambda c: c.get_stats()),
    Call("V6", "get_cluster_metadata", lambda c: c.get_cluster_metadata()),
    Call("V42", "get_snapshot", lambda c: c.get_snapshot()),
    Call(
        "V32",
        "create_personal_access_token",
        lambda c: c.create_personal_access_token("tok", expiry=600),
    ),
    Call("V38", "get_personal_access_tokens", lambda c: c.get_personal_access_tokens()),
    Call("V57", "delete_personal_access_token", lambda c: c.delete_personal_access_token("tok")),
    Call("V31", "create_user", lambda c: c.create_user("user1", PASSWORDS["V31"])),
    Call(
        "V48",
        "create_user",
        lambda c: c.create_user(
            "user2",
            PASSWORDS["V48"],
            status=UserStatus.INACTIVE,
            permissions=requested("V48").permissions,
        ),
    ),
    Call("V35", "get_user", lambda c: c.get_user(1)),
    Call("V47", "get_users", lambda c: c.get_users()),
    Call(
        "V51",
        "update_user",
        lambda c: c.update_user(1, username="user9", status=UserStatus.INACTIVE),
    ),
    Call("V52", "update_user", lambda c: c.update_user(1, status=UserStatus.ACTIVE)),
    Call("V53", "update_permissions", lambda c: c.update_permissions(1, None)),
    Call(
        "V54",
        "update_permissions",
        lambda c: c.update_permissions(1, requested("V54").permissions),
    ),
    Call(
        "V55",
        "change_password",
        lambda c: c.change_password(
            1, requested("V55").current_password, requested("V55").new_password
        ),
    ),
    Call("V49", "delete_user", lambda c: c.delete_user("user1")),
    Call("V50", "delete_user", lambda c: c.delete_user(0)),
    Call("V8", "create_stream", lambda c: c.create_stream("orders")),
    Call("V9", "create_stream", lambda c: c.create_stream("orders")),
    Call("V7", "get_stream", lambda c: c.get_stream("nope")),
    Call("V13", "get_stream", lambda c: c.get_stream(0)),
    Call("V43", "get_streams", lambda c: c.get_streams()),
    Call("V58", "get_streams", lambda c: c.get_streams()),
    Call("V60", "update_stream", lambda c: c.update_stream(0, "orders2")),
    Call("V59", "delete_stream", lambda c: c.delete_stream("orders")),
    Call("V61", "purge_stream", lambda c: c.purge_stream(0)),
    Call("V10", "create_topic", lambda c: c.create_topic("orders", "events", 2)),
    Call(
        "V11",
        "create_topic",
        lambda c: c.create_topic(
            0,
            "t",
            3,
            compression_algorithm=2,
            message_expiry=60_000_000,
            max_topic_size=2 * 1024**3,
            replication_factor=2,
        ),
    ),
    Call("V12", "create_topic", lambda c: c.create_topic("absent", "events", 2)),
    Call("V14", "get_topic", lambda c: c.get_topic("orders", 0)),
    Call("V15", "get_topic", lambda c: c.get_topic("orders", "missing")),
    Call("V62", "get_topics", lambda c: c.get_topics(0)),
    Call(
        "V64",
        "update_topic",
        lambda c: c.update_topic(
            "orders",
            0,
            "ev2",
            compression_algorithm=2,
            message_expiry=60_000_000,
            max_topic_size=U64_MAX,
        ),
    ),
    Call("V63", "delete_topic", lambda c: c.delete_topic("orders", 0)),
    Call("V65", "purge_topic", lambda c: c.purge_topic(0, 0)),
    Call("V66", "create_partitions", lambda c: c.create_partitions(0, 0, 3)),
    Call("V67", "delete_partitions", lambda c: c.delete_partitions(0, 0, 9)),
    Call("V41", "delete_segments", lambda c: c.delete_segments(0, 0, 9, 1)),
    Call(
        "V22",
        "create_consumer_group",
        lambda c: c.create_consumer_group("orders", "events", "grp"),
    ),
    Call("V21", "get_consumer_group", lambda c: c.get_consumer_group("orders", "events", "grp")),
    Call("V36", "get_consumer_group", lambda c: c.get_consumer_group("orders", "events", "grp")),
    Call("V68", "get_consumer_groups", lambda c: c.get_consumer_groups(0, 0)),
    Call("V23", "join_consumer_group", lambda c: c.join_consumer_group("orders", "events", "grp")),
    Call("V24", "join_consumer_group", lambda c: c.join_consumer_group(1, 2, 3)),
    Call(
        "V70", "leave_consumer_group", lambda c: c.leave_consumer_group("orders", "events", "grp")
    ),
    Call("V69", "delete_consumer_group", lambda c: c.delete_consumer_group("orders", "events", 0)),
    Call(
        "V16",
        "send_messages",
        lambda c: c.send_messages("orders", "events", [HELLO, WORLD], partition_id=1),
    ),
    Call("V29", "send_messages", lambda c: c.send_messages(1, "t", [WITH_HEADERS], key="key-1")),
    Call(
        "V16",
        "send_prepared",
        lambda c: c.send_prepared(
            "orders", "events", prepare_messages([HELLO, WORLD]), PartitionId(1)
        ),
    ),
    Call(
        "V17",
        "poll_messages",
        lambda c: c.poll_messages(
            "orders", "events", 1, strategy=FIRST, count=10, auto_commit=True
        ),
    ),
    Call(
        "V18",
        "poll_messages",
        lambda c: c.poll_messages("orders", "events", 1, strategy=NEXT, count=10),
    ),
    Call(
        "V19",
        "poll_messages",
        lambda c: c.poll_messages(7, 9, 3, strategy=from_offset(258), count=1, auto_commit=True),
    ),
    Call(
        "V20",
        "poll_messages",
        lambda c: c.poll_messages(
            7, 9, 3, strategy=from_timestamp(NOW_US), count=1, auto_commit=True
        ),
    ),
    Call(
        "V25",
        "poll_messages",
        lambda c: c.poll_messages("orders", "events", None, strategy=NEXT, count=5, consumer=GROUP),
    ),
    Call(
        "V39",
        "poll_messages",
        lambda c: c.poll_messages(0, 0, 0, strategy=from_offset(5), count=1),
    ),
    Call("V40", "flush_unsaved_buffer", lambda c: c.flush_unsaved_buffer(0, 0, 0, fsync=True)),
    Call("V37", "get_consumer_offset", lambda c: c.get_consumer_offset("orders", "events", 1)),
    Call(
        "V26",
        "store_consumer_offset",
        lambda c: c.store_consumer_offset("orders", "events", 0, 1, consumer=GROUP),
    ),
    Call(
        "V27",
        "store_consumer_offset",
        lambda c: c.store_consumer_offset(
            1, 2, None, 5, consumer=Consumer(ConsumerKind.GROUP, "g")
        ),
    ),
    Call(
        "V28",
        "delete_consumer_offset",
        lambda c: c.delete_consumer_offset("orders", "events", 0, consumer=GROUP),
    ),
]


def answer_of(vector: Vector) -> Answer:
    return Answer(encode_response(vector.status, vector.response))


@pytest.mark.parametrize("call", [pytest.param(c, id=f"{c.vector}-{c.method}") for c in CALLS])
def test_bytes_out_and_value_back(run: Run, call: Call) -> None:
    vector = VECTORS[call.vector]

    async def test() -> None:
        async with scripted(answer_of(vector)) as server:
            client = await BorzoiClient.open(server.address)
            if vector.status:
                with pytest.raises(type(error_for(vector.status))):
                    await call.make(client)
            else:
                expected = decode_reply(vector.code, memoryview(vector.response))
                assert await call.make(client) == expected
            assert server.requests == [encode_request(vector.code, vector.request)]
            await client.close()

    run(test())


def test_no_method_is_without_a_checked_in_frame() -> None:
    methods = {
        name
        for name in dir(BorzoiClient)
        if not name.startswith("_") and iscoroutinefunction(getattr(BorzoiClient, name))
    }
    assert methods - {"open", "close"} == {call.method for call in CALLS}


def test_every_command_has_a_method() -> None:
    assert {VECTORS[call.vector].code for call in CALLS} == set(Code)


def test_what_is_missing_is_none(run: Run) -> None:
    async def test() -> None:
        async with scripted(*[Answer(OK)] * 5) as server:
            client = await BorzoiClient.open(server.address)
            assert await client.get_stream("nope") is None
            assert await client.get_topic("nope", 0) is None
            assert await client.get_client(7) is None
            assert await client.get_consumer_offset("nope", 0, 0) is None
            assert await client.get_topics("nope") == ()
            await client.close()

    run(test())


def test_polled_messages_are_messages(run: Run) -> None:
    async def test() -> None:
        async with scripted(answer_of(VECTORS["V39"])) as server:
            client = await BorzoiClient.open(server.address)
            polled = await client.poll_messages(0, 0, 0, strategy=LAST, count=1, consumer="me")
            (message,) = polled.messages
            assert (message.payload, message.offset, message.id) == (b"hi", 5, 1)
            assert message.headers == {header_field("k"): header_field(7, HeaderKind.UINT32)}
            await client.close()

    run(test())


@pytest.mark.parametrize(
    ("arguments", "partitioning"),
    [
        ({}, Balanced()),
        ({"partition_id": 0}, PartitionId(0)),
        ({"key": "straße"}, MessagesKey("straße".encode())),
        ({"key": b"\0"}, MessagesKey(b"\0")),
    ],
)
def test_sending_plain_payloads(
    run: Run, arguments: dict[str, Any], partitioning: Balanced | PartitionId | MessagesKey
) -> None:
    expected = [Message(b"bytes", origin_timestamp=NOW_US), Message(b"text", 0, b"", NOW_US)]

    async def test() -> None:
        async with scripted(Answer(OK)) as server:
            session = Session(await Connection.open("127.0.0.1", server.port))
            client = BorzoiClient(session, clock_us=lambda: NOW_US)
            await client.send_messages("s", 4, [b"bytes", "text"], **arguments)
            payload = encode_send_messages("s", 4, partitioning, expected)
            assert server.requests == [encode_request(Code.SEND_MESSAGES, payload)]
            await client.close()

    run(test())


BAD_CALLS: list[tuple[Callable[[BorzoiClient], Awaitable[Any]], str]] = [
    (lambda c: c.create_stream(""), "name has 0 bytes; 1 to 255 are needed"),
    (lambda c: c.get_topic(-1, 0), "stream is -1; 0 to 4294967295 is needed"),
    (lambda c: c.send_messages(0, "t" * 256, ["x"]), "topic has 256 bytes"),
    (lambda c: c.send_messages(0, 0, ["x"], partition_id=2**32), "partition_id is 4294967296"),
    (lambda c: c.send_messages(0, 0, ["x"], key=""), "key has 0 bytes; 1 to 255 are needed"),
    (lambda c: c.send_messages(0, 0, ["x"], key="k" * 256), "key has 256 bytes"),
    (lambda c: c.send_messages(0, 0, ["x"], key="k", partition_id=0), "are both given"),
    (lambda c: c.send_messages(0, 0, []), "no message; at least 1 is needed"),
    (lambda c: c.flush_unsaved_buffer(0, 0, -1), "partition_id is -1"),
    (
        lambda c: c.poll_messages(
            0, 0, 0, strategy=PollingStrategy(StrategyKind.OFFSET, -1), count=1
        ),
        "strategy OFFSET is -1",
    ),
    (lambda c: c.login_user("iggy", "s" * 256), "password has 256 bytes"),
    (lambda c: c.get_snapshot(()), "types has no type"),
    (lambda c: c.get_snapshot((SnapshotType.ALL, SnapshotType.TEST)), "ALL stands alone"),
]


def test_nothing_is_sent_for_arguments_that_cannot_be() -> None:
    async def test() -> None:
        async with scripted(Answer(OK)) as server:
            client = await BorzoiClient.open(server.address)
            for call, reason in BAD_CALLS:
                with pytest.raises(InvalidArgument, match=reason):
                    await call(client)
            await client.ping()
            assert server.requests == [encode_request(Code.PING)]
            await client.close()

    asyncio.run(test())


LOGIN = VECTORS["V2"]


@pytest.mark.parametrize("scheme", ["", "iggy://", "iggy+tcp://"])
def test_connect_logs_in_and_closes(run: Run, scheme: str) -> None:
    async def test() -> None:
        async with scripted(answer_of(LOGIN), Answer(OK)) as server:
            if scheme:
                connecting = BorzoiClient.connect(f"{scheme}iggy:iggy@{server.address}")
            else:
                connecting = BorzoiClient.connect(server.address, username="iggy", password="iggy")
            async with connecting as client:
                await client.ping()
            assert not client.is_open
            assert server.commands == [
                LoginUser("iggy", "iggy", "0.10.0", "codecs texts"), Ping(),
            ]  # fmt: skip

    run(test())


def test_connect_without_a_user_sends_nothing(run: Run) -> None:
    async def test() -> None:
        async with scripted() as server:
            async with BorzoiClient.connect(server.address):
                pass
            await server.wait_client_gone()
            assert server.requests == []

    run(test())


def test_a_failed_login_closes_the_connection(run: Run) -> None:
    async def test() -> None:
        async with scripted(answer_of(VECTORS["V4"])) as server:
            with pytest.raises(InvalidCredentials):
                await BorzoiClient.open(server.address, username="iggy", password="iggy")
            await server.wait_client_gone()

    run(test())


def test_a_login_without_answer_closes_the_connection(run: Run) -> None:
    async def test() -> None:
        async with scripted(Silence()) as server:
            with pytest.raises(TimeoutError):
                await BorzoiClient.open(
                    server.address, username="iggy", password="iggy", timeout_s=0.02
                )
            await server.wait_client_gone()

    run(test())


def test_an_error_inside_the_block_closes_too(run: Run) -> None:
    async def test() -> None:
        async with scripted(Answer(encode_response(1009))) as server:
            with pytest.raises(StreamIdNotFound):
                async with BorzoiClient.connect(server.address) as client:
                    await client.delete_stream("nope")
            assert not client.is_open

    run(test())


@pytest.mark.parametrize(
    ("address", "username", "password", "reason"),
    [
        ("127.0.0.1:1", "iggy", None, "password is missing"),
        ("127.0.0.1:1", None, "iggy", "username is missing"),
        ("iggy://a:b@127.0.0.1:1", "iggy", "iggy", "in one place only"),
    ],
)
def test_half_a_login(
    run: Run, address: str, username: str | None, password: str | None, reason: str
) -> None:
    async def test() -> None:
        with pytest.raises(InvalidArgument, match=reason):
            await BorzoiClient.open(address, username=username, password=password)

    run(test())


BAD_CONSUMERS: list[tuple[Callable[[BorzoiClient], Any], str]] = [
    (lambda c: c.consumer(0, 0, partitions=[]), "partitions has no partition"),
    (lambda c: c.consumer(0, 0, partitions=[-1]), "partition_id is -1"),
    (lambda c: c.consumer(0, 0, batch_size=0), "batch_size is 0"),
    (lambda c: c.consumer(0, 0, last_count=-1), "last_count is -1"),
    (lambda c: c.consumer("", 0), "stream has 0 bytes"),
    (lambda c: c.group_consumer(0, "", "g"), "topic has 0 bytes"),
    (lambda c: c.group_consumer(0, 0, ""), "consumer has 0 bytes"),
    (lambda c: c.producer("", 0), "stream has 0 bytes"),
]


def test_producers_and_consumers_that_cannot_work(run: Run) -> None:
    async def test() -> None:
        async with scripted() as server, BorzoiClient.connect(server.address) as client:
            for make, reason in BAD_CONSUMERS:
                with pytest.raises(InvalidArgument, match=reason):
                    make(client)

    run(test())
