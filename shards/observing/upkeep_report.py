"""A report in words on old segments since the workers started, a part of every snapshot.

Every shard describes what it has deleted, archived and compressed, and which consumers held up
deletion. The shard that is asked joins the texts of all. A worker that was replaced counts from
zero, so each text says for how long it has counted.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from borzoi.router.placement import unpack_namespace
from borzoi.shards.lifecycle.blockers import name_of
from borzoi.shards.lifecycle.deleting import DeletingStats
from borzoi.shards.rings.gather import Gather
from borzoi.shards.rings.lending import tell
from borzoi.shards.rings.requests import Done, Telling
from borzoi.shards.upkeep.archiver import ArchivingStats
from borzoi.shards.upkeep.compression import CompressingStats

ANSWER_TIME_MAX_S: Final = 2.0
BLOCKERS_NAMED_MAX: Final = 20
"""At most so many consumers that held up deletion are named, the most frequent first."""


class UpkeepStats(NamedTuple):
    """The figures of one shard; `archived` is None without an archive."""

    counted_s: float
    deleted: DeletingStats
    archived: ArchivingStats | None
    compressed: CompressingStats = CompressingStats()


class TellUpkeep(Telling):
    """Write what was deleted and archived, as text, into the lent buffer."""

    KIND = 66


class Upkeep:
    """The figures of this shard, and those of all shards by asking."""

    def __init__(
        self,
        shard: int,
        stats: Callable[[], UpkeepStats],
        gather: Gather,
        answer_time_max_s: float = ANSWER_TIME_MAX_S,
    ) -> None:
        self._shard = shard
        self._answer_time_max_s = answer_time_max_s
        self._stats = stats
        self._gather = gather

    async def report(self) -> bytes:
        """The texts of all shards, in their order. Waits for none that does not answer."""
        found = await self._gather.reports_within(self._answer_time_max_s, TellUpkeep)
        texts = {shard: _text(shard, report) for shard, report in found.items()}
        texts[self._shard] = self._own()
        return b"".join(texts[shard] for shard in sorted(texts))

    def serve(self, _shard: int, _request: TellUpkeep, lent: memoryview, done: Done) -> None:
        """Write our text into a peer's buffer, or say how large it has to be."""
        tell(lent, self._own(), done)

    def _own(self) -> bytes:
        lines = (f"shard {self._shard}: {line}\n" for line in described(self._stats()))
        return "".join(lines).encode()


def _text(shard: int, report: bytes | Exception) -> bytes:
    if isinstance(report, Exception):
        return f"shard {shard} cannot be asked: {report!r}\n".encode()
    return report or b"shard %d is being replaced\n" % shard


def described(stats: UpkeepStats) -> Iterator[str]:
    """One thing in each line."""
    yield f"counted for {stats.counted_s:.0f} s"
    deleted, archived = stats.deleted, stats.archived
    yield f"deleted {deleted.segments} segments with {deleted.size_bytes} bytes"
    if archived is None:
        yield "has no archive"
    else:
        yield f"archived {archived.segments} segments with {archived.size_bytes} bytes"
        if archived.failures:
            yield f"the archive has failed {archived.failures} times in a row"
    compressed = stats.compressed
    yield f"compressed {compressed.segments} segments"
    if compressed.waiting:
        yield (
            f"{compressed.waiting} sealed segments of {compressed.partitions} partitions wait to be"
            f" compressed, the oldest for {compressed.waited_s:.0f} s or longer"
        )
    if compressed.left_plain:
        yield f"{compressed.left_plain} segments are damaged or would not shrink, and stay plain"
    named = heapq.nlargest(BLOCKERS_NAMED_MAX, deleted.blocked.items(), key=lambda one: one[1])
    for blocker, times in named:
        stream, topic, partition = unpack_namespace(blocker.namespace)
        name = name_of(blocker.kind, blocker.consumer)
        yield (
            f"stream {stream}, topic {topic}, partition {partition}: {name} had"
            f" not read what was to be deleted, {times} times"
        )
    if len(deleted.blocked) > len(named):
        yield f"and {len(deleted.blocked) - len(named)} more who had not read"
