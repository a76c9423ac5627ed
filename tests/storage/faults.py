"""File layers that fail on demand."""

import errno
import os
from collections.abc import Sequence

from borzoi.storage.files import FILE_MODE, Buffer, Files, Path

SHORT = -1  # not an error: the call takes only half of the bytes


class FailingFiles(Files):
    """Notes every call that changes something; can fail the nth of them, or all of one name.

    Both calls that write bytes are called "write" here.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.open_count = 0
        self._paths: dict[int, str] = {}
        self._nth: int | None = None
        self._name: str | None = None
        self._fault = 0
        self._once = True

    def fail(self, name: str, fault: int) -> None:
        """Every call of this name fails until repair()."""
        self._name, self._fault = name, fault

    def fail_nth(self, nth: int, fault: int, *, once: bool = True) -> None:
        """The nth call from now on fails, and with once=False all after it."""
        self.calls.clear()
        self._nth, self._fault, self._once = nth, fault, once

    def repair(self) -> None:
        self._nth = self._name = None

    def _note(self, name: str, path: Path) -> bool:
        """Note a call; raise if it is to fail; True if it is to be cut short."""
        self.calls.append((name, os.fspath(path)))
        number = len(self.calls) - 1
        hit = name == self._name or (
            self._nth is not None
            and (number == self._nth or (number > self._nth and not self._once))
        )
        if not hit:
            return False
        if self._fault == SHORT:
            return True
        raise OSError(self._fault, os.strerror(self._fault))

    def open(self, path: Path, flags: int, mode: int = FILE_MODE) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            self._note("open", path)
        else:
            self._fail_if_named("open to read")
        fd = super().open(path, flags, mode)
        self._paths[fd] = os.fspath(path)
        self.open_count += 1
        return fd

    def close(self, fd: int) -> None:
        self.open_count -= 1
        super().close(fd)

    def pread(self, fd: int, size: int, position: int) -> bytes:
        self._fail_if_named("pread")
        return super().pread(fd, size, position)

    def listdir(self, path: Path) -> list[str]:
        self._fail_if_named("listdir")
        return super().listdir(path)

    def _fail_if_named(self, name: str) -> None:
        """Calls that change nothing fail by name only: they are not among the calls."""
        if self._name == name:
            raise OSError(self._fault, os.strerror(self._fault))

    def pwrite(self, fd: int, data: Buffer, position: int) -> int:
        if self._note("write", self._paths[fd]):
            data = memoryview(data)[: (len(data) + 1) // 2]
        return super().pwrite(fd, data, position)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], position: int) -> int:
        if self._note("write", self._paths[fd]):
            whole = b"".join(buffers)
            buffers = [whole[: (len(whole) + 1) // 2]]
        return super().pwritev(fd, buffers, position)

    def fdatasync(self, fd: int) -> None:
        self._note("fdatasync", self._paths[fd])
        super().fdatasync(fd)

    def fsync(self, fd: int) -> None:
        self._note("fsync", self._paths[fd])
        super().fsync(fd)

    def fsync_directory(self, path: Path) -> None:
        self._note("fsync_directory", path)
        super().fsync_directory(path)

    def sync_file_system(self, fd: int) -> None:
        self._note("sync_file_system", self._paths[fd])
        super().sync_file_system(fd)

    def ftruncate(self, fd: int, size: int) -> None:
        self._note("ftruncate", self._paths[fd])
        super().ftruncate(fd, size)

    def reserve(self, fd: int, start: int, size: int) -> None:
        self._note("reserve", self._paths[fd])
        super().reserve(fd, start, size)

    def mkdir(self, path: Path) -> None:
        self._note("mkdir", path)
        super().mkdir(path)

    def rename(self, old: Path, new: Path) -> None:
        self._note("rename", new)
        super().rename(old, new)

    def unlink(self, path: Path) -> None:
        self._note("unlink", path)
        super().unlink(path)


ERRORS = (errno.ENOSPC, errno.EIO)
