"""Publishing: from a request to a stored message and its ack.

Unary calls are here; PublishAsync, which has many messages in flight, is publish_async.py. A
publish resumes a paused partition. What is published to a stream also goes to other streams whose
subjects match, as it would on a NATS server; the ack is that of the stream that was named.
"""

import random
import secrets
from typing import Any, Final, Protocol

from borzoi.liftbridge.acks import ack_of
from borzoi.liftbridge.appending import Appending
from borzoi.liftbridge.bridge import NAMESPACE, Bridge, Route
from borzoi.liftbridge.ports import Action, PlaceGone, PortError, ReadOnly, User
from borzoi.liftbridge.refusals import ACK_ERRORS
from borzoi.liftbridge.schema import Ack, AckError, AckPolicy
from borzoi.liftbridge.stored import (
    CORRELATION,
    EMPTY_PAYLOAD,
    KEY,
    NO_ID,
    Received,
    TooLarge,
    pair,
    user_headers,
)
from borzoi.liftbridge.subjects import inbox_problem, is_pattern
from borzoi.protocol.headers import HEADER_FIELD_SIZE_MAX, HeaderKind
from borzoi.protocol.message import MESSAGE_HEADER

STORED_SIZE_MAX: Final = 1024 * 1024
"""The value, key and headers of one message, as in the reference server."""

NONE_REFUSED: Final = "AckPolicy.NONE is not allowed with optimistic concurrency control"

ANY_OFFSET: Final = -1
"""The publisher expects no offset."""


def new_inbox() -> str:
    """An inbox for acks that no other publisher has."""
    return f"{NAMESPACE}.ack.{secrets.token_hex(8)}"


def stored_for(route: Route, message: Any, now_us: int) -> bytes:
    """A PublishRequest, or what has its fields, as it is stored. TooLarge if it cannot be."""
    value, key, correlation = message.value, message.key, message.correlationId.encode()
    if (
        message.headers
        or not value
        or not route.subject_header
        or len(key) > HEADER_FIELD_SIZE_MAX
        or len(correlation) > HEADER_FIELD_SIZE_MAX
    ):
        given = Received(
            value, key, message.headers, route.subject, correlation_id=message.correlationId
        )
        headers = user_headers(given)
    else:
        headers = route.subject_header
        if key:
            headers += pair(KEY, key)
        if correlation:
            headers += pair(CORRELATION, correlation, HeaderKind.STRING)
    return stored_with(value, headers, now_us)


def stored_with(value: bytes, headers: bytes, now_us: int) -> bytes:
    """A value behind the head of its message, before its user headers. TooLarge if it is."""
    if len(value) + len(headers) > STORED_SIZE_MAX:
        raise TooLarge(
            f"the message has {len(value) + len(headers)} bytes, {STORED_SIZE_MAX} are allowed"
        )
    value = value or EMPTY_PAYLOAD
    head = MESSAGE_HEADER.pack(0, NO_ID, 0, 0, now_us, len(headers), len(value), 0)
    return b"".join((head, value, headers))


def ignored(_offset: int, _error: PortError | None) -> None:
    """The end of an append that no client waits for; the broker has logged why it failed."""


class ToSubjects(Protocol):
    """Publishes to whatever listens on a subject."""

    async def publish(self, user: User, request: Any, inbox: str, *, waits: bool) -> Ack | None:
        """Publish; the first ack, if the caller waits for one."""

    def require_inbox(self, user: User, inbox: str) -> None:
        """Raise NotAllowed unless the user may have acks published to a subject."""

    async def acknowledge(self, inbox: str, ack: Ack) -> None:
        """Publish an ack, if that is possible now."""


class Publishing:
    """Publishes messages for the clients of one shard."""

    def __init__(self, bridge: Bridge, appending: Appending) -> None:
        self.bridge = bridge
        self.appending = appending
        self.through_nats: ToSubjects | None = None
        """The way to subjects where a NATS server is configured."""

        self._now_ns = bridge.store.now_ns

    def route(self, user: User, stream: str, partition: int) -> Route:
        """Where a message goes, if the user may publish there and the partition takes it."""
        route = self.bridge.route(stream, partition)
        self.bridge.require(user, Action.PUBLISH, stream)
        if partition in route.view.readonly:
            raise ReadOnly("Cannot publish to readonly partition")
        return route

    async def resumed(self, user: User, route: Route) -> Route:
        """The same route, to a partition that is not paused."""
        view = route.view
        if route.partition not in view.paused and not (view.resume_all and view.paused):
            return route
        partitions = sorted(view.paused) if view.resume_all else [route.partition]
        await self.bridge.store.resume(user, view.name, partitions, Action.PUBLISH)
        return self.bridge.route(view.name, route.partition)

    async def publish(self, user: User, request: Any, inbox: str) -> Ack:
        """Store the message of a PublishRequest; its ack. PortError or TooLarge otherwise.

        An inbox that the request names gets the ack, too, where there is a way to it.
        """
        received = self._now_ns()
        inboxes = self.through_nats
        if inboxes is not None:
            if not request.ackInbox or inbox_problem(inbox) is not None or is_pattern(inbox):
                inboxes = None
            else:
                inboxes.require_inbox(user, inbox)
        route = self.route(user, request.stream, request.partition)
        route = await self.resumed(user, route)
        offset = await self._store(user, route, request, received)
        times = (received, self._now_ns())
        ack = ack_of(route, offset, request.correlationId, inbox, request.ackPolicy, times)
        if inboxes is not None and request.ackPolicy != AckPolicy.NONE:
            await inboxes.acknowledge(inbox, ack)
        return ack

    async def publish_to_subject(
        self, user: User, request: Any, inbox: str, *, waits: bool
    ) -> Ack | None:
        """Store a message in all partitions that are attached to its subject.

        The ack of the first that has stored it, or an ack with an error; None if there are none, or
        if it goes through NATS and the caller does not wait for it.
        """
        if self.through_nats is not None:
            return await self.through_nats.publish(user, request, inbox, waits=waits)
        received = self._now_ns()
        first: Ack | None = None
        for one in self.bridge.attached(request.subject):
            ack = await self.receive(
                user,
                one.stream,
                one.partition,
                Received(
                    request.value,
                    request.key,
                    request.headers,
                    request.subject,
                    correlation_id=request.correlationId,
                ),
                policy=request.ackPolicy,
                inbox=inbox,
                received_ns=received,
            )
            if ack is not None and (first is None or first.ackError):
                first = ack
        return first

    async def receive(
        self,
        user: User,
        stream: str,
        partition: int,
        message: Received,
        *,
        policy: int = AckPolicy.LEADER,
        inbox: str = "",
        received_ns: int = 0,
        expected: int = 0,
    ) -> Ack | None:
        """Store what came on a subject; its ack, which says so if it was not stored.

        None where the reference drops messages without a word: the partition is read-only, paused
        or gone, or the user may not publish there.
        """
        received = received_ns or self._now_ns()
        try:
            route = self.route(user, stream, partition)
        except PortError:
            return None
        if partition in route.view.paused:
            return None
        times = (received, received)
        ack = ack_of(route, 0, message.correlation_id, inbox, policy, times)
        ack.msgSubject = message.subject or route.subject
        try:
            stored = stored_with(message.value, user_headers(message), received // 1000)
            ack.offset = await self._append(user, route, stored, policy, expected)
        except PlaceGone:
            return None
        except (PortError, TooLarge) as error:
            ack.ackError = ACK_ERRORS.get(type(error), AckError.UNKNOWN)
        ack.commitTimestamp = self._now_ns()
        return ack

    def copy(self, user: User, route: Route, message: bytes) -> None:
        """Let other streams have a message that was published to one. They give no ack."""
        for some in route.copies:
            one = some[0] if len(some) == 1 else random.choice(some)
            try:
                other = self.route(user, one.stream, one.partition)
            except PortError:
                continue
            if one.partition not in other.view.paused and not other.view.checks_offsets:
                self.appending.put(user, other, (message,), ignored, syncs=False)

    async def _store(self, user: User, route: Route, request: Any, received: int) -> int:
        message = stored_for(route, request, received // 1000)
        if route.copies:
            self.copy(user, route, message)
        return await self._append(user, route, message, request.ackPolicy, request.expectedOffset)

    async def _append(
        self, user: User, route: Route, message: bytes, policy: int, expected: int
    ) -> int:
        syncs = policy == AckPolicy.ALL
        if route.view.checks_offsets and expected != ANY_OFFSET:
            await self.appending.put_at(user, route, message, expected, syncs=syncs)
            return expected
        return await self.appending.appended(user, route, message, syncs=syncs)
