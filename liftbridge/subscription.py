"""Subscribe: messages of one partition to one client, from where it asks to where it asks.

The first message is empty and says that the subscription is there. Then come messages in the order
of their offsets, as many at once as lie together; the client's flow control decides how fast.

Always: a piece is made when the client takes it. A subscription whose client takes nothing has
nothing in memory but its place; of a large message it knows how much was sent.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from borzoi.liftbridge.bridge import Bridge, Route
from borzoi.liftbridge.calls import Call, framed
from borzoi.liftbridge.delivery import Deliverer, Pieces
from borzoi.liftbridge.ports import Action, Extent, PlaceGone, PortError, Run, User
from borzoi.liftbridge.refusals import (
    exhausted,
    internal,
    invalid,
    not_found,
    precondition,
    refusal,
)
from borzoi.liftbridge.schema import StartPosition, StopPosition

MESSAGES_AT_ONCE_MAX: Final = 4096
PIECE_SIZE: Final = 128 * 1024
"""Bytes of stored messages that are made into one answer, if a message is not larger."""

KEPT_TIME_S: Final = 1.0
"""Messages that were read are kept so long for a client that takes none, and read again then."""

LOOK_INTERVAL_S: Final = 1.0
"""So soon a subscription that waits notices what no message tells."""

ENDLESS: Final = None


class Subscription:
    """One call of Subscribe."""

    def __init__(self, bridge: Bridge, call: Call, user: User, request: Any) -> None:
        self._bridge = bridge
        self._store = bridge.store
        self._call = call
        self._user = user
        self._request = request
        self._replaced = asyncio.Event()
        self._offset = 0
        """The first message that is not sent yet, or not all of it."""

        self._sent = 0
        """Bytes of that message that are sent."""

    async def run(self) -> None:
        """Deliver until the end. GRPCError says which; none if a newer member has taken over."""
        request = self._request
        route = self._route()
        self._bridge.require(self._user, Action.SUBSCRIBE, request.stream)
        route = await self._ready(route)
        await self._store.settle()
        extent = self._store.extent(route.place)
        start = await self._start(route, extent)
        stop = await self._stop(route, extent)
        if stop is not ENDLESS and stop < start:
            raise invalid(f"stop offset {stop} is before start offset {start}")
        leave = await self._seat()
        try:
            await self._call.begin_answer()
            await self._call.send(framed(b""))
            await self._deliver(route, start, stop)
        finally:
            leave()

    def replaced(self) -> None:
        """A newer member of the group has this partition: end."""
        self._replaced.set()

    async def _seat(self) -> Callable[[], None]:
        """For a member of a consumer group: be its one subscriber of the partition."""
        consumer = self._request.consumer
        if not consumer.groupId:
            return lambda: None
        if not consumer.consumerId:
            raise invalid("No consumer id provided")
        seat = f"{consumer.groupId},{self._request.stream},{self._request.partition}"
        return await self._store.take_seat(seat, consumer.groupEpoch, self.replaced)

    def _route(self) -> Route:
        try:
            return self._bridge.route(self._request.stream, self._request.partition)
        except PlaceGone:
            raise not_found("No such partition") from None

    async def _ready(self, route: Route) -> Route:
        if route.partition not in route.view.paused:
            return route
        if not self._request.resume:
            raise precondition("Partition is paused")
        await self._store.resume(self._user, route.view.name, [route.partition], Action.SUBSCRIBE)
        return self._route()

    async def _start(self, route: Route, extent: Extent) -> int:
        request = self._request
        match request.startPosition:
            case StartPosition.NEW_ONLY:
                return extent.next
            case StartPosition.OFFSET:
                return min(max(int(request.startOffset), extent.first), extent.next)
            case StartPosition.EARLIEST:
                return extent.first
            case StartPosition.LATEST:
                return max(extent.first, extent.next - 1)
            case StartPosition.TIMESTAMP:
                return await self._at_time(route, request.startTimestamp)
            case unknown:
                raise invalid(f"Unknown StartPosition {unknown}")

    async def _stop(self, route: Route, extent: Extent) -> int | None:
        """The last offset to deliver."""
        request = self._request
        match request.stopPosition:
            case StopPosition.ON_CANCEL:
                return ENDLESS
            case StopPosition.OFFSET:
                return int(request.stopOffset)
            case StopPosition.LATEST:
                if extent.next == extent.first:
                    raise exhausted("Stop offset is before the first message")
                return extent.next - 1
            case StopPosition.TIMESTAMP:
                # Times are stored in microseconds: the first message of the next one is behind.
                behind = (request.stopTimestamp // 1000 + 1) * 1000
                stop = await self._at_time(route, behind) - 1
                if stop < extent.first:
                    raise internal("no message is as old as the stop timestamp")
                return stop
            case unknown:
                raise invalid(f"Unknown StopPosition {unknown}")

    async def _at_time(self, route: Route, time_ns: int) -> int:
        try:
            return await self._store.at_time(self._user, route.place, max(0, time_ns))
        except PortError as error:
            raise internal(f"Failed to lookup offset for timestamp: {error}") from error

    async def _deliver(self, route: Route, offset: int, stop: int | None) -> None:
        self._offset = offset
        while not self._replaced.is_set():
            route = self._checked(route)
            if not await self._room():
                continue
            left = MESSAGES_AT_ONCE_MAX if stop is ENDLESS else stop - self._offset + 1
            run = await self._read(route, self._offset, min(left, MESSAGES_AT_ONCE_MAX))
            if run.message_count:
                await self._send(route, run)
                if stop is not ENDLESS and self._offset > stop:
                    raise exhausted(f"Stop offset {stop} was delivered")
            elif route.partition in route.view.readonly:
                raise exhausted("End of readonly partition")
            else:
                await self._store.wait(route.place, self._offset, LOOK_INTERVAL_S)

    async def _send(self, route: Route, run: Run) -> None:
        """Send messages, as far as the client takes them without a long wait."""
        if self._sent and run.first != self._offset:
            raise internal(f"message {self._offset} was removed while it was sent")
        pieces = Pieces(run.views, Deliverer(route), run.first)
        while pieces.has_more and (room := await self._room()):
            # Of a message of which a part was sent the rest comes first.
            data = pieces.take(1 if self._sent else min(room, PIECE_SIZE))
            if not await self._send_piece(data):
                return
            self._offset = pieces.offset

    async def _send_piece(self, data: bytes) -> bool:
        """Send a piece; False if the client does not take all of it."""
        while room := await self._room():
            self._call.send_now(data[self._sent : self._sent + room])
            self._sent += room
            if self._sent >= len(data):
                self._sent = 0
                return True
        return False

    async def _room(self) -> int:
        """How many bytes the client takes; 0 if it takes none for a while."""
        if room := self._call.sendable:
            return room
        try:
            async with asyncio.timeout(KEPT_TIME_S):
                return await self._call.until_sendable()
        except TimeoutError:
            return 0

    async def _read(self, route: Route, offset: int, count: int) -> Any:
        try:
            return await self._store.read(self._user, route.place, offset, count)
        except PlaceGone:
            raise not_found("stream was deleted") from None
        except PortError as error:
            raise refusal(error) from error

    def _checked(self, route: Route) -> Route:
        """The route as it is now: in the same life, not paused, and still allowed."""
        now = self._bridge_route(route)
        if now is not route:
            if now.place != route.place:
                raise not_found("stream was deleted")
            if now.partition in now.view.paused:
                raise precondition("Partition was paused")
            try:
                self._bridge.require(self._user, Action.SUBSCRIBE, now.view.name)
            except PortError as error:
                raise refusal(error) from error
        return now

    def _bridge_route(self, route: Route) -> Route:
        try:
            return self._bridge.route(route.view.name, route.partition)
        except PlaceGone:
            raise not_found("stream was deleted") from None
