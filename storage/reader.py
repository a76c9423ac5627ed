"""Reading messages of a partition, in any process, straight from mapped files.

Knows only what the owner has published and opens files read-only. Returned views are slices of
the map; they stay valid whatever happens to the files, purge included.

    segment_list.py   which segments there are, and what is remembered of their bytes
    hot_range.py      the place read last: most reads go on there
    range_read.py     by offset, from segment to segment
    time_search.py    by time
    doubts.py         what an index may be to blame for

One thread of control uses a reader.
"""

from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from borzoi.protocol.errors import BrokerError, CannotReadFile, CannotReadMessage
from borzoi.storage.compressed_file import Replaced
from borzoi.storage.copy_memory import COPIED_SIZE_MAX, CopyMemory
from borzoi.storage.decryption import INLINE_SIZE_MAX, Encrypted
from borzoi.storage.doubts import Doubts, suspected_by, swapped_file
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.index_windows import IndexCaching, IndexWindows
from borzoi.storage.mapped import WindowCache
from borzoi.storage.outcome import Cold, Doubt, Extent, Packed, Slices, nothing_from
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.published import Published
from borzoi.storage.range_read import RangeRead, Wanted
from borzoi.storage.residency import AROUND
from borzoi.storage.segment_list import RECENT_SIZE, SegmentList
from borzoi.storage.segment_view import ReadOnlyFiles, Stale
from borzoi.storage.time_search import TimeSearch

T = TypeVar("T")

Outcome: TypeAlias = Slices | Cold | Packed | Encrypted | Doubt

# The owner may delete segments between two looks at the directory, but not all the time.
TRIES_MAX: Final = 4


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
        recent_size: int = RECENT_SIZE,
    ) -> None:
        """`newest` returns what the owner has published by now."""
        self._index_windows = index_windows or IndexWindows(IndexCaching.OPEN_SEGMENT, windows)
        blocks = blocks or PlainBlocks(CopyMemory(COPIED_SIZE_MAX))
        access = ReadOnlyFiles(files, windows, self._index_windows, blocks, cipher)
        self._residency = windows.residency
        self._segments = SegmentList(directory, files, access, newest, recent_size)
        self._doubts = Doubts()
        self._memory = blocks.memory
        self._has_key = cipher is not None
        self._validate_checksum = validate_checksum
        self.reads_count = 0
        """Reads that have returned something."""
        self.cold_count = 0
        """Of these, those that had to wait until their bytes were fetched."""

    def read_on(
        self, published: Published, offset: int, count: int, bytes_max: int
    ) -> tuple[int, memoryview] | None:
        """The usual case: what follows the last read, in the same windows and in memory.

        Message count and bytes; None when it is not that: `attempt` then finds out what it is.
        """
        segments = self._segments
        hot = segments.hot
        if hot is None or self._validate_checksum:
            return None
        try:
            place = hot.locate(published, offset, count, bytes_max)
            if place is None:
                return None
            found, start, end = place
            last = offset + found
            if offset < published.trusted_from and not segments.verified.covers(offset, last):
                return None
            if not hot.is_warm(start, end, published.end_position):
                return None
        except OSError:
            # `attempt` meets it as well, and says what it is.
            return None
        self.reads_count += 1
        residency = self._residency
        residency.left -= end - start + AROUND
        if residency.left < 0:
            residency.look()
        return found, hot.view(start, end)

    def attempt(
        self,
        published: Published,
        first_offset: int,
        count: int,
        bytes_max: int,
        *,
        may_wait: bool,
        copied_max: int | None = None,
    ) -> Outcome:
        """Messages from `first_offset` on (range_read.Wanted), or what has to happen first.

        A read that `may_wait` fetches, loads and decrypts by itself: Slices or a Doubt.
        """
        nothing: Outcome = nothing_from(first_offset)
        if count <= 0 or first_offset >= published.next_offset:
            return nothing
        following = self.read_on(published, first_offset, count, bytes_max)
        if following is not None:
            found, view = following
            return Slices([view], found, first_offset, view.nbytes)
        wanted = Wanted(
            first_offset,
            count,
            bytes_max,
            self._memory.read_size_max if copied_max is None else copied_max,
        )
        outcome = self._while_files_change(
            published, lambda now: self._range(now, may_wait).read(wanted), nothing
        )
        if isinstance(outcome, Slices):
            self._count_touched(outcome.size)
            self.reads_count += 1
        elif isinstance(outcome, Encrypted):
            self._count_touched(outcome.size)
            self.reads_count += 1
            return self._decrypt(outcome, may_wait)
        return outcome

    def _count_touched(self, size: int) -> None:
        """As `read_on` does: so many bytes were looked at, or will be."""
        self._residency.left -= size + AROUND
        if self._residency.left < 0:
            self._residency.look()

    def read(self, published: Published, first_offset: int, count: int, bytes_max: int) -> Slices:
        """`attempt`, waiting for the disk; the error of a Doubt is raised."""
        found = self.attempt(published, first_offset, count, bytes_max, may_wait=True)
        if isinstance(found, Doubt):
            raise found.error
        assert isinstance(found, Slices), "what may wait gets its messages"
        return found

    def measure(
        self,
        published: Published,
        first_offset: int,
        count: int,
        bytes_max: int,
        *,
        for_commit: bool = False,
    ) -> Extent | None:
        """What a read returns, by the index alone; None where the bytes have to be looked at.

        `for_commit`: the messages are committed before they are read.
        """
        segments = self._segments
        if count <= 0 or not published.trusted_from <= first_offset < published.next_offset:
            return None
        wanted = Wanted(first_offset, count, bytes_max, self._memory.read_size_max)
        try:
            if segments.hot is not None and not self._validate_checksum:
                place = segments.hot.locate(published, first_offset, count, bytes_max)
                if place is not None:
                    return Extent(first_offset, place[0])
            found = self._while_files_change(
                published,
                lambda now: self._range(now, may_wait=False).measure(wanted, for_commit=for_commit),
                None,
            )
        except (BrokerError, OSError):
            # A read finds the same, and its caller answers it.
            return None
        return None if isinstance(found, Doubt) else found

    def attempt_timestamp(
        self, published: Published, timestamp: int, *, may_wait: bool
    ) -> int | Packed | Doubt:
        """The first offset whose time is not before `timestamp`, next_offset if there is none.

        Packed for blocks that are not in memory, unless it `may_wait`.
        """
        if published.next_offset == published.first_offset:
            return published.next_offset

        def find(now: Published) -> int | Packed | Doubt:
            views = self._segments.as_published(now)
            return TimeSearch(now, self._doubts, may_wait).find(views, timestamp)

        return self._while_files_change(published, find, published.next_offset)

    def find_timestamp(self, published: Published, timestamp: int) -> int:
        """`attempt_timestamp`, waiting for the disk; the error of a Doubt is raised."""
        found = self.attempt_timestamp(published, timestamp, may_wait=True)
        if isinstance(found, Doubt):
            raise found.error
        assert isinstance(found, int), "what may wait gets its answer"
        return found

    def accept(self, segment: int) -> None:
        """The owner has looked at the index of a segment: as it is now, it is."""
        self._doubts.accept(segment)
        self.let_go()

    def let_go_of_deleted(self) -> None:
        """Unmap segments that the owner has deleted: until then their files take disk space."""
        self._segments.let_go_of_deleted()

    def replaced(self, first_offset: int) -> None:
        """The owner has put a compressed file in the place of a segment's log: unmap that."""
        if self._segments.has(first_offset):
            self.let_go()

    def let_go(self) -> None:
        """Unmap everything; the next read starts afresh."""
        self._segments.let_go()

    def _range(self, published: Published, may_wait: bool) -> RangeRead:
        return RangeRead(
            self._segments,
            self._doubts,
            published,
            may_wait=may_wait,
            checks_all=self._validate_checksum,
            has_key=self._has_key,
        )

    def _while_files_change(
        self, published: Published, read: Callable[[Published], T], if_purged: T
    ) -> T | Doubt:
        """Read; if the files have changed, look at the directory afresh and read once more.

        Segments are deleted after the board has said so: what is missing then is not wanted.
        CannotReadFile for every other error of the system.
        """
        try:
            return self._tries(published, read, if_purged)
        except OSError as error:
            # EIO, EMFILE: whatever was half opened is opened again by the next read.
            self._segments.forget()
            raise CannotReadFile(f"{self._segments.directory}: {error}") from error
        finally:
            self._index_windows.end_read()

    def _tries(
        self, published: Published, read: Callable[[Published], T], if_purged: T
    ) -> T | Doubt:
        segments = self._segments
        tries_left = TRIES_MAX
        swapped: set[str] = set()
        while True:
            try:
                found = read(published)
                segments.confirm_birth(published)
                return found
            except (Stale, Replaced, FileNotFoundError) as error:
                segments.forget()
                file = swapped_file(error)
                if file is not None and file not in swapped:
                    # Compressed meanwhile, or encrypted with another key. Each of many may be,
                    # while we read; none of them twice.
                    swapped.add(file)
                else:
                    tries_left -= 1
                if tries_left == 0:
                    if segments.birth() != published.birth:
                        return if_purged
                    failed = CannotReadMessage(f"{segments.directory}: {error}")
                    suspected = suspected_by(error)
                    if suspected is None:
                        raise failed from error
                    return Doubt(suspected, failed)
            newest = segments.newest() if segments.newest is not None else published
            if newest.birth == published.birth:
                published = newest

    def _decrypt(self, found: Encrypted, may_wait: bool) -> Outcome:
        if may_wait:
            memory: memoryview | None = self._memory.take_anyway(found.size)
        else:
            memory = self._memory.take(found.size) if found.size <= INLINE_SIZE_MAX else None
        return found if memory is None else found.decrypt(memory)
