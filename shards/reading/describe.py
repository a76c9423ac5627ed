"""Streams, topics and partitions as clients see them: the metadata with the board's figures."""

from typing import NamedTuple

from borzoi.protocol.responses.streams import (
    PartitionInfo,
    StreamDetails,
    StreamInfo,
    TopicDetails,
    TopicInfo,
)
from borzoi.shards.decisions.topic_options import TopicDefaults, derived_options
from borzoi.shards.metadata.state import Run, State, Stream, Topic
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.storage.published import Published

GZIP = 2


class Totals(NamedTuple):
    """Sums over partitions."""

    size_bytes: int
    messages_count: int
    segments_count: int


class Describer:
    """Reads figures of any partition from the board; never asks its owner."""

    def __init__(self, readers: PartitionReaders, defaults: TopicDefaults) -> None:
        self._readers = readers
        self._defaults = defaults

    def stream(self, stream: Stream) -> StreamInfo:
        """A stream with its sums."""
        totals = [self.topic_totals(topic) for topic in stream.topics.values()]
        return StreamInfo(
            id=stream.id,
            created_at=stream.created_at,
            topics_count=len(stream.topics),
            size_bytes=sum(one.size_bytes for one in totals),
            messages_count=sum(one.messages_count for one in totals),
            name=stream.name,
        )

    def stream_details(self, stream: Stream, knows_all_codecs: bool) -> StreamDetails:
        """A stream with its topics."""
        return StreamDetails(self.stream(stream), self.topics(stream, knows_all_codecs))

    def topics(self, stream: Stream, knows_all_codecs: bool) -> tuple[TopicInfo, ...]:
        """The topics of a stream by id."""
        return tuple(
            self.topic(stream.topics[topic_id], knows_all_codecs)
            for topic_id in sorted(stream.topics)
        )

    def topic(self, topic: Topic, knows_all_codecs: bool) -> TopicInfo:
        """A topic with its sums."""
        totals = self.topic_totals(topic)
        codec = topic.compression_algorithm
        return TopicInfo(
            id=topic.id,
            created_at=topic.created_at,
            partitions_count=topic.partitions_count,
            message_expiry=topic.message_expiry,
            # Official clients fail on codes above gzip, so only sessions that said so see them.
            compression_algorithm=codec if knows_all_codecs else min(codec, GZIP),
            max_topic_size=topic.max_topic_size,
            replication_factor=topic.replication_factor,
            size_bytes=totals.size_bytes,
            messages_count=totals.messages_count,
            name=topic.name,
            explicit_options=topic.options,
            derived_options=derived_options(
                self._defaults, topic.options, codec, topic.message_expiry, topic.max_topic_size
            ),
        )

    def topic_details(self, topic: Topic, knows_all_codecs: bool) -> TopicDetails:
        """A topic with its partitions."""
        return TopicDetails(
            self.topic(topic, knows_all_codecs),
            tuple(
                _describe_partition(partition_id, created_at, published)
                for partition_id, created_at, published in self.partitions(topic)
            ),
        )

    def new_topic(self, topic: Topic, knows_all_codecs: bool) -> TopicDetails:
        """The answer to CREATE_TOPIC, where partitions have no segments yet."""
        details = self.topic_details(topic, knows_all_codecs)
        return TopicDetails(
            details.topic,
            tuple(PartitionInfo(one.id, one.created_at, 0, 0, 0, 0) for one in details.partitions),
        )

    def topic_totals(self, topic: Topic) -> Totals:
        """The sums of a topic."""
        return _total([published for _, _, published in self.partitions(topic)])

    def totals(self, state: State) -> Totals:
        """The sums of the whole broker."""
        parts = [
            self.topic_totals(topic)
            for stream in state.streams.values()
            for topic in stream.topics.values()
        ]
        return Totals(
            sum(one.size_bytes for one in parts),
            sum(one.messages_count for one in parts),
            sum(one.segments_count for one in parts),
        )

    def partitions(self, topic: Topic) -> list[tuple[int, int, Published]]:
        """Number, time of creation and figures of each partition."""
        return [
            (run.first_partition + number, run.created_at, self.published(run, number))
            for run in topic.runs
            for number in range(run.count)
        ]

    def published_at(self, slot: int) -> Published:
        """The figures that lie in a slot of the board, of whichever partition they are."""
        return self._readers.published(slot)

    def published(self, run: Run, number: int) -> Published:
        """The figures of one partition of a run, counted from the run's first."""
        published = self._readers.published(run.first_slot + number)
        if published.birth != run.birth:
            # Nothing of this life was ever published, so nothing was acknowledged.
            return Published.empty(run.birth)
        return published


def _describe_partition(partition_id: int, created_at: int, published: Published) -> PartitionInfo:
    return PartitionInfo(
        id=partition_id,
        created_at=created_at,
        segments_count=published.segment_count,
        current_offset=published.current_offset,
        size_bytes=published.size_bytes,
        messages_count=published.next_offset - published.first_offset,
    )


def _total(published: list[Published]) -> Totals:
    return Totals(
        sum(one.size_bytes for one in published),
        sum(one.next_offset - one.first_offset for one in published),
        sum(one.segment_count for one in published),
    )
