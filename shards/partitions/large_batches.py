"""Warnings about batches that are larger than the limits around them.

A batch is never cut. So one that is larger than a segment makes a segment larger than configured.
One that is larger than its topic's limit keeps the topic above that limit until more comes.
Both are accepted; an operator should learn why files and topics are larger than they were set to.

Called from staging only for batches larger than a segment, so others cost nothing. Owned by the
worker's loop; each topic is warned of rarely (rarely.py), for each of the two limits.
"""

import asyncio
import logging
from enum import Enum
from typing import Final, NamedTuple

from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.changes.service import MetadataService
from borzoi.shards.decisions.topic_options import segment_size_of
from borzoi.shards.loop.rarely import Rarely
from borzoi.storage.retention import UNLIMITED
from borzoi.storage.staging import LargeBatch

LOG: Final = logging.getLogger(__name__)


class Exceeded(Enum):
    """What a batch is larger than; the greater of the two limits is the one to name."""

    SEGMENT = "system.segment.size"
    TOPIC = "the topic's max_topic_size"


class TooLarge(NamedTuple):
    """Which limit a batch exceeds, and what that limit is."""

    limit: Exceeded
    bytes_max: int


def judge(size_bytes: int, segment_size_max: int, max_topic_size: int) -> TooLarge | None:
    """The limit a batch of this size is larger than; the topic's counts before the segment's."""
    if max_topic_size not in (0, UNLIMITED) and size_bytes > max_topic_size:
        return TooLarge(Exceeded.TOPIC, max_topic_size)
    if size_bytes > segment_size_max:
        return TooLarge(Exceeded.SEGMENT, segment_size_max)
    return None


class LargeBatches:
    """Warns of the large batches of this shard's partitions."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, metadata: MetadataService, segment_size_max: int
    ) -> None:
        self._loop = loop
        self._metadata = metadata
        self._segment_size_max = segment_size_max
        self._rarely = Rarely()

    def note(self, target: Target, batch: LargeBatch) -> None:
        """A batch larger than a segment was staged."""
        stream_id, topic_id, partition_id = unpack_namespace(target.namespace)
        topic = self._metadata.state.find_topic(stream_id, topic_id)
        max_topic_size = UNLIMITED if topic is None else topic.max_topic_size
        options = b"" if topic is None else topic.options
        segment_size_max = segment_size_of(options, self._segment_size_max)
        found = judge(batch.size_bytes, segment_size_max, max_topic_size)
        if found is None:
            return
        if not self._rarely.is_due((stream_id, topic_id, found.limit), self._loop.time()):
            return
        LOG.warning(
            "stream %d, topic %d, partition %d: a batch of %d bytes with %d messages from offset %d"
            " on is larger than %s, %d bytes: %s",
            stream_id,
            topic_id,
            partition_id,
            batch.size_bytes,
            batch.message_count,
            batch.first_offset,
            found.limit.value,
            found.bytes_max,
            "the topic stays above its limit until more is sent; send smaller batches, or raise it"
            if found.limit is Exceeded.TOPIC
            else "its segment becomes larger than that; retention deletes whole segments only",
        )
