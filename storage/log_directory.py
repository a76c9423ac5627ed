"""The directory of a partition as its owner changes it: segments made, appended to, removed.

One step after the other, OSErrors as they come; what they mean for the log is the log's matter.
The order inside each step is what recovery relies on: a log before its index, the birth before
the first segment, no segment left before the birth changes.
"""

import os

from borzoi.storage.birth import birth_path, write_birth
from borzoi.storage.files import Files
from borzoi.storage.layout import (
    INDEX_SUFFIX,
    LEVELS_ABOVE_PARTITION,
    LOG_SUFFIX,
    OFFSET_DIRECTORIES,
    index_path,
    log_path,
    segment_first_offsets,
)
from borzoi.storage.open_files import OpenFiles
from borzoi.storage.recovery_point import recovery_point_path
from borzoi.storage.segment import LogEnd
from borzoi.storage.staging import StagedPart


class LogDirectory:
    """The files of one partition, in the hands of its owner."""

    def __init__(self, path: str, files: Files, open_files: OpenFiles, *, exists: bool) -> None:
        self.path = path
        self.files = files
        self.open = open_files.scope()
        self.exists = exists
        # Counts the names made: one that appears while a sync runs must not count as synced.
        self.creations = 0
        self._active = -1, "", ""  # names of the segment appended to last: spares making them

    def make(self, birth: int) -> None:
        """Make the directory, unless it is there, and say whose life it holds. Not durable."""
        if self.exists:
            return
        for name in OFFSET_DIRECTORIES.values():
            self.files.makedirs(os.path.join(self.path, name))
        write_birth(self.path, birth, self.files, durable=False)
        self.creations += 1
        self.exists = True

    def make_segment(self, segment: int) -> None:
        """An empty pair of files. Not durable."""
        self.creations += 1
        for path in (log_path(self.path, segment), index_path(self.path, segment)):
            with self.open.use(path, create=True):
                pass

    def append(self, part: StagedPart) -> None:
        """Write a part behind where it starts. With the kernel when it returns."""
        if not part.buffers:
            return
        segment = part.start.segment
        if self._active[0] != segment:
            self._active = segment, log_path(self.path, segment), index_path(self.path, segment)
        _, log, index = self._active
        # The log first: an entry of the index always stands for bytes that are there.
        with self.open.use(log) as fd:
            self.files.write_all(fd, part.buffers, part.start.position)
        with self.open.use(index) as fd:
            self.files.write_all(fd, [part.index_entries], part.start.index_size)

    def cut(self, end: LogEnd) -> None:
        """Remove what lies behind the end of the active segment."""
        with self.open.use(log_path(self.path, end.segment)) as fd:
            self.files.ftruncate(fd, end.position)
        with self.open.use(index_path(self.path, end.segment)) as fd:
            self.files.ftruncate(fd, end.index_size)

    def unlink_segment(self, segment: int) -> None:
        # The log goes first: an index alone is known to be a leftover.
        for path in (log_path(self.path, segment), index_path(self.path, segment)):
            self.open.forget(path)
            self.files.unlink_if_there(path)

    def begin_life(self, birth: int) -> None:
        """Remove everything and begin with an empty segment 0. Durable when it returns.

        Until the last old file is durably gone the directory carries the old birth, and a
        start after a crash removes it as a whole. New files are made under the new birth only.
        """
        self._remove_content()
        write_birth(self.path, birth, self.files, durable=True)
        self.make_segment(0)
        for directory in self.directories(all_above=True):
            self.files.fsync_directory(directory)
        self.exists = True

    def birth_file(self) -> str:
        return birth_path(self.path)

    def directories(self, *, all_above: bool) -> list[str]:
        """Where names were made. Those above may be another partition's work, and not synced."""
        found = [self.path]
        if all_above:
            found.append(os.path.join(self.path, "offsets"))
            found += [os.path.join(self.path, name) for name in OFFSET_DIRECTORIES.values()]
            above = self.path
            for _ in range(LEVELS_ABOVE_PARTITION):
                above = os.path.dirname(above)
                found.append(above)
        return found

    def _remove_content(self) -> None:
        self.files.unlink_if_there(recovery_point_path(self.path))
        names = self.files.listdir(self.path)
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
            for segment in segment_first_offsets(names, suffix):
                self.unlink_segment(segment)
        self.files.fsync_directory(self.path)
        for name in OFFSET_DIRECTORIES.values():
            offsets = os.path.join(self.path, name)
            self.files.makedirs(offsets)
            for file_name in self.files.listdir(offsets):
                self.files.unlink_if_there(os.path.join(offsets, file_name))
            self.files.fsync_directory(offsets)
