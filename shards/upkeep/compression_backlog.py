"""What a shard has still to compress: which segment is next, what failed, and what waits for long.

Bookkeeping only: segments and the time come in as parameters. Owned by the worker's loop.

Always: a segment that should be compressed is offered again and again until it is. One that failed
comes back at the next look, behind all of its partition that failed less often. So one that always
fails holds up no other. What is left plain for good (damaged, or not worth it) is offered after the
next start, or when its index was repaired.

Everything that waits at some moment has LAG_S to be done; then the shard lags behind.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.storage.segment import SealedSegment

PLACES_MAX: Final = 65536
"""So many segments are remembered to have failed, or to stay plain; then all are forgotten."""

LAG_S: Final = 600.0
WARN_AGAIN_S: Final = 3600.0


class SegmentPlace(NamedTuple):
    """One segment in one life of its partition."""

    namespace: int
    birth: int
    first_offset: int


def place_of(target: Target, segment: SealedSegment) -> SegmentPlace:
    """Returns the key of a segment in the backlog."""
    return SegmentPlace(target.namespace, target.birth, segment.first_offset)


class WaitingSegments(NamedTuple):
    """Segments of a partition that wait, and for how long the first of them has at least."""

    target: Target
    segments: int
    waited_s: float


class _Failed(NamedTuple):
    times: int
    look: int


class _Mark(NamedTuple):
    """Up to this segment all waited then."""

    first_offset: int
    since: float


class Backlog:
    """The segments of a shard that are not compressed, as far as anything is known of them."""

    def __init__(self, places_max: int = PLACES_MAX) -> None:
        self._places_max = places_max
        self._look = 0
        self._failed: dict[SegmentPlace, _Failed] = {}
        self._left_plain: set[SegmentPlace] = set()
        self._marks: dict[Target, _Mark] = {}
        self._warned_at: float | None = None

    @property
    def left_plain(self) -> int:
        """How many segments stay as they are."""
        return len(self._left_plain)

    def look_again(self) -> None:
        """What failed may be tried once more."""
        self._look += 1

    def wanted(self, target: Target, segments: Iterable[SealedSegment]) -> list[SealedSegment]:
        """Without those that stay plain."""
        return [one for one in segments if place_of(target, one) not in self._left_plain]

    def next_of(self, target: Target, wanted: Iterable[SealedSegment]) -> SealedSegment | None:
        """Which of these segments, oldest first, is to be tried now."""
        chosen, fewest = None, 0
        for segment in wanted:
            failed = self._failed.get(place_of(target, segment))
            if failed is None:
                return segment
            if failed.look < self._look and (chosen is None or failed.times < fewest):
                chosen, fewest = segment, failed.times
        return chosen

    def failed(self, place: SegmentPlace) -> int:
        """It could not be compressed now; how often that has happened to it."""
        times = self._failed[place].times + 1 if place in self._failed else 1
        if len(self._failed) >= self._places_max:
            self._failed.clear()
        self._failed[place] = _Failed(times, self._look)
        return times

    def leave_plain(self, place: SegmentPlace) -> None:
        """It stays as it is."""
        if len(self._left_plain) >= self._places_max:
            self._left_plain.clear()
        self._left_plain.add(place)

    def forget(self, place: SegmentPlace) -> None:
        """It was compressed, or what was wrong with it was repaired."""
        self._failed.pop(place, None)
        self._left_plain.discard(place)

    def measure(
        self, target: Target, wanted: Sequence[SealedSegment], now: float
    ) -> WaitingSegments:
        """How long the segments of a partition, oldest first, have waited; to be asked often."""
        if not wanted:
            self._marks.pop(target, None)
            return WaitingSegments(target, 0, 0.0)
        mark = self._marks.get(target)
        if mark is None or wanted[0].first_offset > mark.first_offset:
            mark = self._marks[target] = _Mark(wanted[-1].first_offset, now)
        return WaitingSegments(target, len(wanted), now - mark.since)

    def forget_ended(self, living: set[Target]) -> None:
        """Partitions that are gone wait for nothing."""
        for ended in self._marks.keys() - living:
            del self._marks[ended]

    def warning(self, waiting: Sequence[WaitingSegments], now: float) -> str | None:
        """What is to be said of all that waits, if anything is, and not too often."""
        late = [one for one in waiting if one.waited_s >= LAG_S]
        if not late:
            self._warned_at = None
            return None
        if self._warned_at is not None and now - self._warned_at < WARN_AGAIN_S:
            return None
        self._warned_at = now
        worst = max(late, key=lambda one: one.segments)
        others = sum(one.segments for one in waiting) - worst.segments
        stream, topic, partition = unpack_namespace(worst.target.namespace)
        return (
            f"compression lags behind: stream {stream}, topic {topic}, partition {partition} has"
            f" {worst.segments} sealed segments that wait, the oldest for {worst.waited_s:.0f} s or"
            f" longer; {others} wait in other partitions"
        )
