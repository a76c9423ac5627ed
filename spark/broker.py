"""What planning asks a broker: which partitions there are, what they hold, when rows were written.

Lives on the driver, within one reader. Names are settled here: a stream or topic given by its id
is called by its name in rows and positions.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from borzoi.protocol import commands
from borzoi.protocol.errors import PartitionNotFound, StreamIdNotFound, TopicIdNotFound
from borzoi.protocol.identifiers import (
    Consumer,
    ConsumerKind,
    Identifier,
    PollingStrategy,
    StrategyKind,
)
from borzoi.protocol.responses import (
    ConsumerOffsetInfo,
    PartitionInfo,
    PolledMessages,
    StreamDetails,
    TopicDetails,
)
from borzoi.spark.boundaries import OFFSET_MAX, Extent, Plan, resolve
from borzoi.spark.failures import NotFound, OffsetOutOfRange
from borzoi.spark.options import Access, Topics
from borzoi.spark.polling import NO_CONSUMER
from borzoi.spark.positions import Known, Partition, StreamIds
from borzoi.spark.wire import ask

US_PER_S: Final = 1_000_000
GONE: Final = (StreamIdNotFound, TopicIdNotFound, PartitionNotFound)


class BrokerView:
    """One stream of a broker, and the topics of it that are read."""

    def __init__(
        self,
        access: Access,
        topics: Topics,
        metadata_ttl_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._access = access
        self._topics = topics
        self._ttl_s = metadata_ttl_s
        self._clock = clock
        self._listed: StreamDetails | None = None
        self._listed_at = 0.0

    @property
    def ids(self) -> StreamIds:
        """As they were listed last: a topic may have been created again since."""
        listed = self._stream()
        topics = {topic.name: topic.id for topic in listed.topics}
        return StreamIds(listed.stream.name, listed.stream.id, topics)

    def known(self, *, required: bool = True) -> dict[Partition, Known]:
        """Every partition that is to be read. `required` topics that are not there are an error."""
        found: dict[Partition, Known] = {}
        for name in self._topic_names():
            details = self._topic(name)
            if details is None:
                if required:
                    raise NotFound(f"topic {name} of stream {self._topics.stream}")
                continue
            wanted = None
            if self._topics.assigned is not None:
                wanted = self._topics.assigned[details.topic.name]
            for partition in details.partitions:
                if wanted is None or partition.id in wanted:
                    found[Partition(details.topic.name, partition.id)] = known_of(partition)
            missing = set(wanted or ()) - {partition.id for partition in details.partitions}
            if missing and required:
                raise NotFound(f"partitions {sorted(missing)} of topic {name}")
        return found

    def times(self, rows: Iterable[tuple[Partition, int]]) -> dict[Partition, int]:
        """When these rows were written; those that are not there are left out."""
        found = {}
        for partition, offset in rows:
            polled = self._poll(partition, StrategyKind.OFFSET, offset)
            if polled is not None and polled.messages and polled.messages[0].offset == offset:
                found[partition] = polled.messages[0].timestamp
        return found

    def offsets(
        self,
        plan: Plan,
        known: Mapping[Partition, Known],
        consumer: Identifier | None,
        now_us: int,
    ) -> dict[Partition, int]:
        """The offsets a plan stands for. Explicit ones must lie within the partition."""
        unknown = [
            f"{number} of topic {topic}"
            for topic, boundaries in plan.by_topic.items()
            for number in boundaries
            if Partition(topic, number) not in known
        ]
        if unknown:
            raise NotFound(f"offsets are given for partitions that are not read: {unknown}")
        found = {}
        for partition, one in known.items():
            if one.next > OFFSET_MAX:
                raise OffsetOutOfRange(f"{partition} has offsets that no bigint can hold")
            found[partition] = resolve(
                plan.boundary(partition.topic, partition.number),
                Extent(one.first, one.next),
                now_us,
                missing_is_latest=plan.missing_is_latest,
                find_time=partial(self._first_since, partition),
                find_stored=partial(self._stored, partition, consumer),
                where=str(partition),
            )
        return found

    def store(self, consumer: Identifier, offsets: Mapping[Partition, int]) -> None:
        """Keep a copy of how far was read, for tools that show lags."""
        for partition, offset in offsets.items():
            ask(
                self._access,
                commands.StoreConsumerOffset(
                    Consumer(ConsumerKind.CONSUMER, consumer),
                    self._topics.stream,
                    partition.topic,
                    partition.number,
                    offset,
                ),
            )

    def _topic_names(self) -> list[Identifier]:
        if self._topics.names is not None:
            return list(self._topics.names)
        if self._topics.assigned is not None:
            return sorted(self._topics.assigned)
        assert self._topics.pattern is not None
        names = [topic.name for topic in self._stream().topics]
        return [name for name in sorted(names) if re.fullmatch(self._topics.pattern, name)]

    def _stream(self) -> StreamDetails:
        now = self._clock()
        if self._listed is None or now - self._listed_at >= self._ttl_s:
            try:
                self._listed = ask(self._access, commands.GetStream(self._topics.stream))
            except StreamIdNotFound:
                self._listed = None
            self._listed_at = now
        if self._listed is None:
            raise NotFound(f"stream {self._topics.stream}")
        return self._listed

    def _topic(self, name: Identifier) -> TopicDetails | None:
        try:
            details: TopicDetails | None = ask(
                self._access, commands.GetTopic(self._topics.stream, name)
            )
        except GONE:
            return None
        return details

    def _first_since(self, partition: Partition, time_us: int) -> int | None:
        polled = self._poll(partition, StrategyKind.TIMESTAMP, time_us)
        return polled.messages[0].offset if polled is not None and polled.messages else None

    def _stored(self, partition: Partition, consumer: Identifier | None) -> int | None:
        if consumer is None:
            raise NotFound("stored offsets need the option consumer")
        info: ConsumerOffsetInfo | None = ask(
            self._access,
            commands.GetConsumerOffset(
                Consumer(ConsumerKind.CONSUMER, consumer),
                self._topics.stream,
                partition.topic,
                partition.number,
            ),
        )
        return None if info is None else info.stored_offset

    def _poll(self, partition: Partition, kind: StrategyKind, value: int) -> PolledMessages | None:
        """One message; None where the partition is not there any more."""
        try:
            polled: PolledMessages = ask(
                self._access,
                commands.PollMessages(
                    consumer=NO_CONSUMER,
                    stream=self._topics.stream,
                    topic=partition.topic,
                    partition_id=partition.number,
                    strategy=PollingStrategy(kind, value),
                    count=1,
                    auto_commit=False,
                ),
            )
        except GONE:
            return None
        return polled


def known_of(partition: PartitionInfo) -> Known:
    """An empty partition whose rows were all deleted still tells its last offset."""
    is_new = partition.messages_count == 0 and partition.current_offset == 0
    next_offset = 0 if is_new else partition.current_offset + 1
    return Known(
        first=next_offset - partition.messages_count,
        next=next_offset,
        size_bytes=partition.size_bytes,
        created=partition.created_at,
    )
