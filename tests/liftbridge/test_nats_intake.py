"""NATS in front of a running broker: plain publishers made durable, enveloped publishes acked."""

import asyncio
import random
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import nats
import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from nats.aio.client import Client

from borzoi.liftbridge.arrived import arrived
from borzoi.liftbridge.envelope import (
    ACK,
    MAGIC,
    PUBLISH,
    Envelope,
    decode_envelope,
    encode_envelope,
)
from borzoi.liftbridge.schema import Ack, AckError, AckPolicy, Message
from tests.broker import BrokerProcess, standing
from tests.conditions import until
from tests.liftbridge.api_calls import ApiCalls
from tests.liftbridge.client import ANONYMOUS
from tests.liftbridge.logins import writer_of
from tests.liftbridge.nats_server import NatsServer, needs_nats
from tests.liftbridge.test_envelope import ROWS

pytestmark = [needs_nats, pytest.mark.slow]


def settings(server: NatsServer, **more: str) -> dict[str, str]:
    return {
        **ANONYMOUS,
        "IGGY_LIFTBRIDGE_NATS_SERVERS": f'["{server.url}"]',
        "IGGY_LIFTBRIDGE_NATS_RECONNECT_INTERVAL": "50 ms",
        **more,
    }


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def bridged(
    nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerProcess]:
    """One broker for all tests here: each has streams of its own."""
    with standing(tmp_path_factory.mktemp("bridged") / "data", settings(nats_server)) as broker:
        yield broker


@asynccontextmanager
async def both(broker: BrokerProcess, server: NatsServer) -> AsyncIterator[tuple[ApiCalls, Client]]:
    async with ApiCalls(broker) as api:
        client = await nats.connect(server.url)
        try:
            yield api, client
        finally:
            await client.close()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await scenario

    asyncio.run(bounded())


async def acked(client: Client, subject: str, **fields: Any) -> Any:
    """The ack of an enveloped publish."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    message = Message(ackInbox=inbox, **fields)
    await client.publish(subject, encode_envelope(PUBLISH, message.SerializeToString()))
    answer = await subscription.next_msg(timeout=30)
    await subscription.unsubscribe()
    envelope = decode_envelope(answer.data)
    assert isinstance(envelope, Envelope)
    assert envelope.message_type == ACK
    return Ack.FromString(bytes(envelope.payload))


def test_plain_messages_are_stored_as_they_are(
    bridged: BrokerProcess, nats_server: NatsServer
) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("plain", "plain.*", partitions=3)
            # Right after the answer: the subscriptions are there, on every shard.
            await client.publish("plain.a", b"one", reply="to.me", headers={"Kind": "test"})
            await client.publish("plain.b", b"")
            for number in (1, 2):
                await client.publish(f"plain.a.{number}", b"of %d" % number)
            first, second = await api.stored("plain", 2)
            assert (first.value, first.subject, first.replySubject) == (b"one", "plain.a", "to.me")
            assert dict(first.headers) == {
                "Kind": b"test",
                "subject": b"plain.a",
                "reply": b"to.me",
            }
            assert (second.value, second.subject, second.offset) == (b"", "plain.b", 1)
            for number in (1, 2):
                (only,) = await api.stored("plain", 1, number)
                assert (only.value, only.subject) == (b"of %d" % number, f"plain.a.{number}")

    run(scenario())


def test_envelopes_are_opened_and_acked(bridged: BrokerProcess, nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("acked", "acked", partitions=2)
            fields = {"key": b"k", "value": b"v", "headers": {"h": b"\1\2"}, "correlationId": "c"}
            for policy in (AckPolicy.LEADER, AckPolicy.ALL):
                ack = await acked(client, "acked.1", ackPolicy=policy, **fields)
                assert (ack.stream, ack.offset, ack.correlationId) == ("acked", policy, "c")
                assert (ack.partitionSubject, ack.msgSubject) == ("acked", "acked.1")
                assert (ack.ackPolicy, ack.ackError) == (policy, AckError.OK)
                assert 0 < ack.receptionTimestamp <= ack.commitTimestamp
            first, _ = await api.stored("acked", 2, 1)
            assert (first.key, first.value, first.headers["h"]) == (b"k", b"v", b"\1\2")
            assert (first.stream, first.partition, first.subject) == ("acked", 1, "acked.1")

    run(scenario())


def test_the_golden_bytes(bridged: BrokerProcess, nats_server: NatsServer) -> None:
    """Publishes are opened, everything else is kept byte for byte."""

    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("golden")
            acks: list[bytes] = []

            async def take(message: Any) -> None:
                acks.append(message.data)

            for inbox in ("acks", "ack.inbox.1"):
                await client.subscribe(inbox, cb=take)
            for _, data in ROWS.values():
                await client.publish("golden", data)
            found = await api.stored("golden", len(ROWS))
            values = {"P1": b"hello", "P2": b"hello", "P3": b"hello", "P4": b"hello", "P5": b"x"}
            for message, (name, (meaning, data)) in zip(found, ROWS.items(), strict=True):
                wanted = data if meaning != "publish" else values.get(name, b"")
                assert message.value == wanted, name
            # P3 and P4 with LEADER, P5 with ALL have an inbox.
            await until(lambda: len(acks) == 3, 0.01)

    run(scenario())


def test_nacks(bridged: BrokerProcess, nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("checked", optimisticConcurrencyControl={"value": True})
            sent = [(0, AckError.OK, 0), (0, AckError.INCORRECT_OFFSET, 0), (1, AckError.OK, 1)]
            sent += [(7, AckError.INCORRECT_OFFSET, 0), (-1, AckError.OK, 2)]
            for expected, error, offset in sent:
                ack = await acked(client, "checked", value=b"x", offset=expected)
                assert (ack.ackError, ack.offset) == (error, offset)
            await api.create("small")
            headers = {f"h{number}": bytes(200) for number in range(500)}
            ack = await acked(client, "small", value=b"x", headers=headers)
            assert (ack.ackError, ack.offset) == (AckError.TOO_LARGE, 0)
            assert (await acked(client, "small", value=b"y")).offset == 0

    run(scenario())


def test_streams_of_a_group_share_and_others_have_copies(
    bridged: BrokerProcess, nats_server: NatsServer
) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            for name in ("left", "right"):
                await api.create(name, "shared", group="both")
            await api.create("copy", "shared")
            for number in range(200):
                await client.publish("shared", b"%d" % number)
            await api.stored("copy", 200)
            left: list[Any] = []
            right: list[Any] = []
            while len(left) + len(right) < 200:
                left, right = await api.read("left"), await api.read("right")
            assert min(len(left), len(right)) > 20
            values = [int(one.value) for one in (*left, *right)]
            assert sorted(values) == list(range(200))

    run(scenario())


def test_paused_read_only_and_deleted(bridged: BrokerProcess, nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("one")
            await client.publish("one", b"kept")
            await api.stored("one", 1)
            await api.call("PauseStream", name="one")
            await client.publish("one", b"while it is paused")
            await client.flush()
            # A publish ends the pause, and what comes after its answer is kept.
            await api.call("Publish", stream="one", value=b"resumes")
            await client.publish("one", b"after the pause")
            found = await api.stored("one", 3)
            assert [one.value for one in found] == [b"kept", b"resumes", b"after the pause"]
            await api.call("SetStreamReadonly", name="one", readonly=True)
            await client.publish("one", b"while it is read-only")
            await client.flush()
            await api.call("SetStreamReadonly", name="one", readonly=False)
            assert (await acked(client, "one", value=b"after")).offset == 3
            await api.call("DeleteStream", name="one")
            await client.publish("one", b"to the deleted")
            await api.create("one")
            assert (await acked(client, "one", value=b"of the next life")).offset == 0

    run(scenario())


def test_hostile_messages_and_inboxes(bridged: BrokerProcess, nats_server: NatsServer) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("target", "target.>")
            workers = bridged.workers()
            reader, writer = await asyncio.open_connection("127.0.0.1", nats_server.port)
            writer.write(b'CONNECT {"verbose":false,"headers":true,"protocol":1}\r\n')
            writer.write(b"PUB target.\xff 1\r\nx\r\n")
            head = b"NATS/1.0\r\nBroken\r\n:\r\n: x\r\n\xff: y\r\nA: \xff\r\n\r\n"
            writer.write(b"HPUB target.h %d %d\r\n%sx\r\n" % (len(head), len(head) + 1, head))
            await writer.drain()
            inboxes = ["a b", "a\r\nPUB target.injected 1\r\nx\r\n", "..", "x" * 4000, "target.ack"]
            for inbox in inboxes:
                message = Message(value=inbox.encode(), ackInbox=inbox)
                await client.publish(
                    "target.i", encode_envelope(PUBLISH, message.SerializeToString())
                )
            ack = await acked(client, "target.last", value=b"last")
            found = await api.stored("target", ack.offset + 1)
            subjects = [one.subject for one in found]
            assert "target.injected" not in subjects
            # An ack to the subject of a stream is a message like any other.
            assert subjects.count("target.ack") <= 1
            assert bridged.workers() == workers
            writer.close()
            reader.feed_eof()

    run(scenario())


def test_whatever_begins_like_an_envelope_is_stored_once(
    bridged: BrokerProcess, nats_server: NatsServer
) -> None:
    """Envelopes cut at every byte, with every bit flipped, and chance behind the magic number."""
    chance = random.Random(7)
    payloads = [MAGIC + chance.randbytes(chance.randrange(80)) for _ in range(1000)]
    for name in ("P3", "P4"):
        whole = ROWS[name][1]
        payloads += [whole[:end] for end in range(len(whole) + 1)]
        for bit in range(8 * len(whole)):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            payloads.append(bytes(flipped))

    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("damaged", "damaged")
            workers = bridged.workers()
            for payload in payloads:
                await client.publish("damaged", payload)
            found = await api.stored("damaged", len(payloads))
            wanted = [arrived("damaged", "", one, None).message for one in payloads]
            assert [one.value for one in found] == [one.value for one in wanted]
            assert [one.key for one in found] == [one.key for one in wanted]
            assert bridged.workers() == workers

    run(scenario())


def test_publishing_to_subjects_goes_through_nats(
    bridged: BrokerProcess, nats_server: NatsServer
) -> None:
    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("direct", "direct.*")
            outside = await client.subscribe("direct.x")
            await client.flush()
            answer = await api.call(
                "PublishToSubject", subject="direct.x", value=b"v", key=b"k", correlationId="c"
            )
            assert (answer.ack.stream, answer.ack.offset) == ("direct", 0)
            assert (answer.ack.msgSubject, answer.ack.correlationId) == ("direct.x", "c")
            seen = decode_envelope((await outside.next_msg(timeout=10)).data)
            assert isinstance(seen, Envelope)
            assert Message.FromString(bytes(seen.payload)).value == b"v"
            (only,) = await api.stored("direct", 1)
            assert (only.value, only.key, only.subject) == (b"v", b"k", "direct.x")
            with pytest.raises((GRPCError, TimeoutError, StreamTerminatedError)):
                await api.call("PublishToSubject", deadline_s=0.5, subject="no.stream", value=b"v")
            with pytest.raises(GRPCError) as refused:
                await api.call("PublishToSubject", subject="direct.x", value=bytes(2 << 20))
            assert refused.value.status is Status.INVALID_ARGUMENT
            with pytest.raises(GRPCError) as refused:
                await api.call("PublishToSubject", subject="direct.x", value=b"v", ackInbox="a.>")
            assert refused.value.status is Status.INVALID_ARGUMENT

    run(scenario())


def test_an_inbox_of_a_publish_gets_the_ack_and_needs_permission(
    bridged: BrokerProcess, nats_server: NatsServer
) -> None:
    """An ack on the subject of a stream would be stored there, whatever asked for it."""

    async def scenario() -> None:
        async with both(bridged, nats_server) as (api, client):
            await api.create("heard", "heard")
            await api.create("closed", "closed")
            inbox = client.new_inbox()
            subscription = await client.subscribe(inbox)
            await client.flush()
            sent = {"stream": "heard", "value": b"v", "correlationId": "c"}
            await api.call("Publish", ackInbox=inbox, **sent)
            envelope = decode_envelope((await subscription.next_msg(timeout=30)).data)
            assert isinstance(envelope, Envelope)
            ack = Ack.FromString(bytes(envelope.payload))
            assert (ack.stream, ack.offset, ack.correlationId) == ("heard", 0, "c")
            # What cannot be published to is no inbox; the message is stored all the same.
            for strange in ("a b", "a.*", ".", "x" * 5000):
                await api.call("Publish", ackInbox=strange, **sent)
            assert await api.newest("heard") == 4
            login = writer_of(bridged, "heard")
            async with ApiCalls(bridged, metadata=login) as writer:
                await writer.call("Publish", ackInbox=inbox, **sent)
                for method, fields in (
                    ("Publish", sent),
                    ("PublishToSubject", {"subject": "heard", "value": b"v"}),
                ):
                    with pytest.raises(GRPCError) as refused:
                        await writer.call(method, ackInbox="closed", **fields)
                    assert refused.value.status is Status.PERMISSION_DENIED
            assert await api.newest("closed") == -1

    run(scenario())


def test_a_broker_without_a_nats_server_serves_and_catches_up(
    bridged: BrokerProcess, nats_server: NatsServer
) -> None:
    async def scenario() -> None:
        async with ApiCalls(bridged) as api:
            await api.create("early")
            nats_server.stop()
            await api.create("late")
            await api.call("Publish", stream="late", value=b"v")
            with pytest.raises(GRPCError) as refused:
                await api.call("PublishToSubject", subject="late", value=b"v")
            assert refused.value.status is Status.UNAVAILABLE
            nats_server.start()
            async with both(bridged, nats_server) as (_, client):
                for stream in ("early", "late"):
                    await acked_at_last(client, stream)

    run(scenario())


async def acked_at_last(client: Client, subject: str) -> None:
    """Publish until there is an ack: nothing else says that there is a subscription."""
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    data = encode_envelope(PUBLISH, Message(ackInbox=inbox).SerializeToString())
    for _ in range(600):
        await client.publish(subject, data)
        with suppress(nats.errors.TimeoutError):
            await subscription.next_msg(timeout=0.1)
            return
    raise AssertionError(f"no ack from {subject}")
