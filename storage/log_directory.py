"""The directory of a partition as its owner changes it: segments made, kept open, removed.

One step after the other, OSErrors as they come; what they mean for the log is the log's matter.
The order inside each step is what recovery relies on: a log before its index, the birth before
the first segment. A directory keeps its birth: a new life gets a directory of its own.
"""

import errno
import logging
import os
from typing import Final

from borzoi.storage.birth import BirthDamaged, birth_path, read_birth, write_birth
from borzoi.storage.files import Files
from borzoi.storage.layout import (
    LEVELS_ABOVE_PARTITION,
    OFFSET_DIRECTORIES,
    OFFSETS_DIRECTORY,
    index_path,
    log_path,
)
from borzoi.storage.open_files import KeptFiles, OpenFiles
from borzoi.storage.segment import LogEnd
from borzoi.storage.segment_form import SegmentForm

LOG: Final = logging.getLogger(__name__)

RESERVED_FROM: Final = 1024 * 1024
"""For a log that is shorter no room is set aside."""

RESERVED_PART: Final = 4
RESERVED_SIZE_MAX: Final = 4 * 1024 * 1024
"""Room for a quarter of what a log has is set aside behind it, and for so many bytes at most."""

NEVER: Final = 1 << 63


class LogDirectory:
    """The files of one partition, in the hands of its owner."""

    def __init__(self, path: str, files: Files, open_files: OpenFiles, *, exists: bool) -> None:
        self.path = path
        self.files = files
        self.open = open_files.scope()
        self.exists = exists
        self._has_offset_directories = True  # if it exists: recovery sees to it
        # Counts the names made: one that appears while a sync runs must not count as synced.
        self.creations = 0
        self.kept_segment = -1
        """The segment appended to last."""
        self.kept: KeptFiles | None = None
        """Its log and index, open as long as other partitions do not need the descriptors."""
        self.reserve_at = 0
        """Where its log has to end for more room to be set aside."""

    def make(self, birth: int, *, for_offsets: bool = True) -> None:
        """Make the directory, unless it is there, and say whose life it holds. Not durable.

        Without those `for_offsets` where only messages will come: the next start makes them.
        """
        if self.exists:
            return
        # Few calls: a stop in mode buffered may have to do this for thousands of partitions.
        if self.files.is_directory(self.path):
            self._refuse_another_life(birth)
        else:
            self.files.makedirs(self.path)
        if for_offsets:
            for directory in self._offset_directories():
                self.files.mkdir(directory)
        self._has_offset_directories = for_offsets
        write_birth(self.path, birth, self.files)
        self.creations += 1
        self.exists = True

    def make_segment(self, segment: int, form: SegmentForm) -> None:
        """A pair of files without messages, of this form. Not durable."""
        self.creations += 1
        with self.open.use(log_path(self.path, segment), create=True) as fd:
            if self.files.size(fd):
                # It was begun in another form, and never got a message.
                self.files.ftruncate(fd, 0)
            if form.header is not None:
                self.files.write_all(fd, (form.header.encode(),), 0)
        with self.open.use(index_path(self.path, segment), create=True):
            pass

    def keep(self, segment: int) -> KeptFiles:
        """Open log and index of a segment for the appends to come."""
        self._let_kept_go()
        paths = log_path(self.path, segment), index_path(self.path, segment)
        self.kept = self.open.keep(paths)
        if segment != self.kept_segment:
            self.reserve_at = RESERVED_FROM
        self.kept_segment = segment
        return self.kept

    def reserve(self, fd: int, start: int, end: int) -> None:
        """Set room aside for a write into the log kept open, and for some of what will follow.

        Writes into such room are cheaper: the file system need not find room for each page.
        """
        self.reserve_at = end + min(end // RESERVED_PART, RESERVED_SIZE_MAX)
        try:
            self.files.reserve(fd, start, self.reserve_at - start)
        except OSError as error:
            # The disk may be full, or the file system cannot: then the write itself will tell.
            LOG.debug("%s: no room is set aside: %s", self.path, error)
            self.reserve_at = NEVER

    def give_back(self, segment: int, size: int) -> None:
        """The log of a segment is complete: what was set aside behind it is free again."""
        if size >= RESERVED_FROM:
            with self.open.use(log_path(self.path, segment)) as fd:
                self.files.ftruncate(fd, size)

    def _let_kept_go(self) -> None:
        if self.kept is not None:
            self.kept.let_go()
            self.kept = None

    def cut(self, end: LogEnd) -> None:
        """Remove what lies behind the end of the active segment."""
        with self.open.use(log_path(self.path, end.segment)) as fd:
            self.files.ftruncate(fd, end.position)
        with self.open.use(index_path(self.path, end.segment)) as fd:
            self.files.ftruncate(fd, end.index_size)

    def let_go(self, segment: int) -> None:
        """Close the files of a segment that is complete."""
        if segment == self.kept_segment:
            self._let_kept_go()
        for path in (log_path(self.path, segment), index_path(self.path, segment)):
            self.open.forget(path)

    def unlink_segment(self, segment: int) -> None:
        """Removes log and index of a segment; fine if one of them is gone already."""
        # The log goes first: an index alone is known to be a leftover.
        self.let_go(segment)
        for path in (log_path(self.path, segment), index_path(self.path, segment)):
            self.files.unlink_if_there(path)

    def retire_file(self, path: str, trash_dir: str, name: str) -> list[str]:
        """Move a file of a segment into another directory; its path there, unless it was gone.

        A rename is quick where unlinking a gigabyte is not. A thread that unlinks there cannot hit
        a file of the same name that a new life of the partition has made here meanwhile.
        """
        target = os.path.join(trash_dir, f"{name}-{os.path.basename(path)}")
        try:
            self.files.rename(path, target)
        except FileNotFoundError:
            return []
        return [target]

    def close(self) -> None:
        """No file is open any more, and none will be."""
        self._let_kept_go()
        self.open.close(self.path)

    def birth_file(self) -> str:
        """Returns the path of the birth file."""
        return birth_path(self.path)

    def directories(self, *, all_above: bool) -> list[str]:
        """Where names were made. Those above may be another partition's work, and not synced."""
        found = [self.path]
        if all_above:
            if self._has_offset_directories:
                found += self._offset_directories()
            above = self.path
            for _ in range(LEVELS_ABOVE_PARTITION):
                above = os.path.dirname(above)
                found.append(above)
        return found

    def _offset_directories(self) -> list[str]:
        names = (OFFSETS_DIRECTORY, *OFFSET_DIRECTORIES.values())
        return [os.path.join(self.path, name) for name in names]

    def _refuse_another_life(self, birth: int) -> None:
        """A failed rename left the old files here: under a new birth they would be served."""
        try:
            found = read_birth(self.path, self.files)
        except BirthDamaged as error:
            raise FileExistsError(errno.EEXIST, str(error), self.path) from error
        if found not in (None, birth):
            raise FileExistsError(errno.EEXIST, f"holds birth {found}, not {birth}", self.path)
