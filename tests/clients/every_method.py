"""Every public method of the newest package, each called for what it does.

    python -I -S every_method.py DIRECTORY MODULE SCHEME ADDRESS

DIRECTORY is where the package was installed; nothing else that is installed is importable. Each
scenario asserts what the broker answered. The last line of output has the public methods of the
package, by introspection, and those that were called: test_every_method.py compares them.
"""

import asyncio
import importlib
import json
import os
import struct
import sys
from datetime import timedelta
from typing import Any, Final, NamedTuple

NAME: Final = "every-method"
PARTITIONS: Final = 3
GET_STATS: Final = 10
CREATE_TOKEN: Final = 42
DELETE_TOKEN: Final = 43
WAIT_S: Final = 20.0
RECORDED: Final = ("IggyClient", "IggyProducer", "IggyConsumer")
CALLED: Final[set[str]] = set()
TCP: Final = "iggy"


class Server(NamedTuple):
    """Where the package connects to, and through which door."""

    scheme: str
    address: str


class Recorded:
    """An object of the package; what is taken from it counts as called."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        CALLED.add(f"{type(self._inner).__name__}.{name}")
        return getattr(self._inner, name)


def public(module: Any) -> list[str]:
    """The methods that users of the package see."""
    return sorted(
        f"{name}.{method}"
        for name in RECORDED
        for method in dir(getattr(module, name))
        if not method.startswith("_")
    )


async def refused(awaitable: Any, text: str) -> None:
    """The broker says no, and why."""
    said = ""
    try:
        await awaitable
    except Exception as error:
        said = str(error)
    assert text in said, f"refused with {said!r}, not with {text!r}"


async def by_string(m: Any, server: Server, credentials: str) -> Recorded:
    """A client that is logged in by its connection string: the one way but for TCP."""
    CALLED.add("IggyClient.from_connection_string")
    make = m.IggyClient.from_connection_string
    client = Recorded(make(f"{server.scheme}://{credentials}@{server.address}"))
    await client.connect()
    return client


async def connect(m: Any, server: Server) -> Recorded:
    client = await by_string(m, server, "iggy:iggy")
    assert await client.get_streams() == []
    if server.scheme == TCP:
        client = Recorded(m.IggyClient(server.address))
        await client.connect()
    else:
        await client.logout_user()
    await client.ping()
    await refused(client.get_streams(), "nauthenticated")
    await refused(client.login_user("iggy", "wrong"), "credentials")
    await client.login_user("iggy", "iggy")
    return client


async def streams(m: Any, client: Recorded) -> None:
    await client.create_stream(NAME)
    await refused(client.create_stream(NAME), "already exists")
    found = await client.get_stream(NAME)
    assert (found.id, found.name, found.topics_count, found.topics) == (0, NAME, 0, [])
    await client.update_stream(NAME, "renamed")
    assert await client.get_stream(NAME) is None
    assert [one.name for one in await client.get_streams()] == ["renamed"]
    await refused(client.update_stream("renamed", NAME, options={"colour": "red"}), "option")
    await client.update_stream(0, NAME)


async def topics(m: Any, client: Recorded) -> None:
    await client.create_topic(
        NAME,
        "made",
        PARTITIONS,
        compression_algorithm="gzip",
        message_expiry=m.IggyExpiry.ExpireDuration(timedelta(hours=1)),
        max_topic_size=m.MaxTopicSize.Custom(2**31),
        segment_size=2**20,
        durability=m.Durability("persisted"),
        messages_required_to_save=5,
        preallocate_segments=False,
    )
    await refused(client.create_topic(NAME, "bad", 1, options={"colour": "red"}), "option")
    await refused(client.create_topic(NAME, "bad", 1, segment_size=1000), "option")
    found = await client.get_topic(NAME, "made")
    assert (found.name, found.partitions_count, len(found.partitions)) == ("made", 3, 3)
    assert found.compression_algorithm == "gzip"
    assert found.message_expiry.duration == timedelta(hours=1)
    assert found.max_topic_size.bytes == 2**31
    explicit, derived = found.options.to_scalar_dict(), found.derived_options.to_scalar_dict()
    assert explicit["segment_size"] == 2**20
    assert (explicit["durability"], explicit["messages_required_to_save"]) == ("persisted", 5)
    assert "segment_size" not in derived, derived
    assert not explicit.keys() & derived.keys()
    await client.update_topic(NAME, "made", "topic", compression_algorithm="none")
    (shown,) = await client.get_topics(NAME)
    assert (shown.name, shown.compression_algorithm) == ("topic", "none")
    assert shown.message_expiry.duration == timedelta(hours=1), "a key that is not given stays"
    await refused(
        client.update_topic(NAME, "topic", "topic", options={"segment_size": "1 MiB"}), "option"
    )
    await client.create_partitions(NAME, "topic", 2)
    assert (await client.get_topic(NAME, "topic")).partitions_count == PARTITIONS + 2
    await client.delete_partitions(NAME, "topic", 2)
    assert (await client.get_topic(NAME, "topic")).partitions_count == PARTITIONS


async def options(m: Any, client: Recorded) -> None:
    specs = {one.key: one for one in await client.describe_options("topic")}
    wanted = {"durability", "consumer_offset_durability", "segment_size", "max_topic_size"}
    assert wanted <= specs.keys(), specs.keys()
    assert all(one.description and one.kind for one in specs.values())
    assert await client.describe_options("stream") == []
    assert await client.describe_options("user") == []


async def messages(m: Any, client: Recorded) -> None:
    sent = await client.send_messages(NAME, "topic", 1, [m.SendMessage("a"), m.SendMessage(b"b")])
    (confirmed,) = sent.confirmations
    assert (confirmed.partition_id, confirmed.base_offset) == (1, 0)
    keyed = m.SendMessage(b"c", {"kind": "order", "count": 7}, 2**100)
    sent = await client.send_messages(NAME, "topic", m.Partitioning.partition_id(1), [keyed])
    assert sent.confirmations[0].base_offset == 2
    found = await poll(m, client, 1)
    assert [(one.offset(), one.payload()) for one in found] == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert found[2].user_headers().to_scalar_dict() == {"kind": "order", "count": 7}
    assert (found[2].id(), found[2].partition_id()) == (2**100, 1)


async def poll(m: Any, client: Recorded, partition: int) -> Any:
    return await client.poll_messages(
        NAME,
        "topic",
        consumer=m.Consumer.Single("reader"),
        polling_strategy=m.PollingStrategy.First(),
        count=100,
        auto_commit=False,
        partition_id=partition,
    )


async def producers(m: Any, client: Recorded) -> None:
    direct = m.DirectProducerConfig(batch_length=10, linger_time=timedelta(0))
    producer = await client.producer(
        NAME, "topic", m.Partitioning.partition_id(2), direct, topic_partitions_count=PARTITIONS
    )
    async with producer as opened:
        recorded = Recorded(opened)
        await recorded.send([m.SendMessage("one"), m.SendMessage("two")])
        await recorded.send_one(m.SendMessage("three"))
        to_first = m.Partitioning.partition_id(0)
        await recorded.send_with_partitioning([m.SendMessage("four")], to_first)
        await recorded.send_to(NAME, "topic", [m.SendMessage("five")], to_first)
    assert [one.payload() for one in await poll(m, client, 2)] == [b"one", b"two", b"three"]
    assert [one.payload() for one in await poll(m, client, 0)] == [b"four", b"five"]
    background = await client.producer(
        "made-by-producer", "topic", mode=m.BackgroundProducerConfig(linger_time=timedelta(0))
    )
    recorded = Recorded(background)
    await recorded.send([m.SendMessage(str(number)) for number in range(50)])
    await recorded.shutdown()
    made = await client.get_topic("made-by-producer", "topic")
    assert made.messages_count == 50
    await client.delete_stream("made-by-producer")


async def groups(m: Any, client: Recorded) -> None:
    await client.create_consumer_group(NAME, "topic", "billing")
    (listed,) = await client.get_consumer_groups(NAME, "topic")
    assert (listed.name, listed.partitions_count, listed.members_count) == ("billing", 3, 0)
    await client.join_consumer_group(NAME, "topic", "billing")
    joined = await client.get_consumer_group(NAME, "topic", "billing")
    assert joined.members_count == 1
    assert sorted(joined.members[0].partitions) == list(range(PARTITIONS))
    await client.leave_consumer_group(NAME, "topic", "billing")
    assert (await client.get_consumer_group(NAME, "topic", "billing")).members_count == 0
    await client.delete_consumer_group(NAME, "topic", "billing")
    assert await client.get_consumer_groups(NAME, "topic") == []


async def consumers(m: Any, client: Recorded) -> None:
    consumer = Recorded(
        await client.consumer_group(
            "readers",
            NAME,
            "topic",
            polling_strategy=m.PollingStrategy.Next(),
            auto_commit=m.AutoCommit.Disabled(),
        )
    )
    assert consumer.name() == "readers"
    assert (consumer.stream(), consumer.topic()) == (NAME, "topic")
    seen: list[bytes] = []
    async for message in consumer.iter_messages():
        seen.append(message.payload())
        if len(seen) == 8:
            break
    assert sorted(seen) == sorted([b"a", b"b", b"c", b"one", b"two", b"three", b"four", b"five"])
    assert consumer.get_last_consumed_offset(1) == 2
    await consumer.store_offset(1, 1)
    assert consumer.get_last_stored_offset(1) == 1
    await consumer.delete_offset(1)
    assert consumer.partition_id() in range(PARTITIONS)
    again = await client.consumer_group(
        "later", NAME, "topic", polling_strategy=m.PollingStrategy.First()
    )
    taken: list[bytes] = []
    shutdown = asyncio.Event()

    async def take(message: Any) -> None:
        taken.append(message.payload())
        shutdown.set()

    await Recorded(again).consume_messages(take, shutdown)
    assert taken


async def users(m: Any, client: Recorded, server: Server) -> None:
    may_read = m.Permissions(m.GlobalPermissions(read_streams=True))
    made = await client.create_user("clerk", "secret", m.UserStatus.Active, may_read)
    assert (made.username, made.permissions.global_permissions.read_streams) == ("clerk", True)
    clerk = await by_string(m, server, "clerk:secret")
    assert len(await clerk.get_streams()) == 1
    await refused(clerk.create_stream("forbidden"), "nauthorized")
    await client.update_permissions("clerk", None)
    await refused(clerk.get_streams(), "nauthorized")
    await client.change_password("clerk", "secret", "another")
    await client.update_user("clerk", username="writer")
    assert {one.username for one in await client.get_users()} == {"iggy", "writer"}
    assert (await client.get_user("writer")).permissions is None
    await refused(client.update_user("writer", options={"colour": "red"}), "option")
    await clerk.logout_user()
    await refused(clerk.login_user("writer", "secret"), "credentials")
    await clerk.login_user("writer", "another")
    await client.delete_user("writer")
    assert await client.get_user("writer") is None


async def raw(m: Any, client: Recorded) -> None:
    stats = await client.get_stats()
    assert (stats.streams_count, stats.topics_count) == (1, 1)
    assert stats.messages_count == 8
    assert len(await client.send_binary_request(GET_STATS, b"")) > 100
    name = b"raw"
    token = await client.send_binary_request(
        CREATE_TOKEN, bytes([len(name)]) + name + struct.pack("<Q", 0)
    )
    assert token[0] == len(token) - 1 > 20, "a token without the section of its result"
    await client.send_binary_request(DELETE_TOKEN, bytes([len(name)]) + name)
    await refused(client.send_binary_request(9999, b""), "nvalid")


async def end(client: Recorded) -> None:
    await client.purge_topic(NAME, "topic")
    assert (await client.get_topic(NAME, "topic")).messages_count == 0
    await client.purge_stream(NAME)
    await client.delete_topic(NAME, "topic")
    assert await client.get_topics(NAME) == []
    await client.delete_stream(NAME)
    assert await client.get_streams() == []
    await client.logout_user()
    await refused(client.get_streams(), "nauthenticated")


async def run(m: Any, server: Server) -> None:
    client = await connect(m, server)
    for scenario in (streams, topics, options, messages, producers, groups, consumers, raw):
        await asyncio.wait_for(scenario(m, client), WAIT_S)
    await asyncio.wait_for(users(m, client, server), WAIT_S)
    await asyncio.wait_for(end(client), WAIT_S)


def main() -> None:
    directory, name, scheme, address = sys.argv[1:]
    sys.path.insert(0, directory)
    module = importlib.import_module(name)
    asyncio.run(run(module, Server(scheme, address)))
    print(json.dumps({"public": public(module), "called": sorted(CALLED)}))


if __name__ == "__main__":
    code = 1
    try:
        main()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        # Threads of the package ask for Python while it is ending, which aborts the process.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
