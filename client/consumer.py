"""Messages of a topic as an async iterator, with commits.

    async with client.consumer("orders", "events", "billing") as consumer:
        async for message in consumer:
            handle(message.payload)

    async with client.group_consumer("orders", "events", "billing") as consumer:
        async for batch in consumer.batches():
            handle(batch.partition_id, batch.messages)

A message, or a batch, counts as handled when the next one is asked for, and when the consumer is
closed without an error. When that is committed is the subject of committing.py. An exception that
leaves the `with` block means that the last one was not handled.

In a group what was handled is committed before the next poll at the latest, if the policy commits
while running. The server gives out what follows the group's commit. When a partition was given to
another member meanwhile its commit is dropped; that member gets those messages again.

One poll at a time, and only when everything it brought was taken: memory is bounded by one batch.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Final, Self, TypeAlias, TypedDict

from borzoi.client.committing import CommitPolicy
from borzoi.client.idling import Idling
from borzoi.client.reading import Reading
from borzoi.client.sources import Source
from borzoi.protocol.errors import (
    BrokerError,
    ConnectionClosed,
    ConsumerGroupMemberNotFound,
    InvalidOffset,
    NotResolvedConsumer,
    PartitionNotFound,
)
from borzoi.protocol.identifiers import ConsumerKind, PollingStrategy
from borzoi.protocol.message import Message
from borzoi.protocol.responses import PolledMessages

BATCH_SIZE: Final = 1_000

# A commit that fails like this is about a partition that is not ours any more, or was emptied.
NO_LONGER_OURS: Final = (
    ConsumerGroupMemberNotFound,
    NotResolvedConsumer,
    PartitionNotFound,
    InvalidOffset,
)

# Waits for the event, but not longer than so many seconds.
Pause: TypeAlias = Callable[[asyncio.Event, float], Awaitable[None]]

logger = logging.getLogger(__name__)


class ConsumerOptions(TypedDict, total=False):
    """The options of a consumer.

    start        where reading begins in each partition; in a group only where it has not
                 committed yet
    last_count   with LAST: so many of the newest messages come first, 0 for none
    commit       when handled messages are committed
    batch_size   messages per poll at most
    idling       how long to wait when there is nothing
    """

    start: PollingStrategy
    last_count: int
    commit: CommitPolicy
    batch_size: int
    idling: Idling


async def wait_for_event(event: asyncio.Event, timeout_s: float) -> None:
    """Returns when the event is set, or when the time is over."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        pass


class MessageConsumer:
    """Made by BorzoiClient.consumer() and group_consumer(). One task iterates; any may close."""

    def __init__(
        self,
        reading: Reading,
        source: Source,
        commit: CommitPolicy,
        idling: Idling,
        *,
        clock_s: Callable[[], float] = time.monotonic,
        pause: Pause = wait_for_event,
    ) -> None:
        self._reading = reading
        self._source = source
        self._policy = commit
        self._idling = idling
        self._clock_s = clock_s
        self._pause = pause
        self._closing = asyncio.Event()
        self._is_open = False
        self._polled = PolledMessages(0, 0, ())
        self._taken = 0  # of its messages
        self._out = 0  # of these, with the application: taken and not handled yet
        self._uncommitted: dict[int, int] = {}  # last handled offset, by partition
        self._uncommitted_count = 0
        self._noted = 0  # of the messages of the last poll, in _uncommitted or committed
        self._committed_at_s = clock_s()
        self._lost_in_a_row = 0
        self._is_member = reading.consumer.kind == ConsumerKind.GROUP

    @property
    def partition_id(self) -> int:
        """Where the message that was given out last comes from."""
        return self._polled.partition_id

    async def open(self) -> None:
        """Join the group or find the partitions; iterating does it when it was not done."""
        if not self._is_open:
            await self._source.open()
            self._is_open = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        if self._out:
            self._out = 0
            self._uncommitted_count += 1
            if self._commit_is_due():
                await self._commit_handled()
        if self._taken == len(self._polled.messages) and not await self._fetch():
            raise StopAsyncIteration
        message = self._polled.messages[self._taken]
        self._taken += 1
        self._out = 1
        return message

    async def batches(self, *, wait: bool = True) -> AsyncIterator[PolledMessages]:
        """The messages poll by poll; without `wait` until no partition has any more."""
        while True:
            if self._out:
                self._uncommitted_count += self._out
                self._out = 0
                if self._commit_is_due():
                    await self._commit_handled()
            if self._taken == len(self._polled.messages) and not await self._fetch(wait):
                return
            polled = self._polled
            if self._taken:  # some were taken one by one
                rest = polled.messages[self._taken :]
                polled = PolledMessages(polled.partition_id, polled.current_offset, rest)
            self._taken = len(self._polled.messages)
            self._out = len(polled.messages)
            yield polled

    async def commit(self) -> None:
        """Commit everything that was given out so far, whatever the policy says."""
        self._note_handled(self._taken)
        for partition_id, offset in list(self._uncommitted.items()):
            await self._store(partition_id, offset)
        self._all_committed()

    async def close(self) -> None:
        """Commit what the policy wants, leave the group, end the iteration. Works twice."""
        await self._close(handled=self._taken)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self._close(handled=self._taken if kind is None else self._taken - self._out)

    async def _close(self, handled: int) -> None:
        self._closing.set()
        if not self._is_open:
            return
        self._is_open = False
        try:
            if self._policy.commits_when_closed:
                self._note_handled(handled)
                await self._commit_noted()
        finally:
            await self._source.close()

    async def _fetch(self, wait: bool = True) -> bool:
        """The next messages, however long they take to come; False when none will."""
        if self._closing.is_set():
            return False
        await self.open()
        if self._is_member and self._policy.commits_while_running:
            await self._commit_handled()
        else:
            self._note_handled(self._taken)
        empty_rounds = 0
        while not self._closing.is_set():
            polled = await self._poll_round()
            if polled is not None:
                self._polled = polled
                self._taken = self._noted = 0
                return True
            if not wait:
                return False
            empty_rounds += 1
            await self._pause(self._closing, self._idling.wait_s(empty_rounds))
            if self._commit_is_due():
                await self._commit_handled()
        return False

    async def _poll_round(self) -> PolledMessages | None:
        try:
            polled = await self._source.poll_round()
        except ConnectionClosed as error:
            # A poll that commits is not repeated when its answer is lost: at most once. The
            # iteration goes on over the next connection, if there is one.
            self._lost_in_a_row += 1
            if not self._policy.on_poll or self._lost_in_a_row > 1:
                raise
            logger.warning(
                "the answer to a poll that commits was lost with its messages: %s", error
            )
            return None
        self._lost_in_a_row = 0
        return polled

    def _commit_is_due(self) -> bool:
        policy = self._policy
        if policy.after_messages and self._uncommitted_count >= policy.after_messages:
            return True
        if not policy.interval_s:
            return False
        return self._clock_s() - self._committed_at_s >= policy.interval_s

    async def _commit_handled(self) -> None:
        self._note_handled(self._taken - self._out)
        await self._commit_noted()

    def _note_handled(self, count: int) -> None:
        """The first `count` messages of the last poll are handled."""
        if count > self._noted:
            self._uncommitted[self._polled.partition_id] = self._polled.messages[count - 1].offset
            self._noted = count

    async def _commit_noted(self) -> None:
        for partition_id, offset in list(self._uncommitted.items()):
            try:
                await self._store(partition_id, offset)
            except NO_LONGER_OURS as error:
                self._give_up(partition_id, error)
        self._all_committed()

    async def _store(self, partition_id: int, offset: int) -> None:
        reading = self._reading
        await reading.client.store_consumer_offset(
            reading.stream, reading.topic, partition_id, offset, consumer=reading.consumer
        )
        # Now, and not when all are stored: the next one may fail, and this must not come again.
        self._uncommitted.pop(partition_id, None)

    def _give_up(self, partition_id: int, error: BrokerError) -> None:
        logger.warning("partition %d cannot be committed: %s", partition_id, error)
        self._uncommitted.pop(partition_id, None)
        if self._is_member:
            self._reading.forget(partition_id)

    def _all_committed(self) -> None:
        self._uncommitted_count = 0
        self._committed_at_s = self._clock_s()
