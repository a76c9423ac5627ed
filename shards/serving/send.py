"""SEND_MESSAGES of one session: from the bytes of a request to its answer.

Owned by the session, one request at a time, by callbacks instead of a task. Producers send to
the same place again and again. So what the first bytes of a request mean (stream, topic,
partition, permission) is remembered by those bytes. It is forgotten when the metadata changes or
another user is logged in. A send that is remembered costs a look-up and the check of its
batch.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, TypeAlias

from borzoi.protocol.batch import clear_first_checksum, find_send, first_stamped_offset
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import BrokerError, PartitionNotFound
from borzoi.protocol.generations import CLASSIC, Generation
from borzoi.protocol.identifiers import Balanced, PartitionId
from borzoi.protocol.payload import U32
from borzoi.protocol.send_messages import SendMessages
from borzoi.protocol.send_target import head_place
from borzoi.router.buffer import Buffer
from borzoi.router.placement import Namespace, unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.handlers.services import Services
from borzoi.shards.ports.partitioning import Spread
from borzoi.shards.serving.new_life import Named, new_life
from borzoi.shards.serving.reply import OK, Payload, Reply

SEND_MESSAGES: Final = int(Code.SEND_MESSAGES)
ROUTES_MAX: Final = 64
"""Places one session is remembered to send to; one more and all are looked up again."""


class Route(NamedTuple):
    """What the first bytes of a request mean."""

    target: Target
    place: Namespace  # the same partition by its ids
    named: Named
    owner: int
    attracts: bool  # a client that named a partition of another shard had better be there


class BalancedRoute(NamedTuple):
    """What the first bytes of a request mean that leaves the partition to us."""

    spread: Spread
    named: Named
    routes: dict[Target, Route]  # at most one for each partition of the topic

    def next(self) -> Route:
        """Where the batch goes whose turn it is. The client stays: the next goes elsewhere."""
        target, owner = self.spread.next()
        route = self.routes.get(target)
        if route is None:
            place = unpack_namespace(target.namespace)
            route = self.routes[target] = Route(target, place, self.named, owner, False)
        return route


Remembered: TypeAlias = Route | BalancedRoute

PendingSend: TypeAlias = tuple[int, Route, memoryview, Buffer | None, int]
"""The send that waits for its answer: message count, route, batch, the buffer it lies in (None:
private memory), and its position in the arena. A bare tuple: one is made for every request."""


class Sender(Protocol):
    """What a send needs of its session."""

    user_id: int | None
    generation: Generation

    @property
    def reply(self) -> Callable[[Reply], None]:
        """Ends the request in work."""

    def learn(self, code: int, payload: memoryview) -> None:
        """The request may tell the generation of the client."""

    def no_login(self, code: int, payload: memoryview) -> BrokerError:
        """Why a request without a login is refused."""

    def fail_with(self, status: int) -> None:
        """Answer with an error, or close without an answer if the outcome is unknown."""

    def move_to(self, shard: int) -> None:
        """Go on there, if connections move."""


class Sending:
    """The sends of one session."""

    __slots__ = (
        "_begun_at", "_in_work", "_published", "_retried", "_routes", "_sender", "_services",
        "_user", "_version",
    )  # fmt: skip

    def __init__(self, services: Services, sender: Sender) -> None:
        self._services = services
        self._sender = sender
        self._routes: dict[bytes, Remembered] = {}
        self._published = services.metadata.published_version
        self._version = -1
        self._user: int | None = None
        self._in_work: PendingSend | None = None
        self._retried = False
        self._begun_at: int | None = None  # of a batch in work whose first part is stored: there

    def begin(self, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Send the batch of a request that begins at `start` of `buffer`; None: private memory."""
        if self._published[0] != self._version or self._sender.user_id != self._user:
            self._forget_routes(payload)
        if buffer is not None and buffer.position is not None:
            position = buffer.position + start
        else:
            buffer, position = None, 0
        generation = self._sender.generation
        if generation is CLASSIC:
            found = find_send(payload, self._routes)
            if found is not None:
                route, count, batch_start = found
                if isinstance(route, BalancedRoute):
                    route = route.next()
                batch = payload[batch_start:]
                self._append((count, route, batch, buffer, position + batch_start))
                return
        elif generation.find_send is not None:
            converted = generation.find_send(payload, self._routes)
            if converted is not None:
                route, count, batch = converted
                if isinstance(route, BalancedRoute):
                    route = route.next()
                self._append((count, route, batch, None, 0))
                return
        self._begin_unknown(payload, buffer, position)

    def check_head(self, head: memoryview) -> None:
        """Raise what a send will be refused with whose first bytes are there, if they say so."""
        if self._published[0] != self._version or self._sender.user_id != self._user:
            self._forget_routes(head)
        generation = self._sender.generation
        if generation is CLASSIC and head_place(head) in self._routes:
            return
        read_head = generation.read_head
        if read_head is None:
            return
        stream, topic, place = read_head(head)
        if place not in self._routes:
            assert self._user is not None
            self._services.send_targets.topic(self._user, stream, topic)

    def _forget_routes(self, payload: memoryview) -> None:
        """The metadata or the user has changed since a place was looked up."""
        self._version = self._services.metadata.refresh_version()
        self._user = self._sender.user_id
        self._routes.clear()
        if self._user is None:
            # The change that was just seen has ended the login.
            raise self._sender.no_login(Code.SEND_MESSAGES, payload)

    def _begin_unknown(self, payload: memoryview, buffer: Buffer | None, position: int) -> None:
        """A request whose place is not remembered: decode and look up everything."""
        services = self._services
        self._sender.learn(SEND_MESSAGES, payload)
        timed_send = self._sender.generation.timed_send
        if timed_send is None:
            command = self._sender.generation.requests[SEND_MESSAGES](payload)
        else:
            command = timed_send(payload, services.clock.now_us())
        assert isinstance(command, SendMessages)
        remembered, route = self._find(command)
        clear_first_checksum(command.batch)
        if command.batch_start is not None or self._sender.generation.find_send is not None:
            self._remember(payload, remembered)
        if command.batch_start is None:
            # The batch was rebuilt, in private memory.
            self._append((command.message_count, route, command.batch, None, 0))
            return
        position += command.batch_start
        self._append((command.message_count, route, command.batch, buffer, position))

    def _find(self, command: SendMessages) -> tuple[Remembered, Route]:
        """What the place of a request means from now on, and for this batch."""
        services = self._services
        assert self._user is not None
        named = Named(Code.SEND_MESSAGES, command.stream, command.topic)
        if isinstance(command.partitioning, Balanced):
            spread = services.send_targets.spread(self._user, command.stream, command.topic)
            balanced = BalancedRoute(spread, named, {})
            return balanced, balanced.next()
        target = services.send_targets.target(self._user, command)
        owner = services.appends.owner(target)
        attracts = owner != services.appends.shard and isinstance(command.partitioning, PartitionId)
        route = Route(target, unpack_namespace(target.namespace), named, owner, attracts)
        return route, route

    def _remember(self, payload: memoryview, route: Remembered) -> None:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        (metadata_size,) = U32.unpack_from(payload)
        self._routes[bytes(payload[:metadata_size])] = route

    def _append(self, work: PendingSend) -> None:
        self._in_work = work
        self._retried = False
        count, route, batch, buffer, position = work
        assert self._user is not None
        self._services.appends.append(
            self._user, route.target, route.owner, batch, count, buffer, position, self._appended
        )

    def _appended(self, status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
        work = self._in_work
        assert work is not None, "a send ends once"
        if status == PartitionNotFound.status and not self._retried and self._retry(work):
            return
        self._in_work = None
        if status == 0:
            confirms = self._sender.generation.confirms
            if confirms is None:
                self._sender.reply(OK)
            else:
                first = self._begun_at
                if first is None:
                    # If all were duplicates, so that none is stored: where the first one lies.
                    first = first_stamped_offset(work[2])
                    assert first is not None, "an answered batch is stamped"
                stream_id, topic_id, partition_id = work[1].place
                self._sender.reply(Payload(confirms(stream_id, topic_id, partition_id, first)))
            if work[1].attracts:
                self._sender.move_to(work[1].owner)
        else:
            self._sender.fail_with(status)

    def _retry(self, work: PendingSend) -> bool:
        """Once more, to the life that has begun there meanwhile; False if none has."""
        count, route, batch, buffer, position = work
        user = self._sender.user_id
        moved = new_life(self._services.metadata, user, route.target, route.named)
        if moved is None:
            return False
        clear_first_checksum(batch)
        route = route._replace(target=moved, place=unpack_namespace(moved.namespace))
        self._append((count, route, batch, buffer, position))
        self._retried = True
        return True
