"""Reading messages of a partition, in any process, straight from mapped files.

Knows only what the owner has published and opens files read-only. By offset is arithmetic: the
index has one entry per message. By time is a binary search. Returned views are slices of the
map; they stay valid whatever happens to the files, purge included.

The owner may roll, delete and purge at any moment. The directory of an old life has left by the
time that anything of a new one is published; so files that were found *before* the birth expected
was read are the right ones. That is confirmed once for each file found, before anything is
returned.

One thread of control uses a reader.
"""

import os
import weakref
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from borzoi.protocol.batch import MESSAGE_HEADER_SIZE, scan_log
from borzoi.protocol.errors import BrokerError, CannotReadMessage, InvalidMessageChecksum
from borzoi.storage.birth import BirthDamaged, read_birth
from borzoi.storage.compressed_file import CompressedFile, MissingBlocks, Replaced
from borzoi.storage.copy_memory import COPIED_SIZE_MAX, CopyMemory
from borzoi.storage.decryption import (
    INLINE_SIZE_MAX,
    Decryption,
    Plain,
    StoredRun,
)
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.hot_range import HotRange
from borzoi.storage.index_windows import IndexCaching, IndexWindows
from borzoi.storage.layout import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    is_segment_name,
    segment_codecs,
)
from borzoi.storage.mapped import WindowCache
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.published import Published
from borzoi.storage.segment_view import (
    ColdRange,
    MappedFile,
    ReadOnlyFiles,
    SegmentView,
    Stale,
    ends_in,
)
from borzoi.storage.verified import VerifiedOffsets

T = TypeVar("T")


# What was written lately is in memory: asking the kernel about it is not worth a call.
RECENT_SIZE: Final = 64 * 1024 * 1024


# The owner may delete segments between two looks at the directory, but not all the time.
TRIES_MAX: Final = 4


ACCEPTED_MAX: Final = 1024
"""Of so many segments a reader remembers that their owner has looked at their indexes."""


FORMS_AT_ONCE: Final = 64
"""Of so many segments is found out at once how they were written."""

NOT_YET: Final = memoryview(b"")
"""Stands for bytes whose place is known, in an answer that is not going to be given."""


class Cold(Exception):
    """Bytes that are wanted are not in memory; read them once, then ask again."""

    def __init__(self, cold: ColdRange) -> None:
        super().__init__(f"{cold.path}: bytes {cold.start} to {cold.end}")
        self.range = cold


class Packed(Exception):
    """Bytes that are wanted lie in compressed blocks; load them, then ask again."""

    def __init__(self, missing: list[MissingBlocks]) -> None:
        super().__init__(", ".join(one.path for one in missing))
        self.missing = missing
        self.size_max = sum(one.size_max for one in missing)


class Slices(NamedTuple):
    """Messages as they lie in the files: consecutive offsets, in a few contiguous runs."""

    views: list[memoryview]
    message_count: int
    first_offset: int
    size: int
    stored: tuple[StoredRun, ...] = ()  # while some of it is still encrypted


class Encrypted(Exception):
    """What is wanted has to be decrypted, and that takes time or memory."""

    def __init__(self, work: Decryption) -> None:
        super().__init__(f"{work.size} bytes are encrypted")
        self.work = work


class PartitionReader:
    """Reads one partition directory."""

    def __init__(
        self,
        directory: str,
        windows: WindowCache,
        files: Files,
        *,
        validate_checksum: bool = False,
        newest: Callable[[], Published] | None = None,
        index_windows: IndexWindows | None = None,
        cipher: PartitionCipher | None = None,
        blocks: PlainBlocks | None = None,
    ) -> None:
        """`newest` tells what the owner has published by now."""
        self._directory = directory
        self._newest = newest
        self._files = files
        self._index_windows = index_windows or IndexWindows(IndexCaching.OPEN_SEGMENT, windows)
        self._blocks = blocks or PlainBlocks(CopyMemory(COPIED_SIZE_MAX))
        self._access = ReadOnlyFiles(files, windows, self._index_windows, self._blocks, cipher)
        self._cipher = cipher
        self._memory = self._blocks.memory
        # What was decrypted last, as long as somebody else has it.
        self._plain: tuple[int, int, weakref.ref[memoryview]] | None = None
        self._validate_checksum = validate_checksum
        self._known: Published | None = None
        self._listed_birth = 0
        self._segments: list[SegmentView] = []
        self._verified = VerifiedOffsets()
        self._may_wait = True
        self._whole = False
        self._missing: list[MissingBlocks] = []
        self._hot: HotRange | None = None
        self.reads_count = 0
        """Reads that have returned something."""
        self.cold_count = 0
        """Of these, those that had to wait until somebody fetched their bytes; he counts."""
        # The segment whose index may be to blame for the error raised last: its owner can tell.
        self.doubted: int | None = None
        self._accepted: set[int] = set()

    def read(
        self,
        published: Published,
        first_offset: int,
        count: int,
        bytes_max: int,
        *,
        may_wait: bool = True,
        whole: bool = False,
    ) -> Slices:
        """Up to `count` messages from `first_offset` on, raised to the oldest there is.

        At least one if there is any, even if it is larger than `bytes_max`. Ends early before
        a damaged message; InvalidMessageChecksum if that is the first one wanted. Unless it
        `may_wait` for the disk, it raises Cold or Packed for bytes that are not in memory, and
        Encrypted for more than a few that have to be decrypted.

        `whole`: so many messages were promised already, perhaps when they lay in plain files;
        the bound on what is copied for one read does not count.
        """
        nothing = Slices([], 0, first_offset, 0)
        if count <= 0 or first_offset >= published.next_offset:
            return nothing
        following = self.read_on(published, first_offset, count, bytes_max)
        if following is not None:
            found, view = following
            return Slices([view], found, first_offset, view.nbytes)
        if self._plain is not None and (kept := self._decrypted_before(first_offset, count)):
            return kept
        self._may_wait = may_wait
        self._whole = whole
        slices = self._attempt(
            published, lambda now: self._read(now, first_offset, count, bytes_max), nothing
        )
        self.reads_count += 1
        return self._decrypt(slices, may_wait) if slices.stored else slices

    def find_timestamp(self, published: Published, timestamp: int, *, may_wait: bool = True) -> int:
        """The first offset whose time is not before `timestamp`, next_offset if there is none.

        Unless it `may_wait`, it raises Packed for blocks that are not in memory.
        """
        if published.next_offset == published.first_offset:
            return published.next_offset
        self._may_wait = may_wait
        return self._attempt(
            published,
            lambda now: self._find_timestamp(now, timestamp),
            published.next_offset,
        )

    def _attempt(self, published: Published, read: Callable[[Published], T], if_purged: T) -> T:
        """Read; if the files have changed, look at the directory afresh and read once more.

        Segments are deleted after the board has said so: what is missing then is not wanted.
        """
        self.doubted = None
        try:
            return self._try(published, read, if_purged)
        finally:
            self._index_windows.end_read()

    def _try(self, published: Published, read: Callable[[Published], T], if_purged: T) -> T:
        tries_left = TRIES_MAX
        swapped: set[str] = set()
        while True:
            try:
                found = read(published)
                self._confirm_birth(published)
                return found
            except (Stale, Replaced, FileNotFoundError) as error:
                self._known = None
                # It may have been made from files of another life.
                self._hot = None
                log = _missing_log(error)
                if log is not None and log not in swapped:
                    # Compressed meanwhile. Each of many may be, while we read; none of them twice.
                    swapped.add(log)
                else:
                    tries_left -= 1
                if tries_left == 0:
                    if self._birth() != published.birth:
                        break
                    self.doubted = _doubted_by(error)
                    raise CannotReadMessage(f"{self._directory}: {error}") from error
            newest = self._newest() if self._newest is not None else published
            if newest.birth == published.birth:
                published = newest
        return if_purged

    def _confirm_birth(self, published: Published) -> None:
        if self._access.found_unconfirmed:
            if self._birth() != published.birth:
                raise Stale(f"{self._directory} has another birth")
            self._access.found_unconfirmed = False

    def _birth(self) -> int | None:
        try:
            return read_birth(self._directory, self._files)
        except BirthDamaged as error:
            raise CannotReadMessage(str(error)) from error

    def read_on(
        self, published: Published, offset: int, count: int, bytes_max: int
    ) -> tuple[int, memoryview] | None:
        """The usual case: what follows the last read, in the same windows and in memory.

        Message count and bytes; None when it is not that: `read` then finds out what it is.
        """
        hot = self._hot
        if hot is None or self._validate_checksum:
            return None
        place = hot.locate(published, offset, count, bytes_max)
        if place is None:
            return None
        found, start, end = place
        if offset < published.trusted_from and not self._verified.covers(offset, offset + found):
            return None
        if not hot.is_warm(start, end, published.end_position):
            return None
        self.reads_count += 1
        return found, hot.view(start, end)

    def let_go_of_deleted(self) -> None:
        """Unmap segments that the owner has deleted: until then their files take disk space."""
        if self._newest is None or not self._segments:
            return
        newest = self._newest()
        if newest.birth == self._listed_birth:
            self._let_go_below(newest.first_offset)

    def replaced(self, first_offset: int) -> None:
        """The owner has put a compressed file in the place of a segment's log: unmap that."""
        if any(view.first_offset == first_offset for view in self._segments):
            self.let_go()

    def let_go(self) -> None:
        """Unmap everything; the next read starts afresh."""
        self._let_go_below(1 << 64)

    def _let_go_below(self, first_offset: int) -> None:
        self._keep_only([view for view in self._segments if view.first_offset >= first_offset])
        if not self._segments:
            self._known = None

    def _keep_only(self, segments: list[SegmentView]) -> None:
        """Know these segments from now on, and have no other ones mapped."""
        kept = set(map(id, segments))
        for view in self._segments:
            if id(view) not in kept:
                view.let_go()
        self._segments = segments
        hot = self._hot
        if hot is not None and all(view.first_offset != hot.segment for view in segments):
            self._hot = None

    # Which segments there are.

    def _refresh(self, published: Published) -> list[SegmentView]:
        known = self._known
        if (
            known is None
            or known.active_segment != published.active_segment
            or known.first_offset != published.first_offset
            or known.birth != published.birth
            # A worker died: its successor may have replaced indexes.
            or known.trusted_from != published.trusted_from
        ):
            self._list_segments(published)
            self._known = published
        active = self._segments[-1]
        if active.first_offset == published.active_segment:
            active.grow(published.next_offset - published.active_segment, published.end_position)
        return self._segments

    def _list_segments(self, published: Published) -> None:
        known, self._known = self._known, None
        same_life = (
            known is not None
            and known.birth == published.birth
            and known.trusted_from == published.trusted_from
        )
        if not same_life:
            self._verified.clear()
            # It looks into the index as it was.
            self._hot = None
        before = {view.first_offset: view for view in self._segments} if same_life else {}
        names = self._files.listdir(self._directory)
        self._listed_birth = published.birth
        segments = []
        for segment, codec in segment_codecs(names).items():
            # The owner may be ahead of what was published when we looked.
            if published.first_offset <= segment <= published.active_segment:
                view = before.get(segment)
                if view is None or view.codec is not codec:
                    view = SegmentView(self._directory, segment, self._access, codec)
                    if self._hot is not None and self._hot.segment == segment:
                        self._hot = None
                segments.append(view)
        self._keep_only(segments)
        if not segments:
            raise Stale(f"{self._directory} has no segments")
        is_unmade = segments[-1].first_offset != published.active_segment
        missing = published.segment_count - is_unmade - len(segments)
        if (
            missing > 0
            and self._newest is not None
            and self._newest().first_offset == published.first_offset
        ):
            # Not deleted. A listing between two names of a segment, plain and compressed, may
            # have neither.
            raise Stale(f"{self._directory} lacks {missing} segments")
        following = published.active_segment
        for view in reversed(self._segments):
            if view.first_offset != published.active_segment:
                view.seal(following)
            following = view.first_offset
        # An empty active segment need not have been made yet; one with messages must be there.
        if (
            self._segments[-1].first_offset != published.active_segment
            and published.next_offset != published.active_segment
        ):
            raise Stale(f"{self._directory} lacks segment {published.active_segment}")

    # By offset.

    def _read(self, published: Published, wanted: int, count: int, bytes_max: int) -> Slices:
        segments = self._refresh(published)
        first_offset = max(wanted, segments[0].first_offset)
        number = bisect_right(segments, first_offset, key=lambda view: view.first_offset) - 1
        self._need_forms(segments[number : number + FORMS_AT_ONCE])
        while first_offset >= segments[number].end_offset:
            self._doubt_if_short(segments[number], first_offset)
            # Recovery found no more messages here: go on where there are some again.
            number += 1
            if number == len(segments):
                return Slices([], 0, first_offset, 0)
            first_offset = segments[number].first_offset
        views: list[memoryview] = []
        stored: list[StoredRun] = []
        self._missing = []
        offset = first_offset
        size = 0
        for segment in segments[number:]:
            if views and segment.first_offset != offset:
                break
            if not self._whole and segment.is_copied:
                bytes_max = min(bytes_max, self._memory.read_size_max)
            run = self._run(segment, offset, count, bytes_max - size, published, not views)
            views += run.views
            if self._cipher is not None and run.message_count:
                stored.append(_stored_run(segment, run))
            offset += run.message_count
            size += run.size
            count -= run.message_count
            if count == 0 or offset < segment.end_offset or size >= bytes_max:
                log = segment.log
                if (
                    len(views) == 1
                    and first_offset >= segment.first_offset
                    and isinstance(log, MappedFile)
                    and self._index_windows.may_be_held
                    and (self._cipher is None or segment.cipher is None)
                ):
                    within = first_offset - segment.first_offset
                    self._hot = HotRange(segment, log, within, segment.start_of(within), published)
                break
        if self._missing:
            # Not kept here: it holds blocks.
            missing, self._missing = self._missing, []
            raise Packed(missing)
        if not any(run.cipher for run in stored):
            stored = []
        return Slices(views, offset - first_offset, first_offset, size, tuple(stored))

    def _run(
        self,
        segment: SegmentView,
        offset: int,
        count: int,
        bytes_max: int,
        published: Published,
        is_first: bool,
    ) -> Slices:
        """Messages of one segment. None of them if the first does not fit behind others."""
        number = offset - segment.first_offset
        count = min(count, segment.message_count - number)
        if count == 0:
            return Slices([], 0, offset, 0)
        start = segment.start_of(number)
        end = segment.end_of(number + count - 1)
        if end - start > bytes_max:
            count = bisect_right(
                range(count), start + bytes_max, key=lambda each: segment.end_of(number + each)
            )
            if count == 0 and not is_first:
                return Slices([], 0, offset, 0)
            count = max(count, 1)
            end = segment.end_of(number + count - 1)
        log = segment.log
        if isinstance(log, CompressedFile) and not self._may_wait:
            missing = log.missing(start, end)
            if missing is not None:
                # Look on: what else is missing is best loaded at the same time.
                self._missing.append(missing)
                return Slices([NOT_YET], count, offset, end - start)
        if count > 1 and not segment.has_bytes(start, end):
            # A wrong entry somewhere in the index. Those before it can still be read, singly.
            count, end = 1, segment.end_of(number)
        if not segment.has_bytes(start, end):
            return self._damaged(segment, offset, published, is_first)
        if isinstance(log, CompressedFile):
            views, sound_end = log.sound_views(start, end)
            if sound_end < end:
                # A damaged block: messages before it can still be read.
                count = bisect_right(
                    range(count), sound_end, key=lambda each: segment.end_of(number + each)
                )
                if count == 0:
                    return self._damaged(segment, offset, published, is_first)
                end = segment.end_of(number + count - 1)
                views = _first_bytes(views, end - start)
        else:
            if not self._may_wait and not _is_recent(segment, start, published):
                cold = log.cold_range(start, end)
                if cold is not None:
                    raise Cold(cold)
            views = log.views(start, end)
        # What is encrypted is verified when it is decrypted.
        if (self._cipher is not None and segment.cipher is not None) or (
            self._is_trusted(published, offset, offset + count) and not segment.must_verify
        ):
            return Slices(views, count, offset, end - start)
        return self._verify(segment, Slices(views, count, offset, end - start), published, is_first)

    def _need_forms(self, segments: list[SegmentView]) -> None:
        """Where something may be encrypted: what the indexes of compressed segments go by."""
        if self._cipher is None or self._may_wait:
            return
        logs = [view.log for view in segments if isinstance(view.log, CompressedFile)]
        missing = [one for log in logs if (one := log.missing_form()) is not None]
        if missing:
            raise Packed(missing)

    def _is_trusted(self, published: Published, start: int, end: int) -> bool:
        if self._validate_checksum:
            return False
        return start >= published.trusted_from or self._verified.covers(start, end)

    def _verify(
        self, segment: SegmentView, run: Slices, published: Published, is_first: bool
    ) -> Slices:
        """The run up to the first message in it that is not sound."""
        whole = run.views[0] if len(run.views) == 1 else memoryview(b"".join(run.views))
        first = run.first_offset
        number = first - segment.first_offset
        start = segment.start_of(number)
        found = scan_log(whole, first, segment_first_offset=segment.first_offset, position=start)
        if found.message_count == 0:
            return self._damaged(segment, first, published, is_first)
        if segment.ends(number, found.message_count) == ends_in(found.index_entries):
            self._verified.add(first, first + found.message_count)
        elif segment.first_offset not in self._accepted:
            return self._damaged(segment, first, published, is_first)
        # If the owner cannot help, sound messages between wrong entries of the index are served,
        # but not remembered: the next read may begin inside, where the index leads astray.
        if (found.message_count, found.valid_size) == (run.message_count, run.size):
            return run
        views = _first_bytes(run.views, found.valid_size)
        return Slices(views, found.message_count, first, found.valid_size)

    def _damaged(
        self, segment: SegmentView, offset: int, published: Published, is_first: bool
    ) -> Slices:
        self._confirm_birth(published)
        if segment.index.was_replaced():
            raise Stale(f"{segment.index.path} was repaired")
        if is_first:
            self.doubted = segment.first_offset
            raise InvalidMessageChecksum(f"{segment.log.path}: offset {offset} is damaged")
        return Slices([], 0, offset, 0)

    # Encrypted segments.

    def _decrypt(self, found: Slices, may_wait: bool) -> Slices:
        work = Decryption(found.stored)
        if may_wait:
            memory: memoryview | None = self._memory.take_anyway(work.size)
        else:
            memory = self._memory.take(work.size) if work.size <= INLINE_SIZE_MAX else None
        if memory is None:
            raise Encrypted(work)
        return self.decrypted(work, work.run(memory))

    def decrypted(self, work: Decryption, outcome: Plain | BrokerError) -> Slices:
        """What came of the work, as an answer, or raised. In the reader's own thread."""
        if isinstance(outcome, BrokerError):
            # It may be the index that is wrong.
            self.doubted = work.segment
            raise outcome
        view, count = outcome
        first_offset = work.first_offset
        self._plain = first_offset, count, weakref.ref(view)
        return Slices([view], count, first_offset, view.nbytes)

    def _decrypted_before(self, first_offset: int, count: int) -> Slices | None:
        """A poll that its owner decides is read twice: to count the messages, and to send them."""
        assert self._plain is not None
        first, found, kept = self._plain
        view = kept()
        if view is None:
            self._plain = None
        elif (first, found) == (first_offset, count):
            return Slices([view], count, first_offset, view.nbytes)
        return None

    # By time.

    def _find_timestamp(self, published: Published, timestamp: int) -> int:
        segments = [view for view in self._refresh(published) if view.message_count]
        number = bisect_left(
            segments, timestamp, key=lambda view: view.timestamp_of(view.message_count - 1)
        )
        before = segments[number - 1] if number else None
        if number == len(segments):
            if before is not None:
                self._check_time(before, before.message_count - 1, published)
            return published.next_offset
        segment = segments[number]
        found = segment.first_at_or_after(timestamp)
        # Whatever else a damaged index says: if these two are right, so is the answer.
        self._check_time(segment, found, published)
        if found:
            self._check_time(segment, found - 1, published)
        elif before is not None:
            self._check_time(before, before.message_count - 1, published)
        return segment.first_offset + found

    def _check_time(self, segment: SegmentView, number: int, published: Published) -> None:
        offset = segment.first_offset + number
        # What was verified when it was read was not compared with the times in the index.
        if offset >= published.trusted_from:
            return
        self._need_forms([segment])
        if isinstance(segment.log, CompressedFile) and not self._may_wait:
            start = segment.start_of(number)
            missing = segment.log.missing(start, start + MESSAGE_HEADER_SIZE)
            if missing is not None:
                raise Packed([missing])
        if segment.has_time(number):
            return
        if segment.index.was_replaced():
            raise Stale(f"{segment.index.path} was repaired")
        if segment.first_offset not in self._accepted:
            self.doubted = segment.first_offset
            raise InvalidMessageChecksum(f"{segment.index.path}: wrong time at offset {offset}")

    # Doubts.

    def accept(self, segment: int) -> None:
        """The owner has looked at the index of a segment: as it is now, it is."""
        if len(self._accepted) >= ACCEPTED_MAX:
            self._accepted.clear()
        self._accepted.add(segment)
        self._let_go_below(1 << 64)
        self.doubted = None

    def _doubt_if_short(self, segment: SegmentView, offset: int) -> None:
        if segment.lacks(offset) and segment.first_offset not in self._accepted:
            self.doubted = segment.first_offset
            raise CannotReadMessage(f"{segment.index.path} has no entry for offset {offset}")


def _stored_run(segment: SegmentView, run: Slices) -> StoredRun:
    return StoredRun(
        segment.first_offset,
        segment.log.path,
        segment.cipher,
        run.views,
        run.first_offset,
        run.message_count,
    )


def _first_bytes(views: list[memoryview], size: int) -> list[memoryview]:
    found = []
    for view in views:
        if size <= 0:
            break
        found.append(view[:size])
        size -= len(view)
    return found


def _doubted_by(error: Stale | Replaced | FileNotFoundError) -> int | None:
    """The segment whose index is missing or too short, if that is what is wrong."""
    if isinstance(error, Stale):
        return error.segment
    if isinstance(error, Replaced):
        return None
    stem, suffix = os.path.splitext(os.path.basename(error.filename or ""))
    return int(stem) if suffix == INDEX_SUFFIX and is_segment_name(stem) else None


def _missing_log(error: Stale | Replaced | FileNotFoundError) -> str | None:
    """The path of a plain log that is gone, if that is what is wrong."""
    if not isinstance(error, FileNotFoundError):
        return None
    path = str(error.filename or "")
    return path if path.endswith(LOG_SUFFIX) else None


def _is_recent(segment: SegmentView, start: int, published: Published) -> bool:
    """Whether these bytes were written by this run, not long ago."""
    return (
        segment.first_offset == published.active_segment
        and segment.first_offset >= published.trusted_from
        and start >= published.end_position - RECENT_SIZE
    )
