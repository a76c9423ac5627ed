"""The part of a segment that was read last: where the next read of it most likely lies.

A reader that goes through a log asks for what follows, again and again, inside one window of the
index and one of the log. Here that costs two look-ups and a slice. Everything unusual (another
segment, the edge of a window, untrusted bytes, a wrong entry) is left to the slow way.

Belongs to one PartitionReader. Holds its two windows mapped, so it is dropped with the reader.

Always: the entries at hand lie in pages that the index was seen to have, whatever is published. The
bytes handed out end where the log was seen or published to end.
"""

from typing import Final

from borzoi.protocol.batch import INDEX_ENTRY_SIZE
from borzoi.storage.mapped import is_cold
from borzoi.storage.published import Published
from borzoi.storage.segment_view import MappedFile, SegmentView, Stale

INDEX_WORDS: Final = INDEX_ENTRY_SIZE // 4
POSITION_WORD: Final = 1
CHUNK_SIZE: Final = 256 * 1024
"""Bytes that the kernel is asked about at once (mincore, 5 us)."""

WARM_USES_MAX: Final = 255
"""So often a chunk is taken for warm without asking the kernel again."""


class HotRange:
    """One window of the index and one of the log of a segment."""

    __slots__ = (
        "_active",
        "_active_segment",
        "_address",
        "_birth",
        "_entries_max",
        "_entry_count",
        "_first_entry",
        "_first_offset",
        "_index",
        "_index_window",
        "_log",
        "_log_end",
        "_log_start",
        "_log_window",
        "_message_count",
        "_number_min",
        "_positions",
        "_segment",
        "_trusted_from",
        "_warm_uses",
        "_window_end",
    )

    def __init__(
        self,
        segment: SegmentView,
        log: MappedFile,
        number: int,
        position: int,
        published: Published,
    ) -> None:
        """Around the message of this number, whose bytes begin at this position."""
        window_size = segment.window_size
        entries_per_window = window_size // INDEX_ENTRY_SIZE
        index_window = number // entries_per_window
        log_window = position // window_size
        self._birth = published.birth
        self._first_offset = published.first_offset
        self._active_segment = published.active_segment
        self._trusted_from = published.trusted_from
        self._segment = segment.first_offset
        self._active = segment.first_offset == published.active_segment
        self._message_count = segment.message_count
        self._first_entry = index_window * entries_per_window
        self._entries_max = entries_per_window
        # Where a message begins is said by the entry before it; the first one has none.
        self._number_min = self._first_entry + 1 if self._first_entry else 0
        self._index = segment.index
        self._index_window = segment.index.window(index_window)
        self._take_entries(segment.index.size(0))
        self._log_window = log.window(log_window)
        self._log_start = log_window * window_size
        self._window_end = self._log_start + window_size
        self._log_end = min(self._window_end, log.size(0))
        self._log = self._log_window.below(self._log_end)
        self._address = self._log_window.address
        self._warm_uses = bytearray(-(-window_size // CHUNK_SIZE))

    @property
    def segment(self) -> int:
        """The first offset of the segment it lies in."""
        return self._segment

    def locate(
        self, published: Published, offset: int, count: int, bytes_max: int
    ) -> tuple[int, int, int] | None:
        """Message count, start and end in the log of what a read wants.

        None when not all of it lies here, or when it is more than `bytes_max`. None also when more
        than the end of the active segment has moved since.
        """
        birth, first_offset, next_offset, active_segment, end_position, _, _, trusted = published
        if (
            active_segment != self._active_segment
            or first_offset != self._first_offset
            or birth != self._birth
            or trusted != self._trusted_from
            or offset < first_offset
        ):
            return None
        number = offset - self._segment
        if self._active:
            available = next_offset - self._segment - number
            log_end = self._window_end if self._window_end < end_position else end_position
        else:
            available = self._message_count - number
            log_end = self._log_end
        if number < self._number_min or available <= 0 or count < 1:
            return None
        if count > available:
            if offset + available < next_offset:
                # More follows in the next segment.
                return None
            count = available
        before = number - 1 - self._first_entry
        last = before + count
        if last >= self._entry_count and not self._reaches(last):
            return None
        entries = self._positions
        start = entries[before * INDEX_WORDS] if number else 0
        end = entries[last * INDEX_WORDS]
        if not self._log_start <= start < end <= log_end or end - start > bytes_max:
            return None
        return count, start, end

    def _reaches(self, last: int) -> bool:
        """Whether the index has grown to this entry of the window by now: asked once a page."""
        if last >= self._entries_max:
            return False
        needed = (self._first_entry + last + 1) * INDEX_ENTRY_SIZE
        try:
            size = self._index.size(needed)
        except (Stale, FileNotFoundError):
            return False
        if size < needed:
            return False
        self._take_entries(size)
        return True

    def _take_entries(self, index_size: int) -> None:
        """Have those at hand that lie in pages of an index of this size."""
        entries = self._index_window.below_page_of(index_size)
        # Beginning at the first position, so that entry n has its own at n * INDEX_WORDS.
        self._positions = entries.cast("I")[POSITION_WORD:]
        self._entry_count = entries.nbytes // INDEX_ENTRY_SIZE

    def is_warm(self, start: int, end: int, end_position: int) -> bool:
        """Whether these bytes are in memory; asks the kernel now and then.

        `end_position` is where the active segment ends now.
        """
        uses_left = self._warm_uses
        first = (start - self._log_start) // CHUNK_SIZE
        last = (end - 1 - self._log_start) // CHUNK_SIZE
        if first == last and uses_left[first]:
            uses_left[first] -= 1
            return True
        for chunk in range(first, last + 1):
            if uses_left[chunk]:
                uses_left[chunk] -= 1
            elif self._is_chunk_cold(chunk, end_position):
                # A part of the chunk is missing, but perhaps not this one.
                return not is_cold(self._address + start - self._log_start, end - start)
            else:
                uses_left[chunk] = WARM_USES_MAX
        return True

    def _is_chunk_cold(self, chunk: int, end_position: int) -> bool:
        # No further than the file goes: what is written behind that later is in memory as well.
        log_end = min(self._window_end, end_position) if self._active else self._log_end
        start = chunk * CHUNK_SIZE
        size = min(CHUNK_SIZE, log_end - self._log_start - start)
        return is_cold(self._address + start, size)

    def view(self, start: int, end: int) -> memoryview:
        """The bytes themselves, located just now."""
        base = self._log_start
        if end > self._log_end:
            # Published since, or it would not have been located.
            self._log_end = end
            self._log = self._log_window.below(end)
        return self._log[start - base : end - base]
