"""Every call of our own client, and its producer and consumers, over all commands there are."""

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from borzoi.client import BorzoiClient
from borzoi.protocol.commands import SnapshotType
from borzoi.protocol.errors import BrokerError
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from tests.replay.proxy import Proxy

SETTINGS: Final = {
    "IGGY_SYSTEM_SEGMENT_SIZE": "5KiB",
    "IGGY_PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER": "3",
}
STREAM, TOPIC, GROUP = "orders", "events", "readers"
READER: Final = Permissions(
    GlobalPermissions(read_servers=True),
    {0: StreamPermissions(read_stream=True, topics={0: TopicPermissions(poll_messages=True)})},
)
HOUR_US: Final = 3_600_000_000


async def run(proxy: Proxy) -> None:
    async with await _open(proxy) as client:
        await _system(client)
        await _streams(client)
        await _topics(client)
        await _messages(client)
        await _offsets(client)
        await _groups(proxy, client)
        await _users(proxy, client)
        await _tokens(proxy, client)
        await _producers_and_consumers(client)
        await _taking_away(client)
        await _system(client)
        await client.logout_user()
        await refused(client.get_streams())


async def _open(proxy: Proxy, username: str = "iggy", password: str = "iggy") -> BorzoiClient:
    return await BorzoiClient.open(
        proxy.address, username=username, password=password, heartbeat_s=None, reconnect=None
    )


async def _system(client: BorzoiClient) -> None:
    await client.ping()
    await client.get_stats()
    await client.get_cluster_metadata()
    me = await client.get_me()
    await client.get_client(me.client.client_id)
    await client.get_client(me.client.client_id)
    await refused(client.get_client(0))
    await client.get_clients()
    await client.get_snapshot([SnapshotType.SERVER_CONFIG])
    await client.get_snapshot([SnapshotType.TEST, SnapshotType.SERVER_CONFIG])


async def _streams(client: BorzoiClient) -> None:
    for name in (STREAM, "other", "third"):
        await client.create_stream(name)
    await refused(client.create_stream(STREAM))
    await client.update_stream("third", "last")
    await refused(client.update_stream("last", STREAM))
    await refused(client.update_stream("third", "fourth"))
    for stream in (STREAM, 1, "last", "third", 9):
        await client.get_stream(stream)
    await client.delete_stream(1)
    await refused(client.delete_stream("other"))
    await client.create_stream("again")
    await client.get_streams()


async def _topics(client: BorzoiClient) -> None:
    await client.create_topic(STREAM, TOPIC, 3)
    await client.create_topic(STREAM, "audit", 1, compression_algorithm=2, message_expiry=HOUR_US)
    await client.create_topic(STREAM, "none", 0, max_topic_size=1 << 40, replication_factor=1)
    await refused(client.create_topic(STREAM, TOPIC))
    await refused(client.create_topic("missing", TOPIC))
    await refused(client.create_topic(STREAM, "many", 1001))
    await refused(client.create_topic(STREAM, "small", 1, max_topic_size=1))
    await client.update_topic(STREAM, "audit", "trail", message_expiry=2 * HOUR_US)
    await refused(client.update_topic(STREAM, "audit", "x"))
    await refused(client.update_topic(STREAM, "trail", TOPIC))
    await client.create_partitions(STREAM, "none", 5)
    await client.delete_partitions(STREAM, "none", 2)
    await refused(client.delete_partitions(STREAM, "none", 9))
    await refused(client.create_partitions(STREAM, "none", 1001))
    for topic in (TOPIC, "trail", "none", "audit", 1, 9):
        await client.get_topic(STREAM, topic)
    await client.get_topics(STREAM)
    await client.get_topics("missing")
    await client.get_stream(STREAM)


async def _messages(client: BorzoiClient) -> None:
    for partition_id in range(3):
        for batch in range(4):
            messages = [
                Message(f"{partition_id}/{batch}/{number}".encode().ljust(200), id=number + 1)
                for number in range(10 + partition_id)
            ]
            await client.send_messages(STREAM, TOPIC, messages, partition_id=partition_id)
    await client.send_messages(STREAM, TOPIC, ["plain text", b"bytes"], partition_id=0)
    await client.send_messages(
        STREAM, TOPIC, [Message(b"x", user_headers=_HEADERS)], partition_id=1
    )
    for key in ("a", "b", "another key", b"\0\xff"):
        await client.send_messages(STREAM, "none", [f"by key {key!r}"], key=key)
    for number in range(7):
        await client.send_messages(STREAM, "none", [f"balanced {number}"])
    await refused(client.send_messages(STREAM, TOPIC, ["x"], partition_id=3))
    await refused(client.send_messages(STREAM, "missing", ["x"], partition_id=0))
    await refused(client.send_messages("missing", TOPIC, ["x"], partition_id=0))
    for fsync in (False, True):
        await client.flush_unsaved_buffer(STREAM, TOPIC, 0, fsync=fsync)
    await refused(client.flush_unsaved_buffer(STREAM, TOPIC, 7))
    polled = await client.poll_messages(
        STREAM, TOPIC, 0, strategy=_by(StrategyKind.FIRST), count=99
    )
    times = sorted({message.timestamp for message in polled.messages})
    strategies = [_by(StrategyKind.TIMESTAMP, value) for value in (0, *times, 1 << 62)]
    strategies += [_by(StrategyKind.OFFSET, value) for value in (0, 9, 10, 41, 42, 1 << 40)]
    strategies += [_by(StrategyKind.LAST), _by(StrategyKind.NEXT)]
    for strategy in strategies:
        for count in (0, 1, 11, 1000):
            await client.poll_messages(STREAM, TOPIC, 0, strategy=strategy, count=count)
    for partition_id in range(3):
        await client.poll_messages(
            STREAM, "none", partition_id, strategy=_by(StrategyKind.FIRST), count=100
        )
    await client.get_topic(STREAM, TOPIC)
    await client.get_stream(STREAM)


async def _offsets(client: BorzoiClient) -> None:
    for consumer in (1, 2, "named"):
        await client.get_consumer_offset(STREAM, TOPIC, 0, consumer=consumer)
        await client.store_consumer_offset(STREAM, TOPIC, 0, 12, consumer=consumer)
        await client.get_consumer_offset(STREAM, TOPIC, 0, consumer=consumer)
        for auto_commit in (False, True, True):
            await client.poll_messages(
                STREAM,
                TOPIC,
                0,
                strategy=_by(StrategyKind.NEXT),
                count=5,
                consumer=consumer,
                auto_commit=auto_commit,
            )
        await client.get_consumer_offset(STREAM, TOPIC, 0, consumer=consumer)
    await refused(client.store_consumer_offset(STREAM, TOPIC, 0, 1000))
    await refused(client.store_consumer_offset(STREAM, TOPIC, 9, 0))
    await refused(client.store_consumer_offset(STREAM, "missing", 0, 0))
    await client.delete_consumer_offset(STREAM, TOPIC, 0, consumer=1)
    await refused(client.delete_consumer_offset(STREAM, TOPIC, 0, consumer=1))
    await client.get_consumer_offset(STREAM, TOPIC, 0, consumer=1)


async def _groups(proxy: Proxy, client: BorzoiClient) -> None:
    await client.create_consumer_group(STREAM, TOPIC, GROUP)
    await client.create_consumer_group(STREAM, TOPIC, "idle")
    await refused(client.create_consumer_group(STREAM, TOPIC, GROUP))
    await refused(client.create_consumer_group(STREAM, "missing", GROUP))
    await client.get_consumer_groups(STREAM, TOPIC)
    await client.get_consumer_groups(STREAM, "missing")
    for group in (GROUP, 0, "missing"):
        await client.get_consumer_group(STREAM, TOPIC, group)
    who = Consumer(ConsumerKind.GROUP, GROUP)
    await refused(_poll_group(client, who))
    await client.join_consumer_group(STREAM, TOPIC, GROUP)
    await client.join_consumer_group(STREAM, TOPIC, GROUP)
    await refused(client.join_consumer_group(STREAM, TOPIC, "missing"))
    await client.get_me()
    for _ in range(6):
        await _poll_group(client, who)
    for partition_id in (0, 1, 2, None):
        await client.get_consumer_offset(STREAM, TOPIC, partition_id, consumer=who)
        await client.store_consumer_offset(STREAM, TOPIC, partition_id, 3, consumer=who)
        await client.get_consumer_offset(STREAM, TOPIC, partition_id, consumer=who)
    async with await _open(proxy) as second:
        await second.join_consumer_group(STREAM, TOPIC, GROUP)
        await second.get_me()
        for _ in range(5):
            for member in (client, second):
                await _poll_group(member, who)
            await client.get_consumer_group(STREAM, TOPIC, GROUP)
        await client.get_clients()
        await client.get_stats()
        await second.leave_consumer_group(STREAM, TOPIC, GROUP)
        await client.get_consumer_group(STREAM, TOPIC, GROUP)
        for _ in range(4):
            await _poll_group(client, who)
        await second.join_consumer_group(STREAM, TOPIC, GROUP)
    # Whose turn it is after a lost member depends on when the loss is noticed: no polls from here.
    await proxy.wait_all_closed(but=1)
    await client.get_consumer_group(STREAM, TOPIC, GROUP)
    await client.delete_consumer_offset(STREAM, TOPIC, 0, consumer=who)
    await client.leave_consumer_group(STREAM, TOPIC, GROUP)
    await refused(client.leave_consumer_group(STREAM, TOPIC, GROUP))
    await client.get_consumer_group(STREAM, TOPIC, GROUP)
    await client.delete_consumer_group(STREAM, TOPIC, "idle")
    await refused(client.delete_consumer_group(STREAM, TOPIC, "idle"))


async def _users(proxy: Proxy, client: BorzoiClient) -> None:
    await client.create_user("reader", "secret one", permissions=READER)
    await client.create_user("nothing", "secret two", status=UserStatus.INACTIVE)
    await refused(client.create_user("reader", "secret one"))
    await client.get_users()
    for user in ("iggy", 0, "reader", "nothing", "missing", 9):
        await client.get_user(user)
    await refused(_open(proxy, "nothing", "secret two"))
    await refused(_open(proxy, "reader", "wrong"))
    await proxy.wait_all_closed(but=1)
    async with await _open(proxy, "reader", "secret one") as reader:
        await reader.get_me()
        await reader.get_stats()
        await refused(reader.get_streams())
        await reader.get_stream(0)
        await reader.get_topic(0, 0)
        await reader.get_topics(0)
        await _poll_first(reader)
        await refused(reader.create_stream("mine"))
        await refused(reader.send_messages(STREAM, TOPIC, ["x"], partition_id=0))
        await refused(reader.get_users())
        await reader.get_user("reader")
        await reader.change_password("reader", "secret one", "secret three")
        await refused(reader.change_password("reader", "secret one", "secret four"))
        await client.update_permissions("reader", None)
        await refused(_poll_first(reader))
        await refused(reader.get_stats())
        await client.update_user("reader", status=UserStatus.INACTIVE)
        await refused(reader.get_streams())
    await proxy.wait_all_closed(but=1)
    await client.update_user("reader", username="writer", status=UserStatus.ACTIVE)
    await refused(client.update_user("writer", username="iggy"))
    await refused(client.delete_user("iggy"))
    await client.get_user("writer")
    await client.delete_user("nothing")
    await refused(client.delete_user("nothing"))
    await refused(client.update_permissions("nothing", READER))
    await client.get_users()


async def _tokens(proxy: Proxy, client: BorzoiClient) -> None:
    await client.get_personal_access_tokens()
    raw = await client.create_personal_access_token("forever")
    await client.create_personal_access_token("an hour", expiry=HOUR_US)
    await refused(client.create_personal_access_token("forever"))
    await client.create_personal_access_token("third")
    await refused(client.create_personal_access_token("fourth"))
    await client.get_personal_access_tokens()
    options: dict[str, Any] = {"heartbeat_s": None, "reconnect": None}
    async with await BorzoiClient.open(proxy.address, token=raw.token, **options) as other:
        await other.get_me()
        await other.get_streams()
    await proxy.wait_all_closed(but=1)
    await client.delete_personal_access_token("forever")
    await refused(client.delete_personal_access_token("forever"))
    await refused(BorzoiClient.open(proxy.address, token=raw.token, **options))
    await refused(BorzoiClient.open(proxy.address, token="x" * 44, **options))
    await proxy.wait_all_closed(but=1)
    await client.get_personal_access_tokens()


async def _producers_and_consumers(client: BorzoiClient) -> None:
    async with client.producer(STREAM, "trail") as producer:
        await producer.send_all([f"produced {number}" for number in range(50)])
    async with client.consumer(STREAM, "trail", "one by one") as consumer:
        async for batch in consumer.batches(wait=False):
            if not batch.messages:
                break
    async with client.group_consumer(STREAM, "trail", "made on the way") as consumer:
        async for batch in consumer.batches(wait=False):
            if not batch.messages:
                break
    await client.get_consumer_groups(STREAM, "trail")


async def _taking_away(client: BorzoiClient) -> None:
    await client.get_topic(STREAM, TOPIC)
    await client.delete_segments(STREAM, TOPIC, 0, 1)
    await client.get_topic(STREAM, TOPIC)
    await _poll_first(client)
    await client.delete_segments(STREAM, TOPIC, 1, 100)
    await refused(client.delete_segments(STREAM, TOPIC, 9, 1))
    await client.get_topic(STREAM, TOPIC)
    await client.purge_topic(STREAM, TOPIC)
    await refused(client.purge_topic(STREAM, "missing"))
    await client.get_topic(STREAM, TOPIC)
    await client.get_consumer_offset(STREAM, TOPIC, 0, consumer=2)
    await _poll_first(client)
    await client.send_messages(STREAM, TOPIC, ["after the purge"], partition_id=0)
    await _poll_first(client)
    await client.purge_stream(STREAM)
    await refused(client.purge_stream("missing"))
    await client.get_stream(STREAM)
    await client.delete_topic(STREAM, "trail")
    await refused(client.delete_topic(STREAM, "trail"))
    await client.create_topic(STREAM, "trail", 1)
    await client.delete_stream(STREAM)
    await refused(_poll_first(client))
    await client.get_streams()


async def _poll_first(client: BorzoiClient) -> None:
    await client.poll_messages(STREAM, TOPIC, 0, strategy=_by(StrategyKind.FIRST), count=1000)


async def _poll_group(client: BorzoiClient, who: Consumer) -> None:
    await client.poll_messages(
        STREAM,
        TOPIC,
        None,
        strategy=_by(StrategyKind.NEXT),
        count=7,
        consumer=who,
        auto_commit=True,
    )


def _by(kind: StrategyKind, value: int = 0) -> PollingStrategy:
    return PollingStrategy(kind, value)


async def refused(request: Awaitable[object]) -> None:
    """The broker says no, with whatever status: the session keeps which one."""
    try:
        await asyncio.wait_for(request, 60)
    except BrokerError:
        return
    raise AssertionError(f"the broker was expected to refuse {request}")


# key kind string, "k"; value kind 11 (u32), 7
_HEADERS: Final = bytes.fromhex("02010000006b0b0400000007000000")
