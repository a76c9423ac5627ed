"""The broker as Liftbridge sees it: implements `Store` of liftbridge/ports.py.

Stateless but for one thing: the streams, which are made again when the metadata has changed. A
Place is a Target. Its birth tells whether a partition is still the one that was looked up.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from borzoi.liftbridge.ports import (
    Action,
    AlreadyThere,
    Extent,
    Failed,
    GroupView,
    NewStream,
    NotAllowed,
    Place,
    PlaceGone,
    Run,
    StreamView,
    User,
)
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.streams import CreateStream
from borzoi.protocol.commands.topics import DeleteTopic
from borzoi.protocol.errors import StreamNameAlreadyExists, error_for
from borzoi.protocol.identifiers import ConsumerKind, StrategyKind
from borzoi.protocol.permissions import UserStatus
from borzoi.router.target import Target
from borzoi.shards.bridge.cursors import CursorWriting
from borzoi.shards.bridge.errors import as_port_errors
from borzoi.shards.bridge.members import MemberWatch
from borzoi.shards.bridge.seats import Seats
from borzoi.shards.bridge.topics import new_topic, views_of
from borzoi.shards.decisions.attaching import (
    PAUSED,
    READONLY,
    FlagPartitions,
    JoinBridgeGroup,
    LeaveBridgeGroup,
)
from borzoi.shards.handlers.services import Services
from borzoi.shards.metadata.permissions import can
from borzoi.shards.metadata.state import ROOT_USER_ID
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.ports import arrivals as follow
from borzoi.shards.ports.arrivals import Arrivals
from borzoi.shards.ports.requests import Flush
from borzoi.shards.rings.asking import Abandoned
from borzoi.shards.rings.peers import ABANDONED
from borzoi.shards.rings.poll import Poll
from borzoi.storage.outcome import Slices

LOG: Final = logging.getLogger(__name__)

CODES: Final = {
    Action.CREATE: Code.CREATE_TOPIC,
    Action.DELETE: Code.DELETE_TOPIC,
    Action.CHANGE: Code.UPDATE_TOPIC,
    Action.DESCRIBE: Code.GET_TOPIC,
    Action.PUBLISH: Code.SEND_MESSAGES,
    Action.SUBSCRIBE: Code.POLL_MESSAGES,
}
"""The command of Iggy whose permission an action needs."""

US_NS: Final = 1000


class BridgeStore:
    """Streams of Liftbridge are the topics of one stream of Iggy that have a subject."""

    def __init__(
        self,
        services: Services,
        arrivals: Arrivals,
        cursors: CursorWriting,
        members: MemberWatch,
        seats: Seats,
        stream_name: str,
        segment_size: int,
        *,
        encrypts: bool,
    ) -> None:
        self._services = services
        self._metadata = services.metadata
        self._arrivals = arrivals
        self._cursors = cursors
        self._members = members
        self._seats = seats
        self._stream_name = stream_name
        self._segment_size = segment_size
        self.encrypts = encrypts
        self._version = -1
        self._views: Mapping[str, StreamView] = {}
        self._is_buffered = services.durability is Durability.BUFFERED
        self.on_attached: Callable[[], Awaitable[None]] | None = None
        """Has partitions listen on their subjects before a change that lets them is answered."""

    def now_ns(self) -> int:
        """The time."""
        return time.time_ns()

    def version(self) -> int:
        """A number that changes with the metadata."""
        return self._metadata.refresh_version()

    def streams(self) -> Mapping[str, StreamView]:
        """All streams by name."""
        version = self._metadata.refresh_version()
        if version != self._version:
            self._views = views_of(self._metadata.state.find_stream(self._stream_name))
            self._version = version
        return self._views

    def require(self, user: User, action: Action, stream: str | None = None) -> None:
        """Raise NotAllowed unless the user may do this with the topic, or with all topics."""
        state = self._metadata.refresh()
        known = state.users.get(user.id)
        if known is None or known.created_at != user.born or known.status != UserStatus.ACTIVE:
            raise NotAllowed(f"user {user.id} was removed")
        of_iggy = state.find_stream(self._stream_name)
        topic = None if stream is None or of_iggy is None else of_iggy.find_topic(stream)
        stream_id = None if of_iggy is None else of_iggy.id
        topic_id = None if topic is None else topic.id
        if not can(state, user.id, CODES[action], stream_id, topic_id):
            what = "streams" if stream is None else f"stream {stream}"
            raise NotAllowed(f"user {known.username} may not {action.value} {what}")

    async def create(self, user: User, new: NewStream) -> None:
        """Make a topic, and before the first one the stream that it lies in."""
        if self._metadata.refresh().find_stream(self._stream_name) is None:
            with as_port_errors():
                try:
                    await self._metadata.change(CreateStream(self._stream_name), ROOT_USER_ID)
                except StreamNameAlreadyExists:
                    LOG.debug("another shard has made stream %r", self._stream_name)
        if new.settings.get("compactEnabled"):
            LOG.warning("stream %r asks for compaction: all messages are kept", new.name)
        with as_port_errors():
            command = new_topic(self._stream_name, new, self._segment_size)
            await self._metadata.change(command, user.id)
        if self.on_attached is not None:
            await self.on_attached()

    async def delete(self, user: User, stream: str) -> None:
        """Delete the topic."""
        with as_port_errors():
            await self._metadata.change(DeleteTopic(self._stream_name, stream), user.id)

    async def pause(
        self, user: User, stream: str, partitions: Sequence[int], resume_all: bool
    ) -> None:
        """Pause partitions."""
        await self._flag(user, stream, PAUSED, partitions, True, resume_all, Code.UPDATE_TOPIC)

    async def resume(
        self, user: User, stream: str, partitions: Sequence[int], action: Action
    ) -> None:
        """End a pause."""
        await self._flag(user, stream, PAUSED, partitions, False, False, CODES[action])

    async def set_readonly(
        self, user: User, stream: str, partitions: Sequence[int], is_set: bool
    ) -> None:
        """Refuse messages, or take them again."""
        await self._flag(user, stream, READONLY, partitions, is_set, False, Code.UPDATE_TOPIC)

    async def _flag(
        self,
        user: User,
        stream: str,
        flag: str,
        partitions: Sequence[int],
        is_set: bool,
        resume_all: bool,
        asked_as: Code,
    ) -> None:
        command = FlagPartitions(
            self._stream_name, stream, flag, tuple(partitions), is_set, resume_all, asked_as
        )
        with as_port_errors():
            await self._metadata.change(command, user.id)
        if self.on_attached is not None:
            await self.on_attached()

    # Messages.

    def place(self, stream: str, partition: int) -> Target:
        """The partition as it lives now."""
        state = self._metadata.refresh()
        with as_port_errors():
            of_iggy = state.stream(self._stream_name)
            return self._metadata.target(of_iggy.id, of_iggy.topic(stream), partition)

    async def append(self, user: User, place: Place, batch: bytearray, count: int) -> int:
        """Append messages; the offset of the first."""
        with as_port_errors():
            first = await self._services.appends.offset_of(
                user.id, _target(place), memoryview(batch), count
            )
        if first is None:
            raise Failed("the owner of the partition has left out a message that has no id")
        return first

    async def append_at(self, user: User, place: Place, batch: bytearray, expected: int) -> None:
        """Append one message if it gets this offset."""
        if expected < 0:
            raise Failed(f"offset {expected} expected: needs 0 or more, or -1 for any")
        with as_port_errors():
            await self._services.appends.append_at(
                user.id, _target(place), memoryview(batch), expected
            )

    async def sync(self, place: Place) -> None:
        """Bring the partition to the disk."""
        with as_port_errors():
            await self._services.owners.ask(Flush(_target(place), True))

    async def settle(self) -> None:
        """Mode buffered: let the board show what is acknowledged."""
        if self._is_buffered:
            with as_port_errors():
                await self._services.owners.flush_journals()

    def extent(self, place: Place) -> Extent:
        """Which offsets the board shows."""
        target = _target(place)
        published = self._services.describer.published_at(target.slot)
        if published.birth != target.birth:
            return Extent(0, 0)
        return Extent(published.first_offset, published.next_offset)

    async def read(self, user: User, place: Place, offset: int, count: int) -> Run:
        """Messages from an offset on."""
        found = await self._poll(user, place, StrategyKind.OFFSET, offset, count)
        if found is None:
            return Run((), offset, 0)
        return Run(found.views, found.first_offset, found.message_count)

    async def at_time(self, user: User, place: Place, time_ns: int) -> int:
        """The first offset of a time; times are stored in microseconds, so it is rounded up."""
        time_us = -(-time_ns // US_NS)
        found = await self._poll(user, place, StrategyKind.TIMESTAMP, time_us, 1)
        if found is None or not found.message_count:
            return self.extent(place).next
        return found.first_offset

    async def wait(self, place: Place, offset: int, time_s: float) -> None:
        """Until there is such a message, or something else happened."""
        await self._arrivals.wait([follow.Place(_target(place), offset)], time_s)

    async def _poll(
        self, user: User, place: Place, strategy: StrategyKind, value: int, count: int
    ) -> Slices | None:
        future: asyncio.Future[tuple[int, Slices | None]]
        future = asyncio.get_running_loop().create_future()

        def ended(status: int, _current: int, slices: Slices | None) -> None:
            if not future.done():
                future.set_result((status, slices))

        poll = Poll(strategy, value, count, ConsumerKind.CONSUMER, 0, False, user.id)
        self._services.reads.poll(_target(place), poll, ended)
        status, slices = await future
        with as_port_errors():
            if status == ABANDONED:
                raise Abandoned
            if status:
                raise error_for(status)
        return slices

    # Cursors and groups.

    async def set_cursor(self, key: str, offset: int) -> None:
        """Log a cursor, together with others that come at the same time."""
        with as_port_errors():
            await self._cursors.set(key, offset)

    def cursor(self, key: str) -> int | None:
        """What a cursor was set to."""
        return self._metadata.refresh().seen_bridge.cursors.get(key)

    def group(self, group: str) -> GroupView | None:
        """A consumer group."""
        found = self._metadata.refresh().seen_bridge.groups.get(group)
        return None if found is None else GroupView(found.epoch, found.members)

    async def join(self, group: str, member: str, streams: Sequence[str]) -> int:
        """Add a member; the epoch after that."""
        with as_port_errors():
            await self._metadata.change(
                JoinBridgeGroup(group, member, tuple(streams)), ROOT_USER_ID
            )
        self.heard_of(group, member)
        found = self.group(group)
        if found is None:
            raise AlreadyThere(f"group {group} has ended meanwhile")
        return found.epoch

    async def leave(self, group: str, member: str) -> None:
        """Remove a member."""
        with as_port_errors():
            await self._metadata.change(LeaveBridgeGroup(group, member), ROOT_USER_ID)

    async def take_seat(self, seat: str, epoch: int, end: Callable[[], None]) -> Callable[[], None]:
        """Be the one subscriber of a group and partition."""

        def ended() -> None:
            end()
            self._arrivals.wake_all()

        with as_port_errors():
            return await self._seats.take(seat, epoch, ended)

    def heard_of(self, group: str, member: str) -> None:
        """Note that a member lives."""
        self._members.heard_of(group, member)


def _target(place: Place) -> Target:
    if not isinstance(place, Target):
        raise PlaceGone(f"{place!r} is no partition")
    return place
