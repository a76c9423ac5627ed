"""Numbered requests are carried out once, however often and wherever they are sent."""

from collections.abc import Iterator

import pytest

from borzoi.protocol import commands as c
from borzoi.protocol.commands import Command
from borzoi.protocol.errors import (
    ConsumerOffsetNotFound,
    RequestAlreadyApplied,
    StreamIdNotFound,
    StreamNameAlreadyExists,
)
from borzoi.protocol.permissions import ALL_PERMISSIONS, UserStatus
from borzoi.router.request_entry import REPLY_SIZE_MAX
from tests.broker import BrokerProcess
from tests.numbered_wire import (
    NumberedWire,
    messages,
    new_client,
    numbered_on_shard,
    sent_batch,
)
from tests.topics import topic_of
from tests.wire import READER, Closed, Wire

FORGOTTEN = RequestAlreadyApplied.status
PARTITIONS = 4


@pytest.fixture
def topic(wire: Wire, stream: str) -> str:
    """A topic of four partitions, named as its stream."""
    wire.ask(topic_of(stream, PARTITIONS))
    return stream


@pytest.fixture
def client(standing_broker: BrokerProcess) -> Iterator[NumberedWire]:
    """A client with an id of its own, connected for the first time."""
    with NumberedWire(standing_broker, new_client()) as wire:
        yield wire


def streams(wire: Wire) -> list[str]:
    return [stream.name for stream in wire.ask(c.GetStreams())]


@pytest.mark.parametrize("shards", [(0, 0), (0, 1), (1, 0)])
def test_a_batch_that_is_sent_again_is_stored_once(
    standing_broker: BrokerProcess, wire: Wire, topic: str, shards: tuple[int, int]
) -> None:
    """On the same connection, and on a new one of the same client, on any shard."""
    id = new_client()
    first = numbered_on_shard(standing_broker, shards[0], id)
    for partition in range(PARTITIONS):
        batch = messages(10 * partition, 3)
        sent = first.send_batch(1 + partition, topic, partition, batch)
        assert first.send_batch(1 + partition, topic, partition, batch) == sent
        first.close()
        with numbered_on_shard(standing_broker, shards[1], id) as second:
            assert second.send_batch(1 + partition, topic, partition, batch) == sent
        assert sent_batch(sent).base_offset == 0
        assert len(wire.payloads(topic, partition)) == 3
        first = numbered_on_shard(standing_broker, shards[0], id)


def test_a_connection_that_is_still_open_loses_its_client_to_the_new_one(
    standing_broker: BrokerProcess, client: NumberedWire, topic: str, wire: Wire
) -> None:
    sent = client.send_batch(1, topic, 0, messages(0))
    for shard in (0, 1):
        with numbered_on_shard(standing_broker, shard, client.client) as other:
            assert other.send_batch(1 + shard, topic, 0, messages(shard)) == sent
            sent = other.send_batch(2 + shard, topic, 0, messages(1 + shard))
    assert client.send_batch(9, topic, 0, messages(9)).status == 30
    with pytest.raises(Closed):
        client.answer()
    assert len(wire.payloads(topic)) == 3


def test_a_change_that_is_asked_for_again_is_made_once(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, stream: str
) -> None:
    commands: list[Command] = [
        c.CreateStream(f"{stream}-new"),
        topic_of("topic", stream=f"{stream}-new"),
        c.CreateConsumerGroup(f"{stream}-new", "topic", "group"),
        c.UpdateStream(f"{stream}-new", f"{stream}-newer"),
        c.CreatePartitions(f"{stream}-newer", "topic", 2),
        c.DeletePartitions(f"{stream}-newer", "topic", 1),
        c.DeleteConsumerGroup(f"{stream}-newer", "topic", "group"),
        c.CreatePersonalAccessToken(f"t-{stream}"[:30], 0),
        c.DeletePersonalAccessToken(f"t-{stream}"[:30]),
        c.DeleteTopic(f"{stream}-newer", "topic"),
        c.DeleteStream(f"{stream}-newer"),
    ]
    for number, command in enumerate(commands, 1):
        answer = client.numbered(number, command)
        assert answer.status == 0, command
        client.close()
        client = NumberedWire(standing_broker, client.client)
        assert client.numbered(number, command) == answer
    assert streams(wire).count(f"{stream}-newer") == 0
    # Under a number of its own it is another request.
    assert client.numbered(50, commands[-1]).status == StreamIdNotFound.status


def test_a_refusal_is_repeated_too(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, stream: str
) -> None:
    assert client.numbered(1, c.CreateStream(stream)).status == StreamNameAlreadyExists.status
    assert client.send_batch(2, f"{stream}-none", 0, messages(0)).status == StreamIdNotFound.status
    wire.ask(c.CreateStream(f"{stream}-none"))
    wire.ask(topic_of(f"{stream}-none"))
    with NumberedWire(standing_broker, client.client) as again:
        answer = again.send_batch(2, f"{stream}-none", 0, messages(0))
        assert answer.status == StreamIdNotFound.status
        assert again.send_batch(3, f"{stream}-none", 0, messages(0)).status == 0
    wire.ask(c.DeleteStream(f"{stream}-none"))


def test_an_offset_is_stored_and_deleted_once(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, topic: str
) -> None:
    assert client.send_batch(1, topic, 0, messages(0, 5)).status == 0
    store = c.StoreConsumerOffset(READER, topic, topic, 0, 2)
    delete = c.DeleteConsumerOffset(READER, topic, topic, 0)
    assert client.numbered(2, store).status == 0
    wire.ask(c.StoreConsumerOffset(READER, topic, topic, 0, 4))
    with NumberedWire(standing_broker, client.client) as again:
        assert again.numbered(2, store).status == 0
        assert wire.ask(c.GetConsumerOffset(READER, topic, topic, 0)).stored_offset == 4
        assert again.numbered(3, delete).status == 0
        assert again.numbered(3, delete).status == 0
        assert again.numbered(4, delete).status == ConsumerOffsetNotFound.status


def test_lower_numbers_are_not_carried_out_and_skipped_ones_are(
    client: NumberedWire, wire: Wire, topic: str
) -> None:
    last = 0
    for number in (1, 5, 2**40, 2**64 - 1):
        assert client.send_batch(number, topic, 0, messages(last)).status == 0
        last += 1
    for number in (1, 4, 2**64 - 2):
        assert client.send_batch(number, topic, 0, messages(50)).status == FORGOTTEN
        assert client.numbered(number, c.CreateStream("never")).status == FORGOTTEN
    assert len(wire.payloads(topic)) == last
    assert "never" not in streams(wire)


def test_number_0_is_no_number(client: NumberedWire, wire: Wire, topic: str) -> None:
    for _ in range(2):
        assert client.send_batch(0, topic, 0, messages(0)).status == 0
    assert len(wire.payloads(topic)) == 2


def test_a_send_without_a_number_leaves_the_numbers_alone(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, topic: str
) -> None:
    """What was sent under a number before it is still known, here and on another connection."""
    sent = client.send_batch(5, topic, 0, messages(0))
    assert client.send_batch(0, topic, 0, messages(1)).status == 0
    assert client.send_batch(5, topic, 0, messages(0)) == sent
    assert client.send_batch(4, topic, 0, messages(2)).status == FORGOTTEN
    assert client.send_batch(0, topic, 0, messages(3)).status == 0
    with NumberedWire(standing_broker, client.client) as again:
        assert again.send_batch(5, topic, 0, messages(0)) == sent
        assert again.send_batch(6, topic, 0, messages(4)).status == 0
    assert len(wire.payloads(topic)) == 4


def test_reads_repeat_the_number_of_what_comes_next(client: NumberedWire, topic: str) -> None:
    for _ in range(3):
        assert client.numbered(1, c.GetStreams()).status == 0
        assert client.numbered(1, c.Ping()).status == 0
    assert client.send_batch(1, topic, 0, messages(0)).status == 0


def test_the_client_of_another_user_is_another_client(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, topic: str
) -> None:
    create = c.CreateUser("other", "a password", UserStatus.ACTIVE, ALL_PERMISSIONS)
    wire.ask(create)
    sent = client.send_batch(7, topic, 0, messages(0))
    with NumberedWire(standing_broker, client.client, user=("other", "a password")) as other:
        assert sent_batch(other.send_batch(7, topic, 0, messages(1))).base_offset == 1
        assert other.send_batch(6, topic, 0, messages(2)).status == FORGOTTEN
        assert client.send_batch(7, topic, 0, messages(0)) == sent
    # Another user of the same name and id is another one.
    wire.ask(c.DeleteUser("other"))
    wire.ask(create)
    with NumberedWire(standing_broker, client.client, user=("other", "a password")) as other:
        assert sent_batch(other.send_batch(1, topic, 0, messages(3))).base_offset == 2
    wire.ask(c.DeleteUser("other"))


def test_an_answer_that_is_too_long_to_keep_is_not_repeated(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, stream: str
) -> None:
    command = topic_of("long", 100, stream)
    answer = client.numbered(1, command)
    assert answer.status == 0
    assert len(answer.payload) > REPLY_SIZE_MAX
    with NumberedWire(standing_broker, client.client) as again:
        assert again.numbered(1, command).status == FORGOTTEN
        assert again.numbered(2, c.DeleteTopic(stream, "long")).status == 0


def test_a_group_is_joined_by_each_connection(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, topic: str
) -> None:
    wire.ask(c.CreateConsumerGroup(topic, topic, "group"))
    join = c.JoinConsumerGroup(topic, topic, "group")
    assert client.numbered(1, join).status == 0
    client.close()
    with NumberedWire(standing_broker, client.client) as again:
        assert again.numbered(1, join).status == 0
        members = again.ask(c.GetConsumerGroup(topic, topic, "group")).members
        assert len(members) == 1


def test_after_a_logout_another_client_may_use_the_connection(
    standing_broker: BrokerProcess, client: NumberedWire, topic: str
) -> None:
    assert client.send_batch(5, topic, 0, messages(0)).status == 0
    assert client.numbered(6, c.LogoutUser()).status == 0
    client.own_client = new_client()
    client.log_in()
    assert client.send_batch(1, topic, 0, messages(1)).status == 0


def test_a_session_that_moves_takes_its_numbers_along(
    standing_broker: BrokerProcess, client: NumberedWire, wire: Wire, topic: str
) -> None:
    """Sends to partitions of another shard move a connection there, once."""
    for number in range(1, 9):
        batch = messages(number)
        sent = client.send_batch(number, topic, number % PARTITIONS, batch)
        assert client.send_batch(number, topic, number % PARTITIONS, batch) == sent
    assert sum(len(wire.payloads(topic, partition)) for partition in range(PARTITIONS)) == 8
