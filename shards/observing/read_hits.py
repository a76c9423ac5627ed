"""How often polls found their bytes in memory: per partition, of all shards together.

What stands between a poll and the disk is the kernel's page cache, seen through mapped windows. A
read whose bytes all lay there is a hit; one for which a thread had to fetch them is a miss. Every
shard counts for the partitions it has read lately (PartitionReaders), also those of other owners.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from borzoi.protocol.classic import back_to_back
from borzoi.protocol.responses.stats import CacheMetric
from borzoi.router.placement import unpack_namespace
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.shards.rings.gather import Gather
from borzoi.shards.rings.lending import tell
from borzoi.shards.rings.requests import Done, Telling

METRICS: Final = back_to_back(CacheMetric)


class TellReadHits(Telling):
    """Write what was read from memory and what was not into the lent buffer."""

    KIND = 65


class Caches:
    """The counters of this shard, and those of all shards by asking."""

    def __init__(self, readers: PartitionReaders, gather: Gather) -> None:
        self._readers = readers
        self._gather = gather

    async def metrics(self) -> tuple[CacheMetric, ...]:
        """One entry for each partition that was read lately by any shard."""
        found = self._own()
        for data in (await self._gather.reports(TellReadHits)).values():
            found += METRICS.decode(memoryview(data))
        return together(found)

    def serve(self, _shard: int, _request: TellReadHits, lent: memoryview, done: Done) -> None:
        """Write our counters into a peer's buffer, or say how large it has to be."""
        tell(lent, METRICS.encode(self._own()), done)

    def _own(self) -> list[CacheMetric]:
        return [
            metric(*unpack_namespace(namespace), reads - misses, misses)
            for namespace, reads, misses in self._readers.reads()
        ]


def together(metrics: Iterable[CacheMetric]) -> tuple[CacheMetric, ...]:
    """One entry per partition, by stream, topic and partition."""
    hits: Counter[tuple[int, int, int]] = Counter()
    misses: Counter[tuple[int, int, int]] = Counter()
    for one in metrics:
        hits[one[:3]] += one.hits
        misses[one[:3]] += one.misses
    return tuple(metric(*place, hits[place], misses[place]) for place in sorted(hits))


def metric(stream: int, topic: int, partition: int, hits: int, misses: int) -> CacheMetric:
    """An entry with its ratio."""
    ratio = hits / (hits + misses) if hits + misses else 0.0
    return CacheMetric(stream, topic, partition, hits, misses, ratio)
