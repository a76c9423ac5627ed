"""What a broker is supposed to do, without sockets, files or processes: lists and dictionaries.

One call is one command; values and errors are those of borzoi.protocol. What a broker chooses
freely (times, ids of messages, the slot of a stream) is learned from its answer when it is first
seen and has to stay so from then on, restarts included.

Here are streams, topics, partitions, messages and offsets; users are in model_users.py, groups in
model_groups.py, and Model in model_whole.py is all of them: a model of more commands is one more
mixin with a method named like each command. Everything is found through World, which asks at the
same time whether the sender of the command may do it there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeVar

import xxhash

from borzoi.protocol.commands.messages import FlushUnsavedBuffer, PollMessages
from borzoi.protocol.commands.offsets import (
    DeleteConsumerOffset,
    GetConsumerOffset,
    StoreConsumerOffset,
)
from borzoi.protocol.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    GetStreams,
    PurgeStream,
    UpdateStream,
)
from borzoi.protocol.commands.topics import (
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteTopic,
    GetTopic,
    GetTopics,
    PurgeTopic,
    UpdateTopic,
)
from borzoi.protocol.errors import (
    BrokerError,
    ConsumerGroupIdNotFound,
    ConsumerOffsetNotFound,
    InvalidOffset,
    InvalidPartitionsCount,
    NoPartitions,
    PartitionNotFound,
    StreamIdNotFound,
    StreamNameAlreadyExists,
    TooManyPartitions,
    TopicIdNotFound,
    TopicNameAlreadyExists,
)
from borzoi.protocol.identifiers import (
    U64_MAX,
    Balanced,
    Consumer,
    ConsumerKind,
    Identifier,
    MessagesKey,
    PartitionId,
    Partitioning,
    StrategyKind,
)
from borzoi.protocol.message import Message
from borzoi.protocol.permissions import Permissions, UserStatus, without_stream, without_topic
from borzoi.protocol.responses.consumers import ConsumerOffsetInfo
from borzoi.protocol.responses.polled import PolledMessages
from borzoi.protocol.responses.streams import (
    PartitionInfo,
    StreamDetails,
    StreamInfo,
    TopicDetails,
    TopicInfo,
)

SEGMENT_SIZE: Final = 512
"""The smallest there is: every few messages a segment rolls."""

MISSING: Final = (StreamIdNotFound, TopicIdNotFound, PartitionNotFound, ConsumerGroupIdNotFound)

Found = TypeVar("Found")


class Named(Protocol):
    """What commands point at by its id or by its name."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


@dataclass
class Ids:
    """Numbers that are given out: the one that was freed last, or the next."""

    free: list[int] = field(default_factory=list)
    next: int = 0

    def take(self) -> int:
        if self.free:
            return self.free.pop()
        self.next += 1
        return self.next - 1


@dataclass(eq=False)
class ModelUser:
    id: int
    created_at: int
    name: str
    password: str
    status: UserStatus
    permissions: Permissions | None
    tokens: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class ModelSession:
    """One connection. `removed` when its user was; `polled`: by which right it polled what."""

    user: ModelUser | None = None
    removed: bool = False
    polled: dict[tuple["ModelGroup", int], int] = field(default_factory=dict)


@dataclass(eq=False)
class ModelMember:
    """A session in a group; `held` are its partitions and since which change of hands."""

    id: int
    session: ModelSession
    held: dict[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class ModelGroup:
    """`highest` is what the holder of a partition has polled."""

    id: int
    name: str
    members: list[ModelMember] = field(default_factory=list)
    highest: dict[int, int] = field(default_factory=dict)

    @property
    def consumer(self) -> Consumer:
        return Consumer(ConsumerKind.GROUP, self.id)

    def member(self, session: ModelSession) -> ModelMember | None:
        return next((one for one in self.members if one.session is session), None)


@dataclass
class ModelPartition:
    """One life of a partition."""

    created_at: int
    messages: list[Message] = field(default_factory=list)
    offsets: dict[Consumer, int] = field(default_factory=dict)
    segments_count: int = 1
    active_size: int = 0

    @property
    def size_bytes(self) -> int:
        return sum(message.size_bytes for message in self.messages)

    @property
    def current_offset(self) -> int:
        return max(0, len(self.messages) - 1)

    def append(self, batch: Sequence[Message]) -> None:
        """A segment is full one batch late: when it had its size before the batch came."""
        was_full = self.active_size >= SEGMENT_SIZE
        self.messages += batch
        self.active_size += sum(message.size_bytes for message in batch)
        if was_full:
            self.segments_count += 1
            self.active_size = 0

    def info(self, partition_id: int) -> PartitionInfo:
        return PartitionInfo(
            partition_id,
            self.created_at,
            self.segments_count,
            self.current_offset,
            self.size_bytes,
            len(self.messages),
        )


@dataclass
class ModelTopic:
    info: TopicInfo
    partitions: list[ModelPartition]
    groups: list[ModelGroup] = field(default_factory=list)
    group_ids: Ids = field(default_factory=Ids)

    @property
    def id(self) -> int:
        return self.info.id

    @property
    def name(self) -> str:
        return self.info.name

    def partition(self, partition_id: int | None) -> ModelPartition:
        partition_id = partition_id or 0
        if partition_id >= len(self.partitions):
            raise PartitionNotFound
        return self.partitions[partition_id]

    def purge(self) -> None:
        self.partitions = [ModelPartition(one.created_at) for one in self.partitions]
        for group in self.groups:
            group.highest.clear()

    def seen(self) -> TopicInfo:
        return replace(
            self.info,
            partitions_count=len(self.partitions),
            size_bytes=sum(one.size_bytes for one in self.partitions),
            messages_count=sum(len(one.messages) for one in self.partitions),
        )

    def details(self) -> TopicDetails:
        partitions = (one.info(number) for number, one in enumerate(self.partitions))
        return TopicDetails(self.seen(), tuple(partitions))


@dataclass
class ModelStream:
    id: int
    created_at: int
    name: str
    topics: list[ModelTopic] = field(default_factory=list)
    topic_ids: Ids = field(default_factory=Ids)

    def seen(self) -> StreamInfo:
        topics = [topic.seen() for topic in self.topics]
        return StreamInfo(
            self.id,
            self.created_at,
            len(topics),
            sum(topic.size_bytes for topic in topics),
            sum(topic.messages_count for topic in topics),
            self.name,
        )

    def topics_seen(self) -> tuple[TopicInfo, ...]:
        return tuple(topic.seen() for topic in sorted(self.topics, key=lambda one: one.id))


class World:
    """All the state, and how commands point at it."""

    def __init__(self) -> None:
        self.streams: list[ModelStream] = []
        self.free_stream_ids: list[int] = []
        self.users: list[ModelUser] = []
        self.free_user_ids: list[int] = []
        self.sessions: dict[int, ModelSession] = {}
        self.session = ModelSession()
        """Whose command it is."""
        self.groups_moved = False
        """Members of groups have gone, or partitions changed hands, and no answer waits for it."""

    def permit(self, stream_id: int | None = None, topic_id: int | None = None) -> None:
        """Unauthorized if the command is not for its sender, there."""

    def find_stream(self, identifier: Identifier) -> ModelStream:
        return named(self.streams, identifier, StreamIdNotFound)

    def stream(self, identifier: Identifier) -> ModelStream:
        stream = self.find_stream(identifier)
        self.permit(stream.id)
        return stream

    def topic(self, stream: Identifier, topic: Identifier) -> ModelTopic:
        found_stream = self.find_stream(stream)
        found = named(found_stream.topics, topic, TopicIdNotFound)
        self.permit(found_stream.id, found.id)
        return found

    def group_of(
        self, stream: Identifier, topic: Identifier, group: Identifier
    ) -> tuple[ModelTopic, ModelGroup]:
        """A missing stream, topic or group is the answer before a missing permission."""
        found_stream = self.find_stream(stream)
        found = named(found_stream.topics, topic, TopicIdNotFound)
        found_group = self.group(found, group)
        self.permit(found_stream.id, found.id)
        return found, found_group

    def all_topics(self) -> list[tuple[ModelStream, ModelTopic]]:
        return [(stream, topic) for stream in self.streams for topic in stream.topics]

    def gone(self, session: ModelSession) -> None:
        """A session is in no group any more."""
        for _, topic in self.all_topics():
            for group in topic.groups:
                if (member := group.member(session)) is not None:
                    group.members.remove(member)
                    self.groups_moved = True

    def group(self, topic: ModelTopic, identifier: Identifier) -> ModelGroup:
        return named(topic.groups, identifier, ConsumerGroupIdNotFound)


class MetadataModel(World):
    """Streams, topics and their partitions."""

    def get_streams(self, _command: GetStreams, _reply: Any) -> list[StreamInfo]:
        self.permit()
        return [stream.seen() for stream in sorted(self.streams, key=lambda one: one.id)]

    def get_stream(self, command: GetStream, _reply: Any) -> StreamDetails | None:
        stream = or_none(lambda: self.stream(command.stream))
        return None if stream is None else StreamDetails(stream.seen(), stream.topics_seen())

    def create_stream(self, command: CreateStream, reply: StreamInfo) -> StreamInfo:
        self.permit()
        if any(stream.name == command.name for stream in self.streams):
            raise StreamNameAlreadyExists
        # Other sequences of commands have left free slots of which this one knows nothing.
        id = self.free_stream_ids.pop() if self.free_stream_ids else reply.id
        assert id not in [stream.id for stream in self.streams]
        self.streams.append(ModelStream(id, reply.created_at, command.name))
        return self.streams[-1].seen()

    def update_stream(self, command: UpdateStream, _reply: None) -> None:
        stream = self.stream(command.stream)
        if any(one.name == command.name for one in self.streams if one is not stream):
            raise StreamNameAlreadyExists
        stream.name = command.name

    def delete_stream(self, command: DeleteStream, _reply: None) -> None:
        stream = self.stream(command.stream)
        self.streams.remove(stream)
        self.free_stream_ids.append(stream.id)
        self._withdraw(lambda old: without_stream(old, stream.id))

    def purge_stream(self, command: PurgeStream, _reply: None) -> None:
        for topic in self.stream(command.stream).topics:
            topic.purge()

    def get_topics(self, command: GetTopics, _reply: Any) -> tuple[TopicInfo, ...]:
        stream = or_none(lambda: self.stream(command.stream))
        return () if stream is None else stream.topics_seen()

    def get_topic(self, command: GetTopic, reply: TopicDetails | None) -> TopicDetails | None:
        topic = or_none(lambda: self.topic(command.stream, command.topic))
        if topic is None:
            return None
        assert reply is not None, f"{command} exists"
        for partition, shown in zip(topic.partitions, reply.partitions, strict=True):
            partition.created_at = partition.created_at or shown.created_at
        return topic.details()

    def create_topic(self, command: CreateTopic, reply: TopicDetails) -> TopicDetails:
        stream = self.stream(command.stream)
        if any(topic.name == command.name for topic in stream.topics):
            raise TopicNameAlreadyExists
        created_at = reply.topic.created_at
        info = TopicInfo(
            stream.topic_ids.take(),
            created_at,
            0,
            command.message_expiry or U64_MAX,
            command.compression_algorithm,
            command.max_topic_size or U64_MAX,
            command.replication_factor or 1,
            0,
            0,
            command.name,
        )
        partitions = [ModelPartition(created_at) for _ in range(command.partitions_count)]
        stream.topics.append(ModelTopic(info, partitions))
        details = stream.topics[-1].details()
        # The answer to CREATE_TOPIC knows of no segments yet.
        return TopicDetails(
            details.topic, tuple(replace(one, segments_count=0) for one in details.partitions)
        )

    def update_topic(self, command: UpdateTopic, _reply: None) -> None:
        topic = self.topic(command.stream, command.topic)
        others = [one for one in self.find_stream(command.stream).topics if one is not topic]
        if any(one.name == command.name for one in others):
            raise TopicNameAlreadyExists
        topic.info = replace(
            topic.info,
            compression_algorithm=command.compression_algorithm,
            message_expiry=command.message_expiry or U64_MAX,
            max_topic_size=command.max_topic_size or U64_MAX,
            replication_factor=command.replication_factor or 1,
            name=command.name,
        )

    def delete_topic(self, command: DeleteTopic, _reply: None) -> None:
        topic = self.topic(command.stream, command.topic)
        stream = self.find_stream(command.stream)
        stream.topics.remove(topic)
        stream.topic_ids.free.append(topic.id)
        self._withdraw(lambda old: without_topic(old, stream.id, topic.id))

    def purge_topic(self, command: PurgeTopic, _reply: None) -> None:
        self.topic(command.stream, command.topic).purge()

    def create_partitions(self, command: CreatePartitions, _reply: None) -> None:
        if command.partitions_count == 0:
            raise TooManyPartitions
        topic = self.topic(command.stream, command.topic)
        topic.partitions += [ModelPartition(0) for _ in range(command.partitions_count)]
        self._resized(topic)

    def delete_partitions(self, command: DeletePartitions, _reply: None) -> None:
        if command.partitions_count == 0:
            raise TooManyPartitions
        topic = self.topic(command.stream, command.topic)
        if command.partitions_count > len(topic.partitions):
            raise InvalidPartitionsCount
        del topic.partitions[-command.partitions_count :]
        self._resized(topic)

    def _resized(self, topic: ModelTopic) -> None:
        for group in topic.groups:
            self.groups_moved |= bool(group.members)
            for gone in [one for one in group.highest if one >= len(topic.partitions)]:
                del group.highest[gone]
            for member in group.members:
                kept = {one: by for one, by in member.held.items() if one < len(topic.partitions)}
                member.held = kept

    def _withdraw(self, without: Callable[[Permissions], Permissions]) -> None:
        """Ids are given out again: a grant for the old stream or topic is not for the new one."""
        for user in self.users:
            if user.permissions is not None:
                user.permissions = without(user.permissions)


class MessagesModel(World):
    """Sending and polling."""

    def may_go_to(
        self, stream: Identifier, topic: Identifier, partitioning: Partitioning
    ) -> list[int]:
        """The partitions that a batch may end up in: one, or any if the broker chooses."""
        found = self.topic(stream, topic)
        count = len(found.partitions)
        match partitioning:
            case PartitionId(partition_id):
                found.partition(partition_id)
                return [partition_id]
            case Balanced():
                if count == 0:
                    raise TopicIdNotFound
                return list(range(count))
            case MessagesKey(key):
                if count == 0:
                    raise NoPartitions
                return [xxhash.xxh32_intdigest(key) % count]

    def poll_messages(self, command: PollMessages, _reply: Any) -> PolledMessages:
        topic = self.topic(command.stream, command.topic)
        return self.polled(topic, command, command.partition_id or 0, command.consumer)

    @staticmethod
    def polled(
        topic: ModelTopic, command: PollMessages, partition_id: int, consumer: Consumer
    ) -> PolledMessages:
        """What a partition gives."""
        partition = topic.partition(partition_id)
        log = partition.messages
        value, count = command.strategy.value, command.count
        match command.strategy.kind:
            case StrategyKind.OFFSET:
                start = value
            case StrategyKind.TIMESTAMP:
                start = sum(message.timestamp < value for message in log)
            case StrategyKind.FIRST:
                start = 0
            case StrategyKind.LAST:
                start = max(0, len(log) - count)
            case StrategyKind.NEXT:
                start = partition.offsets.get(consumer, -1) + 1
        found = log[start : start + count]
        if command.auto_commit and found:
            partition.offsets[consumer] = found[-1].offset
        return PolledMessages(partition_id, partition.current_offset, tuple(found))

    def flush_unsaved_buffer(self, command: FlushUnsavedBuffer, _reply: None) -> None:
        self.topic(command.stream, command.topic).partition(command.partition_id)


class OffsetsModel(World):
    """Committed offsets of single consumers."""

    def get_consumer_offset(
        self, command: GetConsumerOffset, _reply: Any
    ) -> ConsumerOffsetInfo | None:
        topic = or_none(lambda: self.topic(command.stream, command.topic))
        if topic is None:
            return None
        consumer = command.consumer
        if consumer.kind is ConsumerKind.GROUP:
            group = or_none(lambda: self.group(topic, consumer.id))
            if group is None:
                return None
            consumer = group.consumer
        partition = or_none(lambda: topic.partition(command.partition_id))
        stored = None if partition is None else partition.offsets.get(consumer)
        if partition is None or stored is None:
            return None
        return ConsumerOffsetInfo(command.partition_id or 0, partition.current_offset, stored)

    def store_consumer_offset(self, command: StoreConsumerOffset, _reply: None) -> None:
        partition = self.topic(command.stream, command.topic).partition(command.partition_id)
        if command.offset >= len(partition.messages):
            raise InvalidOffset
        partition.offsets[command.consumer] = command.offset

    def delete_consumer_offset(self, command: DeleteConsumerOffset, _reply: None) -> None:
        partition = self.topic(command.stream, command.topic).partition(command.partition_id)
        if partition.offsets.pop(command.consumer, None) is None:
            raise ConsumerOffsetNotFound


def named(found: Sequence[T], identifier: Identifier, missing: type[BrokerError]) -> T:
    for one in found:
        if identifier == (one.id if isinstance(identifier, int) else one.name):
            return one
    raise missing


def or_none(find: Callable[[], Found]) -> Found | None:
    try:
        return find()
    except MISSING:
        return None
