"""One read by offset: runs of messages, segment by segment, from a published state.

By offset is arithmetic: the index has one entry per message. `measure` stops there; `read` takes
the bytes as slices of the map, and checks those that this run of the broker has not written or
verified. What is not in memory, or not plain, is returned as what it is.
"""

from bisect import bisect_right
from typing import Final, NamedTuple

from borzoi.protocol.batch import scan_log
from borzoi.storage.compressed_file import CompressedFile, MissingBlocks
from borzoi.storage.decryption import Encrypted, StoredRun
from borzoi.storage.doubts import Doubts, doubt_of_damage
from borzoi.storage.hot_range import HotRange
from borzoi.storage.outcome import Cold, Doubt, Extent, Packed, Slices, nothing_from
from borzoi.storage.published import Published
from borzoi.storage.segment_list import SegmentList
from borzoi.storage.segment_view import MappedFile, SegmentView, Stale, ends_in, missing_forms

FORMS_AT_ONCE: Final = 64
"""Of so many segments is found out at once how they were written."""

NOT_YET: Final = memoryview(b"")
"""Stands for bytes whose place is known, in an answer that is not going to be given."""


class Wanted(NamedTuple):
    """Up to `count_max` messages from an offset on, raised to the oldest there is.

    At least one if there is any, even if it is larger than both bounds. `copied_max` bounds a
    read that touches segments whose messages are sent from memory.
    """

    first_offset: int
    count_max: int
    bytes_max: int
    copied_max: int


class Run(NamedTuple):
    """Consecutive messages of one segment, by its index: where they lie in the log."""

    first_offset: int
    message_count: int
    start: int
    end: int


class RangeRead:
    """One read in a published state. Without `may_wait` it neither loads nor waits for a disk."""

    __slots__ = ("_checks_all", "_doubts", "_has_key", "_list", "_may_wait", "_published")

    def __init__(
        self,
        segments: SegmentList,
        doubts: Doubts,
        published: Published,
        *,
        may_wait: bool,
        checks_all: bool,
        has_key: bool,
    ) -> None:
        self._list = segments
        self._doubts = doubts
        self._published = published
        self._may_wait = may_wait
        self._checks_all = checks_all
        self._has_key = has_key

    def measure(self, wanted: Wanted, *, for_commit: bool) -> Extent | None:
        """Returns what `read` would return, by the index alone; None if that needs the bytes.

        For messages that this run has written or verified. Encrypted and compressed ones may yet
        prove damaged: they are not measured for a commit, which would skip them.
        """
        views = self._list.as_published(self._published)
        first_offset = max(wanted.first_offset, views[0].first_offset)
        if self._checks_all or first_offset < self._published.trusted_from:
            return None
        number = bisect_right(views, first_offset, key=lambda view: view.first_offset) - 1
        if self._missing_forms(views[number:]) or first_offset >= views[number].end_offset:
            return None
        count, bytes_max = wanted.count_max, wanted.bytes_max
        offset = first_offset
        size = 0
        for segment in views[number:]:
            if size and segment.first_offset != offset:
                break
            if segment.is_copied:
                if for_commit:
                    return None
                bytes_max = min(bytes_max, wanted.copied_max)
            if segment.must_verify:
                return None
            run = _run_of(segment, offset, count, bytes_max - size, is_first=size == 0)
            if isinstance(segment.log, MappedFile) and not _is_there(segment, run):
                return None
            offset += run.message_count
            size += run.end - run.start
            count -= run.message_count
            if count == 0 or offset < segment.end_offset or size >= bytes_max:
                break
        return Extent(first_offset, offset - first_offset)

    def read(self, wanted: Wanted) -> Slices | Cold | Packed | Encrypted | Doubt:
        """The messages, or what has to happen first.

        Ends early before a damaged message; Doubt if that is the first one wanted.
        """
        views = self._list.as_published(self._published)
        first_offset = max(wanted.first_offset, views[0].first_offset)
        number = bisect_right(views, first_offset, key=lambda view: view.first_offset) - 1
        if not self._may_wait and (forms := self._missing_forms(views[number:])):
            return Packed(forms)
        while first_offset >= views[number].end_offset:
            doubt = self._doubts.of_shortness(views[number], first_offset)
            if doubt is not None:
                return doubt
            # Recovery found no more messages here: go on where there are some again.
            number += 1
            if number == len(views):
                return nothing_from(first_offset)
            first_offset = views[number].first_offset
        return self._read_from(views[number:], first_offset, wanted)

    def _read_from(
        self, views: list[SegmentView], first_offset: int, wanted: Wanted
    ) -> Slices | Cold | Packed | Encrypted | Doubt:
        found: list[memoryview] = []
        stored: list[tuple[SegmentView, Slices]] = []
        missing: list[MissingBlocks] = []
        count, bytes_max = wanted.count_max, wanted.bytes_max
        offset = first_offset
        size = 0
        for segment in views:
            if found and segment.first_offset != offset:
                break
            if segment.is_copied:
                bytes_max = min(bytes_max, wanted.copied_max)
            run = _run_of(segment, offset, count, bytes_max - size, is_first=not found)
            slices = self._slices(segment, run, missing, is_first=not found)
            if not isinstance(slices, Slices):
                return slices
            found += slices.views
            if self._has_key and slices.message_count:
                stored.append((segment, slices))
            offset += slices.message_count
            size += slices.size
            count -= slices.message_count
            if count == 0 or offset < segment.end_offset or size >= bytes_max:
                if len(found) == 1 and first_offset >= segment.first_offset:
                    self._note_hot(segment, first_offset)
                break
        if missing:
            return Packed(missing)
        if any(segment.cipher for segment, _ in stored):
            return self._encrypted(stored)
        return Slices(found, offset - first_offset, first_offset, size)

    def _missing_forms(self, views: list[SegmentView]) -> list[MissingBlocks]:
        """Where something may be encrypted: what the indexes of compressed segments go by."""
        return missing_forms(views[:FORMS_AT_ONCE]) if self._has_key else []

    def _note_hot(self, segment: SegmentView, first_offset: int) -> None:
        """Remember the place of a read that lies in one segment: the next one is near it."""
        log = segment.log
        if isinstance(log, MappedFile) and self._list.may_hold and not segment.is_copied:
            number = first_offset - segment.first_offset
            start = segment.start_of(number)
            self._list.hot = HotRange(segment, log, number, start, self._published)

    def _slices(  # noqa: C901, PLR0911 - one case for each way in which a read can end
        self, segment: SegmentView, run: Run, missing: list[MissingBlocks], *, is_first: bool
    ) -> Slices | Cold | Doubt:
        """The bytes of a run, or of its first messages. Adds to `missing` what is not loaded."""
        offset, count, start, end = run
        if count == 0:
            return nothing_from(offset)
        log = segment.log
        if isinstance(log, CompressedFile) and not self._may_wait:
            blocks = log.missing(start, end)
            if blocks is not None:
                # Look on: what else is missing is best loaded at the same time.
                missing.append(blocks)
                return Slices([NOT_YET], count, offset, end - start)
        number = offset - segment.first_offset
        if count > 1 and not segment.has_bytes(start, end):
            # A wrong entry somewhere in the index. Those before it can still be read, singly.
            count, end = 1, segment.end_of(number)
        if not segment.has_bytes(start, end):
            return self._damaged(segment, offset, is_first)
        if isinstance(log, CompressedFile):
            views, sound_end = log.sound_views(start, end)
            if sound_end < end:
                # A damaged block: messages before it can still be read.
                count = _count_within(segment, number, count, sound_end)
                if count == 0:
                    return self._damaged(segment, offset, is_first)
                end = segment.end_of(number + count - 1)
                views = _first_bytes(views, end - start)
        else:
            if not self._may_wait and not self._is_recent(segment, start):
                cold = log.cold_range(start, end)
                if cold is not None:
                    return cold
            views = log.views(start, end)
        slices = Slices(views, count, offset, end - start)
        # What is encrypted is verified when it is decrypted.
        if (self._has_key and segment.cipher is not None) or (
            self._is_trusted(offset, offset + count) and not segment.must_verify
        ):
            return slices
        return self._verified(segment, slices, is_first)

    def _encrypted(self, stored: list[tuple[SegmentView, Slices]]) -> Encrypted | Cold:
        runs: list[StoredRun] = []
        for segment, slices in stored:
            run = self._stored_run(segment, slices)
            if isinstance(run, Cold):
                return run
            runs.append(run)
        return Encrypted(runs)

    def _stored_run(self, segment: SegmentView, run: Slices) -> StoredRun | Cold:
        """What has to be decrypted for a run: all of the seals that it touches."""
        found = StoredRun(
            segment.first_offset,
            segment.log.path,
            segment.cipher,
            run.views,
            run.first_offset,
            run.message_count,
            run.size,
        )
        log = segment.log
        if found.cipher is None or not isinstance(log, MappedFile):
            return found
        number = run.first_offset - segment.first_offset
        last = number + run.message_count - 1
        first, end_number = segment.seal_around(number)[0], segment.seal_around(last)[1]
        if (first, end_number) == (number, last + 1):
            return found
        start, end = segment.start_of(first), segment.end_of(end_number - 1)
        if not segment.has_bytes(start, end):
            # A wrong entry in the index; the seal does not open, and that is said.
            return found
        if not self._may_wait and not self._is_recent(segment, start):
            cold = log.cold_range(start, end)
            if cold is not None:
                return cold
        return found._replace(views=log.views(start, end), skipped=number - first)

    def _is_trusted(self, start: int, end: int) -> bool:
        if self._checks_all:
            return False
        return start >= self._published.trusted_from or self._list.verified.covers(start, end)

    def _is_recent(self, segment: SegmentView, start: int) -> bool:
        """Whether these bytes were written by this run, not long ago."""
        published = self._published
        return (
            segment.first_offset == published.active_segment
            and segment.first_offset >= published.trusted_from
            and start >= published.end_position - self._list.recent_size
        )

    def _verified(self, segment: SegmentView, run: Slices, is_first: bool) -> Slices | Doubt:
        """The run up to the first message in it that is not sound."""
        whole = run.views[0] if len(run.views) == 1 else memoryview(b"".join(run.views))
        first = run.first_offset
        number = first - segment.first_offset
        start = segment.start_of(number)
        found = scan_log(whole, first, segment_first_offset=segment.first_offset, position=start)
        if found.message_count == 0:
            return self._damaged(segment, first, is_first)
        if segment.ends(number, found.message_count) == ends_in(found.index_entries):
            self._list.verified.add(first, first + found.message_count)
        elif not self._doubts.is_accepted(segment):
            return self._damaged(segment, first, is_first)
        # If the owner cannot help, sound messages between wrong entries of the index are served,
        # but not remembered: the next read may begin inside, where the index leads astray.
        if (found.message_count, found.valid_size) == (run.message_count, run.size):
            return run
        views = _first_bytes(run.views, found.valid_size)
        return Slices(views, found.message_count, first, found.valid_size)

    def _damaged(self, segment: SegmentView, offset: int, is_first: bool) -> Slices | Doubt:
        self._list.confirm_birth(self._published)
        if segment.index.was_replaced():
            raise Stale(f"{segment.index.path} was repaired")
        return doubt_of_damage(segment, offset) if is_first else nothing_from(offset)


def _run_of(
    segment: SegmentView, offset: int, count: int, bytes_max: int, *, is_first: bool
) -> Run:
    """Messages of one segment. None of them if the first does not fit behind others."""
    number = offset - segment.first_offset
    count = min(count, segment.message_count - number)
    if count == 0:
        return Run(offset, 0, 0, 0)
    start = segment.start_of(number)
    end = segment.end_of(number + count - 1)
    if end - start > bytes_max:
        count = _count_within(segment, number, count, start + bytes_max)
        if count == 0 and not is_first:
            return Run(offset, 0, 0, 0)
        count = max(count, 1)
        end = segment.end_of(number + count - 1)
    return Run(offset, count, start, end)


def _is_there(segment: SegmentView, run: Run) -> bool:
    """False if a wrong entry of the index made the place of a run up."""
    return run.message_count == 0 or segment.has_bytes(run.start, run.end)


def _count_within(segment: SegmentView, number: int, count: int, end: int) -> int:
    """How many of `count` messages end at a position of the log or before it."""
    return bisect_right(range(count), end, key=lambda each: segment.end_of(number + each))


def _first_bytes(views: list[memoryview], size: int) -> list[memoryview]:
    found = []
    for view in views:
        if size <= 0:
            break
        found.append(view[:size])
        size -= len(view)
    return found
