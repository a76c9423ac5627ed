"""Where an archive lies: a directory, or (s3.py) a bucket. Objects by key, whole or not at all.

A key is a relative path with slashes. An object gets its name only when all of it has arrived, so
nothing that a kill cut off is ever found under a key. Everything here waits for a disk or a
network: for threads. One process writes a key at a time; any process may read.

Errors are StoreFailed, with the key and never a credential in the text.
"""

import os
from collections.abc import Generator, Iterable, Iterator
from typing import Final, NamedTuple, Protocol, TypeAlias

from borzoi.storage.files import TEMPORARY_SUFFIX, Files

PIECE_SIZE: Final = 8 * 1024 * 1024
"""Objects travel in pieces of this size at most: what a copy needs of memory."""


Pieces: TypeAlias = Generator[bytes, None, None]
"""The bytes of an object, piece by piece. A caller that does not take all of them closes it."""


class StoreFailed(Exception):
    """The archive cannot be read or written now; trying again later may help."""


class ObjectMissing(StoreFailed):
    """There is nothing under this key."""


class StoredObject(NamedTuple):
    """An object as a listing shows it."""

    key: str
    size: int
    modified_s: float


class ArchiveStore(Protocol):
    """What an archive has to be able to do."""

    @property
    def name(self) -> str:
        """The place, as logs and errors show it."""

    def put(self, key: str, pieces: Iterable[bytes], size: int) -> None:
        """Store an object of so many bytes. Durable, and there as a whole, when this returns."""

    def read(self, key: str) -> Pieces:
        """The bytes of an object, in pieces. ObjectMissing if there is none."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose key begins with `prefix` and a slash; all with an empty one."""

    def delete(self, key: str) -> None:
        """Remove an object; fine if there is none."""


class DirectoryStore:
    """An archive in a directory, on this machine or mounted from another one."""

    def __init__(self, root: str, files: Files) -> None:
        self._root = os.path.abspath(root)
        self._files = files
        self._synced: set[str] = set()

    @property
    def name(self) -> str:
        """The path of the directory."""
        return self._root

    def put(self, key: str, pieces: Iterable[bytes], size: int) -> None:
        """Writes a temporary, syncs it and renames it; durable when this returns."""
        path = self._path(key)
        temporary = path + TEMPORARY_SUFFIX
        files = self._files
        try:
            self._make_parents(path)
            fd = files.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        except OSError as error:
            raise StoreFailed(f"{path}: {error}") from error
        try:
            position = 0
            for piece in pieces:
                try:
                    position += files.write_all(fd, [piece], position)
                except OSError as error:
                    raise StoreFailed(f"{path}: {error}") from error
            if position != size:
                raise StoreFailed(f"{path}: {position} bytes came, not {size}")
            try:
                files.fsync(fd)
            except OSError as error:
                raise StoreFailed(f"{path}: {error}") from error
        finally:
            files.close(fd)
        try:
            files.rename(temporary, path)
            files.fsync_directory(os.path.dirname(path))
        except OSError as error:
            raise StoreFailed(f"{path}: {error}") from error

    def read(self, key: str) -> Pieces:
        """Returns the bytes of an object in pieces; raises ObjectMissing if there is none."""
        path = self._path(key)
        try:
            fd = self._files.open(path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise ObjectMissing(f"{path} is not there") from error
        except OSError as error:
            raise StoreFailed(f"{path}: {error}") from error
        return self._pieces(path, fd)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Returns every object below a prefix; unfinished ones are left out."""
        top = self._path(prefix) if prefix else self._root
        try:
            for directory, _, names in os.walk(top, onerror=_unless_missing):
                for name in names:
                    path = os.path.join(directory, name)
                    if name.endswith(TEMPORARY_SUFFIX):
                        continue
                    try:
                        found = os.stat(path, follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # removed since its directory was read
                    key = os.path.relpath(path, self._root)
                    yield StoredObject(key, found.st_size, found.st_mtime)
        except OSError as error:
            raise StoreFailed(f"{top}: {error}") from error

    def delete(self, key: str) -> None:
        """Removes an object; fine if there is none."""
        try:
            self._files.unlink_if_there(self._path(key))
        except OSError as error:
            raise StoreFailed(f"{key}: {error}") from error

    def _pieces(self, path: str, fd: int) -> Pieces:
        try:
            position = 0
            while piece := self._files.pread(fd, PIECE_SIZE, position):
                position += len(piece)
                yield piece
        except OSError as error:
            raise StoreFailed(f"{path}: {error}") from error
        finally:
            self._files.close(fd)

    def _path(self, key: str) -> str:
        if key.startswith("/") or not set(key.split("/")).isdisjoint(("", ".", "..")):
            raise StoreFailed(f"{key!r} is no key of an archive")
        return os.path.join(self._root, key)

    def _make_parents(self, path: str) -> None:
        """Make the directories above, and their names durable, once for each process."""
        parent = os.path.dirname(path)
        if parent in self._synced:
            return
        self._files.makedirs(parent)
        at = parent
        while len(at) >= len(self._root):
            at = os.path.dirname(at)
            self._files.fsync_directory(at)
        self._synced.add(parent)


def _unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
