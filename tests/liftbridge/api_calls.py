"""What tests with NATS ask of a broker: streams, and all that was stored."""

import asyncio
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError

from borzoi.liftbridge.schema import StartPosition, StopPosition
from tests.liftbridge.client import TIMEOUT_S, LiftbridgeClient, received


class ApiCalls(LiftbridgeClient):
    """One connection to a broker."""

    async def create(self, name: str, subject: str = "", **fields: Any) -> None:
        await self.call("CreateStream", name=name, subject=subject or name, **fields)

    async def newest(self, stream: str, partition: int = 0) -> int:
        """The newest offset of a partition."""
        found = await self.call("FetchPartitionMetadata", stream=stream, partition=partition)
        return int(found.metadata.newestOffset)

    async def stored(self, stream: str, count: int, partition: int = 0) -> list[Any]:
        """All messages of a partition, once it has so many."""
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                if await self.newest(stream, partition) >= count - 1:
                    return await self.read(stream, partition)
                await asyncio.sleep(0.02)

    async def read(self, stream: str, partition: int = 0) -> list[Any]:
        """All messages of a partition; their offsets have no gaps."""
        last = await self.newest(stream, partition)
        if last < 0:
            return []
        found: list[Any] = []
        try:
            async with self.subscribe(
                stream,
                partition=partition,
                startPosition=StartPosition.EARLIEST,
                stopPosition=StopPosition.OFFSET,
                stopOffset=last,
            ) as opened:
                while (message := await received(opened)) is not None:
                    found.append(message)
        except GRPCError as error:
            # What it ends with at its stop position.
            if error.status is not Status.RESOURCE_EXHAUSTED:
                raise
        assert [one.offset for one in found] == list(range(found[0].offset, last + 1))
        return found
