"""One topic in memory that answers as the broker does, as far as consumers can see it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from borzoi.protocol.errors import (
    ConsumerGroupMemberNotFound,
    InvalidOffset,
    NotResolvedConsumer,
    PartitionNotFound,
)
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.responses import (
    ConsumerGroupDetails,
    ConsumerGroupInfo,
    ConsumerOffsetInfo,
    PartitionInfo,
    PolledMessages,
    TopicDetails,
    TopicInfo,
)

STREAM, TOPIC = "s", "t"
Who: TypeAlias = tuple[ConsumerKind, Identifier, int]
NOTHING = PolledMessages(0, 0, ())


@dataclass
class SmallBroker:
    """Partitions are lists of messages; `assigned` is what the group gives this one member."""

    partitions: dict[int, list[Message]]
    commits: dict[Who, int] = field(default_factory=dict)
    commit_calls: list[tuple[int, int]] = field(default_factory=list)
    polls: Counter[int | None] = field(default_factory=Counter)
    failures: list[Exception] = field(default_factory=list)  # for the next polls
    is_there: bool = True
    groups: set[str] = field(default_factory=set)
    is_member: bool = False
    joins_count: int = 0
    assigned: list[int] = field(default_factory=list)
    _turn: int = 0

    @classmethod
    def of(cls, *counts: int) -> "SmallBroker":
        """Partitions with so many messages each; the group gets all of them."""
        broker = cls({number: [] for number in range(len(counts))})
        for partition_id, count in enumerate(counts):
            broker.append(partition_id, count)
        broker.assigned = list(broker.partitions)
        return broker

    def append(self, partition_id: int, count: int = 1) -> None:
        log = self.partitions[partition_id]
        for offset in range(len(log), len(log) + count):
            payload = b"%d:%d" % (partition_id, offset)
            log.append(Message(payload, offset=offset, timestamp=100 + offset))

    def committed(self, consumer: Consumer, partition_id: int) -> int | None:
        return self.commits.get((consumer.kind, consumer.id, partition_id))

    # What a client does.

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
        assert (stream, topic) == (STREAM, TOPIC)
        assert isinstance(consumer, Consumer)
        self.polls[partition_id] += 1
        if self.failures:
            raise self.failures.pop(0)
        if consumer.kind == ConsumerKind.GROUP:
            if not self.is_member:
                raise ConsumerGroupMemberNotFound
            if partition_id is None:
                if not self.assigned:
                    return NOTHING
                partition_id = self.assigned[self._turn % len(self.assigned)]
                self._turn += 1
            elif partition_id not in self.assigned:
                return NOTHING
        if partition_id not in self.partitions:
            raise PartitionNotFound
        log = self.partitions[partition_id]
        start = self._start(log, strategy, count, self.committed(consumer, partition_id))
        messages = tuple(log[start : start + count])
        if auto_commit and messages:
            self.commits[consumer.kind, consumer.id, partition_id] = messages[-1].offset
        return PolledMessages(partition_id, max(len(log) - 1, 0), messages)

    def _start(
        self, log: list[Message], strategy: PollingStrategy, count: int, committed: int | None
    ) -> int:
        match strategy.kind:
            case StrategyKind.OFFSET:
                return strategy.value
            case StrategyKind.TIMESTAMP:
                return sum(message.timestamp < strategy.value for message in log)
            case StrategyKind.FIRST:
                return 0
            case StrategyKind.LAST:
                return max(len(log) - count, 0)
            case StrategyKind.NEXT:
                return 0 if committed is None else committed + 1

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        if not self.is_there:
            return None
        info = TopicInfo(0, 0, len(self.partitions), 0, 1, 0, 1, 0, 0, "t")
        return TopicDetails(
            info, tuple(PartitionInfo(number, 0, 1, 0, 0, 0) for number in self.partitions)
        )

    async def get_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        *,
        consumer: Consumer | Identifier,
    ) -> ConsumerOffsetInfo | None:
        assert isinstance(consumer, Consumer)
        assert partition_id is not None
        stored = self.committed(consumer, partition_id)
        return None if stored is None else ConsumerOffsetInfo(partition_id, 0, stored)

    async def store_consumer_offset(
        self,
        stream: Identifier,
        topic: Identifier,
        partition_id: int | None,
        offset: int,
        *,
        consumer: Consumer | Identifier,
    ) -> None:
        assert isinstance(consumer, Consumer)
        assert partition_id is not None
        self.commit_calls.append((partition_id, offset))
        if consumer.kind == ConsumerKind.GROUP and partition_id not in self.assigned:
            raise NotResolvedConsumer
        if offset >= len(self.partitions[partition_id]):
            raise InvalidOffset
        self.commits[consumer.kind, consumer.id, partition_id] = offset

    async def get_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> ConsumerGroupDetails | None:
        if group not in self.groups:
            return None
        return ConsumerGroupDetails(ConsumerGroupInfo(0, len(self.partitions), 0, str(group)), ())

    async def create_consumer_group(
        self, stream: Identifier, topic: Identifier, name: str
    ) -> ConsumerGroupInfo:
        self.groups.add(name)
        return ConsumerGroupInfo(0, len(self.partitions), 0, name)

    async def join_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        self.is_member = True
        self.joins_count += 1

    async def leave_consumer_group(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> None:
        if not self.is_member:
            raise ConsumerGroupMemberNotFound
        self.is_member = False
