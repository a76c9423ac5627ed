"""Every method of the API through a raw gRPC client, with the statuses of the reference server."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.health.v1.health_grpc import HealthStub
from grpclib.health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from borzoi.liftbridge.schema import AckPolicy, StartPosition, StopPosition
from tests.broker import HTTP, BrokerProcess
from tests.conftest import NewBroker
from tests.http_client import HttpClient
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient, publish, received

pytestmark = pytest.mark.slow


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def refused(work: Coroutine[Any, Any, Any]) -> tuple[Status, str]:
    with pytest.raises(GRPCError) as found:
        await work
    return found.value.status, found.value.message or ""


async def fill(client: LiftbridgeClient, stream: str, count: int, **fields: Any) -> list[Any]:
    """Publish `count` messages one after the other; their acks."""
    return [
        (await client.call("Publish", stream=stream, value=b"%d" % number, **fields)).ack
        for number in range(count)
    ]


async def values(client: LiftbridgeClient, stream: str, **fields: Any) -> list[bytes]:
    """What a subscription delivers until RESOURCE_EXHAUSTED ends it."""
    found, status = await client.until_end(stream, **fields)
    assert status is Status.RESOURCE_EXHAUSTED, status
    return found


def test_create_stream_refuses_what_the_reference_refuses(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            rows: list[tuple[dict[str, Any], Status, str]] = [
                ({"subject": "a"}, Status.INVALID_ARGUMENT, "Name cannot be empty"),
                ({"name": "a"}, Status.INVALID_ARGUMENT, "Subject cannot be empty"),
                ({"name": "a", "subject": "a b"}, Status.INVALID_ARGUMENT, "Subject is invalid"),
                ({"name": "__cursors", "subject": "a"}, Status.INVALID_ARGUMENT, "reserved"),
                ({"name": "n" * 256, "subject": "a"}, Status.INVALID_ARGUMENT, "255 bytes"),
                (
                    {"name": "a", "subject": "a", "replicationFactor": 2},
                    Status.INVALID_ARGUMENT,
                    "Invalid replicationFactor 2, cluster size 1",
                ),
                (
                    {"name": "a", "subject": "a", "partitions": 1001},
                    Status.INVALID_ARGUMENT,
                    "1001 partitions",
                ),
                (
                    {"name": "a", "subject": "a.>", "partitions": 2},
                    Status.INVALID_ARGUMENT,
                    "one partition",
                ),
                (
                    {"name": "a", "subject": "a", "encryption": {"value": True}},
                    Status.FAILED_PRECONDITION,
                    "no key",
                ),
                (
                    {"name": "a", "subject": "a", "retentionMaxAge": {"value": -1}},
                    Status.INVALID_ARGUMENT,
                    "retentionMaxAge is -1",
                ),
            ]
            for fields, status, text in rows:
                found = await refused(client.call("CreateStream", **fields))
                assert found[0] is status, fields
                assert text in found[1]
            await client.call("CreateStream", name="created", subject="x", replicationFactor=-1)
            again = client.call("CreateStream", name="created", subject="y")
            assert await refused(again) == (Status.ALREADY_EXISTS, "stream already exists")
            await client.call("DeleteStream", name="created")
            gone = await refused(client.call("DeleteStream", name="created"))
            assert gone == (Status.NOT_FOUND, "No such stream")
            reserved = await refused(client.call("DeleteStream", name="__cursors"))
            assert reserved[0] is Status.INVALID_ARGUMENT

    run(work())


def test_a_publish_is_acknowledged_with_its_offset(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="acked", subject="ack.me", partitions=2)
            answer = await client.call(
                "Publish",
                stream="acked",
                partition=1,
                value=b"v",
                key=b"k",
                headers={"h": b"1"},
                ackInbox="inbox",
                correlationId="c",
                ackPolicy=AckPolicy.ALL,
            )
            ack = answer.ack
            assert (ack.stream, ack.partitionSubject, ack.msgSubject) == (
                "acked", "ack.me", "ack.me.1",
            )  # fmt: skip
            assert (ack.offset, ack.ackInbox, ack.correlationId, ack.ackPolicy) == (
                0, "inbox", "c", AckPolicy.ALL,
            )  # fmt: skip
            assert 0 < ack.receptionTimestamp <= ack.commitTimestamp
            (message,) = await client.messages(
                "acked", 1, partition=1, startPosition=StartPosition.EARLIEST
            )
            assert (message.value, message.key, message.stream, message.partition) == (
                b"v", b"k", "acked", 1,
            )  # fmt: skip
            assert dict(message.headers) == {"h": b"1", "subject": b"ack.me.1", "reply": b""}
            assert (message.subject, message.replySubject) == ("ack.me.1", "")
            assert message.correlationId == "c"
            # Without a deadline, or with NONE, there is no ack; the message is stored all the same.
            silent = await client.call("Publish", stream="acked", value=b"1", deadline_s=None)
            none = await client.call("Publish", stream="acked", value=b"", ackPolicy=AckPolicy.NONE)
            assert not silent.HasField("ack")
            assert not none.HasField("ack")
            stop = StopPosition.LATEST
            found = await values(client, "acked", startPosition=2, stopPosition=stop)
            assert found == [b"1", b""]

    run(work())


def test_a_publish_is_refused_as_by_the_reference(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="refusing", subject="r")
            rows: list[tuple[dict[str, Any], Status, str]] = [
                ({}, Status.INVALID_ARGUMENT, "No stream provided"),
                ({"stream": "no"}, Status.NOT_FOUND, "No such stream: no"),
                ({"stream": "refusing", "partition": 1}, Status.NOT_FOUND, "No such partition: 1"),
                (
                    {"stream": "refusing", "value": b"v" * (1 << 20)},
                    Status.INVALID_ARGUMENT,
                    "1048576 are allowed",
                ),
                (
                    {"stream": "refusing", "value": b"v" * (4 << 20)},
                    Status.RESOURCE_EXHAUSTED,
                    "larger than max",
                ),
            ]
            for fields, status, text in rows:
                found = await refused(client.call("Publish", **fields))
                assert found[0] is status, fields
                assert text in found[1]

    run(work())


def test_subscriptions_begin_and_end_where_they_are_asked_to(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="ends", subject="e")
            latest = {"stopPosition": StopPosition.LATEST}
            empty = await refused(client.messages("ends", 1, **latest))
            assert empty[0] is Status.RESOURCE_EXHAUSTED
            await fill(client, "ends", 5)
            stored = await client.messages("ends", 5, startPosition=StartPosition.EARLIEST)
            times = [one.timestamp for one in stored]
            assert [one.offset for one in stored] == [0, 1, 2, 3, 4]
            start, stop = StartPosition, StopPosition
            rows: list[tuple[dict[str, Any], list[bytes]]] = [
                ({"startPosition": start.EARLIEST, **latest}, [b"0", b"1", b"2", b"3", b"4"]),
                ({"startPosition": start.LATEST, **latest}, [b"4"]),
                ({"startPosition": start.OFFSET, "startOffset": 3, **latest}, [b"3", b"4"]),
                ({"startPosition": start.OFFSET, "startOffset": -9, **latest},
                 [b"0", b"1", b"2", b"3", b"4"]),
                ({"startPosition": start.TIMESTAMP, "startTimestamp": times[2], **latest},
                 [b"2", b"3", b"4"]),
                ({"startPosition": start.EARLIEST, "stopPosition": stop.OFFSET, "stopOffset": 1},
                 [b"0", b"1"]),
                ({"startPosition": start.EARLIEST, "stopPosition": stop.TIMESTAMP,
                  "stopTimestamp": times[2]}, [b"0", b"1", b"2"]),
            ]  # fmt: skip
            for fields, wanted in rows:
                assert await values(client, "ends", **fields) == wanted, fields
            refusals: list[tuple[dict[str, Any], Status]] = [
                ({"startPosition": 9}, Status.INVALID_ARGUMENT),
                ({"stopPosition": 9}, Status.INVALID_ARGUMENT),
                ({"startPosition": start.LATEST, "stopPosition": stop.OFFSET, "stopOffset": 1},
                 Status.INVALID_ARGUMENT),
                ({"stopPosition": stop.TIMESTAMP, "stopTimestamp": 1}, Status.INTERNAL),
                ({"partition": 1}, Status.NOT_FOUND),
            ]  # fmt: skip
            for fields, status in refusals:
                assert (await refused(client.messages("ends", 1, **fields)))[0] is status, fields
            # Above the end: the next message, whatever its offset.
            for fields in ({}, {"startPosition": start.OFFSET, "startOffset": 99}):
                async with client.subscribe("ends", **fields) as opened:
                    ack = (await fill(client, "ends", 1))[0]
                    assert (await received(opened)).offset == ack.offset
                    await opened.cancel()

    run(work())


def test_publish_async_answers_every_message(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="async", subject="as", partitions=3)
            sent = [
                publish(
                    stream="async" if number % 10 else "missing",
                    partition=number % 3,
                    value=b"%d" % number,
                    correlationId=f"c{number}",
                    ackPolicy=AckPolicy.ALL if number % 7 == 0 else AckPolicy.LEADER,
                )
                for number in range(500)
            ]
            sent += [publish(stream="async", value=b"quiet", ackPolicy=AckPolicy.NONE)]
            sent += [publish(value=b"x", correlationId="nameless")]
            sent += [publish(stream="async", value=b"v" * (1 << 20), correlationId="large")]
            answers = {}
            async with client.publish_async() as opened:
                for one in sent:
                    await opened.send_message(one)
                await opened.end()
                while (answer := await received(opened)) is not None:
                    answers[answer.correlationId] = answer
            assert len(answers) == 502
            assert answers["nameless"].asyncError.code == 1
            assert answers["large"].asyncError.code == 1
            assert answers["c10"].asyncError.code == 2
            assert answers["c10"].asyncError.message == "No such stream: missing"
            assert answers["c10"].HasField("ack")
            for partition in range(3):
                offsets = [
                    answers[one.correlationId].ack.offset
                    for one in sent[:500]
                    if one.stream == "async" and one.partition == partition
                ]
                assert offsets == sorted(offsets)
                quiet = partition == 0
                assert len(offsets) + quiet == offsets[-1] + 1 + quiet
                found = await values(
                    client,
                    "async",
                    partition=partition,
                    startPosition=StartPosition.EARLIEST,
                    stopPosition=StopPosition.LATEST,
                )
                wanted = [
                    one.value
                    for one in sent[:500]
                    if one.stream == "async" and one.partition == partition
                ]
                assert [one for one in found if one != b"quiet"] == wanted

    run(work())


def test_expected_offsets_are_compared_by_the_owner(bridged: BrokerProcess) -> None:
    """Many writers, one winner per offset, on both shards."""

    async def work() -> None:
        async with LiftbridgeClient(bridged) as client, LiftbridgeClient(bridged) as other:
            flag = {"optimisticConcurrencyControl": {"value": True}}
            await client.call("CreateStream", name="optimist", subject="o", partitions=4, **flag)
            none = client.call("Publish", stream="optimist", ackPolicy=AckPolicy.NONE)
            assert (await refused(none))[0] is Status.INVALID_ARGUMENT
            for partition in range(4):
                fields = {"stream": "optimist", "partition": partition}
                wrong = client.call("Publish", expectedOffset=5, **fields)
                assert (await refused(wrong))[0] is Status.UNKNOWN
                for offset in range(5):
                    tries = [
                        one.call("Publish", expectedOffset=offset, value=b"%d" % number, **fields)
                        for number in range(6)
                        for one in (client, other)
                    ]
                    ends = await asyncio.gather(*tries, return_exceptions=True)
                    won = [one for one in ends if not isinstance(one, BaseException)]
                    assert [one.ack.offset for one in won] == [offset]
                any_offset = await client.call("Publish", expectedOffset=-1, **fields)
                assert any_offset.ack.offset == 5
                async with client.publish_async() as opened:
                    for expected, text in ((6, "right"), (6, "wrong"), (7, "next")):
                        await opened.send_message(
                            publish(expectedOffset=expected, correlationId=text, **fields)
                        )
                    await opened.end()
                    found = {}
                    while (answer := await received(opened)) is not None:
                        found[answer.correlationId] = answer
                assert found["right"].ack.offset == 6
                assert found["wrong"].asyncError.code == 5
                assert found["next"].ack.offset == 7

    run(work())


def test_a_subject_reaches_all_streams_that_match(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            for name, subject, group in (
                ("exact", "many.a", ""),
                ("pattern", "many.*", ""),
                ("one", "many.a", "g"),
                ("two", "many.a", "g"),
            ):
                await client.call("CreateStream", name=name, subject=subject, group=group)
            for number in range(20):
                answer = await client.call(
                    "PublishToSubject", subject="many.a", value=b"%d" % number, correlationId="c"
                )
                assert answer.ack.offset == number
                assert answer.ack.msgSubject == "many.a"
            metadata = await client.call("FetchMetadata")
            newest = {one.name: one.partitions[0].newestOffset for one in metadata.streamMetadata}
            assert (newest["exact"], newest["pattern"]) == (19, 19)
            assert newest["one"] + newest["two"] + 2 == 20
            nowhere = client.call("PublishToSubject", subject="nowhere", deadline_s=0.3)
            with pytest.raises((GRPCError, TimeoutError)):
                await nowhere
            # A publish to a stream by name is seen by others on its subject, too.
            await client.call("Publish", stream="exact", value=b"named")
            (copy,) = await client.messages("pattern", 1, startPosition=1, startOffset=20)
            assert (copy.value, copy.subject) == (b"named", "many.a")

    run(work())


def test_metadata_shows_what_clients_look_for(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="shown", subject="sh", partitions=2)
            await fill(client, "shown", 3)
            found = await client.call(
                "FetchMetadata", streams=["shown", "no", "__cursors"], groups=["none"]
            )
            (broker,) = found.brokers
            assert f"{broker.host}:{broker.port}" == bridged.liftbridge_address
            shown, missing, cursors = found.streamMetadata
            assert (shown.subject, shown.error, sorted(shown.partitions)) == ("sh", 0, [0, 1])
            assert shown.creationTimestamp > 10**18
            assert [shown.partitions[one].newestOffset for one in (0, 1)] == [2, -1]
            assert shown.partitions[0].leader == broker.id
            assert list(shown.partitions[0].isr) == [broker.id]
            assert (missing.name, missing.error) == ("no", 1)
            assert cursors.partitions[0].leader == broker.id
            assert [(one.groupId, one.error) for one in found.groupMetadata] == [("none", 1)]
            one = (await client.call("FetchPartitionMetadata", stream="shown")).metadata
            assert (one.highWatermark, one.newestOffset) == (2, 2)
            times = one.messagesReceivedTimestamps
            assert 0 < times.firstTimestamp <= times.latestTimestamp
            assert one.pauseTimestamps.firstTimestamp == 0
            unknown = client.call("FetchPartitionMetadata", stream="shown", partition=2)
            assert (await refused(unknown))[0] is Status.NOT_FOUND

    run(work())


def test_pause_ends_subscriptions_and_a_publish_resumes(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="paused", subject="p", partitions=2)
            for fields in ({"name": "no"}, {"name": "paused", "partitions": [2]}):
                assert (await refused(client.call("PauseStream", **fields)))[0] is Status.NOT_FOUND

            async def pause() -> None:
                await client.call("PauseStream", name="paused", resumeAll=True)

            ended = await client.until_end("paused", subscribed=pause)
            assert ended == ([], Status.FAILED_PRECONDITION)
            again = await refused(client.messages("paused", 1))
            assert again[0] is Status.FAILED_PRECONDITION
            quiet = await client.call(
                "PublishToSubject", subject="p", value=b"lost", ackPolicy=AckPolicy.NONE
            )
            assert not quiet.HasField("ack")
            paused = await partitions(client, "paused")
            assert [one.paused for one in paused] == [True, True]
            assert paused[0].pauseTimestamps.firstTimestamp > 10**18
            ack = (await fill(client, "paused", 1))[0]
            assert ack.offset == 0
            assert [one.paused for one in await partitions(client, "paused")] == [False, False]
            await client.call("PauseStream", name="paused", partitions=[1])
            async with client.subscribe("paused", partition=1, resume=True) as opened:
                await fill(client, "paused", 1, partition=1)
                assert (await received(opened)).offset == 0
                await opened.cancel()

    run(work())


async def partitions(client: LiftbridgeClient, stream: str) -> list[Any]:
    found = (await client.call("FetchMetadata", streams=[stream])).streamMetadata[0]
    return [found.partitions[number] for number in sorted(found.partitions)]


def test_a_readonly_partition_takes_nothing_from_any_door(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="frozen", subject="f", partitions=2)
            await fill(client, "frozen", 2)
            await client.call("SetStreamReadonly", name="frozen", readonly=True)
            refusal = await refused(client.call("Publish", stream="frozen", value=b"x"))
            assert refusal[0] is Status.FAILED_PRECONDITION
            async with client.publish_async() as opened:
                await opened.send_message(publish(stream="frozen", correlationId="c"))
                await opened.end()
                assert (await received(opened)).asyncError.code == 4
            assert await values(client, "frozen", startPosition=2) == [b"0", b"1"]
            assert all(one.readonly for one in await partitions(client, "frozen"))
            await client.call("SetStreamReadonly", name="frozen", partitions=[0], readonly=False)
            assert (await fill(client, "frozen", 1))[0].offset == 2
            assert [one.readonly for one in await partitions(client, "frozen")] == [False, True]

    run(work())


def test_cursors_are_kept_verbatim(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            for fields in ({"stream": "s"}, {"cursorId": "c"}):
                for name in ("SetCursor", "FetchCursor"):
                    found = await refused(client.call(name, **fields))
                    assert found[0] is Status.INVALID_ARGUMENT
            where = {"stream": "any", "partition": 3, "cursorId": "c"}
            assert (await client.call("FetchCursor", **where)).offset == -1
            for offset in (7, 3, 1 << 40):
                await client.call("SetCursor", offset=offset, **where)
                assert (await client.call("FetchCursor", **where)).offset == offset
            other = await client.call("FetchCursor", **{**where, "cursorId": "d"})
            assert other.offset == -1
            await asyncio.gather(
                *(
                    client.call("SetCursor", stream="any", cursorId=f"c{one}", offset=one)
                    for one in range(200)
                )
            )
            found = await client.call("FetchCursor", stream="any", cursorId="c123")
            assert found.offset == 123

    run(work())


def test_consumer_groups_have_epochs_and_assignments(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="shared", subject="sd", partitions=4)
            join = {"groupId": "g", "streams": ["shared"]}
            first = await client.call("JoinConsumerGroup", consumerId="a", **join)
            assert (first.epoch, first.consumerTimeout) == (0, 15_000_000_000)
            assert (await client.call("JoinConsumerGroup", consumerId="b", **join)).epoch == 1
            rows: list[tuple[str, dict[str, Any], Status]] = [
                ("JoinConsumerGroup", {"consumerId": "a", **join}, Status.FAILED_PRECONDITION),
                ("JoinConsumerGroup", {"groupId": "g", "consumerId": "c", "streams": ["no"]},
                 Status.FAILED_PRECONDITION),
                ("JoinConsumerGroup", {"groupId": "g", "consumerId": "c"}, Status.INVALID_ARGUMENT),
                ("JoinConsumerGroup", {"groupId": "g", "streams": ["shared"]},
                 Status.INVALID_ARGUMENT),
                ("LeaveConsumerGroup", {"groupId": "no", "consumerId": "a"}, Status.NOT_FOUND),
                ("LeaveConsumerGroup", {"groupId": "g", "consumerId": "z"},
                 Status.FAILED_PRECONDITION),
                ("FetchConsumerGroupAssignments", {"groupId": "no", "consumerId": "a"},
                 Status.NOT_FOUND),
                ("FetchConsumerGroupAssignments", {"groupId": "g", "consumerId": "a", "epoch": 0},
                 Status.FAILED_PRECONDITION),
                ("ReportConsumerGroupCoordinator", {"groupId": "g", "consumerId": "a"},
                 Status.INVALID_ARGUMENT),
                ("ReportConsumerGroupCoordinator",
                 {"groupId": "g", "consumerId": "a", "coordinator": "borzoi", "epoch": 1},
                 Status.FAILED_PRECONDITION),
            ]  # fmt: skip
            for name, fields, status in rows:
                assert (await refused(client.call(name, **fields)))[0] is status, (name, fields)
            shares = {}
            for member in ("a", "b"):
                found = await client.call(
                    "FetchConsumerGroupAssignments", groupId="g", consumerId=member, epoch=1
                )
                (one,) = found.assignments
                shares[member] = list(one.partitions)
            assert shares == {"a": [0, 2], "b": [1, 3]}
            await client.call("LeaveConsumerGroup", groupId="g", consumerId="a")
            found = await client.call(
                "FetchConsumerGroupAssignments", groupId="g", consumerId="b", epoch=2
            )
            assert list(found.assignments[0].partitions) == [0, 1, 2, 3]
            shown = await client.call("FetchMetadata", groups=["g"])
            assert [(one.groupId, one.epoch) for one in shown.groupMetadata] == [("g", 2)]
            await client.call("DeleteStream", name="shared")
            gone = await client.call(
                "FetchConsumerGroupAssignments", groupId="g", consumerId="b", epoch=3
            )
            assert list(gone.assignments) == []
            await client.call("LeaveConsumerGroup", groupId="g", consumerId="b")
            shown = await client.call("FetchMetadata", groups=["g"])
            assert [one.error for one in shown.groupMetadata] == [1]

    run(work())


def test_a_deleted_stream_ends_its_subscriptions(bridged: BrokerProcess) -> None:
    async def work() -> None:
        async with LiftbridgeClient(bridged) as client, LiftbridgeClient(bridged) as other:
            await client.call("CreateStream", name="gone", subject="gone")

            async def delete() -> None:
                await other.call("DeleteStream", name="gone")

            ended = await client.until_end("gone", subscribed=delete)
            assert ended == ([], Status.NOT_FOUND)

    run(work())


def test_one_subscriber_of_a_group_has_a_partition(bridged: BrokerProcess) -> None:
    """On both shards: connections land on either, and each newcomer replaces the one before."""

    async def work() -> None:
        async with LiftbridgeClient(bridged) as client:
            await client.call("CreateStream", name="seat", subject="seat")
            nameless = client.until_end("seat", consumer={"groupId": "g"})
            assert await nameless == ([], Status.INVALID_ARGUMENT)
            for epoch in (1, 1, 2, 3, 3, 4):
                later = {"groupId": "g", "consumerId": "b", "groupEpoch": epoch}

                async def replace(later: dict[str, Any] = later) -> None:
                    async with LiftbridgeClient(bridged) as other:
                        stop = {"stopPosition": StopPosition.OFFSET, "stopOffset": 1 << 40}
                        async with other.subscribe("seat", consumer=later, **stop) as opened:
                            older = later | {"groupEpoch": later["groupEpoch"] - 1}
                            refusal = await client.until_end("seat", consumer=older)
                            assert refusal == ([], Status.FAILED_PRECONDITION)
                            await opened.cancel()

                first = later | {"groupEpoch": epoch, "consumerId": "a"}
                ended = await client.until_end("seat", consumer=first, subscribed=replace)
                assert ended == ([], Status.OK)

    run(work())


def test_health_is_that_of_the_service(new_broker: NewBroker) -> None:
    """It needs no login; those that watch hear of the end before it comes."""
    broker = new_broker(**ANONYMOUS | {"IGGY_LIFTBRIDGE_ANONYMOUS_USER": ""})

    async def work() -> None:
        async with LiftbridgeClient(broker) as client:
            health = HealthStub(client.channel)
            for service in ("", "proto.API"):
                answer = await health.Check(HealthCheckRequest(service=service), timeout=20)
                assert answer.status == HealthCheckResponse.SERVING
            unknown = await refused(health.Check(HealthCheckRequest(service="no"), timeout=20))
            assert unknown[0] is Status.NOT_FOUND
            found = []
            async with health.Watch.open() as watching:
                await watching.send_message(HealthCheckRequest(service="proto.API"), end=True)
                found.append((await received(watching)).status)
                stopping = asyncio.create_task(asyncio.to_thread(broker.stop))
                try:
                    while (answer := await received(watching)) is not None:
                        found.append(answer.status)
                except (StreamTerminatedError, OSError, GRPCError):
                    pass  # the broker has ended meanwhile
            await stopping
            assert found == [HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING]

    run(work())


def test_an_encrypted_stream_is_not_on_the_disk_as_it_was_sent(new_broker: NewBroker) -> None:
    key = {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true", "IGGY_SYSTEM_ENCRYPTION_KEY": "A" * 43 + "="}
    broker = new_broker(**ANONYMOUS | key)

    async def work() -> None:
        async with LiftbridgeClient(broker) as client:
            flag = {"encryption": {"value": True}}
            await client.call("CreateStream", name="secret", subject="secret", **flag)
            await client.call("Publish", stream="secret", value=b"not for the disk")
            (message,) = await client.messages("secret", 1, startPosition=StartPosition.EARLIEST)
            assert message.value == b"not for the disk"

    run(work())
    logs = [one.read_bytes() for one in broker.data.rglob("*.log")]
    assert sum(map(len, logs)) > 0
    assert not any(b"not for the disk" in one for one in logs)


def test_http_returns_the_settings_as_they_were_given(new_broker: NewBroker) -> None:
    broker = new_broker(**ANONYMOUS | HTTP)
    given = {
        "retentionMaxBytes": 1 << 24, "retentionMaxMessages": 7, "retentionMaxAge": 60_000,
        "cleanerInterval": 1000, "segmentMaxBytes": 1 << 21, "segmentMaxAge": 5000,
        "compactMaxGoroutines": 2, "compactEnabled": 1, "autoPauseTime": 0,
        "autoPauseDisableIfSubscribers": 1, "minIsr": 1, "optimisticConcurrencyControl": 0,
        "encryption": 0,
    }  # fmt: skip

    async def work() -> None:
        async with LiftbridgeClient(broker) as client:
            settings = {name: {"value": value} for name, value in given.items()}
            names = {"name": "kept", "subject": "k.*", "group": "g", "partitions": 3}
            await client.call("CreateStream", **names, **settings)
            await client.call("PauseStream", name="kept", partitions=[2])
            await client.call("SetStreamReadonly", name="kept", partitions=[0, 1], readonly=True)

    run(work())
    http = HttpClient(broker).login()
    kept = http.ask("GET", "/streams/liftbridge/topics/kept/liftbridge").json
    assert kept == {
        "subject": "k.*", "group": "g", "settings": given, "paused": [2], "readonly": [0, 1],
    }  # fmt: skip
    topic = http.ask("GET", "/streams/liftbridge/topics/kept").json
    assert (topic["message_expiry"], topic["max_topic_size"]) == (60_000_000, 3 << 24)
    body = {"name": "plain", "partitions_count": 1}
    assert http.ask("POST", "/streams/liftbridge/topics", body).status == 200
    for missing in ("plain", "no"):
        answer = http.ask("GET", f"/streams/liftbridge/topics/{missing}/liftbridge")
        assert answer.status == 404
    http.token = ""
    assert http.ask("GET", "/streams/liftbridge/topics/kept/liftbridge").status == 401
