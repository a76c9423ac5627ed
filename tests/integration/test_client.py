"""Producer, consumer and command line of our own client against a running broker."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from borzoi.client import (
    COMMIT_AFTER_EACH,
    COMMIT_ON_CLOSE,
    COMMIT_ON_POLL,
    FIRST,
    LAST,
    BorzoiClient,
    CommitPolicy,
    DeliveryFailed,
    Reconnect,
    commit_after,
    commit_every,
    new_message,
)
from borzoi.main import main
from borzoi.protocol.errors import PartitionNotFound
from borzoi.protocol.headers import header_field
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.shard_wires import TWO_SHARDS

TEST_TIMEOUT_S = 60
PARTITIONS = 4
KEYS = [f"key-{number}" for number in range(20)]


def with_client(broker: BrokerProcess, test: Callable[[BorzoiClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(TEST_TIMEOUT_S):
            connecting = BorzoiClient.connect(broker.address, username="iggy", password="iggy")
            async with connecting as client:
                await test(client)

    asyncio.run(run())


def test_keyed_messages_arrive_once_and_in_the_order_of_their_key(
    standing_broker: BrokerProcess, stream: str
) -> None:
    """Placed by the producer, they lie where the server would have put them."""

    async def test(client: BorzoiClient) -> None:
        await client.create_topic(stream, "t", PARTITIONS)
        async with client.producer(stream, "t", batch_messages_max=50, linger_s=0.001) as producer:
            for number in range(1_000):
                key = KEYS[number % len(KEYS)]
                await producer.send(f"{key} {number}", key=key)
        for key in KEYS:
            await client.send_messages(stream, "t", [f"{key} last"], key=key)
        found: dict[str, list[str]] = {}
        places: dict[str, set[int]] = {}
        count = 0
        async with client.consumer(stream, "t", commit=COMMIT_ON_CLOSE) as consumer:
            async for message in consumer:
                key, number_text = message.payload.decode().split()
                found.setdefault(key, []).append(number_text)
                places.setdefault(key, set()).add(consumer.partition_id)
                count += 1
                if count == 1_000 + len(KEYS):
                    break
        assert all(len(partitions) == 1 for partitions in places.values())
        for first, key in enumerate(KEYS):
            assert found[key] == [*map(str, range(first, 1_000, len(KEYS))), "last"]
        assert len({partition for (partition,) in places.values()}) > 1

    with_client(standing_broker, test)


@pytest.mark.parametrize(
    "commit",
    [COMMIT_ON_POLL, COMMIT_AFTER_EACH, commit_after(7), commit_every(0.01), COMMIT_ON_CLOSE],
)
def test_a_second_consumer_goes_on_where_the_first_has_committed(
    standing_broker: BrokerProcess, stream: str, commit: CommitPolicy
) -> None:
    async def test(client: BorzoiClient) -> None:
        await client.create_topic(stream, "t", 2)
        for partition_id in (0, 1):
            messages = [f"{partition_id} {number}" for number in range(20)]
            await client.send_messages(stream, "t", messages, partition_id=partition_id)
        found = []
        for count in (13, 27):
            async with client.consumer(stream, "t", "me", commit=commit, batch_size=1) as consumer:
                for _ in range(count):
                    found.append((await anext(consumer)).payload.decode())
        assert sorted(found) == sorted(f"{p} {n}" for p in (0, 1) for n in range(20))

    with_client(standing_broker, test)


def test_a_waiting_consumer_gets_what_comes(standing_broker: BrokerProcess, stream: str) -> None:
    async def test(client: BorzoiClient) -> None:
        await client.create_topic(stream, "t", 1)
        async with client.consumer(stream, "t", start=LAST, last_count=0) as consumer:
            assert [batch async for batch in consumer.batches(wait=False)] == []
            waiting = asyncio.ensure_future(anext(consumer))
            sent = new_message("hello", id=5, headers={"k": 1})
            await client.send_messages(stream, "t", [sent])
            message = await waiting
            assert (message.payload, message.id, message.offset) == (b"hello", 5, 0)
            assert message.headers == {header_field("k"): header_field(1)}

    with_client(standing_broker, test)


def test_a_failed_delivery_says_why(standing_broker: BrokerProcess, stream: str) -> None:
    async def test(client: BorzoiClient) -> None:
        await client.create_topic(stream, "t", 1)
        async with client.producer(stream, "t") as producer:
            lost = await producer.send("lost", partition_id=9)
            kept = await producer.send("kept", partition_id=0)
            with pytest.raises(DeliveryFailed) as failed:
                await lost
            assert isinstance(failed.value.__cause__, PartitionNotFound)
            await kept

    with_client(standing_broker, test)


@pytest.mark.slow
def test_a_restarted_broker_is_found_again(new_broker: NewBroker) -> None:
    """Login, reads, a producer that may resend and a consumer go on as if nothing had happened."""
    broker = new_broker(**TWO_SHARDS)

    async def test() -> None:
        patient = Reconnect(attempts_max=200, delay_min_s=0.01, delay_max_s=0.2)
        async with (
            BorzoiClient.connect(
                broker.address, username="iggy", password="iggy", reconnect=patient
            ) as client,
            BorzoiClient.connect(
                broker.address, username="iggy", password="iggy", reconnect=patient
            ) as other,
        ):
            await client.create_stream("s")
            await client.create_topic("s", "t", 2)
            consumer = other.consumer("s", "t", "me", start=FIRST, commit=commit_after(10))
            found: list[str] = []

            async def read(count: int) -> None:
                while len(set(found)) < count:
                    found.append((await anext(consumer)).payload.decode())

            async with consumer, client.producer("s", "t", resend=True) as producer:
                await producer.send_all(map(str, range(100)), partition_id=0)
                await producer.flush()
                await read(100)
                reading = asyncio.create_task(read(200))  # it asks all the time
                await asyncio.to_thread(broker.kill)
                sending = asyncio.create_task(
                    producer.send_all(map(str, range(100, 200)), partition_id=1)
                )
                await asyncio.to_thread(broker.start)
                await sending
                await producer.flush()
                await reading
            assert (await client.get_me()).client.user_id == 0
            assert sorted(set(found), key=int) == [str(number) for number in range(200)]

    asyncio.run(asyncio.wait_for(test(), TEST_TIMEOUT_S))


def run(broker: BrokerProcess, *words: str, stdin: str | None = None) -> Result:
    address = f"iggy://iggy:iggy@{broker.address}"
    return CliRunner().invoke(main, words, env={"BORZOI_SERVER": address}, input=stdin)


def said(broker: BrokerProcess, *words: str, stdin: str | None = None) -> str:
    result = run(broker, *words, stdin=stdin)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_command_line(standing_broker: BrokerProcess, stream: str, tmp_path: Path) -> None:
    broker = standing_broker

    def value(*words: str) -> object:
        return json.loads(said(broker, *words, "--json"))

    created = value("topic", "create", stream, "t", "2", "gzip", "1h", "-m", "2 GiB")
    assert isinstance(created, dict)
    assert (created["partitions_count"], created["message_expiry"]) == (2, 3_600_000_000)
    assert said(broker, "topic", "list", stream).splitlines()[0].startswith("id")
    assert "unlimited" in said(broker, "topic", "create", stream, "u", "1", "none", "never")
    said(broker, "partition", "create", stream, "t", "1")
    said(broker, "partition", "delete", stream, "t", "1")
    said(broker, "topic", "delete", stream, "u")

    assert said(broker, "message", "send", stream, "t", "one", "two", "-p", "1") == (
        "2 messages are sent\n"
    )
    said(broker, "message", "send", stream, "t", "-p", "1", "-H", "k:int32:7", stdin="three\n")
    polled = value("m", "p", stream, "t", "1", "-l", "-s")
    assert isinstance(polled, list)
    assert (polled[0]["payload"], polled[0]["headers"]) == ("three", {"k": 7})
    copy = tmp_path / "messages.bin"
    said(broker, "m", "poll", stream, "t", "1", "-f", "-m", "9", "--output-file", str(copy))
    said(broker, "m", "send", stream, "t", "-p", "0", "--input-file", str(copy))
    everything = ("-f", "-m", "9", "-s")
    copied = value("message", "poll", stream, "t", "0", *everything)
    original = value("message", "poll", stream, "t", "1", *everything)
    assert isinstance(copied, list)
    assert isinstance(original, list)
    kept = ("id", "payload", "headers")
    assert [[one[name] for name in kept] for one in copied] == [
        [one[name] for name in kept] for one in original
    ]
    said(broker, "message", "flush", stream, "t", "0", "-f")
    assert run(broker, "message", "poll", stream, "t", "0", "-f", "-l").exit_code == 2

    lines = said(broker, "tail", f"{stream}/t", "-n", "2").splitlines()
    assert sorted(line.split()[0] for line in lines) == ["0:1", "0:2", "1:1", "1:2"]
    followed = said(
        broker, "tail", "-f", "-c", "3", "-p", "1", "--json", f"{stream}/t"
    ).splitlines()
    assert [json.loads(line)["payload"] for line in followed] == ["one", "two", "three"]

    said(broker, "consumer-offset", "set", "me", stream, "t", "1", "1")
    offset = value("consumer-offset", "get", "me", stream, "t", "1")
    assert offset == {"partition_id": 1, "current_offset": 2, "stored_offset": 1}
    assert '"three"' in said(broker, "m", "poll", stream, "t", "1", "-n", "-c", "me", "--json")
    said(broker, "consumer-offset", "delete", "me", stream, "t", "1")
    assert run(broker, "consumer-offset", "get", "me", stream, "t", "1").exit_code == 1

    said(broker, "topic", "purge", stream, "t")
    said(broker, "topic", "update", stream, "t", "renamed")
    assert '"renamed"' in said(broker, "stream", "get", stream, "--json")
    said(broker, "stream", "purge", stream)
    assert value("ping", "-c", "3")
    assert isinstance(value("stats"), dict)
    assert isinstance(value("me"), dict)
    assert value("client", "list")
    assert "single-node" in said(broker, "cluster", "metadata")
