"""Everything the official client has, at least once.

What it has is read from its own stub file, and what is used from the sources of this folder: a new
version of the client with a new method makes this fail until a test here uses the method.
"""

import ast
import asyncio
import socket
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest
from apache_iggy import AutoCommit, IggyClient, IggyConsumer, PollingStrategy, SendMessage

from tests.broker import BrokerProcess
from tests.conditions import until
from tests.conformance.official import (
    QUICK_RECONNECT,
    address_of,
    connected,
    new_topic,
    payloads,
    says,
    send,
)

HERE: Final = Path(__file__).parent
# Of every class that Python has anyway.
ORDINARY: Final = {"__new__", "__len__", "__getitem__"}
# Fields of enumerations by position; the enumerations themselves are used.
POSITIONAL: Final = {"_0", "_1"}
ONLY_RETURNED: Final = {"StreamDetails", "TopicDetails"}
"""Classes that need not be named here: their fields are looked at."""


def surface() -> set[str]:
    """Classes, and methods and fields as Class.name."""
    stub = ast.parse(files("apache_iggy").joinpath("__init__.pyi").read_text())
    found: set[str] = set()

    def collect(node: ast.ClassDef, path: str) -> None:
        found.add(path)
        for part in node.body:
            if isinstance(part, ast.ClassDef):
                collect(part, f"{path}.{part.name}")
            elif isinstance(part, ast.FunctionDef) and part.name not in ORDINARY | POSITIONAL:
                found.add(f"{path}.{part.name}")

    for node in stub.body:
        if isinstance(node, ast.ClassDef):
            collect(node, node.name)
    return found


def used() -> set[str]:
    """Names that the sources of this folder import, and `.name` for those behind a dot."""
    found: set[str] = set()
    for path in HERE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.add(f".{node.attr}")
            elif isinstance(node, ast.alias):
                found.add(node.name)
    return found


def test_nothing_of_the_client_is_untried() -> None:
    names = used()
    untried = {one for one in surface() if "".join(one.rpartition(".")[1:]) not in names}
    assert untried - ONLY_RETURNED == set()


def test_streams_and_topics_by_number(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 2)
        stream = await client.get_stream(name)
        assert stream is not None
        topic = await client.get_topic(stream.id, name)
        assert topic is not None
        await client.send_messages(stream.id, topic.id, 1, [SendMessage("by number")])
        # A text of digits is a number to this client.
        await client.send_messages(str(stream.id), str(topic.id), 1, [SendMessage(b"by text")])
        polled = await client.poll_messages(
            stream.id, topic.id, 1, PollingStrategy.First(), 10, False
        )
        assert [(m.offset(), m.partition_id(), m.payload()) for m in polled] == [
            (0, 1, b"by number"),
            (1, 1, b"by text"),
        ]
        await client.create_topic(stream.id, "another", 1)
        again = await client.get_stream(stream.id)
        assert again is not None
        assert (again.topics_count, again.messages_count, again.name) == (2, 2, name)

    asyncio.run(check())


def test_strategies_tell_their_value() -> None:
    assert PollingStrategy.Offset(5).value == 5
    assert PollingStrategy.Timestamp(2**64 - 1).value == 2**64 - 1


def test_a_client_without_an_address_is_for_the_default_one() -> None:
    """It is made without a connection, so there is nothing to reach yet."""
    assert isinstance(IggyClient(), IggyClient)


@pytest.mark.parametrize(
    "text", ["", "nonsense", "iggy://", "iggy://iggy:iggy@127.0.0.1", "iggy://127.0.0.1:8090"]
)
def test_connection_strings_that_mean_nothing(text: str) -> None:
    with pytest.raises(RuntimeError, match="InvalidConnectionString"):
        IggyClient.from_connection_string(text)


OPTIONS = ["", "?heartbeat_interval=100ms&reconnection_retries=3", f"?{QUICK_RECONNECT}"]
SCHEMES = [("iggy", "tcp"), ("iggy+tcp", "tcp"), ("iggy+ws", "ws")]


@pytest.mark.parametrize(
    ("scheme", "transport", "options"),
    [
        *((*scheme, options) for scheme in SCHEMES for options in OPTIONS),
        # Of TCP alone.
        ("iggy", "tcp", "?nodelay=true"),
        ("iggy+tcp", "tcp", "?nodelay=true"),
    ],
)
def test_schemes_and_options(
    standing_broker: BrokerProcess, name: str, scheme: str, transport: str, options: str
) -> None:
    async def check() -> None:
        where = address_of(standing_broker, transport)
        client = IggyClient.from_connection_string(f"{scheme}://iggy:iggy@{where}{options}")
        await client.connect()
        # Once more is no error.
        await client.connect()
        await client.ping()
        assert await client.get_stream(name) is None

    asyncio.run(check())


def test_names_of_impossible_length(standing_broker: BrokerProcess, transport: str) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        for name in ("", "n" * 256):
            with pytest.raises(RuntimeError, match=f"InvalidFormat|{says('InvalidStreamName')}"):
                await client.create_stream(name)

    asyncio.run(check())


def test_a_topic_without_partitions(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 0)
        topic = await client.get_topic(name, name)
        assert topic is not None
        assert topic.partitions_count == 0
        with pytest.raises(RuntimeError, match=says("PartitionNotFound")):
            await send(client, name, 0, b"x")
        with pytest.raises(RuntimeError, match=says("PartitionNotFound")):
            await payloads(client, name, PollingStrategy.First())

    asyncio.run(check())


def test_an_empty_batch_is_refused_by_the_client(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name)
        with pytest.raises(RuntimeError, match=says("InvalidMessagesCount")):
            await client.send_messages(name, name, 0, [])
        # Its connection goes on.
        await send(client, name, 0, b"x")

    asyncio.run(check())


def test_many_tasks_share_one_client(
    standing_broker: BrokerProcess, transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, transport)
        await new_topic(client, name, 4)
        texts = [b"%d" % number for number in range(40)]
        await asyncio.gather(
            *(send(client, name, number % 4, text) for number, text in enumerate(texts)),
            *(client.ping() for _ in range(10)),
        )
        found = []
        for partition_id in range(4):
            polled = await client.poll_messages(
                name, name, partition_id, PollingStrategy.First(), 100, False
            )
            assert [m.offset() for m in polled] == list(range(10))
            found += [m.payload() for m in polled]
        assert sorted(found) == sorted(texts)

    asyncio.run(check())


def test_what_a_consumer_tells_about_itself(
    standing_broker: BrokerProcess, session_transport: str, name: str
) -> None:
    async def check() -> None:
        client = await connected(standing_broker, session_transport)
        await new_topic(client, name)
        await send(client, name, 0, b"0", b"1", b"2")
        consumer: IggyConsumer = await client.consumer_group(
            "readers",
            name,
            name,
            polling_strategy=PollingStrategy.Next(),
            batch_length=10,
            auto_commit=AutoCommit.Disabled(),
            poll_interval=timedelta(milliseconds=10),
        )
        assert (consumer.name(), consumer.stream(), consumer.topic()) == ("readers", name, name)
        assert consumer.get_last_consumed_offset(0) is None
        assert consumer.get_last_stored_offset(0) is None
        seen = []
        async for message in consumer.iter_messages():
            seen.append(message.offset())
            if len(seen) == 2:
                break
        assert seen == [0, 1]
        assert (consumer.partition_id(), consumer.get_last_consumed_offset(0)) == (0, 1)
        await consumer.store_offset(1, 0)
        assert consumer.get_last_stored_offset(0) == 1
        await consumer.delete_offset(0)

    asyncio.run(check())


def is_refused(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1.0).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # accepted by a socket that is being closed
    return False


@pytest.mark.slow
def test_requests_made_while_the_broker_is_away(
    broker: BrokerProcess, session_transport: str, name: str
) -> None:
    """The client waits, connects, logs in and sends what it was asked to.

    Over HTTP it may give up with InvalidHttpRequest before a start has ended.
    """

    async def check() -> None:
        client = await connected(broker, session_transport)
        await new_topic(client, name)
        where = address_of(broker, session_transport)
        await asyncio.to_thread(broker.kill)
        # This client tries a connection again, and a TLS handshake that breaks off only once.
        await until(lambda: is_refused(where), 0.01)
        waiting = asyncio.ensure_future(send(client, name, 0, b"sent while no broker was there"))
        await asyncio.to_thread(broker.start)
        await asyncio.wait_for(waiting, 60)
        assert await payloads(client, name, PollingStrategy.First()) == [
            b"sent while no broker was there"
        ]

    asyncio.run(check())
