"""Shortening the metadata log behind a snapshot, so that starting does not take ever longer.

Only at the start of the broker, before any worker has the log open: it is replaced as a whole.

    state.messages            entries  1 .. 23,456       before
    state.snapshot.previous   what     1 .. 10,000  come to
    state.snapshot            what     1 .. 20,000  come to
    state.messages            entries  10,001 .. 23,456  after

The entries between the two snapshots stay: with either snapshot alone everything is there. The
new file is complete and on the disk before it gets its name, so after a crash there is the old
log or the new one, and both fit both snapshots.
"""

import os
from typing import NamedTuple

from borzoi.shards.metadata.snapshot import SnapshotDamaged, previous_path, read_snapshot
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import READ_SIZE, TEMPORARY_SUFFIX, Files, Path
from borzoi.storage.wal import LogEnd, WalDamaged, log_start, read_entries


class Shortened(NamedTuple):
    """What was cut off: so many bytes, with all entries up to this one."""

    last_index: int
    size_bytes: int


def shorten_log(
    log_path: Path, snapshot_path: Path, files: Files, encryption: Encryption | None = None
) -> Shortened | None:
    """Leave out of the log what is in both snapshots; None if there is nothing to leave out.

    Durable when it returns. OSError: the log is as it was, or shortened. Anything that is wrong
    with the files is left alone, for those who open them to report.
    """
    files.unlink_if_there(_temporary(log_path))
    try:
        previous = read_snapshot(files, previous_path(snapshot_path), encryption)
        newest = read_snapshot(files, snapshot_path, encryption)
        if previous is None or newest is None or previous.end.index >= newest.end.index:
            return None
        if previous.end.index <= log_start(files, log_path).index:
            return None
        cut = previous.end_in(files, log_path)
        if not _goes_on(files, log_path, cut, newest.end.index):
            return None
    except (SnapshotDamaged, WalDamaged):
        return None
    _replace_by_rest(files, log_path, cut.position)
    return Shortened(cut.index, cut.position)


def _goes_on(files: Files, log_path: Path, cut: LogEnd, index: int) -> bool:
    """Whether sound entries follow the cut, as far as the newer snapshot at least."""
    fd = files.open(log_path, os.O_RDONLY)
    try:
        entries = read_entries(files, fd, cut, files.size(fd), name=log_path)
        return any(entry.index == index for entry, _ in entries)
    finally:
        files.close(fd)


def _replace_by_rest(files: Files, log_path: Path, start: int) -> None:
    """Put a file that holds the bytes from `start` on in the place of the log."""
    temporary = _temporary(log_path)
    source = files.open(log_path, os.O_RDONLY)
    try:
        target = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            position = start
            while piece := files.pread(source, READ_SIZE, position):
                files.write_all(target, [piece], position - start)
                position += len(piece)
            files.fsync(target)
        finally:
            files.close(target)
    finally:
        files.close(source)
    files.rename(temporary, log_path)
    files.fsync_directory(os.path.dirname(os.path.abspath(log_path)))


def _temporary(path: Path) -> str:
    return os.fspath(path) + TEMPORARY_SUFFIX
