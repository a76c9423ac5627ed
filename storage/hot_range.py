"""The part of a segment that was read last: where the next read of it most likely lies.

A reader that goes through a log asks for what follows, again and again, inside one window of the
index and one of the log. Here that costs two look-ups and a slice; everything unusual (another
segment, the edge of a window, untrusted bytes, a wrong entry) is left to the slow way.

Belongs to one PartitionReader. Holds its two windows mapped, so it is dropped with the reader.
"""

from typing import Final

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.mapped import is_cold
from borzoi.storage.published import Published
from borzoi.storage.segment_view import SegmentView

INDEX_WORDS: Final = INDEX_ENTRY_SIZE // 4
POSITION_WORD: Final = 1
WARM_USES_MAX: Final = 256
"""So often a range is taken for warm without asking the kernel again."""


class HotRange:
    """One window of the index and one of the log of a segment."""

    __slots__ = (
        "_active",
        "_address",
        "_entries",
        "_first_entry",
        "_known",
        "_log",
        "_log_end",
        "_log_start",
        "_message_count",
        "_segment",
        "_warm_end",
        "_warm_start",
        "_warm_uses",
    )

    def __init__(
        self, segment: SegmentView, number: int, position: int, published: Published
    ) -> None:
        """Around the message of this number, whose bytes begin at this position."""
        window_size = segment.window_size
        entries_per_window = window_size // INDEX_ENTRY_SIZE
        index_window = number // entries_per_window
        log_window = position // window_size
        self._known = published
        self._segment = segment.first_offset
        self._active = segment.first_offset == published.active_segment
        self._message_count = segment.message_count
        self._first_entry = index_window * entries_per_window
        self._entries = segment.index.window(index_window).cast("I")
        self._log = segment.log.window(log_window)
        self._log_start = log_window * window_size
        self._log_end = min(self._log_start + window_size, segment.log.size(0))
        self._address = segment.log.address(log_window)
        self._warm_start = self._warm_end = self._warm_uses = 0

    def fits(self, published: Published) -> bool:
        """Whether nothing but the end of the active segment has moved since."""
        known = self._known
        return (
            known.birth == published.birth
            and known.active_segment == published.active_segment
            and known.first_offset == published.first_offset
            and known.trusted_from == published.trusted_from
        )

    def locate(self, published: Published, offset: int, count: int) -> tuple[int, int, int] | None:
        """Message count, start and end in the log of what lies here; None: not all of it."""
        number = offset - self._segment
        if self._active:
            available = published.next_offset - self._segment
            log_end = min(published.end_position, self._log_start + self._log.nbytes)
        else:
            available = self._message_count
            log_end = self._log_end
        if number < 0 or number >= available:
            return None
        count = min(count, available - number)
        before = number - 1 - self._first_entry
        last = before + count
        entries = self._entries
        if (before < 0 and number) or last * INDEX_WORDS >= entries.nbytes // 4:
            return None
        start = entries[before * INDEX_WORDS + POSITION_WORD] if number else 0
        end = entries[last * INDEX_WORDS + POSITION_WORD]
        if not self._log_start <= start < end <= log_end:
            return None
        return count, start, end

    def is_warm(self, start: int, end: int) -> bool:
        """Whether these bytes are in memory; asks the kernel now and then."""
        if self._warm_uses and self._warm_start <= start and end <= self._warm_end:
            self._warm_uses -= 1
            return True
        if is_cold(self._address + start - self._log_start, end - start):
            return False
        self._warm_start, self._warm_end, self._warm_uses = start, end, WARM_USES_MAX
        return True

    def view(self, start: int, end: int) -> memoryview:
        """The bytes themselves."""
        base = self._log_start
        return self._log[start - base : end - base]
