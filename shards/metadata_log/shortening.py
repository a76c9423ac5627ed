"""Shortening the metadata log behind a snapshot, so that it does not grow for ever.

The log is replaced as a whole: at the start of the broker, before any worker has it open, and while
it runs, by shard 0 between two commands (docs/adr/0001).

    state.messages            entries  1 .. 23,456       before
    state.snapshot.previous   what     1 .. 10,000  come to
    state.snapshot            what     1 .. 20,000  come to
    state.messages            entries  10,001 .. 23,456  after

The entries between the two snapshots stay: with either snapshot alone everything is there. The
new file is complete and on the disk before it gets its name, so after a crash there is the old
log or the new one, and both fit both snapshots.
"""

import os
from typing import Final, NamedTuple

from borzoi.shards.metadata_log.snapshot import (
    Snapshot,
    SnapshotDamaged,
    previous_path,
    read_index,
    read_snapshot,
)
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import READ_SIZE, TEMPORARY_SUFFIX, Files, Path
from borzoi.storage.wal import EntryPlace, WalDamaged, read_entries, start_of

WORTH_SHARE: Final = 2
"""A running log is shortened when what goes is at least one part in so many of what stays. So all
copying together writes at most twice as much as was cut off."""


class Shortened(NamedTuple):
    """What was cut off: so many bytes, with all entries up to this one."""

    last_index: int
    size_bytes: int


class ShorterLog:
    """A file that is made beside the log and takes its place. One thread at a time uses it.

    Steps: copy() once or more, put_in_place(); or discard() instead of the latter.
    """

    def __init__(self, files: Files, log_path: Path, cut: EntryPlace) -> None:
        """`cut` is the place behind the last entry that goes."""
        self.cut: Final = cut
        self._files = files
        self._path = log_path
        self._position = cut.position
        self._source = files.open(log_path, os.O_RDONLY)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
            self._target = files.open(temporary_path(log_path), flags)
        except OSError:
            files.close(self._source)
            raise

    def copy(self, end_position: int) -> None:
        """Take along what the log has up to this position and was not taken along yet."""
        while self._position < end_position:
            size = min(READ_SIZE, end_position - self._position)
            piece = self._files.pread(self._source, size, self._position)
            if not piece:
                raise OSError(f"{os.fspath(self._path)} ends at byte {self._position}")
            self._files.write_all(self._target, [piece], self._position - self.cut.position)
            self._position += len(piece)

    def put_in_place(self) -> int:
        """Give the file the log's name; its descriptor, for reading and writing.

        OSError: nothing has changed. The bytes are durable when it returns, the name is not:
        fsync_directory before anything is appended.
        """
        self._files.fsync(self._target)
        self._files.rename(temporary_path(self._path), self._path)
        self._files.close(self._source)
        return self._target

    def discard(self) -> None:
        """Leave the log as it is."""
        self._files.close(self._source)
        self._files.close(self._target)
        self._files.unlink_if_there(temporary_path(self._path))


def is_worth_it(cut_size: int, rest_size: int) -> bool:
    """Whether to cut so many bytes off, where so many would have to be copied."""
    return cut_size > 0 and cut_size * WORTH_SHARE >= rest_size


def check_snapshots(files: Files, snapshot_path: Path, previous_index: int) -> None:
    """SnapshotDamaged unless both snapshots are sound, and the older one ends with this entry."""
    found = [read_index(files, path) for path in (previous_path(snapshot_path), snapshot_path)]
    previous, newest = found
    if previous != previous_index or newest is None or newest <= previous:
        raise SnapshotDamaged(f"the snapshots end with entries {found}, not with {previous_index}")


def shorten_log(
    log_path: Path, snapshot_path: Path, files: Files, encryption: Encryption | None = None
) -> Shortened | None:
    """Leave out of the log what is in both snapshots; None if there is nothing to leave out.

    For a log that no process has open. Durable when it returns. OSError: the log is as it was, or
    shortened. Anything that is wrong with the files is left alone: opening them reports it.
    """
    files.unlink_if_there(temporary_path(log_path))
    both = _sound_snapshots(files, snapshot_path, encryption)
    if both is None:
        return None
    previous, newest = both
    try:
        fd = files.open(log_path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        if previous.end.index <= start_of(files, fd).index:
            return None
        cut = previous.end_in(files, fd, name=log_path)
        size = files.size(fd)
        # Sound entries have to follow, as far as the newer snapshot at least.
        entries = read_entries(files, fd, cut, size, name=log_path)
        if not any(entry.index == newest.end.index for entry, _ in entries):
            return None
    except WalDamaged:
        return None
    finally:
        files.close(fd)
    shorter = ShorterLog(files, log_path, cut)
    try:
        shorter.copy(size)
        files.close(shorter.put_in_place())
    except OSError:
        shorter.discard()
        raise
    files.fsync_directory(os.path.dirname(os.path.abspath(log_path)))
    return Shortened(cut.index, cut.position)


def _sound_snapshots(
    files: Files, snapshot_path: Path, encryption: Encryption | None
) -> tuple[Snapshot, Snapshot] | None:
    """Both snapshots, the older one first; None unless both are there, sound and in order."""
    try:
        previous = read_snapshot(files, previous_path(snapshot_path), encryption)
        newest = read_snapshot(files, snapshot_path, encryption)
    except SnapshotDamaged:
        return None
    if previous is None or newest is None or previous.end.index >= newest.end.index:
        return None
    return previous, newest


def temporary_path(path: Path) -> str:
    """Where the shorter log lies until it has the name of the log."""
    return os.fspath(path) + TEMPORARY_SUFFIX
