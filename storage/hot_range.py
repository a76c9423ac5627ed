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
from borzoi.storage.segment_view import MappedFile, SegmentView

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
        "_entry_count",
        "_first_entry",
        "_first_offset",
        "_log",
        "_log_end",
        "_log_start",
        "_message_count",
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
        # Beginning at the first position, so that entry n has its own at n * INDEX_WORDS.
        entries = segment.index.window(index_window)
        self._positions = entries.cast("I")[POSITION_WORD:]
        self._entry_count = entries.nbytes // INDEX_ENTRY_SIZE
        self._log = log.window(log_window)
        self._log_start = log_window * window_size
        self._window_end = self._log_start + self._log.nbytes
        self._log_end = min(self._window_end, log.size(0))
        self._address = log.address(log_window)
        self._warm_uses = bytearray(-(-self._log.nbytes // CHUNK_SIZE))

    @property
    def segment(self) -> int:
        """The first offset of the segment it lies in."""
        return self._segment

    def locate(
        self, published: Published, offset: int, count: int, bytes_max: int
    ) -> tuple[int, int, int] | None:
        """Message count, start and end in the log of what a read wants.

        None when not all of it lies here, when it is more than `bytes_max`, or when more than
        the end of the active segment has moved since.
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
        if number < 0 or available <= 0:
            return None
        if count > available:
            if offset + available < next_offset:
                # More follows in the next segment.
                return None
            count = available
        before = number - 1 - self._first_entry
        entries = self._positions
        last = before + count
        if (before < 0 and number) or last >= self._entry_count:
            return None
        start = entries[before * INDEX_WORDS] if number else 0
        end = entries[last * INDEX_WORDS]
        if not self._log_start <= start < end <= log_end or end - start > bytes_max:
            return None
        return count, start, end

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
        """The bytes themselves."""
        base = self._log_start
        return self._log[start - base : end - base]
