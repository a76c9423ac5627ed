"""From NATS to the log: what comes on the subjects of partitions is stored, then acked.

    NatsLink ── take ──> arrived.py ── Appending.put ──> the log ── appended ──> ack ──> NatsLink

Owns the bytes that are on their way into the log, and the acks that are on their way to their
inboxes. NATS does not wait: when the disk is slower than publishers, what is on its way is bounded
(`pending_size_max`), and what comes beyond is dropped and counted. A partition may take as much as
is free, so one that is flooded leaves room for the others.

Always: an ack is sent after its message is in the log, in the durability that the broker has; with
the policy ALL, after a sync. What is acked is never lost; what is dropped is never acked.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from nats.aio.msg import Msg

from borzoi.liftbridge.acks import ack_of
from borzoi.liftbridge.arrived import Arrived, arrived
from borzoi.liftbridge.bridge import Route
from borzoi.liftbridge.envelope import ACK, Plain, encode_envelope
from borzoi.liftbridge.nats_link import NatsLink
from borzoi.liftbridge.ports import PlaceGone, PortError, User
from borzoi.liftbridge.publishing import ANY_OFFSET, Publishing, stored_with
from borzoi.liftbridge.refusals import ACK_ERRORS
from borzoi.liftbridge.schema import AckError, AckPolicy
from borzoi.liftbridge.stored import TooLarge, user_headers
from borzoi.liftbridge.subjects import inbox_problem

ACKS_WAITING_MAX: Final = 65_536
"""Acks that wait for a connection that takes them slowly; more are not sent."""


@dataclass(slots=True)
class IntakeCounts:
    """Since the start of this worker."""

    received: int = 0
    stored: int = 0
    enveloped: int = 0
    malformed: int = 0
    """Messages that begin like an envelope and are none; they are stored as they are."""

    overflowed: int = 0
    """Dropped: too many bytes were on their way into the log."""

    refused: int = 0
    """Dropped: the partition is read-only, paused or gone, or the user may not send there."""

    failed: int = 0
    """Not stored: too large, another offset than expected, or a fault of the disk."""

    acked: int = 0
    unacked: int = 0
    """Acks that could not be sent: no legal inbox, or no connection that takes them."""


@dataclass(eq=False, slots=True)
class Feed:
    """The subscription of one partition."""

    stream: str
    partition: int
    pending_size: int = 0
    turns: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One after the other, where offsets are expected."""


class Intake:
    """Stores what NATS has for one shard."""

    def __init__(
        self,
        publishing: Publishing,
        link: NatsLink,
        user: Callable[[], User],
        pending_size_max: int,
    ) -> None:
        self.counts = IntakeCounts()
        self.pending_size = 0
        self._publishing = publishing
        self._store = publishing.bridge.store
        self._link = link
        self._user = user
        self._pending_size_max = pending_size_max
        self._acks: deque[tuple[str, bytes]] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._went_on = asyncio.Event()
        """Set when something of what was on its way has arrived."""

        self._checking: set[asyncio.Task[None]] = set()

    def take(self, feed: Feed, message: Msg) -> None:
        """Store a message of a partition's subject; called for one after the other."""
        self.counts.received += 1
        size = len(message.data)
        if size > self._pending_size_max - self.pending_size - feed.pending_size:
            self.counts.overflowed += 1
            return
        try:
            user = self._user()
            route = self._publishing.route(user, feed.stream, feed.partition)
        except PortError:
            self.counts.refused += 1
            return
        if feed.partition in route.view.paused:
            self.counts.refused += 1
            return
        came = arrived(message.subject, message.reply, message.data, message.headers)
        self._count(came)
        pending = _Pending(self, feed, route, came, size, self._store.now_ns())
        try:
            stored = stored_with(
                came.message.value, user_headers(came.message), pending.received_ns // 1000
            )
        except TooLarge:
            pending.refused(AckError.TOO_LARGE)
            return
        pending.begin()
        if route.view.checks_offsets:
            self._check_offset(user, stored, pending)
        else:
            syncs = came.policy == AckPolicy.ALL
            self._publishing.appending.put(user, route, (stored,), pending.appended, syncs=syncs)

    def send_ack(self, inbox: str, payload: bytes) -> None:
        """Have an ack sent, behind those that wait."""
        if len(self._acks) >= ACKS_WAITING_MAX or inbox_problem(inbox) is not None:
            self.counts.unacked += 1
            return
        self._acks.append((inbox, payload))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_acks())

    def hold(self, feed: Feed, size: int) -> None:
        """So many bytes more, or less, are on their way."""
        feed.pending_size += size
        self.pending_size += size
        if size <= 0:
            self._went_on.set()

    def now_ns(self) -> int:
        """The time."""
        return self._store.now_ns()

    async def drain(self) -> None:
        """Wait until everything that came is stored and acked; the caller bounds the time."""
        while self.pending_size or self._acks:
            self._went_on.clear()
            await self._went_on.wait()

    def _count(self, came: Arrived) -> None:
        if came.plain is None:
            self.counts.enveloped += 1
        elif came.plain is not Plain.UNMARKED:
            self.counts.malformed += 1

    def _check_offset(self, user: User, stored: bytes, pending: "_Pending") -> None:
        task = asyncio.get_running_loop().create_task(self._checked(user, stored, pending))
        self._checking.add(task)
        task.add_done_callback(self._checking.discard)

    async def _checked(self, user: User, stored: bytes, pending: "_Pending") -> None:
        """Append to a stream that checks offsets: one message, then the next."""
        came, appending = pending.came, self._publishing.appending
        syncs = came.policy == AckPolicy.ALL
        try:
            async with pending.feed.turns:
                if came.expected == ANY_OFFSET:
                    offset = await appending.appended(user, pending.route, stored, syncs=syncs)
                else:
                    offset = came.expected
                    await appending.put_at(user, pending.route, stored, offset, syncs=syncs)
        except PortError as error:
            pending.appended(0, error)
        else:
            pending.appended(offset, None)

    async def _send_acks(self) -> None:
        while self._acks:
            inbox, payload = self._acks.popleft()
            if await self._link.publish(inbox, payload):
                self.counts.acked += 1
            else:
                self.counts.unacked += 1
        self._went_on.set()


class _Pending:
    """One message on its way into the log."""

    __slots__ = ("_intake", "_size", "came", "feed", "received_ns", "route")

    def __init__(
        self, intake: Intake, feed: Feed, route: Route, came: Arrived, size: int, received_ns: int
    ) -> None:
        self._intake = intake
        self._size = size
        self.feed = feed
        self.route = route
        self.came = came
        self.received_ns = received_ns

    def begin(self) -> None:
        """It takes memory from now on."""
        self._intake.hold(self.feed, self._size)

    def appended(self, offset: int, error: PortError | None) -> None:
        """It is in the log, or will not be."""
        self._intake.hold(self.feed, -self._size)
        if error is None:
            self._intake.counts.stored += 1
            self._answer(offset, AckError.OK)
        elif isinstance(error, PlaceGone):
            self._intake.counts.refused += 1
        else:
            self.refused(ACK_ERRORS.get(type(error), AckError.UNKNOWN))

    def refused(self, why: int) -> None:
        """It is not stored, which its publisher gets to know."""
        self._intake.counts.failed += 1
        self._answer(0, why)

    def _answer(self, offset: int, why: int) -> None:
        came = self.came
        if not came.inbox or came.policy == AckPolicy.NONE:
            return
        times = (self.received_ns, self._intake.now_ns())
        correlation_id = came.message.correlation_id
        ack = ack_of(self.route, offset, correlation_id, came.inbox, came.policy, times)
        ack.msgSubject = came.message.subject
        ack.ackError = why
        self._intake.send_ack(came.inbox, encode_envelope(ACK, ack.SerializeToString()))
