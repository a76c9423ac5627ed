"""SEND_MESSAGES of one session: from the bytes of a request to its answer.

Owned by the session, one request at a time, by callbacks instead of a task. Producers send to
the same place again and again, so what the first bytes of a request mean (stream, topic,
partition, permission) is remembered by those bytes, for as long as the metadata does not change
and the same user is logged in. A send that is remembered costs a look-up and the check of its
batch.
"""

from typing import Final, NamedTuple, Protocol, TypeAlias

from borzoi.protocol.batch import clear_first_checksum, find_send
from borzoi.protocol.codes import Code
from borzoi.protocol.errors import BrokerError, PartitionNotFound, ShardCommunicationError
from borzoi.protocol.generations import CLASSIC, Generation
from borzoi.protocol.identifiers import Balanced, PartitionId
from borzoi.protocol.payload import U32
from borzoi.protocol.send_messages import SendMessages
from borzoi.protocol.send_target import read_head
from borzoi.router.buffer import Buffer
from borzoi.router.target import Target
from borzoi.shards.handlers.services import Services
from borzoi.shards.serving.new_life import Named, new_life

ROUTES_MAX: Final = 64
"""Places one session is remembered to send to; one more and all are looked up anew."""


class Route(NamedTuple):
    """What the first bytes of a request mean."""

    target: Target
    named: Named
    owner: int
    may_move: bool  # to the owner: only if the client named the partition itself


InWork: TypeAlias = tuple[int, Route, memoryview, Buffer, int, Buffer | None]
"""The send that waits for its answer: message count, route, batch, the buffer it lies in, its
position in the arena, and a buffer that is ours to give back (of a batch that was rebuilt). A
bare tuple, because one is made for every request."""


class Sender(Protocol):
    """What a send needs of its session."""

    user_id: int | None
    generation: Generation

    @property
    def taker(self) -> str:
        """In whose name memory is taken."""

    def no_login(self, code: int, payload: memoryview) -> BrokerError:
        """Why a request of nobody is refused."""

    def finish_send(self, route: Route) -> None:
        """The batch is appended: answer."""

    def fail_with(self, status: int) -> None:
        """Answer with an error, or close without an answer if the outcome is unknown."""


class Sending:
    """The sends of one session."""

    __slots__ = ("_in_work", "_retried", "_routes", "_sender", "_services", "_user", "_version")

    def __init__(self, services: Services, sender: Sender) -> None:
        self._services = services
        self._sender = sender
        self._routes: dict[bytes, Route] = {}
        self._version = -1
        self._user: int | None = None
        self._in_work: InWork | None = None
        self._retried = False

    def begin(self, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Send the batch of a request that begins at `start` of `buffer`."""
        version = self._services.metadata.refresh_version()
        if version != self._version or self._sender.user_id != self._user:
            self._forget_routes(version, payload)
        if self._sender.generation is CLASSIC:
            found = find_send(payload, self._routes)
            if found is not None:
                route, count, batch_start = found
                assert buffer is not None
                assert buffer.position is not None
                position = buffer.position + start + batch_start
                self._append((count, route, payload[batch_start:], buffer, position, None))
                return
        self._begin_unknown(payload, buffer, start)

    def check_head(self, head: memoryview) -> None:
        """Raise what a send will be refused with whose first bytes are there, if they say so."""
        version = self._services.metadata.refresh_version()
        if version != self._version or self._sender.user_id != self._user:
            self._forget_routes(version, head)
        if self._sender.generation is not CLASSIC:
            return
        stream, topic, place = read_head(head)
        if place not in self._routes:
            assert self._user is not None
            self._services.sends.topic(self._user, stream, topic)

    def _forget_routes(self, version: int, payload: memoryview) -> None:
        """The metadata or the user has changed since a place was looked up."""
        user = self._sender.user_id
        self._routes.clear()
        self._version, self._user = version, user
        if user is None:
            # The change that was just seen has ended the login.
            raise self._sender.no_login(Code.SEND_MESSAGES, payload)

    def _begin_unknown(self, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """A request whose place is not remembered: decode and look up everything."""
        services = self._services
        command = self._sender.generation.requests[Code.SEND_MESSAGES](payload)
        assert isinstance(command, SendMessages)
        assert self._user is not None
        target = services.sends.target(self._user, command)
        route = Route(
            target,
            Named(Code.SEND_MESSAGES, command.stream, command.topic),
            services.owners.owner(target),
            isinstance(command.partitioning, PartitionId),
        )
        if command.batch_start is None:
            # The batch was rebuilt in private memory; the owner can only be lent the arena.
            taken = services.pool.take(command.batch.nbytes, self._sender.taker)
            if taken is None or taken.position is None:
                raise ShardCommunicationError("no buffer is free to hand the batch on")
            taken.view[:] = command.batch
            clear_first_checksum(taken.view)
            self._append((command.message_count, route, taken.view, taken, taken.position, taken))
            return
        if not isinstance(command.partitioning, Balanced):
            self._remember(payload, route)
        assert buffer is not None
        assert buffer.position is not None
        position = buffer.position + start + command.batch_start
        clear_first_checksum(command.batch)
        self._append((command.message_count, route, command.batch, buffer, position, None))

    def _remember(self, payload: memoryview, route: Route) -> None:
        if len(self._routes) >= ROUTES_MAX:
            self._routes.clear()
        (metadata_size,) = U32.unpack_from(payload)
        self._routes[bytes(payload[:metadata_size])] = route

    def _append(self, work: InWork) -> None:
        self._in_work = work
        self._retried = False
        count, route, batch, buffer, position, _ = work
        self._services.owners.append(
            route.target, route.owner, batch, count, buffer, position, self._appended
        )

    def _appended(self, status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
        work = self._in_work
        assert work is not None, "a send ends once"
        if status == PartitionNotFound.status and not self._retried and self._retry(work):
            return
        self._in_work = None
        _, route, _, _, _, taken = work
        if taken is not None:
            taken.release()
        if status == 0:
            self._sender.finish_send(route)
        else:
            self._sender.fail_with(status)

    def _retry(self, work: InWork) -> bool:
        """Once more, to the life that has begun there meanwhile; False if none has."""
        count, route, batch, buffer, position, taken = work
        user = self._sender.user_id
        moved = new_life(self._services.metadata, user, route.target, route.named)
        if moved is None:
            return False
        clear_first_checksum(batch)
        route = route._replace(target=moved)
        self._append((count, route, batch, buffer, position, taken))
        self._retried = True
        return True
