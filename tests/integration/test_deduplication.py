"""Deduplication over TCP: on both shards, through restarts, and as official clients meet it."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from apache_iggy import PollingStrategy, SendMessage

from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import PurgeTopic
from borzoi.protocol.message import Message
from tests.broker import BrokerProcess, wait_for
from tests.conformance.official import connected
from tests.consensus_wire import ConsensusWire
from tests.shard_wires import TWO_SHARDS, one_per_shard
from tests.topics import described, topic_of
from tests.wire import Wire

WINDOW = 40
PARTITIONS = 8  # enough for both shards to own some
SETTINGS = {
    **TWO_SHARDS,
    "IGGY_TCP_SOCKET_MIGRATION": "false",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED": "true",
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_MAX_ENTRIES": str(WINDOW),
    "IGGY_SYSTEM_MESSAGE_DEDUPLICATION_EXPIRY": "1h",
    "IGGY_SYSTEM_SEGMENT_SIZE": "4 KiB",
    "IGGY_SYSTEM_TOPIC_MAX_SIZE": "unlimited",
}


@pytest.fixture(scope="module")
def deduplicating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("deduplication") / "data", SETTINGS)
    broker.start()
    yield broker
    assert "fault of ours" not in broker.output()
    broker.close()


def messages(*ids: int) -> list[Message]:
    return [Message(b"%d" % id, id) for id in ids]


def ids_in(wire: Wire, topic: str, partition: int) -> list[int]:
    found = wire.poll(topic, partition).messages
    assert [one.offset for one in found] == list(range(len(found)))
    assert all(one.payload == b"%d" % one.id for one in found)
    return [one.id for one in found]


def new_topic(wire: Wire, name: str) -> None:
    wire.ask(CreateStream(name))
    wire.ask(topic_of(name, PARTITIONS))


def test_duplicates_are_dropped_on_new_partitions_of_both_shards(
    deduplicating: BrokerProcess,
) -> None:
    name = "both-shards"
    with one_per_shard(deduplicating) as (first, second):
        new_topic(first, name)
        for partition in range(PARTITIONS):
            assert first.send(name, partition, *messages(1, 2, 2, 3)) == 0
            assert second.send(name, partition, *messages(3, 4)) == 0
            assert second.send(name, partition, *messages(1, 2, 3, 4)) == 0
            assert first.send(name, partition, *messages(5)) == 0
            assert ids_in(first, name, partition) == [1, 2, 3, 4, 5]
        assert described(first, name).topic.messages_count == 5 * PARTITIONS


def test_a_send_is_confirmed_where_its_messages_lie(deduplicating: BrokerProcess) -> None:
    """Where the first lies that it has stored, or else the one that its first repeats."""
    name = "confirmed"
    with ConsensusWire(deduplicating) as wire:
        wire.ask(CreateStream(name))
        wire.ask(topic_of(name, PARTITIONS))
        for partition in range(PARTITIONS):
            sent = [
                wire.confirmed(name, partition, *messages(*ids)).base_offset
                for ids in ((1, 2, 3), (4, 5), (2, 6, 1), (3, 2), (5,), (6, 5, 4, 3, 2, 1), (7,))
            ]
            assert sent == [0, 3, 5, 2, 4, 5, 6]
    with Wire(deduplicating) as reader:
        assert ids_in(reader, name, 0) == list(range(1, 8))


def test_messages_without_an_id_are_never_duplicates(deduplicating: BrokerProcess) -> None:
    wire = Wire(deduplicating)
    new_topic(wire, "nameless")
    for _ in range(2):
        assert wire.send("nameless", 0, b"same", b"same") == 0
    found = wire.poll("nameless", 0).messages
    assert len({one.id for one in found}) == len(found) == 4
    assert 0 not in {one.id for one in found}


def test_a_purge_forgets_all_ids(deduplicating: BrokerProcess) -> None:
    wire = Wire(deduplicating)
    new_topic(wire, "purged")
    assert wire.send("purged", 0, *messages(1, 2)) == 0
    wire.ask(PurgeTopic("purged", "purged"))
    assert wire.send("purged", 0, *messages(2, 1, 2)) == 0
    assert ids_in(wire, "purged", 0) == [2, 1]


def test_the_official_client_sends_what_it_likes(deduplicating: BrokerProcess) -> None:
    """It gives no ids, so nothing it sends is a duplicate."""

    async def talk() -> list[Any]:
        client = await connected(deduplicating, "tcp")
        await client.create_stream("official")
        await client.create_topic("official", "official", partitions_count=1)
        for _ in range(3):
            batch = [SendMessage("again"), SendMessage("again")]
            await client.send_messages("official", "official", 0, batch)
        found: list[Any] = await client.poll_messages(
            "official", "official", 0, PollingStrategy.First(), 100, False
        )
        return found

    found = asyncio.run(talk())
    assert [one.offset() for one in found] == list(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("death", ["stop", "kill", "worker"])
def test_the_window_is_exact_after_a_restart(deduplicating: BrokerProcess, death: str) -> None:
    name = f"restart-{death}"
    wire = Wire(deduplicating)
    new_topic(wire, name)
    for partition in (0, PARTITIONS - 1):
        for first in range(1, 3 * WINDOW, 10):
            assert wire.send(name, partition, *messages(*range(first, first + 10))) == 0
    stored = ids_in(wire, name, 0)
    assert described(wire, name).partitions[0].segments_count > 1
    wire.close()
    if death == "worker":
        workers = deduplicating.workers()
        for pid in workers.values():
            os.kill(pid, signal.SIGKILL)
        wait_for(
            lambda: (
                len(deduplicating.workers()) == 2
                and not set(deduplicating.workers().values()) & set(workers.values())
            ),
            30,
        )
    elif death == "kill":
        deduplicating.kill()
        deduplicating.start()
    else:
        assert deduplicating.stop() == 0
        deduplicating.start()
    wait_for(lambda: accepts(deduplicating), 30)
    wire = Wire(deduplicating)
    for partition in (0, PARTITIONS - 1):
        assert wire.send(name, partition, *messages(*stored[-WINDOW:])) == 0
        assert ids_in(wire, name, partition) == stored
        forgotten = stored[-WINDOW - 1]
        assert wire.send(name, partition, *messages(stored[-1], forgotten, 999)) == 0
        assert ids_in(wire, name, partition) == [*stored, forgotten, 999]


def accepts(broker: BrokerProcess) -> bool:
    try:
        socket.create_connection((broker.host, broker.port)).close()
    except OSError:
        return False
    return True
