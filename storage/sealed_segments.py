"""The sealed segments of a log, in the hands of its owner: deleted, compressed, given an index.

Owns the list of them, and their files from the moment that they are sealed. Nothing is appended
here; log.py adds a segment when it has written its last message. One thread of control calls
everything, but `check_index` may be called by a thread.

Always: first offsets ascend, and size_bytes is the sum of the message bytes.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from borzoi.protocol.errors import (
    CannotCreateSegmentLogFile,
    CannotDeleteFile,
    CannotReadMessage,
    CannotSaveIndexToSegment,
    SegmentNotFound,
)
from borzoi.storage.codecs import Codec
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.index_check import CheckedIndex, check_index
from borzoi.storage.layout import compressing_path, index_path, log_path, stored_log_path
from borzoi.storage.log_directory import LogDirectory
from borzoi.storage.log_sync import LogSync
from borzoi.storage.published import Published
from borzoi.storage.recovered import Recovered
from borzoi.storage.segment import Compressed, LogEnd, SealedSegment
from borzoi.storage.segment_form import SegmentForm


class Retired(NamedTuple):
    """Where the files of deleted segments lie now, and why not all of them are there."""

    paths: list[str]
    error: CannotDeleteFile | None


class SealedSegments:
    """All segments of a log but the active one, oldest first."""

    def __init__(
        self,
        place: LogDirectory,
        sync: LogSync,
        recovery: Recovered,
        cipher: PartitionCipher | None,
        active: Callable[[], LogEnd],
        make_active_files: Callable[[], None],
    ) -> None:
        """`active` returns the end of the active segment; `make_active_files` makes it exist."""
        self._directory = place.path
        self._place = place
        self._sync = sync
        self._cipher = cipher
        self._active = active
        self._make_active_files = make_active_files
        self.all = recovery.sealed
        """Oldest first. Only this class changes it."""
        self.size_bytes = sum(segment.size_bytes for segment in self.all)
        self.trusted_from = recovery.trusted_from
        """From this offset on, this run has written or verified every byte."""
        # Compressed files beside plain logs that still count.
        self._placed: dict[int, list[str]] = {}

    def add(self, segment: SealedSegment) -> None:
        """The active segment is complete."""
        self.all.append(segment)
        self.size_bytes += segment.size_bytes
        self._sync.unsynced.append(segment.first_offset)

    @property
    def first_offset(self) -> int:
        """The oldest offset of the log."""
        return self.all[0].first_offset if self.all else self._active().segment

    def outlive(self, end: LogEnd) -> None:
        """The log is closed and ends there: do not refer to it any more, so that it can go."""
        self._active = lambda: end
        self._make_active_files = lambda: None

    # Deleting.

    def without_oldest(self, published: Published, count: int) -> Published:
        """What there is up to the end of `published` once the `count` oldest segments are gone.

        With 0: what there is now, which is less than it says if segments were deleted since.
        """
        if count == 0 and published.first_offset == self.first_offset:
            return published
        left = [one for one in self.all[count:] if one.first_offset < published.active_segment]
        active = published.active_segment
        form = self._active().form
        if active != self._active().segment:
            form = next((one.form for one in self.all if one.first_offset == active), form)
        active_bytes = form.message_bytes(published.end_position, published.next_offset - active)
        return published._replace(
            first_offset=left[0].first_offset if left else active,
            size_bytes=sum(one.size_bytes for one in left) + active_bytes,
            segment_count=len(left) + 1,
        )

    def deletable(self, published: Published) -> tuple[SealedSegment, ...]:
        """The segments that may be deleted, oldest first: seen by readers, and synced.

        Synced, because then the names of those behind them are, too: what is deleted last must
        not be what a power cut brings back alone.
        """
        first_unsynced = min(self._sync.unsynced, default=self._active().segment)
        end = min(first_unsynced, published.active_segment)
        return tuple(one for one in self.all if one.first_offset < end)

    def retire_oldest(self, count: int, trash_dir: str, name: str) -> Retired:
        """Move the `count` oldest segments, which are deletable, to the trash. Not durable.

        Two renames each, so it waits for nothing; unlinking the files does. Publish
        `without_oldest` before: readers that look for the files in vain then know why.
        """
        moved: list[str] = []
        try:
            # The name of the active one tells a later start how far the offsets have got.
            self._make_active_files()
            self._place.files.makedirs(trash_dir)
            for _ in range(count):
                oldest = self.all[0]
                logs = [
                    oldest.log_path(self._directory),
                    *self._placed.pop(oldest.first_offset, []),
                ]
                index = index_path(self._directory, oldest.first_offset)
                self._place.let_go(oldest.first_offset)
                # The log goes first: an index alone is known to be a leftover.
                for path in logs:
                    moved += self._place.retire_file(path, trash_dir, name)
                del self.all[0]
                self.size_bytes -= oldest.size_bytes
                moved += self._place.retire_file(index, trash_dir, name)
        except (OSError, CannotCreateSegmentLogFile) as error:
            return Retired(moved, CannotDeleteFile(f"{self._directory}: {error}"))
        return Retired(moved, None)

    # Compressing. Steps: compressor.py makes a temporary, place_compressed() gives it its name,
    # a sync of the directory makes that durable, and only then retire_plain() removes the other.
    # While both are there the plain one counts.

    def compressible(self, published: Published) -> list[SealedSegment]:
        """The segments that may be compressed, oldest first: seen by readers, synced."""
        return [
            one for one in self.deletable(published) if one.compressed is None and one.message_count
        ]

    def place_compressed(self, first_offset: int, codec: Codec) -> bool:
        """Give the temporary its name; False if the segment is gone meanwhile. Not durable."""
        temporary = compressing_path(self._directory, first_offset, codec)
        if self._number(first_offset) is None:
            self._place.files.unlink_if_there(temporary)
            return False
        path = stored_log_path(self._directory, first_offset, codec)
        self._place.files.rename(temporary, path)
        # More than one: a try before this one failed later on, with another codec.
        placed = self._placed.setdefault(first_offset, [])
        if path not in placed:
            placed.append(path)
        return True

    def retire_plain(
        self,
        first_offset: int,
        compressed: Compressed,
        form: SegmentForm,
        trash_dir: str,
        name: str,
    ) -> list[str]:
        """The compressed file counts from now on; where the plain one lies now, to be unlinked.

        `form` is that of the compressed file, which has a key of its own.

        The name of the compressed one must be durable. Readers that miss the plain one look again.
        """
        number = self._number(first_offset)
        if number is None:
            return []
        self._place.let_go(first_offset)
        self._place.files.makedirs(trash_dir)
        kept = stored_log_path(self._directory, first_offset, compressed.codec)
        moved: list[str] = []
        for path in self._placed[first_offset]:
            if path != kept:
                moved += self._place.retire_file(path, trash_dir, name)
        # Last: until then the plain one counts.
        moved += self._place.retire_file(log_path(self._directory, first_offset), trash_dir, name)
        self.all[number] = self.all[number]._replace(compressed=compressed, form=form)
        del self._placed[first_offset]
        return moved

    # Encrypting with another key: reencryptor.py makes a temporary, which takes the place of the
    # file in one step. Whichever of the two a power cut leaves holds the same messages.

    def outdated(self, published: Published) -> list[SealedSegment]:
        """The segments whose key was exchanged, oldest first: seen by readers, synced."""
        cipher = self._cipher
        if cipher is None:
            return []
        return [
            one
            for one in self.deletable(published)
            if one.message_count and cipher.is_outdated(one.form)
        ]

    @property
    def outdated_count(self) -> int:
        """How many segments were encrypted with a key that was exchanged."""
        cipher = self._cipher
        if cipher is None:
            return 0
        return sum(1 for one in self.all if one.message_count and cipher.is_outdated(one.form))

    def place_reencrypted(self, segment: SealedSegment, form: SegmentForm) -> bool:
        """Give the temporary the name of the file; False if that is another one by now.

        Not durable. Readers that have the old file open go on with it. The caller has it open, too:
        its bytes are freed by a close in a thread, not by this rename.
        """
        first = segment.first_offset
        temporary = compressing_path(self._directory, first, segment.codec)
        number = self._number(first)
        if number is None or self.all[number] != segment:
            self._place.files.unlink_if_there(temporary)
            return False
        self._place.let_go(first)
        self._place.files.rename(temporary, segment.log_path(self._directory))
        self.all[number] = segment._replace(form=form)
        return True

    def _number(self, first_offset: int) -> int | None:
        number = bisect_left(self.all, first_offset, key=lambda one: one.first_offset)
        if number < len(self.all) and self.all[number].first_offset == first_offset:
            return number
        return None

    # Indexes.

    def check_index(self, first_offset: int) -> CheckedIndex:
        """What the index of a sealed segment should be; for a thread, it reads all of the segment.

        For readers that met a message that does not verify: it may be the index that is wrong.
        The active segment has to be sealed first: roll().
        """
        # A copy: the owner may delete some meanwhile.
        sealed = tuple(self.all)
        first_offsets = [segment.first_offset for segment in sealed]
        if first_offset not in first_offsets:
            raise SegmentNotFound(f"{self._directory} has no sealed segment {first_offset}")
        following = [*first_offsets, self._active().segment][first_offsets.index(first_offset) + 1]
        try:
            return check_index(
                self._directory,
                first_offset,
                following - first_offset,
                self._place.files,
                sealed[first_offsets.index(first_offset)].codec,
                self._cipher,
            )
        except OSError as error:
            raise CannotReadMessage(f"{self._directory}: {error}") from error

    def replace_index(self, first_offset: int, entries: bytearray) -> bool:
        """Put an index in the place of a wrong one; False if its segment is gone meanwhile.

        Beside it and then renamed: readers have the old one mapped. Not durable: it can be made
        again. Publish `written` afterwards, it makes readers map again and verify what they read.
        """
        number = self._number(first_offset)
        if number is None:
            return False
        segment = self.all[number]
        path = index_path(self._directory, first_offset)
        self._place.let_go(first_offset)
        try:
            self._place.files.replace(path, entries, durable=False)
        except OSError as error:
            raise CannotSaveIndexToSegment(f"{path}: {error}") from error
        self.trusted_from = max(self.trusted_from, segment.end_offset)
        return True
