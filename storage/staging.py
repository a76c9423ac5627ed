"""Batches that have their offsets but are not written yet.

Pure: decides which bytes go where and touches no file. What is staged is written as a whole or
dropped as a whole. So offsets given here become real only when the owner has written them.

Belongs to one log and lives as long as it does: `written` and `dropped` begin the next group.
Nearly every group is one run of batches behind the written end, so that one lies here as plain
numbers. Only a segment that gets full inside a group becomes a value of its own in `sealed`.

Always: `sealed` and then the open run are in file order; `end` is where the log will end once
all of them are written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from borzoi.protocol.batch import INDEX_ENTRY_SIZE, stamp_batch
from borzoi.storage.segment import POSITION_MAX, LogEnd
from borzoi.storage.segment_form import PLAIN, SegmentForm


class LargeBatch(NamedTuple):
    """A batch that is larger than a whole segment should be; `size_bytes` as it is stored."""

    first_offset: int
    message_count: int
    size_bytes: int


def _unnoticed(_batch: LargeBatch) -> None:
    """What is done about large batches unless a listener is set: nothing."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """What one segment will receive from a group."""

    segment: int
    position: int
    buffers: list[memoryview]
    index_position: int
    index_entries: bytearray
    end: LogEnd
    sealed: bool


class StagedGroup:
    """The batches of one turn, stamped in the order they came."""

    __slots__ = (
        "_first_timestamp",
        "_last_timestamp",
        "_random_bytes",
        "_segment_size_max",
        "_stamp_batch",
        "_start_offset",
        "buffers",
        "index_entries",
        "message_count",
        "next_offset",
        "on_large_batch",
        "position",
        "sealed",
        "segment",
        "size_bytes",
        "start_position",
    )

    def __init__(
        self, end: LogEnd, segment_size_max: int, random_bytes: Callable[[int], bytes]
    ) -> None:
        self._segment_size_max = segment_size_max
        self._random_bytes = random_bytes
        self._stamp_batch = stamp_batch
        self.on_large_batch: Callable[[LargeBatch], None] = _unnoticed
        self.sealed: list[StagedPart] = []
        self.message_count = self.size_bytes = 0
        self.buffers: list[memoryview] = []
        self.index_entries = bytearray()
        self.segment: int
        self.start_position: int
        self.position: int
        self._start_offset: int
        self.next_offset: int
        self._last_timestamp: int
        self._first_timestamp: int
        self._open(end)

    @property
    def end(self) -> LogEnd:
        """Where the log ends with all of this."""
        return LogEnd(
            self.segment,
            self.position,
            self.next_offset,
            self._last_timestamp,
            self._first_timestamp,
        )

    @property
    def form(self) -> SegmentForm:
        """Of the segment that receives the first of it."""
        return PLAIN

    @property
    def is_outdated(self) -> bool:
        """Whether what comes now should not go into the open segment, for the sake of its key."""
        return False

    @property
    def index_position(self) -> int:
        """Where the entries of the open run go in the index of its segment."""
        return (self._start_offset - self.segment) * INDEX_ENTRY_SIZE

    @property
    def parts(self) -> list[StagedPart]:
        """One for each segment that receives something, or is made."""
        if not self.sealed and not self.buffers:
            return []
        return [*self.sealed, self._open_part(sealed=False)]

    def timestamp_at(self, now_us: int) -> int:
        """What `add` stamps at this time. It does not call this: it runs for every request."""
        return max(now_us, self._last_timestamp)

    def add(self, batch: memoryview, message_count: int, now_us: int) -> int:
        """Stamp a batch in place and take it in; return the offset of its first message.

        A segment is full once the bytes before a batch reach the limit. That batch still goes
        into it, and then it is sealed: so do the files of the reference server look.
        """
        size = batch.nbytes
        if self.position + size > POSITION_MAX:
            self.seal()
        position = self.position
        first_offset = self.next_offset
        # A clock that went back must not: searching by time needs ascending timestamps.
        timestamp = now_us if now_us > self._last_timestamp else self._last_timestamp
        entries = self._stamp_batch(
            batch, message_count, first_offset, timestamp, self._random_bytes,
            self.segment, position,
        )  # fmt: skip
        if self.buffers:
            self.index_entries += entries
        else:
            self.index_entries = entries
        self.buffers.append(batch)
        if first_offset == self.segment:
            self._first_timestamp = timestamp
        self._last_timestamp = timestamp
        self.position = position + size
        self.next_offset = first_offset + message_count
        self.size_bytes += size
        self.message_count += message_count
        limit = self._segment_size_max
        if size > limit:
            self.on_large_batch(LargeBatch(first_offset, message_count, size))
        if position >= limit:
            self.seal()
        return first_offset

    def seal(self) -> None:
        """No more goes into the segment that is open now; its successor exists from then on."""
        self.sealed.append(self._open_part(sealed=True))
        self._open(self.end.rolled())

    def written(self) -> None:
        """Everything staged is in the files: what comes now goes behind it."""
        self.sealed = []
        self.message_count = self.size_bytes = 0
        self._start_offset = self.next_offset
        self.start_position = self.position
        self.buffers = []
        self.index_entries = bytearray()

    def dropped(self, end: LogEnd) -> None:
        """Nothing staged is in the files: they end here, and what comes now goes behind it."""
        self.sealed = []
        self.message_count = self.size_bytes = 0
        self._open(end)

    def _open(self, end: LogEnd) -> None:
        self.segment = end.segment
        self.start_position = self.position = end.position
        self._start_offset = self.next_offset = end.next_offset
        self._last_timestamp = end.last_timestamp
        self._first_timestamp = end.first_timestamp
        self.buffers = []
        self.index_entries = bytearray()

    def _open_part(self, *, sealed: bool) -> StagedPart:
        return StagedPart(
            self.segment,
            self.start_position,
            self.buffers,
            self.index_position,
            self.index_entries,
            self.end,
            sealed,
        )
