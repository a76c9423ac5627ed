"""Who is let in, and what they may: tokens, passwords, no login."""

import asyncio
import base64

import pytest
from grpclib.const import Status
from grpclib.exceptions import GRPCError

from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient

pytestmark = pytest.mark.slow


def basic(text: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(text.encode()).decode()}


async def status_of(broker: BrokerProcess, metadata: dict[str, str] | None) -> Status:
    async with LiftbridgeClient(broker, metadata=metadata) as client:
        try:
            await client.call("FetchMetadata")
        except GRPCError as error:
            return error.status
    return Status.OK


def test_only_users_are_let_in(new_broker: NewBroker) -> None:
    broker = new_broker(**ANONYMOUS | {"IGGY_LIFTBRIDGE_ANONYMOUS_USER": ""})
    rows: list[tuple[dict[str, str] | None, Status]] = [
        (None, Status.UNAUTHENTICATED),
        (basic("iggy:iggy"), Status.OK),
        (basic("iggy:wrong"), Status.UNAUTHENTICATED),
        ({"authorization": "Bearer nothing"}, Status.UNAUTHENTICATED),
        ({"authorization": "Basic ???"}, Status.UNAUTHENTICATED),
        ({"authorization": "Digest x"}, Status.UNAUTHENTICATED),
        ({"authorization": "Bearer " + "x" * 5000}, Status.UNAUTHENTICATED),
    ]
    for metadata, status in rows:
        assert asyncio.run(status_of(broker, metadata)) is status, metadata


def test_streams_cursors_and_states_survive_a_kill_of_everything(new_broker: NewBroker) -> None:
    broker = new_broker(**ANONYMOUS)

    async def before() -> None:
        async with LiftbridgeClient(broker) as client:
            await client.call("CreateStream", name="kept", subject="k", partitions=2)
            for number in range(20):
                answer = await client.call("Publish", stream="kept", value=b"%d" % number)
                assert answer.ack.offset == number
            await client.call("SetCursor", stream="kept", cursorId="c", offset=5)
            await client.call("SetStreamReadonly", name="kept", partitions=[1], readonly=True)
            join = {"groupId": "g", "consumerId": "a", "streams": ["kept"]}
            await client.call("JoinConsumerGroup", **join)

    async def after() -> None:
        async with LiftbridgeClient(broker) as client:
            found = await client.messages("kept", 20, startPosition=2)
            assert [one.value for one in found] == [b"%d" % number for number in range(20)]
            assert [one.offset for one in found] == list(range(20))
            assert (await client.call("FetchCursor", stream="kept", cursorId="c")).offset == 5
            with pytest.raises(GRPCError, match="readonly"):
                await client.call("Publish", stream="kept", partition=1, value=b"x")
            group = (await client.call("FetchMetadata", groups=["g"])).groupMetadata[0]
            assert (group.error, group.epoch) == (0, 0)

    asyncio.run(before())
    broker.kill()
    broker.start()
    asyncio.run(after())
