"""Where a time is in a partition: a binary search over segments, then over one index."""

from bisect import bisect_left
from collections.abc import Sequence

from borzoi.protocol.batch import MESSAGE_HEADER_SIZE
from borzoi.storage.compressed_file import CompressedFile
from borzoi.storage.doubts import Doubts
from borzoi.storage.outcome import Doubt, Packed
from borzoi.storage.published import Published
from borzoi.storage.segment_view import SegmentView, Stale, missing_forms


class TimeSearch:
    """One search in a published state. Without `may_wait` it loads no blocks itself."""

    __slots__ = ("_doubts", "_may_wait", "_published")

    def __init__(self, published: Published, doubts: Doubts, may_wait: bool) -> None:
        self._published = published
        self._doubts = doubts
        self._may_wait = may_wait

    def find(self, views: Sequence[SegmentView], timestamp: int) -> int | Packed | Doubt:
        """The first offset whose time is not before `timestamp`, next_offset if there is none."""
        segments = [view for view in views if view.message_count]
        number = bisect_left(
            segments, timestamp, key=lambda view: view.timestamp_of(view.message_count - 1)
        )
        before = segments[number - 1] if number else None
        # Whatever else a damaged index says: if the times around are right, so is the answer.
        around: list[tuple[SegmentView, int]] = []
        answer = self._published.next_offset
        found = 0
        if number < len(segments):
            segment = segments[number]
            found = segment.first_at_or_after(timestamp)
            answer = segment.first_offset + found
            around.append((segment, found))
        if found:
            around.append((segments[number], found - 1))
        elif before is not None:
            around.append((before, before.message_count - 1))
        for segment, number in around:
            wrong = self._check(segment, number)
            if wrong is not None:
                return wrong
        return answer

    def _check(self, segment: SegmentView, number: int) -> Packed | Doubt | None:
        """None if a message has the time that the index says."""
        offset = segment.first_offset + number
        # What was verified when it was read was not compared with the times in the index.
        if offset >= self._published.trusted_from:
            return None
        if not self._may_wait:
            missing = missing_forms([segment])
            if not missing and isinstance(segment.log, CompressedFile):
                start = segment.start_of(number)
                header = segment.log.missing(start, start + MESSAGE_HEADER_SIZE)
                missing = [header] if header is not None else []
            if missing:
                return Packed(missing)
        if segment.has_time(number):
            return None
        if segment.index.was_replaced():
            raise Stale(f"{segment.index.path} was repaired")
        return self._doubts.of_time(segment, offset)
