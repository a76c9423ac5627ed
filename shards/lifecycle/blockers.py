"""Consumers and groups that keep segments from being deleted: which, how often, and since when.

Owned by the worker's loop, fed by deleting.py. A consumer blocks a partition as long as it is
furthest behind, its committed offset stays the same, and the segment that was due is still there. A
commit ends that, so a reader that goes on reading blocks only from its last commit.

Always: no more than BLOCKERS_MAX are remembered, the ones seen last; and a partition is warned of
rarely (rarely.py), whatever its consumers do.
"""

import logging
from collections import Counter
from datetime import UTC, datetime
from typing import Final, NamedTuple

from borzoi.protocol.identifiers import ConsumerKind
from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.loop.rarely import Rarely
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition

LOG: Final = logging.getLogger(__name__)

BLOCKERS_MAX: Final = 4096
"""At most so many consumers that hold up deletion are counted and reported one by one."""


class Blocker(NamedTuple):
    """A consumer or group that has not read what was to be deleted."""

    namespace: int
    kind: ConsumerKind
    consumer: int


class Blockage(NamedTuple):
    """How often that happened, and at which time, commit and segment it began."""

    target: Target
    times: int
    since_us: int
    committed: int
    segment: int


class Blockers:
    """The blockers of this shard's partitions."""

    def __init__(self) -> None:
        self._found: dict[Blocker, Blockage] = {}
        self._rarely = Rarely()
        # Segments that no line has counted yet: one number per partition that this shard owns.
        self._unnamed: Counter[int] = Counter()

    def note(self, partition: OwnedPartition, segment: int, now_us: int) -> None:
        """A segment was due and is kept for the sake of the consumer that is furthest behind."""
        lowest = partition.offsets.lowest()
        assert lowest is not None, "without committed offsets nothing is unread"
        committed, kind, consumer = lowest
        blocker = Blocker(partition.target.namespace, kind, consumer)
        before = self._found.pop(blocker, None)
        since_us, times = now_us, 0
        if before is not None:
            times = before.times
            if before.target == partition.target and before.committed == committed:
                since_us = before.since_us
        elif len(self._found) >= BLOCKERS_MAX:
            del self._found[next(iter(self._found))]
        # Put in last: the one that was seen least lately is the first.
        self._found[blocker] = Blockage(partition.target, times + 1, since_us, committed, segment)
        if self._rarely.is_due((blocker.namespace, "kept"), now_us / 1e6):
            _warn(blocker, self._found[blocker])

    def missed(self, partition: OwnedPartition, segments: int, now_us: int) -> None:
        """So many segments are gone that the consumer furthest behind has not read.

        A line that is not due yet adds its segments to the next one.
        """
        lowest = partition.offsets.lowest()
        if lowest is None:
            return
        namespace = partition.target.namespace
        self._unnamed[namespace] += segments
        if not self._rarely.is_due((namespace, "missed"), now_us / 1e6):
            return
        committed, kind, consumer = lowest
        LOG.warning(
            "stream %d, topic %d, partition %d: the topic is full or its messages have expired, so"
            " %d segments were deleted unread: %s has read up to offset %d only",
            *unpack_namespace(namespace),
            self._unnamed.pop(namespace),
            name_of(kind, consumer),
            committed,
        )

    def counts(self) -> dict[Blocker, int]:
        """How often each stood in the way."""
        return {blocker: found.times for blocker, found in self._found.items()}

    def standing(self, partitions: Partitions) -> dict[Blocker, int]:
        """Those that stand in the way now, and since when in microseconds since 1970."""
        return {
            blocker: found.since_us
            for blocker, found in self._found.items()
            if _still_blocks(blocker, found, partitions)
        }


def name_of(kind: ConsumerKind, consumer: int) -> str:
    """A consumer or group as log lines name it."""
    return f"{'consumer group' if kind is ConsumerKind.GROUP else 'consumer'} {consumer}"


def _still_blocks(blocker: Blocker, found: Blockage, partitions: Partitions) -> bool:
    target = partitions.known_target(found.target.namespace, found.target.birth)
    if target is None:
        return False
    partition = partitions.find(target)
    committed = partition.offsets.get(blocker.kind, blocker.consumer)
    return committed == found.committed and partition.log.segments.first_offset <= found.segment


def _warn(blocker: Blocker, found: Blockage) -> None:
    since = datetime.fromtimestamp(found.since_us // 1_000_000, UTC)
    LOG.warning(
        "stream %d, topic %d, partition %d: the segment at offset %d is due to be deleted but is"
        " kept since %s: %s has read up to offset %d only",
        *unpack_namespace(blocker.namespace),
        found.segment,
        since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        name_of(blocker.kind, blocker.consumer),
        found.committed,
    )
