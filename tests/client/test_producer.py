"""Batches, waiting, back-pressure, places and failures of a producer, against a client by hand."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
import xxhash

from borzoi.client import InvalidArgument
from borzoi.client.delivery import DeliveryFailed
from borzoi.client.producer import Producer
from borzoi.protocol.batch import decode_batch
from borzoi.protocol.errors import (
    ConnectionClosed,
    PartitionNotFound,
    StreamIdNotFound,
    TopicIdNotFound,
    Unauthorized,
)
from borzoi.protocol.identifiers import (
    Balanced,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.message import MESSAGE_HEADER_SIZE, MESSAGE_PAYLOAD_SIZE_MAX, Message
from borzoi.protocol.responses import PartitionInfo, TopicDetails, TopicInfo
from borzoi.protocol.send_messages import PreparedBatch
from tests.client.conftest import Run
from tests.conditions import until

NOW_US = 1_700_000_000_000_000
NEVER_S = 3600.0  # a linger that does not end within a test


@dataclass(frozen=True)
class Sent:
    partitioning: Partitioning
    messages: list[Message]
    resend: bool

    @property
    def payloads(self) -> list[bytes]:
        return [message.payload for message in self.messages]


@dataclass
class ClientByHand:
    """Takes batches. With `gate` closed, their acknowledgements wait until it is opened."""

    sent: list[Sent] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)  # for the next sends
    gate: asyncio.Event | None = None
    partitions_count: int = 4
    topic_failure: Exception | None = None
    topics_asked: int = 0

    async def send_prepared(
        self,
        stream: Identifier,
        topic: Identifier,
        prepared: PreparedBatch,
        partitioning: Partitioning,
        *,
        resend: bool = False,
    ) -> None:
        assert (stream, topic) == ("s", "t")
        count, encoded = prepared
        messages = decode_batch(memoryview(encoded), 16 * count)
        assert len(messages) == count
        self.sent.append(Sent(partitioning, messages, resend))
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        self.topics_asked += 1
        await asyncio.sleep(0)
        if self.topic_failure is not None:
            raise self.topic_failure
        info = TopicInfo(0, 0, self.partitions_count, 0, 1, 0, 1, 0, 0, "t")
        partitions = [PartitionInfo(n, 0, 1, 0, 0, 0) for n in range(self.partitions_count)]
        return TopicDetails(info, tuple(partitions))


def producer_on(client: ClientByHand, **settings: Any) -> Producer:
    return Producer(client, "s", "t", clock_us=lambda: NOW_US, **{"linger_s": NEVER_S, **settings})


def test_a_full_batch_goes_at_once_and_the_rest_when_flushed(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        producer = producer_on(client, batch_messages_max=3)
        for number in range(7):
            await producer.send(b"%d" % number)
        await until(lambda: len(client.sent) == 2)
        assert producer.pending_bytes >= MESSAGE_HEADER_SIZE
        await producer.flush()
        assert [sent.payloads for sent in client.sent] == [
            [b"0", b"1", b"2"],
            [b"3", b"4", b"5"],
            [b"6"],
        ]
        assert {sent.partitioning for sent in client.sent} == {Balanced()}
        assert not any(sent.resend for sent in client.sent)
        assert client.sent[0].messages[0] == Message(b"0", origin_timestamp=NOW_US)
        assert producer.pending_bytes == 0

    run(test())


def test_bytes_make_a_batch_full_too(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        size = MESSAGE_HEADER_SIZE + 10
        producer = producer_on(client, batch_bytes_max=3 * size - 1)
        for _ in range(5):
            await producer.send(bytes(10))
        await producer.send(bytes(10 * size))  # larger than any batch may be: goes alone
        await producer.send(b"last")
        await producer.close()
        assert [len(sent.messages) for sent in client.sent] == [2, 2, 1, 1, 1]

    run(test())


def test_lingering_ends(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        producer = producer_on(client, linger_s=0.001)
        delivery = await producer.send("one")
        await producer.send("two")
        assert client.sent == []
        await delivery
        assert [sent.payloads for sent in client.sent] == [[b"one", b"two"]]

    run(test())


def test_a_batch_grows_while_another_is_on_its_way(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(gate=asyncio.Event())
        producer = producer_on(client, linger_s=0)
        await producer.send("first")
        await until(lambda: client.sent)
        for number in range(50):
            await producer.send(b"%d" % number)
            await asyncio.sleep(0.0001)  # long enough for its time to be over
        assert client.gate is not None
        client.gate.set()
        await producer.flush()
        assert [len(sent.messages) for sent in client.sent] == [1, 50]

    run(test())


def test_a_batch_that_has_lingered_and_then_become_full_goes_once(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(gate=asyncio.Event())
        producer = producer_on(client, linger_s=0.001, batch_messages_max=2)
        await producer.send("first")
        await until(lambda: client.sent)
        await producer.send("second")
        await until(lambda: producer._due)
        await producer.send("third")  # full now, and due all the same
        last = await producer.send("fourth")
        assert client.gate is not None
        client.gate.set()
        await last
        assert [sent.payloads for sent in client.sent] == [
            [b"first"],
            [b"second", b"third"],
            [b"fourth"],
        ]
        assert producer.pending_bytes == 0

    run(test())


def test_places_have_batches_of_their_own(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(partitions_count=4)
        producer = producer_on(client)
        await producer.send("balanced")
        await producer.send("to 3", partition_id=3)
        for key in ("anna", b"bert", "carl", "dora", "emil"):
            await producer.send(key, key=key)
        await producer.send_all(["more", "of it"], partition_id=3)
        await producer.close()
        assert client.topics_asked == 1
        by_place = {sent.partitioning: sent.payloads for sent in client.sent}
        assert len(by_place) == len(client.sent)
        assert by_place[Balanced()] == [b"balanced"]
        assert by_place[PartitionId(3)][0] == b"to 3"
        for key in (b"anna", b"bert", b"carl", b"dora", b"emil"):
            assert key in by_place[PartitionId(xxhash.xxh32_intdigest(key) % 4)]

    run(test())


@pytest.mark.parametrize(
    ("partitions_count", "failure"), [(4, Unauthorized()), (0, None)], ids=["hidden", "empty"]
)
def test_the_server_places_keys_where_the_topic_is_not_known(
    run: Run, partitions_count: int, failure: Exception | None
) -> None:
    async def test() -> None:
        client = ClientByHand(partitions_count=partitions_count, topic_failure=failure)
        async with producer_on(client) as producer:
            await producer.send("x", key="anna")
            await producer.send("y", key="bert")
            await producer.send("z", key="anna")
        assert [(sent.partitioning, sent.payloads) for sent in client.sent] == [
            (MessagesKey(b"anna"), [b"x", b"z"]),
            (MessagesKey(b"bert"), [b"y"]),
        ]

    run(test())


def test_a_topic_that_has_lost_partitions_is_looked_at_again(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(partitions_count=1000, failures=[PartitionNotFound()])
        producer = producer_on(client)
        await producer.send("x", key="anna")
        with pytest.raises(DeliveryFailed):
            await producer.flush()
        client.partitions_count = 1
        await producer.send("y", key="anna")
        await producer.close()
        assert client.topics_asked == 2
        assert client.sent[1].partitioning == PartitionId(0)

    run(test())


def test_senders_with_keys_ask_for_the_topic_once(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        async with producer_on(client) as producer:
            await asyncio.gather(*(producer.send("x", key="anna") for _ in range(5)))
        assert client.topics_asked == 1
        assert [len(sent.messages) for sent in client.sent] == [5]

    run(test())


def test_no_more_is_accepted_than_may_wait(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(gate=asyncio.Event())
        size = MESSAGE_HEADER_SIZE + 36
        producer = producer_on(client, pending_bytes_max=4 * size, batch_messages_max=2)
        accepted = 0

        async def fill(count: int) -> None:
            nonlocal accepted
            for _ in range(count):
                await producer.send(bytes(36))
                accepted += 1
                assert producer.pending_bytes <= 4 * size

        filling = [asyncio.create_task(fill(5)) for _ in range(3)]
        await until(lambda: accepted == 4)
        for _ in range(20):
            await asyncio.sleep(0)
        assert accepted == 4
        assert producer.pending_bytes == 4 * size
        assert client.gate is not None
        client.gate.set()
        await asyncio.gather(*filling)
        await producer.close()
        assert sum(len(sent.messages) for sent in client.sent) == 15
        assert producer.pending_bytes == 0

    run(test())


def test_a_send_that_waits_for_room_does_not_wait_for_the_linger(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        producer = producer_on(client, pending_bytes_max=200)
        for _ in range(10):
            await producer.send(bytes(36))
        await producer.close()
        assert sum(len(sent.messages) for sent in client.sent) == 10

    run(test())


def test_a_message_larger_than_all_that_may_wait_goes_alone(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        async with producer_on(client, pending_bytes_max=100) as producer:
            await producer.send(bytes(1000))
            await producer.send(bytes(1000))
        assert [len(sent.messages) for sent in client.sent] == [1, 1]

    run(test())


def test_a_failure_is_raised_in_the_calls_that_wait_and_in_no_other(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(failures=[TopicIdNotFound()])
        async with producer_on(client, batch_messages_max=2) as producer:
            first = await producer.send("lost", partition_id=1)
            second = await producer.send("lost too", partition_id=1)
            assert first is second
            with pytest.raises(DeliveryFailed, match="2 messages were not acknowledged") as failed:
                await first
            (batch,) = failed.value.batches
            assert batch.messages == (b"lost", b"lost too")
            assert batch.partitioning == PartitionId(1)
            assert isinstance(batch.cause, TopicIdNotFound)
            assert failed.value.__cause__ is batch.cause
            with pytest.raises(DeliveryFailed):
                await second
            await producer.send("arrives")

    run(test())


@pytest.mark.parametrize("how", ["send", "flush", "close"])
def test_a_failure_without_a_waiting_call_is_raised_by_the_next_call(run: Run, how: str) -> None:
    async def test() -> None:
        client = ClientByHand(failures=[StreamIdNotFound(), TopicIdNotFound()])
        producer = producer_on(client, batch_messages_max=1)
        await producer.send("lost")
        await producer.send("lost too")
        await until(lambda: producer.pending_bytes == 0)
        with pytest.raises(DeliveryFailed) as failed:
            await (producer.send("not accepted") if how == "send" else getattr(producer, how)())
        assert [batch.messages for batch in failed.value.batches] == [(b"lost",), (b"lost too",)]
        if how != "close":
            await producer.send("accepted")
        await producer.close()  # and it is raised once
        assert b"not accepted" not in [payload for sent in client.sent for payload in sent.payloads]

    run(test())


def test_the_next_batches_go_on_after_a_failure(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(failures=[ConnectionClosed()])
        producer = producer_on(client, batch_messages_max=1)
        await producer.send_all(["lost", "arrives"])
        with pytest.raises(DeliveryFailed):
            await producer.close()
        assert [sent.payloads for sent in client.sent] == [[b"lost"], [b"arrives"]]

    run(test())


def test_resending_gives_ids_by_which_copies_are_known(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        async with producer_on(client, resend=True) as producer:
            await producer.send_all(["x", "y", Message(b"own", id=7)])
        (sent,) = client.sent
        assert sent.resend
        first, second, own = (message.id for message in sent.messages)
        assert own == 7
        assert len({first, second, 0}) == 3

    run(test())


def test_cancelling_one_call_that_waits_harms_no_other(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(gate=asyncio.Event())
        producer = producer_on(client, batch_messages_max=1, pending_bytes_max=MESSAGE_HEADER_SIZE)
        delivery = await producer.send("x")

        async def wait() -> None:
            await delivery

        waiting = [asyncio.create_task(wait()) for _ in range(2)]
        sending = [asyncio.create_task(producer.send("y")) for _ in range(2)]
        await until(lambda: client.sent)
        await asyncio.sleep(0)
        waiting[0].cancel()
        sending[0].cancel()
        await asyncio.sleep(0)
        assert client.gate is not None
        client.gate.set()
        await waiting[1]
        await sending[1]
        await producer.close()
        assert [sent.payloads for sent in client.sent] == [[b"x"], [b"y"]]

    run(test())


def test_a_closed_producer_takes_nothing(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand(gate=asyncio.Event())
        producer = producer_on(client, batch_messages_max=1, pending_bytes_max=1)
        await producer.send("x")
        waiting = asyncio.create_task(producer.send("y"))
        await until(lambda: client.sent)
        closing = asyncio.create_task(producer.close())
        with pytest.raises(ConnectionClosed, match="this producer is closed"):
            await waiting
        assert client.gate is not None
        client.gate.set()
        await closing
        await producer.close()
        with pytest.raises(ConnectionClosed):
            await producer.send("z")
        assert len(client.sent) == 1

    run(test())


BAD_SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"linger_s": -1}, "linger_s is -1"),
    ({"batch_messages_max": 0}, "batch_messages_max is 0"),
    ({"batch_bytes_max": 0}, "batch_bytes_max is 0"),
    ({"pending_bytes_max": 0}, "pending_bytes_max is 0"),
]


@pytest.mark.parametrize(("settings", "reason"), BAD_SETTINGS)
def test_settings_that_make_no_sense(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        producer_on(ClientByHand(), **settings)


BAD_SENDS: list[tuple[Any, dict[str, Any], str]] = [
    (b"", {}, "payload of 0 bytes"),
    (bytes(MESSAGE_PAYLOAD_SIZE_MAX + 1), {}, "payload of 64000001 bytes"),
    (7, {}, "of type int"),
    (b"x", {"key": "k", "partition_id": 1}, "both given"),
    (b"x", {"key": ""}, "key has 0 bytes"),
    (b"x", {"partition_id": -1}, "partition_id is -1"),
]


def test_messages_that_cannot_be_sent_are_refused_at_once(run: Run) -> None:
    async def test() -> None:
        client = ClientByHand()
        async with producer_on(client) as producer:
            for message, where, reason in BAD_SENDS:
                with pytest.raises(InvalidArgument, match=reason):
                    await producer.send(message, **where)
            with pytest.raises(InvalidArgument, match="messages is one str"):
                await producer.send_all("text")
            assert producer.pending_bytes == 0
        assert client.sent == []

    run(test())
