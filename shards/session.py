"""One client's session: who it is, and the life of each of its requests.

The only place where an error becomes a status on the wire, and where it is decided whether the
connection survives it: *reply and go on* is the rule, *reply and close* for a client that is not
registered any more. It knows no transport: bytes come in through `begin` and leave through the
`Link` it was given, so another front door is another caller of `begin`.

SEND_MESSAGES and POLL_MESSAGES go by callbacks, without a task; everything else has a handler.
"""

import asyncio
import logging
import socket
from collections.abc import Coroutine, Sequence
from inspect import iscoroutine
from typing import Any, Final, NamedTuple, Protocol

import xxhash

from borzoi.protocol.batch import clear_first_checksum
from borzoi.protocol.codes import Code
from borzoi.protocol.commands.messages import PollMessages
from borzoi.protocol.errors import (
    BrokerError,
    ClientNotFound,
    FeatureUnavailable,
    GenericError,
    InvalidCommand,
    PartitionNotFound,
    ShardCommunicationError,
    StaleClient,
    Unauthenticated,
    error_for,
)
from borzoi.protocol.frame import OK, RESPONSE_HEADER, encode_response
from borzoi.protocol.generations import CLASSIC, GENERATIONS, Generation
from borzoi.protocol.identifiers import ConsumerKind, Identifier, PartitionId, consumer_number
from borzoi.protocol.responses.clients import Transport
from borzoi.protocol.responses.polled import POLLED_HEADER, encode_polled_header
from borzoi.protocol.send_messages import SendMessages
from borzoi.router.buffer import Buffer
from borzoi.shards.access import require
from borzoi.shards.asking import Abandoned
from borzoi.shards.handlers.table import HANDLERS
from borzoi.shards.peers import ABANDONED
from borzoi.shards.services import Services
from borzoi.shards.target import Target
from borzoi.shards.worker_spec import SessionState
from borzoi.storage.reader import Slices

LOG: Final = logging.getLogger(__name__)

BEFORE_LOGIN: Final = frozenset({Code.PING, Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN})
CLOSING: Final = (StaleClient, ClientNotFound)


class Link(Protocol):
    """How a session answers."""

    def finish(self, parts: Sequence[bytes | memoryview], *, close: bool = False) -> None:
        """Answer the request in work."""

    def abandon(self) -> None:
        """End the connection without an answer: the outcome is unknown."""

    def let_go(self) -> socket.socket | None:
        """The socket, if this is a plain TCP connection with nothing in work."""


class Named(NamedTuple):
    """What a request about a partition says of itself: its command, and the topic it means."""

    code: Code
    stream: Identifier
    topic: Identifier


class Session:
    """State of one client, from connect to disconnect."""

    def __init__(self, services: Services, link: Link, address: str, transport: Transport) -> None:
        self._services = services
        self._link = link
        self.address = address
        self.transport = transport
        self.client_id = xxhash.xxh32_intdigest(address.encode())
        self.user_id: int | None = None
        self.generation: Generation = CLASSIC
        self.knows_all_codecs = False
        self._may_move = transport is Transport.TCP and services.migration.enabled
        self._moves_to: int | None = None

    @classmethod
    def adopt(cls, services: Services, link: Link, state: SessionState) -> "Session":
        """Go on with a session that another shard has begun. It does not move again."""
        session = cls(services, link, state.address, Transport.TCP)
        session.user_id = state.user_id
        session.generation = GENERATIONS[state.generation]
        session.knows_all_codecs = state.knows_all_codecs
        session._may_move = False
        return session

    @property
    def is_authenticated(self) -> bool:
        """Whether somebody is logged in."""
        return self.user_id is not None

    @property
    def user(self) -> int:
        """The user who is logged in; handlers run only for one."""
        assert self.user_id is not None, "the dispatcher lets nobody in without a login"
        return self.user_id

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Carry out one request. Bytes of `payload` are valid until the answer."""
        try:
            if code == Code.SEND_MESSAGES:
                self._send_messages(payload, buffer, start)
            elif code == Code.POLL_MESSAGES:
                self._poll_messages(payload)
            else:
                self._handle(code, payload)
        except BrokerError as error:
            self._fail(error)
        except AssertionError:
            raise
        except Exception:
            self._report_our_fault(code)

    def closed(self) -> None:
        """The client is gone; what it has in work ends without an answer."""

    # Everything that has a handler.

    def _handle(self, code: int, payload: memoryview) -> None:
        decode = self.generation.requests.get(code)
        if decode is None:
            raise InvalidCommand(f"there is no command {code}")
        command = decode(payload)
        if self.user_id is None and code not in BEFORE_LOGIN:
            raise Unauthenticated(f"{Code(code).name} needs a login")
        handler = HANDLERS.get(code)
        if handler is None:
            raise FeatureUnavailable(f"{Code(code).name} is not served yet")
        result = handler(self._services, self, command)
        if iscoroutine(result):
            self._services.tasks.start(self._finish_later(code, result))
        else:
            self._reply(code, result)

    async def _finish_later(self, code: int, result: Coroutine[Any, Any, Any]) -> None:
        try:
            self._reply(code, await result)
        except BrokerError as error:
            self._fail(error)
        except Abandoned:
            self._link.abandon()
        except asyncio.CancelledError:
            self._link.abandon()
            raise
        except AssertionError:
            raise
        except Exception:
            self._report_our_fault(code)

    def _reply(self, code: int, value: Any) -> None:
        payload = self.generation.replies[code](value)
        self._link.finish([encode_response(0, payload) if payload else OK])

    # Sending.

    def _send_messages(self, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        if self.user_id is None:
            raise Unauthenticated("SEND_MESSAGES needs a login")
        command = self.generation.requests[Code.SEND_MESSAGES](payload)
        assert isinstance(command, SendMessages)
        target = self._services.sends.target(self.user_id, command)
        batch = command.batch
        taken: Buffer | None = None
        if command.batch_start is None:
            # The batch was rebuilt in private memory; the owner can only be lent the arena.
            taken = self._services.pool.take(batch.nbytes)
            if taken is None:
                raise ShardCommunicationError("no buffer is free to hand the batch on")
            taken.view[:] = batch
            buffer, batch, position = taken, taken.view, taken.position
        else:
            assert buffer is not None
            assert buffer.position is not None
            position = buffer.position + start + command.batch_start
        assert position is not None
        clear_first_checksum(batch)
        # Not the command itself: a rebuilt batch in private memory must not outlive this call.
        if self._may_move and isinstance(command.partitioning, PartitionId):
            owner = self._services.owners.owner(target)
            self._moves_to = owner if owner != self._services.owners.shard else None
        named = Named(Code.SEND_MESSAGES, command.stream, command.topic)
        self._append(command.message_count, target, batch, buffer, position, taken, named)

    def _append(
        self,
        message_count: int,
        target: Target,
        batch: memoryview,
        buffer: Buffer,
        position: int,
        taken: Buffer | None,
        named: Named | None,
    ) -> None:
        """`named` is given at the first attempt; at the second the answer is what it is."""

        def appended(status: int, _first: int, _second: int, _third: int) -> None:
            if status == PartitionNotFound.status and named is not None:
                moved = self._new_life(target, named)
                if moved is not None:
                    clear_first_checksum(batch)
                    self._append(message_count, moved, batch, buffer, position, taken, None)
                    return
            if taken is not None:
                taken.release()
            if status == 0:
                self._link.finish([OK])
                if self._moves_to is not None:
                    self._move_soon()
            elif status == ABANDONED:
                self._link.abandon()
            else:
                self._fail(error_for(status))

        self._services.owners.append(target, batch, message_count, buffer, position, appended)

    def _move_soon(self) -> None:
        # After the answer has left: the transport writes at the end of this turn.
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, self._move)

    def _move(self) -> None:
        """Go to the shard that owns what we send to; not now if the client was faster."""
        shard, self._moves_to = self._moves_to, None
        if shard is None or self.user_id is None:
            return
        state = SessionState(
            self.address, self.user_id, self.generation.name, self.knows_all_codecs
        )
        self._services.migration.hand_over(self._link, shard, state)

    # Polling.

    def _poll_messages(self, payload: memoryview) -> None:
        command = self.generation.requests[Code.POLL_MESSAGES](payload)
        assert isinstance(command, PollMessages)
        if self.user_id is None:
            raise Unauthenticated("POLL_MESSAGES needs a login")
        state = self._services.metadata.refresh()
        stream = state.stream(command.stream)
        topic = stream.topic(command.topic)
        require(state, self.user_id, Code.POLL_MESSAGES, stream.id, topic.id)
        if command.consumer.kind == ConsumerKind.GROUP:
            consumer = topic.group(command.consumer.id).id
            raise FeatureUnavailable("polling as a member of a consumer group is not served yet")
        consumer = consumer_number(command.consumer.id)
        target = self._services.metadata.target(stream.id, topic, command.partition_id or 0)
        named = Named(Code.POLL_MESSAGES, command.stream, command.topic)
        self._poll(command, consumer, target, named)

    def _poll(
        self, command: PollMessages, consumer: int, target: Target, named: Named | None
    ) -> None:
        def polled(status: int, current: int, slices: Slices | None) -> None:
            if status == PartitionNotFound.status and named is not None:
                moved = self._new_life(target, named)
                if moved is not None:
                    self._poll(command, consumer, moved, None)
                    return
            if status == 0:
                self._link.finish(_polled_parts(target.partition_id, current, slices))
            elif status == ABANDONED:
                self._link.abandon()
            else:
                self._fail(error_for(status))

        strategy = command.strategy
        self._services.polls.poll(
            target,
            strategy.kind,
            strategy.value,
            command.count,
            command.consumer.kind,
            consumer,
            command.auto_commit,
            polled,
        )

    def _new_life(self, target: Target, named: Named) -> Target | None:
        """The partition that lives now where the client meant, if `target` has ended.

        Looked up by what the client said: the id of a deleted topic may be another one's by now.
        """
        metadata = self._services.metadata
        state = metadata.refresh()
        try:
            stream = state.stream(named.stream)
            topic = stream.topic(named.topic)
            require(state, self.user, named.code, stream.id, topic.id)
            now = metadata.target(stream.id, topic, target.partition_id)
        except BrokerError:
            return None
        return now if now.birth != target.birth else None

    # Errors.

    def _fail(self, error: BrokerError) -> None:
        LOG.debug("client %d: status %d: %s", self.client_id, error.status, error)
        close = isinstance(error, CLOSING)
        self._link.finish([encode_response(error.status)], close=close)

    def _report_our_fault(self, code: int) -> None:
        LOG.exception("client %d: command %d failed through a fault of ours", self.client_id, code)
        self._link.finish([encode_response(GenericError.status)], close=True)


def _polled_parts(
    partition_id: int, current: int, slices: Slices | None
) -> list[bytes | memoryview]:
    if slices is None:
        size = POLLED_HEADER.size
        head = RESPONSE_HEADER.pack(0, size) + encode_polled_header(partition_id, current, 0)
        return [head]
    head = RESPONSE_HEADER.pack(0, POLLED_HEADER.size + slices.size) + encode_polled_header(
        partition_id, current, slices.message_count
    )
    return [head, *slices.views]
