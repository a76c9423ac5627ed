"""Every call that touches the disk, in one place.

Storage code never calls `os` for files itself; it is handed a Files. The real one passes each
call on. Tests hand in one that fails the nth call, writes short, or records what happened.
Composed operations (write_all, write_atomically) are built from the primitives of the same
object, so a failing primitive is met inside them as well.

Stateless, so any thread may use it. Errors are OSError; callers turn them into what they mean.
"""

import ctypes
import errno
import os
import shutil
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

Path: TypeAlias = str | os.PathLike[str]
Buffer: TypeAlias = bytes | bytearray | memoryview

FILE_MODE: Final = 0o600
DIRECTORY_MODE: Final = 0o700
BUFFERS_PER_WRITE_MAX: Final = 1024  # IOV_MAX of Linux
TEMPORARY_SUFFIX: Final = ".tmp"
READ_SIZE: Final = 8 * 1024 * 1024
FALLOC_FL_KEEP_SIZE: Final = 1


class FileIdentity(NamedTuple):
    """Which file a name led to. A file replaced by rename has another inode."""

    device: int
    inode: int


class FileStatus(NamedTuple):
    """Which file it is, and its size."""

    identity: FileIdentity
    size: int


class Files:
    """The file system as storage sees it."""

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        """Opens a file; never through a symbolic link."""
        # A link planted inside the data directory must not lead a write somewhere else.
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, mode)

    def close(self, fd: int) -> None:
        """Closes a descriptor."""
        os.close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        """Returns up to `size` bytes from a position on; fewer at the end of the file."""
        return os.pread(fd, size, position)

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        """Writes bytes at a position; returns how many were written."""
        return os.pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Writes buffers one behind the other; returns how many bytes were written."""
        return os.pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        """Waits until the content and the size of a file are on the disk."""
        os.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        """Waits until a file and its attributes are on the disk."""
        os.fsync(fd)

    def fsync_directory(self, path: Path) -> None:
        """Make the names inside this directory durable, not the files they stand for."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        """Cuts a file, or extends it with zeros."""
        os.ftruncate(fd, size)

    def reserve(self, fd: int, start: int, size: int) -> None:
        """Sets disk space aside for bytes that will be written; the file keeps its size."""
        if _libc().fallocate(fd, FALLOC_FL_KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(size)):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def size(self, fd: int) -> int:
        """Returns the size of an open file."""
        return os.fstat(fd).st_size

    def status(self, fd: int) -> FileStatus:
        """Returns identity and size of an open file."""
        found = os.fstat(fd)
        return FileStatus(FileIdentity(found.st_dev, found.st_ino), found.st_size)

    def status_of(self, path: Path) -> FileStatus:
        """Returns identity and size of the file with this name."""
        found = os.stat(path, follow_symlinks=False)
        return FileStatus(FileIdentity(found.st_dev, found.st_ino), found.st_size)

    def is_directory(self, path: Path) -> bool:
        """Returns whether a path is a directory."""
        return os.path.isdir(path)

    def device_of(self, path: Path) -> int:
        """Which file system a path leads to, behind links and mounts."""
        return os.stat(path).st_dev

    def sync_file_system(self, fd: int) -> None:
        """Make everything durable that was written to the file system of this descriptor.

        Also what other programs wrote there. An error since the descriptor was opened is raised,
        whichever file it concerns; Linux before 5.8 raises none.
        """
        if _libc().syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def listdir(self, path: Path) -> list[str]:
        """Returns the names in a directory, in no order."""
        return os.listdir(path)

    def makedirs(self, path: Path) -> None:
        """Make the directory and all above it; fine when it is there already."""
        # os.makedirs gives its mode to the last directory only, the rest would follow the umask.
        missing = []
        at = os.path.abspath(path)
        while not os.path.isdir(at):
            missing.append(at)
            at = os.path.dirname(at)
        for directory in reversed(missing):
            self.mkdir(directory)

    def mkdir(self, path: Path) -> None:
        """Makes a directory; fine if it is there already."""
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            # Two workers may make the directories above their partitions at the same time.
            if not os.path.isdir(path):
                raise

    def rename(self, old: Path, new: Path) -> None:
        """Renames a file or directory; a file with the new name is replaced."""
        os.rename(old, new)

    def unlink(self, path: Path) -> None:
        """Removes a file; raises FileNotFoundError if there is none."""
        os.unlink(path)

    def rmtree(self, path: Path) -> None:
        """Removes a directory with all that it holds."""
        shutil.rmtree(path)

    # What follows uses only the calls above.

    def write_all(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        """Write all bytes of all buffers, back to back; return how many. Raises when it cannot.

        With the kernel when it returns, not durable. After an error any part may be written.
        """
        if len(buffers) == 1:
            # What nearly every write is, without the lists and sums.
            size = len(buffers[0])
            written = self.pwrite(fd, buffers[0], position)
            if written != size:
                self._write_rest(fd, buffers, written, position)
            return size
        total = 0
        for start in range(0, len(buffers), BUFFERS_PER_WRITE_MAX):
            group = buffers[start : start + BUFFERS_PER_WRITE_MAX]
            group_size = sum(map(len, group))
            written = self.pwritev(fd, group, position + total)
            if written != group_size:
                self._write_rest(fd, group, written, position + total)
            total += group_size
        return total

    def read_all(self, path: Path, size_max: int) -> bytes | None:
        """A whole small file, None when it is not there. A larger one is cut to size_max + 1."""
        try:
            fd = self.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            return self.pread(fd, size_max + 1, 0)
        finally:
            self.close(fd)

    def read_whole(self, path: Path) -> bytes | None:
        """A whole file of ours that does not grow meanwhile, None when it is not there."""
        try:
            fd = self.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            pieces = []
            position = 0
            while piece := self.pread(fd, READ_SIZE, position):
                pieces.append(piece)
                position += len(piece)
            return b"".join(pieces)
        finally:
            self.close(fd)

    def write_atomically(self, path: Path, data: Buffer) -> None:
        """Replaces a small file; when this returns, its new content survives a power cut.

        After a crash before that it has its old or its new content.
        """
        self.replace(path, data, durable=True)
        self.fsync_directory(os.path.dirname(os.path.abspath(path)))

    def replace(self, path: Path, data: Buffer, *, durable: bool) -> None:
        """Put a file under its name in one step; not durable unless asked, nor its name ever."""
        temporary = os.fspath(path) + TEMPORARY_SUFFIX
        fd = self.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self.write_all(fd, [data], 0)
            if durable:
                self.fsync(fd)
        finally:
            self.close(fd)
        self.rename(temporary, path)

    def unlink_if_there(self, path: Path) -> bool:
        """Removes a file; returns False if there was none."""
        try:
            self.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def _write_rest(self, fd: int, group: Sequence[Buffer], written: int, position: int) -> None:
        done = written
        if written <= 0:
            raise OSError(errno.ENOSPC, "the write took no bytes")
        for buffer in group:
            view = memoryview(buffer)
            if written >= len(view):
                written -= len(view)
                continue
            rest = view[written:]
            written = 0
            while rest:
                taken = self.pwrite(fd, rest, position + done)
                if taken <= 0:
                    raise OSError(errno.ENOSPC, "the write took no bytes")
                done += taken
                rest = rest[taken:]


@cache
def _libc() -> ctypes.CDLL:
    # Python has neither syncfs nor fallocate with a mode. The calls let other threads run.
    return ctypes.CDLL(None, use_errno=True)
