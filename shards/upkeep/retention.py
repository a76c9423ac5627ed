"""Retention: at each interval the oldest segments go that are too old, or too much for a topic.

Every shard runs one. By time each looks after its own partitions. By size a topic is looked at as a
whole, by the shard that owns its first partition. The sizes come from the board, the segments from
the owners of the partitions, and each owner deletes its own. So a topic loses its oldest segments,
whichever shard has them, and no more than it must.

What may go is decided in storage/retention.py, and once more by the owner. Between the question and
the order a consumer may have come, or another deletion.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from borzoi.protocol.errors import BrokerError
from borzoi.router.placement import unpack_namespace
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.lifecycle.deleting import Deleting
from borzoi.shards.loop.periodic import PeriodicTask
from borzoi.shards.loop.tasks import Tasks
from borzoi.shards.metadata.state import Topic
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.ports.owners import PartitionOwners
from borzoi.shards.ports.requests import DeleteUpTo
from borzoi.shards.reading.describe import Describer
from borzoi.shards.rings.asking import Abandoned, asked
from borzoi.storage.retention import UNLIMITED, Candidate, Protection, over_size, size_threshold

LOG: Final = logging.getLogger(__name__)

PARTITIONS_PER_TURN: Final = 64
"""So many partitions are looked at before the loop gets its turn."""


class CleanedTopic(NamedTuple):
    """A topic by its ids; the metadata may change between two steps."""

    stream_id: int
    topic_id: int


class Cleaner:
    """Applies expiry and size limits, again and again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        tasks: Tasks,
        metadata: MetadataService,
        partitions: Partitions,
        deleting: Deleting,
        owners: PartitionOwners,
        describer: Describer,
        now_us: Callable[[], int],
        *,
        interval_s: float,
        protection: Protection,
    ) -> None:
        self._metadata = metadata
        self._partitions = partitions
        self._deleting = deleting
        self._owners = owners
        self._describer = describer
        self._now_us = now_us
        self._protection = protection
        self._rounds = PeriodicTask(loop, interval_s, self._round, tasks)

    def start(self) -> None:
        """Begin with the first interval; a round never overlaps the next."""
        self._rounds.start()

    async def _round(self) -> None:
        await self.delete_expired()
        await self.limit_sizes()

    async def delete_expired(self) -> None:
        """Delete what is too old in the partitions of this shard."""
        now_us = self._now_us()
        for number, partition in enumerate(self._partitions):
            if number % PARTITIONS_PER_TURN == PARTITIONS_PER_TURN - 1:
                await asyncio.sleep(0)
            stream_id, topic_id, _ = unpack_namespace(partition.target.namespace)
            topic = self._metadata.refresh().find_topic(stream_id, topic_id)
            if topic is None or not partition.alive or not partition.log.sealed:
                continue
            try:
                await self._delete_expired(partition, now_us, topic.message_expiry)
            except BrokerError as error:
                if partition.alive:
                    LOG.warning("partition %s: nothing expires: %r", partition.target, error)

    async def _delete_expired(self, partition: OwnedPartition, now_us: int, expiry_us: int) -> None:
        await asked(lambda done: self._deleting.delete_expired(partition, now_us, expiry_us, done))

    async def limit_sizes(self) -> None:
        """Bring the topics that are ours to look after back below their limits."""
        state = self._metadata.refresh()
        places = [
            CleanedTopic(stream.id, topic.id)
            for stream in state.streams.values()
            for topic in stream.topics.values()
            if topic.max_topic_size != UNLIMITED and topic.partitions_count
        ]
        for place in places:
            topic = self._metadata.refresh().find_topic(*place)
            if topic is not None and self._is_ours(place, topic):
                try:
                    await self._limit_size(place, topic)
                except (BrokerError, Abandoned) as error:
                    # A shard is away, or the topic was just deleted: there is a next round.
                    LOG.warning("topic %s keeps its size for now: %r", place, error)
            await asyncio.sleep(0)

    def _is_ours(self, place: CleanedTopic, topic: Topic) -> bool:
        if topic.partitions_count == 0:
            return False
        first = self._metadata.target(place.stream_id, topic, 0)
        return self._owners.owner(first) == self._owners.shard

    async def _limit_size(self, place: CleanedTopic, topic: Topic) -> None:
        max_size = topic.max_topic_size
        # 0 would be a server default that was never resolved: it is no reason to delete.
        if max_size in (0, UNLIMITED):
            return
        size = self._describer.topic_totals(topic).size_bytes
        if size < size_threshold(max_size):
            return
        rolled = [
            self._metadata.target(place.stream_id, topic, partition_id)
            for partition_id, _, published in self._describer.partitions(topic)
            if published.segment_count > 1
        ]
        targets = {target.namespace: target for target in rolled}
        candidates: dict[int, list[Candidate]] = {}
        for namespace, target in targets.items():
            candidates[namespace] = await self._owners.candidates(target)
        plan = over_size(size, max_size, candidates, self._protection)
        # The owner keeps all that a consumer has not read, and logs which consumer that is.
        for namespace, cut in (*plan.delete.items(), *plan.kept_unread.items()):
            await self._owners.ask(DeleteUpTo(targets[namespace], *cut))
