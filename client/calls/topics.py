"""Topics, their partitions and the segments of these.

Expiry in microseconds, size in bytes, 0 for the server's default.
"""

from typing import Final

from borzoi.client.calls.calling import Calling
from borzoi.protocol import commands
from borzoi.protocol.identifiers import Identifier
from borzoi.protocol.responses import TopicDetails, TopicInfo

NO_COMPRESSION: Final = 1


class TopicCalls(Calling):
    """The calls of a client that are about topics, partitions and segments."""

    async def create_topic(
        self,
        stream: Identifier,
        name: str,
        partitions_count: int = 1,
        *,
        compression_algorithm: int = NO_COMPRESSION,
        message_expiry: int = 0,
        max_topic_size: int = 0,
        replication_factor: int = 0,
    ) -> TopicDetails:
        """Creates a topic; 0 as expiry or size is the default of the server."""
        command = commands.CreateTopic(
            stream=stream,
            partitions_count=partitions_count,
            compression_algorithm=compression_algorithm,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
            replication_factor=replication_factor,
            name=name,
        )
        details: TopicDetails = await self._ask(command)
        return details

    async def get_topic(self, stream: Identifier, topic: Identifier) -> TopicDetails | None:
        """Returns a topic with its partitions; None if there is none."""
        details: TopicDetails | None = await self._ask(commands.GetTopic(stream, topic))
        return details

    async def get_topics(self, stream: Identifier) -> tuple[TopicInfo, ...]:
        """Empty also for a stream that does not exist."""
        topics: tuple[TopicInfo, ...] = await self._ask(commands.GetTopics(stream))
        return topics

    async def update_topic(
        self,
        stream: Identifier,
        topic: Identifier,
        name: str,
        *,
        compression_algorithm: int = NO_COMPRESSION,
        message_expiry: int = 0,
        max_topic_size: int = 0,
        replication_factor: int = 0,
    ) -> None:
        """Replaces all of these settings, also those that are not given."""
        command = commands.UpdateTopic(
            stream=stream,
            topic=topic,
            compression_algorithm=compression_algorithm,
            message_expiry=message_expiry,
            max_topic_size=max_topic_size,
            replication_factor=replication_factor,
            name=name,
        )
        await self._ask(command)

    async def delete_topic(self, stream: Identifier, topic: Identifier) -> None:
        """Deletes a topic with all its messages."""
        await self._ask(commands.DeleteTopic(stream, topic))

    async def purge_topic(self, stream: Identifier, topic: Identifier) -> None:
        """Deletes the messages of a topic; offsets start at 0 again."""
        await self._ask(commands.PurgeTopic(stream, topic))

    async def create_partitions(
        self, stream: Identifier, topic: Identifier, partitions_count: int
    ) -> None:
        """Adds so many partitions to a topic."""
        await self._ask(commands.CreatePartitions(stream, topic, partitions_count))

    async def delete_partitions(
        self, stream: Identifier, topic: Identifier, partitions_count: int
    ) -> None:
        """Deletes the last partitions of a topic, with their messages."""
        await self._ask(commands.DeletePartitions(stream, topic, partitions_count))

    async def delete_segments(
        self, stream: Identifier, topic: Identifier, partition_id: int, segments_count: int
    ) -> None:
        """Forget the oldest closed segments of a partition."""
        await self._ask(commands.DeleteSegments(stream, topic, partition_id, segments_count))
