"""Which partition a batch goes to."""

import xxhash

from borzoi.protocol.codes import Code
from borzoi.protocol.errors import NoPartitions, TopicIdNotFound
from borzoi.protocol.identifiers import Balanced, Identifier, MessagesKey, PartitionId
from borzoi.protocol.send_messages import SendMessages
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.metadata.access import require
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.state import Stream, Topic


class SendTargets:
    """Resolves partitioning. The balanced counter is this shard's own, one step per request."""

    def __init__(self, metadata: MetadataService) -> None:
        self._metadata = metadata
        self._next_partition: dict[tuple[int, int], int] = {}

    def target(self, user_id: int, command: SendMessages) -> Target:
        """The partition for a batch: stream, topic, permission, partition, in this order."""
        stream, topic = self.topic(user_id, command.stream, command.topic)
        count = topic.partitions_count
        match command.partitioning:
            case PartitionId(partition_id):
                pass
            case Balanced():
                if count == 0:
                    raise TopicIdNotFound(
                        f"topic {topic.id} has no partitions to balance over", NoPartitions.status
                    )
                key = (stream.id, topic.id)
                partition_id = self._next_partition.get(key, 0) % count
                self._next_partition[key] = (partition_id + 1) % count
            case MessagesKey(key_bytes):
                if count == 0:
                    raise NoPartitions(f"topic {topic.id} has no partitions for a key")
                partition_id = xxhash.xxh32_intdigest(key_bytes) % count
        return self._metadata.target(stream.id, topic, partition_id)

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
            self._next_partition.pop((stream_id, topic_id), None)
