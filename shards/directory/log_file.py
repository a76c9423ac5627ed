"""The server's log file: all processes of the broker append to it, and each may rotate it.

    <logs>/iggy-server.log          the active file
    <logs>/iggy-server.log.<N>      archives; a larger N is newer, numbers are never used again

Every process has the active file open for appending. The directory's own lock (flock) is held for
each line. Under it: check that the path still leads to the open file, rotate if the line would make
it too big, write. Cost: four system calls a line, some microseconds. A lock on the directory needs
no lock file, so nothing but log files lies in it.

A process that dies with the lock gives it back. One that is stopped keeps it, so no waiting is
endless: after LOCK_WAIT_S the line is written without the lock. At worst it then lands in a file
just rotated, or some bytes above the limit. The next lines try only once until the lock is free
again. Lines are never cut and never mixed (one write each, O_APPEND).

Always: archives and a full active file together stay below max_total_size. An active file grows
above max_file_size only if a single line is larger than that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

LOG_NAME: Final = "iggy-server.log"
ARCHIVE_NAME: Final = re.compile(re.escape(LOG_NAME) + r"\.([0-9]{1,12})")
# The lock is held for microseconds, but a busy machine may take the CPU away meanwhile.
LOCK_WAIT_S: Final = 0.25
LOCK_RETRY_S: Final = 0.0002
FILE_MODE: Final = 0o640
# Length of 2026-11-16T05:08:00: the part of a line that tells how old the file is.
TIME_LENGTH: Final = 19


class Rotation(NamedTuple):
    """Zero for a size means: no limit. Without `file_size_max` there is no rotation at all."""

    file_size_max: int
    total_size_max: int
    retention_s: float
    check_interval_s: float


class LogFile:
    """The handle of one process on the log file of the broker."""

    def __init__(
        self,
        directory: Path,
        rotation: Rotation,
        clock: Callable[[], float] = time.time,
        lock_wait_s: float = LOCK_WAIT_S,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / LOG_NAME
        self._rotation = rotation
        self._clock = clock
        self._lock_wait_s = lock_wait_s
        self._lock_is_stuck = False
        self._directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._fd = self._open()
        self._swept_at = clock()
        with self._locked():
            self._sweep()

    def write(self, line: bytes) -> None:
        """Appends `line`, newline included. On return the kernel has it, not yet the disk."""
        with self._locked() as locked:
            if locked:
                self._follow_path()
                if self._is_full(len(line)):
                    self._rotate()
                elif self._clock() - self._swept_at >= self._rotation.check_interval_s:
                    self._sweep()
            written = os.write(self._fd, line)
        if written != len(line):
            raise OSError(f"{written} of {len(line)} bytes written")

    def sweep(self) -> None:
        """Enforces age and total size now, for a broker too silent to do it while writing."""
        with self._locked() as locked:
            if locked:
                self._follow_path()
                self._sweep()

    def close(self) -> None:
        """Closes the file and its directory; nothing may be written afterwards."""
        os.close(self._fd)
        os.close(self._directory_fd)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        return os.open(self.path, flags, FILE_MODE)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[bool]:
        deadline = time.monotonic() + self._lock_wait_s
        locked = False
        while not locked:
            try:
                fcntl.flock(self._directory_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
            except BlockingIOError:
                if self._lock_is_stuck or time.monotonic() > deadline:
                    break
                # Sleeping, not spinning: the holder may need this very core.
                time.sleep(LOCK_RETRY_S)
        self._lock_is_stuck = not locked
        try:
            yield locked
        finally:
            if locked:
                fcntl.flock(self._directory_fd, fcntl.LOCK_UN)

    def _follow_path(self) -> None:
        """Opens the active file again if it was rotated by another process, or removed."""
        opened = os.fstat(self._fd)
        try:
            current = os.stat(self.path)
        except FileNotFoundError:
            current = None
        if current is None or (current.st_dev, current.st_ino) != (opened.st_dev, opened.st_ino):
            self._reopen()

    def _reopen(self) -> None:
        fd = self._open()
        os.close(self._fd)
        self._fd = fd

    def _is_full(self, line_length: int) -> bool:
        size_max = self._rotation.file_size_max
        size = os.fstat(self._fd).st_size
        return size_max != 0 and size != 0 and size + line_length > size_max

    def _rotate(self) -> None:
        archives = archives_of(self.path.parent)
        number = archives[-1][0] + 1 if archives else 1
        os.rename(self.path, self.path.with_name(f"{LOG_NAME}.{number}"))
        self._reopen()
        self._sweep()

    def _sweep(self) -> None:
        """Deletes archives that are too old or too many; an old active file becomes an archive."""
        self._swept_at = now = self._clock()
        rotation = self._rotation
        if rotation.file_size_max != 0 and now - self._begun_at(now) > rotation.retention_s:
            self._rotate()
            return
        # The active file may grow to its limit before the next look: that space is taken.
        room = rotation.total_size_max - rotation.file_size_max
        for _, path in reversed(archives_of(self.path.parent)):
            try:
                facts = path.stat()
                room -= facts.st_size
                too_many = rotation.total_size_max != 0 and room < 0
                if too_many or now - facts.st_mtime > rotation.retention_s:
                    path.unlink()
            except FileNotFoundError:
                # A process that waited too long for the lock, or a person, was faster.
                continue

    def _begun_at(self, now: float) -> float:
        """When the active file's first line was written, which no file system tells."""
        with self.path.open("rb") as file:
            first = file.readline(TIME_LENGTH + 64)
        match = re.search(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}", first)
        if match is None:
            return now
        try:
            return datetime.fromisoformat(match[0].decode() + "+00:00").timestamp()
        except ValueError:
            return now


def archives_of(directory: Path) -> list[tuple[int, Path]]:
    """Numbers and paths of the archives, oldest first."""
    found = ((ARCHIVE_NAME.fullmatch(path.name), path) for path in directory.iterdir())
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def log_files(directory: Path) -> list[Path]:
    """All log files, oldest first, the active one last."""
    active = directory / LOG_NAME
    return [path for _, path in archives_of(directory)] + ([active] if active.exists() else [])
