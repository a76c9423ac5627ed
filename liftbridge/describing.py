"""FetchMetadata and FetchPartitionMetadata: the broker, its streams and partitions as clients see.

One broker leads everything. Clients look up the leader of `__cursors` before they use a cursor, so
that stream is shown, with one partition, although cursors are kept elsewhere and it cannot be read.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, NamedTuple

from borzoi.liftbridge.bridge import BROKER_ID, CURSORS, Bridge
from borzoi.liftbridge.ports import Action, Extent, PlaceGone, StreamView, Times, User
from borzoi.liftbridge.schema import (
    Broker,
    ConsumerGroupMetadata,
    FetchMetadataResponse,
    PartitionEventTimestamps,
    PartitionMetadata,
    StreamMetadata,
)
from borzoi.protocol.message import TIMESTAMP_AT
from borzoi.protocol.payload import U64

UNKNOWN = 1

PARTITIONS_PER_TURN = 500
"""After so many of them others have their turn."""


class Advertised(NamedTuple):
    """Where clients reach the broker."""

    host: str
    port: int


class Describing:
    """Answers what clients ask about streams."""

    def __init__(self, bridge: Bridge, advertised: Advertised) -> None:
        self._bridge = bridge
        self._store = bridge.store
        self._advertised = advertised

    async def metadata(self, user: User, streams: Iterable[str], groups: Iterable[str]) -> Any:
        """The answer to FetchMetadata: the streams named, all if none is; the groups named."""
        await self._store.settle()
        known = self._bridge.streams()
        named = list(streams)
        visible = [name for name in known if self._bridge.may(user, Action.DESCRIBE, name)]
        host, port = self._advertised
        count = sum(known[name].partitions for name in visible)
        answer = FetchMetadataResponse()
        answer.brokers.append(
            Broker(id=BROKER_ID, host=host, port=port, partitionCount=count, leaderCount=count)
        )
        wanted = named or [*visible, CURSORS]
        allowed = set(visible)
        described = 0
        for name in wanted:
            if name == CURSORS:
                answer.streamMetadata.append(_cursors())
            elif name in allowed:
                answer.streamMetadata.append(self._stream(known[name]))
                described += known[name].partitions
                if described > PARTITIONS_PER_TURN:
                    described = 0
                    await asyncio.sleep(0)
            else:
                answer.streamMetadata.append(StreamMetadata(name=name, error=UNKNOWN))
        answer.groupMetadata.extend(self._group(group) for group in groups)
        return answer

    async def partition(self, user: User, stream: str, partition: int) -> Any:
        """The answer to FetchPartitionMetadata; PlaceGone if it is not there."""
        if stream == CURSORS and partition == 0:
            return _partition(0, Extent(0, 0))
        route = self._bridge.route(stream, partition)
        self._bridge.require(user, Action.DESCRIBE, stream)
        await self._store.settle()
        described = self._partition(route.view, partition)
        described.messagesReceivedTimestamps.CopyFrom(
            _times(await self._received(user, route.place))
        )
        return described

    async def _received(self, user: User, place: Any) -> Times:
        extent = self._store.extent(place)
        if extent.first == extent.next:
            return Times()
        found = [
            await self._store.read(user, place, offset, 1)
            for offset in (extent.first, extent.next - 1)
        ]
        first, latest = (
            U64.unpack_from(run.views[0], TIMESTAMP_AT)[0] * 1000 if run.message_count else 0
            for run in found
        )
        return Times(first, latest)

    def _stream(self, view: StreamView) -> Any:
        described = StreamMetadata(
            name=view.name, subject=view.subject, creationTimestamp=view.created_at
        )
        for number in range(view.partitions):
            described.partitions[number].CopyFrom(self._partition(view, number))
        return described

    def _partition(self, view: StreamView, number: int) -> Any:
        try:
            extent = self._store.extent(self._store.place(view.name, number))
        except PlaceGone:
            extent = Extent(0, 0)
        described = _partition(number, extent)
        described.paused = number in view.paused
        described.readonly = number in view.readonly
        described.pauseTimestamps.CopyFrom(_times(view.pause_times.get(number, Times())))
        described.readonlyTimestamps.CopyFrom(_times(view.readonly_times.get(number, Times())))
        return described

    def _group(self, group: str) -> Any:
        found = self._store.group(group)
        if found is None:
            return ConsumerGroupMetadata(groupId=group, error=UNKNOWN)
        return ConsumerGroupMetadata(groupId=group, coordinator=BROKER_ID, epoch=found.epoch)


def _cursors() -> Any:
    described = StreamMetadata(name=CURSORS, subject=CURSORS)
    described.partitions[0].CopyFrom(_partition(0, Extent(0, 0)))
    return described


def _partition(number: int, extent: Extent) -> Any:
    newest = extent.next - 1
    return PartitionMetadata(
        id=number,
        leader=BROKER_ID,
        replicas=[BROKER_ID],
        isr=[BROKER_ID],
        highWatermark=newest,
        newestOffset=newest,
    )


def _times(times: Times) -> Any:
    return PartitionEventTimestamps(firstTimestamp=times.first, latestTimestamp=times.latest)
