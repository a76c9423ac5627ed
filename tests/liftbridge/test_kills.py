"""A worker is killed under a publisher: what was acknowledged is there, in its order, once."""

import asyncio
import os
import signal

import pytest
from grpclib.exceptions import GRPCError, StreamTerminatedError

from borzoi.liftbridge.schema import StartPosition, StopPosition
from tests.broker import BrokerProcess
from tests.conftest import NewBroker
from tests.liftbridge.client import ANONYMOUS, LiftbridgeClient

pytestmark = pytest.mark.slow

PUBLISHED = 400


READ_TRIES = 100


async def _read_all(broker: BrokerProcess) -> list[bytes]:
    """All messages, once a worker listens again: both may be on their way back."""
    for _ in range(READ_TRIES - 1):
        try:
            return await _read(broker)
        except OSError:
            await asyncio.sleep(0.1)
    return await _read(broker)


async def _read(broker: BrokerProcess) -> list[bytes]:
    async with LiftbridgeClient(broker) as reader:
        found, _ = await reader.until_end(
            "k", startPosition=StartPosition.EARLIEST, stopPosition=StopPosition.LATEST
        )
    return found


def test_nothing_acked_is_lost_when_workers_die(new_broker: NewBroker) -> None:
    broker = new_broker(**ANONYMOUS)
    acked: dict[int, int] = {}

    async def work() -> None:
        async with LiftbridgeClient(broker) as client:
            await client.call("CreateStream", name="k", subject="k")
        client = LiftbridgeClient(broker)
        for number in range(PUBLISHED):
            if number in (100, 200, 300):
                shard = number // 100 % 2
                os.kill(broker.workers()[shard], signal.SIGKILL)
            try:
                answer = await client.call(
                    "Publish", stream="k", value=b"%d" % number, deadline_s=5
                )
                acked[answer.ack.offset] = number
            except (GRPCError, StreamTerminatedError, OSError, TimeoutError):
                # The outcome is unknown: the connection was to the worker that died.
                client.channel.close()
                client = LiftbridgeClient(broker)
        client.channel.close()
        found = await _read_all(broker)
        assert len(acked) > PUBLISHED // 2
        for offset, number in acked.items():
            assert found[offset] == b"%d" % number

    asyncio.run(work())
