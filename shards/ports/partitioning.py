"""Which partition a batch goes to."""

from typing import TypeAlias

import xxhash

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import NoPartitions, TopicIdNotFound
from borzoi.protocol.identifiers import Balanced, Identifier, MessagesKey, PartitionId
from borzoi.protocol.send_messages import SendMessages
from borzoi.router.placement import shard_of
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.state import Stream, Topic

Place: TypeAlias = tuple[Target, int]
"""A partition and the shard that owns it."""


class Spread:
    """The partitions of one topic in turn, one step per batch that leaves the choice to us.

    Good for one version of the metadata. Partitions are looked up when their first turn comes.
    """

    __slots__ = (
        "_metadata",
        "_places",
        "_shard_count",
        "_stream_id",
        "_topic",
        "number",
        "version",
    )

    def __init__(
        self,
        metadata: MetadataService,
        stream_id: int,
        topic: Topic,
        shard_count: int,
        version: int,
        number: int,
    ) -> None:
        """`number` is the partition that begins."""
        count = topic.partitions_count
        if count == 0:
            raise TopicIdNotFound(
                f"topic {topic.id} has no partitions to balance over", NoPartitions.status
            )
        self._metadata = metadata
        self._stream_id = stream_id
        self._topic = topic
        self._shard_count = shard_count
        self._places: list[Place | None] = [None] * count
        self.version = version
        self.number = number % count

    def next(self) -> Place:
        """The partition whose turn it is, and its owner."""
        number, places = self.number, self._places
        self.number = number + 1 if number + 1 < len(places) else 0
        place = places[number]
        if place is None:
            target = self._metadata.target(self._stream_id, self._topic, number)
            place = places[number] = target, shard_of(target.namespace, self._shard_count)
        return place


class SendTargets:
    """Resolves partitioning. The balanced counter is this shard's own, one step per request."""

    def __init__(self, metadata: MetadataService, shard_count: int) -> None:
        self._metadata = metadata
        self._shard_count = shard_count
        self._spreads: dict[tuple[int, int], Spread] = {}

    def target(self, user_id: int, command: SendMessages) -> Target:
        """The partition for a batch: stream, topic, permission, partition, in this order."""
        stream, topic = self.topic(user_id, command.stream, command.topic)
        count = topic.partitions_count
        match command.partitioning:
            case PartitionId(partition_id):
                pass
            case Balanced():
                return self._spread(stream, topic).next()[0]
            case MessagesKey(key_bytes):
                if count == 0:
                    raise NoPartitions(f"topic {topic.id} has no partitions for a key")
                partition_id = xxhash.xxh32_intdigest(key_bytes) % count
        return self._metadata.target(stream.id, topic, partition_id)

    def spread(self, user_id: int, stream_name: Identifier, topic_name: Identifier) -> Spread:
        """The partitions of a topic in turn, if the user may send to it."""
        return self._spread(*self.topic(user_id, stream_name, topic_name))

    def _spread(self, stream: Stream, topic: Topic) -> Spread:
        version = self._metadata.version
        key = stream.id, topic.id
        spread = self._spreads.get(key)
        if spread is None or spread.version != version:
            number = 0 if spread is None else spread.number
            spread = self._spreads[key] = Spread(
                self._metadata, stream.id, topic, self._shard_count, version, number
            )
        return spread

    def topic(
        self, user_id: int, stream_name: Identifier, topic_name: Identifier
    ) -> tuple[Stream, Topic]:
        """The topic that a batch is for, if the user may send to it."""
        state = self._metadata.refresh()
        stream = state.stream(stream_name)
        topic = stream.topic(topic_name)
        require(state, user_id, Code.SEND_MESSAGES, stream.id, topic.id)
        return stream, topic

    def forget(self, effects: Effects) -> None:
        """Drop the counters of topics that are gone."""
        for stream_id, topic_id in effects.topics_removed:
            self._spreads.pop((stream_id, topic_id), None)
