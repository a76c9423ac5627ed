"""Batches that have their offsets but are not written yet.

Pure: decides which bytes go where and touches no file. The group is written as a whole or
dropped as a whole, so offsets given here become real only when the owner has written them.

Always: parts are in file order; every part but the last is sealed; `end` is where the log will
end once all of them are written.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from borzoi.protocol.batch import stamp_batch
from borzoi.storage.segment import POSITION_MAX, LogEnd


@dataclass(slots=True)
class StagedPart:
    """What one segment will receive from a group, behind `start`."""

    start: LogEnd
    end: LogEnd
    buffers: list[memoryview] = field(default_factory=list)
    index_entries: bytearray = field(default_factory=bytearray)
    sealed: bool = False


class StagedGroup:
    """The batches of one turn, stamped in the order they came."""

    def __init__(
        self, end: LogEnd, segment_size_max: int, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._segment_size_max = segment_size_max
        self._random_bytes = random_bytes
        self.parts: list[StagedPart] = []
        self.end = end
        self.size_bytes = 0
        self.message_count = 0

    def add(self, batch: memoryview, message_count: int, now_us: int) -> int:
        """Stamp a batch in place and take it in; return the offset of its first message.

        A segment is full once the bytes before a batch reach the limit. That batch still goes
        into it, and then it is sealed: so do the files of the reference server look.
        """
        if self.end.position + len(batch) > POSITION_MAX:
            self.seal()
        start = self.end
        # A clock that went back must not: searching by time needs ascending timestamps.
        timestamp = max(now_us, start.last_timestamp)
        entries = stamp_batch(
            batch,
            message_count,
            start.next_offset,
            timestamp,
            self._random_bytes,
            segment_first_offset=start.segment,
            position=start.position,
        )
        part = self._last_part()
        part.buffers.append(batch)
        part.index_entries += entries
        self.end = part.end = LogEnd(
            start.segment,
            start.position + len(batch),
            start.next_offset + message_count,
            timestamp,
            start.first_timestamp if start.message_count else timestamp,
        )
        self.size_bytes += len(batch)
        self.message_count += message_count
        if start.position >= self._segment_size_max:
            self.seal()
        return start.next_offset

    def seal(self) -> None:
        """No more goes into the segment that is open now."""
        self._last_part().sealed = True
        self.end = self.end.rolled()
        # Even if nothing follows: the new segment exists as soon as the old one is sealed.
        self.parts.append(StagedPart(self.end, self.end))

    def _last_part(self) -> StagedPart:
        if not self.parts:
            self.parts.append(StagedPart(self.end, self.end))
        return self.parts[-1]
