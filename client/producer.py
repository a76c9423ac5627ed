"""Sends single messages as batches, in the background, over one client.

    async with client.producer("orders", "events", linger_s=0.005) as producer:
        for order in orders:
            await producer.send(order, key=customer)

send() returns when the message is accepted, which is at once unless `pending_bytes_max` bytes
wait for their acknowledgement already. What it returns can be awaited for the message's outcome.
A failure that was not awaited is raised by the next send(), flush() or close(), so none goes
unnoticed.

A batch is sent when it is full, or when its first message has waited for `linger_s`. While another
batch is on its way it goes on growing, so a slow server gets larger batches. One batch at a time is
on its way: the messages of a partition arrive in the order in which they were sent. A batch that
fails does not hold up those behind it.

Whether a message can be there twice is decided by `resend`. Without it a batch whose
acknowledgement is lost with the connection counts as failed, although it may have arrived: at
most once. With it the batch is sent again: at least once. Messages without an id then get a
random one here, by which a broker or a consumer can recognise the copies.

Always: pending_bytes is the size of all messages accepted and not settled. It exceeds
`pending_bytes_max` by no message but a single one that is larger than that alone.

Cost: one dictionary look-up and one append per message; encoding is a compiled loop per batch.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol, Self, TypeAlias, TypedDict

import xxhash

from borzoi.client.arguments import (
    InvalidArgument,
    check_identifier,
    check_key,
    check_partition_id,
)
from borzoi.client.calls.calling import now_us
from borzoi.client.delivery import Delivery, DeliveryFailed, LostBatch
from borzoi.client.outgoing import Outgoing, Sendable, as_sendable, sent_size
from borzoi.protocol.batch import (
    MESSAGE_HEADER_SIZE,
    SEED_SIZE,
    RandomIds,
    encode_outgoing,
    random_ids,
)
from borzoi.protocol.errors import ConnectionClosed, PartitionNotFound, Unauthorized
from borzoi.protocol.identifiers import (
    Balanced,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
)
from borzoi.protocol.responses import TopicDetails
from borzoi.protocol.send_messages import PreparedBatch

LINGER_S: Final = 0.005
BATCH_MESSAGES_MAX: Final = 1_000
BATCH_BYTES_MAX: Final = 1024 * 1024
PENDING_BYTES_MAX: Final = 16 * 1024 * 1024
# How old the number of partitions may be by which keys are placed.
PARTITIONS_AGE_MAX_S: Final = 30.0

# Where a batch goes, as a dictionary key that costs nothing to hash. None is the server's choice, a
# number a partition, bytes a key.
Place: TypeAlias = int | bytes | None


class Sending(Protocol):
    """What a producer needs of a client."""

    async def send_prepared(
        self,
        stream: Identifier,
        topic: Identifier,
        prepared: PreparedBatch,
        partitioning: Partitioning,
        *,
        resend: bool = False,
    ) -> None:
        """Returns when the batch is acknowledged."""

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        """Returns a topic; None if there is none."""


class ProducerOptions(TypedDict, total=False):
    """The settings of a producer; the module says what they mean."""

    linger_s: float
    batch_messages_max: int
    batch_bytes_max: int
    pending_bytes_max: int
    resend: bool


class Producer:
    """Made by BorzoiClient.producer(). Belongs to one event loop; many tasks may use it."""

    def __init__(
        self,
        client: Sending,
        stream: Identifier,
        topic: Identifier,
        *,
        linger_s: float = LINGER_S,
        batch_messages_max: int = BATCH_MESSAGES_MAX,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        pending_bytes_max: int = PENDING_BYTES_MAX,
        resend: bool = False,
        clock_us: Callable[[], int] = now_us,
    ) -> None:
        check_identifier("stream", stream)
        check_identifier("topic", topic)
        if linger_s < 0:
            raise InvalidArgument(f"linger_s is {linger_s}; at least 0 is needed")
        for name, bound in (
            ("batch_messages_max", batch_messages_max),
            ("batch_bytes_max", batch_bytes_max),
            ("pending_bytes_max", pending_bytes_max),
        ):
            if bound < 1:
                raise InvalidArgument(f"{name} is {bound}; at least 1 is needed")
        self.stream = stream
        self.topic = topic
        self.pending_bytes = 0
        self._client = client
        self._linger_s = linger_s
        self._batch_messages_max = batch_messages_max
        self._batch_bytes_max = batch_bytes_max
        self._pending_bytes_max = pending_bytes_max
        self._resend = resend
        self._new_ids = RandomIds(os.urandom(SEED_SIZE)) if resend else None
        self._clock_us = clock_us
        self._open: dict[Place, _Batch] = {}  # may still grow
        self._full: deque[_Batch] = deque()
        self._due: deque[_Batch] = deque()  # open, but have lingered long enough
        self._on_its_way: _Batch | None = None
        self._sender: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None  # done when bytes were settled
        self._failed: list[Delivery] = []
        self._counting = asyncio.Lock()
        self._partitions_count: int | None = None
        self._partitions_known_until = 0.0
        self._is_closed = False

    async def send(
        self,
        message: Outgoing,
        *,
        key: bytes | str | None = None,
        partition_id: int | None = None,
    ) -> Delivery:
        """Accept one message; the Delivery may be awaited, or left alone.

        It goes to the given partition, to the key's, or with its batch to the server's choice.
        """
        sendable = as_sendable(message)
        place: Place = None
        if key is not None or partition_id is not None:
            place = await self._place(key, partition_id)
        while (batch := self._accept(sendable, place)) is None:
            await self._wait_for_room()
        if batch.is_full:
            # The sender runs now, and not only when this caller has filled all there is room for.
            await asyncio.sleep(0)
        return batch.delivery

    async def send_all(
        self,
        messages: Iterable[Outgoing],
        *,
        key: bytes | str | None = None,
        partition_id: int | None = None,
    ) -> None:
        """send() for many messages, with less work for each. Those before a bad one are sent."""
        if isinstance(messages, bytes | str):
            raise InvalidArgument(f"messages is one {type(messages).__name__}; a list is needed")
        place = await self._place(key, partition_id)
        for number, message in enumerate(messages):
            sendable = as_sendable(message, number)
            while (batch := self._accept(sendable, place)) is None:
                await self._wait_for_room()
            if batch.is_full:
                await asyncio.sleep(0)

    async def flush(self) -> None:
        """Return when everything accepted so far is acknowledged; raises what was not."""
        self._close_open_batches()
        last = self._full[-1] if self._full else self._on_its_way
        if last is not None:
            await last.delivery.wait_settled()
        self._report_failures()

    async def close(self) -> None:
        """flush(), and accept nothing any more. May be called twice."""
        self._is_closed = True
        if self._room is not None:
            self._room.set_result(None)  # a send() that waits for room raises then
            self._room = None
        await self.flush()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        await self.close()

    def _accept(self, message: Sendable, place: Place) -> "_Batch | None":
        """The batch that took the message; None when there is no room for it now."""
        if self._failed:
            self._report_failures()
        if self._is_closed:
            raise ConnectionClosed("this producer is closed")
        size = MESSAGE_HEADER_SIZE + len(message) if type(message) is bytes else sent_size(message)
        if self.pending_bytes and self.pending_bytes + size > self._pending_bytes_max:
            return None
        batch = self._open.get(place)
        if batch is None:
            batch = self._begin(place)
        elif batch.size_bytes + size > self._batch_bytes_max:
            self._finish(batch)
            batch = self._begin(place)
        batch.messages.append(message)
        batch.size_bytes += size
        self.pending_bytes += size
        if (
            len(batch.messages) >= self._batch_messages_max
            or batch.size_bytes >= self._batch_bytes_max
        ):
            self._finish(batch)
        return batch

    async def _wait_for_room(self) -> None:
        # Nothing gets fuller while all senders wait, so lingering is over.
        self._close_open_batches()
        if self._room is None:
            self._room = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._room)  # one of several waiters may be cancelled

    async def _place(self, key: bytes | str | None, partition_id: int | None) -> Place:
        if key is None:
            if partition_id is not None:
                check_partition_id(partition_id)
            return partition_id
        if partition_id is not None:
            raise InvalidArgument("partition_id and key are both given; at most one can be")
        if isinstance(key, str):
            key = key.encode()
        check_key(key)
        if time.monotonic() >= self._partitions_known_until:
            await self._count_partitions()
        if not self._partitions_count:
            return key
        # As the server does it. Placed here, many keys share a batch; placed there, each key
        # needs a request of its own.
        return xxhash.xxh32_intdigest(key) % self._partitions_count

    async def _count_partitions(self) -> None:
        """By the topic, once for all batches; the server places keys until it is known.

        Where this user may not see the topic that is for ever.
        """
        async with self._counting:
            if time.monotonic() < self._partitions_known_until:
                return  # another task was faster
            try:
                topic = await self._client.get_topic(self.stream, self.topic)
            except Unauthorized:
                topic = None
            if topic is not None:
                self._partitions_count = topic.topic.partitions_count
            self._partitions_known_until = time.monotonic() + PARTITIONS_AGE_MAX_S

    def _begin(self, place: Place) -> "_Batch":
        batch = self._open[place] = _Batch(place)
        loop = asyncio.get_running_loop()
        batch.timer = loop.call_later(self._linger_s, self._has_lingered, batch)
        return batch

    def _finish(self, batch: "_Batch") -> None:
        del self._open[batch.place]
        batch.is_full = True
        assert batch.timer is not None
        batch.timer.cancel()
        self._full.append(batch)
        self._start_sender()

    def _has_lingered(self, batch: "_Batch") -> None:
        self._due.append(batch)
        self._start_sender()

    def _close_open_batches(self) -> None:
        for batch in list(self._open.values()):
            self._finish(batch)

    def _start_sender(self) -> None:
        if self._sender is None:
            self._sender = asyncio.create_task(self._send_batches())

    async def _send_batches(self) -> None:
        try:
            while self._full or self._due:
                if not self._full:
                    batch = self._due.popleft()
                    if not batch.is_full:
                        self._finish(batch)
                    continue
                self._on_its_way = self._full.popleft()
                await self._send_batch(self._on_its_way)
        finally:
            self._sender = self._on_its_way = None

    async def _send_batch(self, batch: "_Batch") -> None:
        count = len(batch.messages)
        new_ids = random_ids(count, self._new_ids) if self._new_ids else b""
        partitioning = _partitioning(batch.place)
        lost = None
        try:
            encoded = encode_outgoing(batch.messages, self._clock_us(), new_ids)
            await self._client.send_prepared(
                self.stream,
                self.topic,
                PreparedBatch(count, encoded),
                partitioning,
                resend=self._resend,
            )
        except Exception as error:  # of any kind: the delivery of the messages raises it
            lost = LostBatch(partitioning, tuple(batch.messages), error)
            self._failed.append(batch.delivery)
            if isinstance(error, PartitionNotFound):
                self._partitions_known_until = 0.0
        batch.delivery.settle(lost)
        self.pending_bytes -= batch.size_bytes
        if self._room is not None:
            self._room.set_result(None)
            self._room = None

    def _report_failures(self) -> None:
        unseen = [one.lost for one in self._failed if one.lost and not one.is_watched]
        self._failed.clear()
        if unseen:
            raise DeliveryFailed(*unseen) from unseen[0].cause


class _Batch:
    __slots__ = ("delivery", "is_full", "messages", "place", "size_bytes", "timer")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.messages: list[Sendable] = []
        self.size_bytes = 0
        self.is_full = False  # takes no more, for whatever reason
        self.delivery = Delivery()
        self.timer: asyncio.TimerHandle | None = None


def _partitioning(place: Place) -> Partitioning:
    if place is None:
        return Balanced()
    return PartitionId(place) if isinstance(place, int) else MessagesKey(place)
