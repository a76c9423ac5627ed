"""One consumer's polls in one topic: how far they have come, and where they go on.

Always: the messages of a partition come out once and in order, as long as the partition is not
purged. A purge is noticed when the partition has become shorter than what was read from it.
"""

from bisect import bisect_left
from typing import Protocol

from borzoi.client.strategies import from_offset
from borzoi.protocol.identifiers import (
    Consumer,
    Identifier,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.responses import (
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerOffsetInfo,
    PolledMessages,
    TopicDetails,
)


class Polling(Protocol):
    """What a consumer needs of a client."""

    async def poll_messages(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        strategy: PollingStrategy,
        count: int,
        consumer: Consumer | Identifier,
        auto_commit: bool,
    ) -> PolledMessages:
        """Returns the next messages of a partition."""

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        """Returns a topic; None if there is none."""

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        consumer: Consumer | Identifier,
    ) -> ConsumerOffsetInfo | None:
        """Returns the committed offset; None if there is none."""

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        offset: int,
        *,
        consumer: Consumer | Identifier,
    ) -> None:
        """Commits an offset."""

    async def get_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> ConsumerGroupDetails | None:
        """Returns a group; None if there is none."""

    async def create_consumer_group(
        self, stream: Identifier, topic: Identifier, name: str
    ) -> ConsumerGroupInfo:
        """Creates a group without members."""

    async def join_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """Makes this client a member of a group."""

    async def leave_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        """Ends the membership of this client."""


class Reading:
    """One consumer's polls in one topic, and how far they have come."""

    def __init__(
        self,
        client: Polling,
        stream: Identifier,
        topic: Identifier,
        consumer: Consumer,
        *,
        start: PollingStrategy,
        last_count: int,
        count: int,
        auto_commit: bool,
    ) -> None:
        self.client = client
        self.stream = stream
        self.topic = topic
        self.consumer = consumer
        self.start = start
        self._last_count = last_count
        self._count = count
        self.auto_commit = auto_commit
        self._next_offsets: dict[int, int] = {}

    def has_begun(self, partition_id: int) -> bool:
        """Returns whether the partition was polled with messages already."""
        return partition_id in self._next_offsets

    async def poll(self, partition_id: int | None, strategy: PollingStrategy) -> PolledMessages:
        """Returns the next messages by a strategy, and notes how far they go."""
        return await self._poll(partition_id, strategy, self._count, self.auto_commit)

    async def begin(self, partition_id: int) -> PolledMessages:
        """The first messages of a partition, from where the consumer wants to start."""
        if self.start.kind == StrategyKind.LAST:
            # One at least is asked for: without a message an empty partition looks like one
            # whose only message has offset 0.
            count = max(self._last_count, 1)
            auto_commit = self.auto_commit and self._last_count > 0
            polled = await self._poll(partition_id, self.start, count, auto_commit)
            self._advance(polled)
            if not self.has_begun(partition_id):
                end = polled.current_offset + 1 if polled.current_offset else 0
                self._next_offsets[partition_id] = end
            return polled if self._last_count else _without_messages(polled)
        polled = await self.poll(partition_id, self.start)
        self._advance(polled)
        if self.start.kind == StrategyKind.OFFSET:
            self._next_offsets.setdefault(partition_id, self.start.value)
        return polled

    async def go_on(self, partition_id: int) -> PolledMessages:
        """The messages behind those that were read from this partition."""
        polled = await self.poll(partition_id, from_offset(self._next_offsets[partition_id]))
        self._advance(polled)
        return polled

    def begin_at(self, partition_id: int, offset: int) -> None:
        """What was read of this partition ends here, whatever it was."""
        self._next_offsets[partition_id] = offset

    def was_purged(self, polled: PolledMessages) -> bool:
        """Whether a partition has become shorter than what was read from it."""
        return polled.current_offset + 1 < self._next_offsets.get(polled.partition_id, 0)

    def only_new(self, polled: PolledMessages) -> PolledMessages:
        """Without the messages that were read before; the rest counts as read now."""
        messages = polled.messages
        next_offset = self._next_offsets.get(polled.partition_id, 0)
        known = 0 if self.was_purged(polled) else bisect_left(messages, next_offset, key=_offset_of)
        if known:
            messages = messages[known:]
            polled = PolledMessages(polled.partition_id, polled.current_offset, messages)
        self._advance(polled)
        return polled

    def forget(self, partition_id: int) -> None:
        """Forgets how far a partition was read: it belongs to another member now, or is gone."""
        self._next_offsets.pop(partition_id, None)

    def _advance(self, polled: PolledMessages) -> None:
        if polled.messages:
            self._next_offsets[polled.partition_id] = polled.messages[-1].offset + 1

    async def _poll(
        self, partition_id: int | None, strategy: PollingStrategy, count: int, auto_commit: bool
    ) -> PolledMessages:
        return await self.client.poll_messages(
            self.stream,
            self.topic,
            partition_id,
            strategy=strategy,
            count=count,
            consumer=self.consumer,
            auto_commit=auto_commit,
        )


def _offset_of(message: Message) -> int:
    return message.offset


def _without_messages(polled: PolledMessages) -> PolledMessages:
    return PolledMessages(polled.partition_id, polled.current_offset, ())
