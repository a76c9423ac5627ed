"""The open files of a worker, bounded: the ones used last stay open.

Shared by all partitions of a worker. The loop uses it all the time, threads only to sync. There is
one lock, held for dictionary work and for the open call itself, never during a write or a sync. A
file in use is never closed under its user: it is closed when the last one is done.

Each user has a scope of its own. A partition may be deleted and its id, so its paths, given to
another at once, while a thread still syncs the old one. What that thread opens late must not be
taken for the new partition's file. A closed scope opens nothing.

The loop writes to the same two files of a partition again and again. It may *keep* them: in use
until it lets them go, or until so many others are kept that the oldest have to. Writing to kept
files needs no look-up and no lock, because only the loop ends a keeping.

Always: at most `limit` files are open, plus those in use at this moment. Of the limit at most
half is kept, or one group of files if that is more.
"""

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from borzoi.storage.files import Files

OUT_OF_FILES: Final = (errno.EMFILE, errno.ENFILE)
ROOM_PART: Final = 16
"""With the limit reached, so large a part of it is closed at once."""


@dataclass(slots=True)
class _OpenFile:
    fd: int
    users: int = 0
    unwanted: bool = False


class KeptFiles:
    """Files that stay open for their user, the loop, until `is_open` says that they do not."""

    __slots__ = ("_entries", "_open_files", "fds", "is_open")

    def __init__(self, open_files: "OpenFiles", entries: Sequence[_OpenFile]) -> None:
        self._open_files = open_files
        self._entries = entries
        self.fds = tuple(entry.fd for entry in entries)
        self.is_open = True

    def let_go(self) -> None:
        """Done with them; they may be closed from now on. Called by the loop only."""
        if self.is_open:
            self.is_open = False
            self._open_files.end_keeping(self, self._entries)


class OpenFiles:
    """File descriptors for reading and writing, by scope and path. Made by the loop's thread."""

    def __init__(self, files: Files, limit: int) -> None:
        assert limit >= 1
        self._files = files
        self._limit = limit
        self._by_key: OrderedDict[tuple[int, str], _OpenFile] = OrderedDict()
        self._scopes_made = 0
        self._lock = threading.Lock()
        self._kept: dict[KeptFiles, int] = {}  # oldest first; how many files each
        self._kept_count = 0
        self._loop_thread = threading.get_ident()

    def __len__(self) -> int:
        return len(self._by_key)

    def scope(self) -> "OpenScope":
        """Returns a new scope, whose files are never taken for those of another."""
        self._scopes_made += 1
        return OpenScope(self, self._scopes_made)

    def forget_below(self, directory: str) -> None:
        """Forget every file in a directory and in the directories below it, of all scopes."""
        prefix = os.path.join(directory, "")
        with self._lock:
            for key in [key for key in self._by_key if key[1].startswith(prefix)]:
                self._drop(key)

    def close(self) -> None:
        """Close everything, kept or not. Called by the loop only."""
        self._end_all_keeping()
        self.forget_below("")

    def keep(self, keys: Sequence[tuple[int, str]]) -> KeptFiles:
        """For scopes: files to be used without asking again. Called by the loop only."""
        room = max(self._limit // 2 - len(keys), 0)
        while self._kept and self._kept_count > room:
            next(iter(self._kept)).let_go()
        entries: list[_OpenFile] = []
        try:
            for key in keys:
                entries.append(self.acquire(key, create=False))
        except OSError:
            for entry in entries:
                self.release(entry)
            raise
        kept = KeptFiles(self, entries)
        self._kept[kept] = len(entries)
        self._kept_count += len(entries)
        return kept

    def _end_all_keeping(self) -> None:
        for kept in list(self._kept):
            kept.let_go()

    def end_keeping(self, kept: KeptFiles, entries: Sequence[_OpenFile]) -> None:
        """For KeptFiles."""
        self._kept_count -= self._kept.pop(kept)
        for entry in entries:
            self.release(entry)

    def acquire(self, key: tuple[int, str], create: bool) -> _OpenFile:
        """For scopes: the file, to be released."""
        try:
            return self._acquire(key, create)
        except OSError as error:
            of_the_loop = threading.get_ident() == self._loop_thread
            if error.errno not in OUT_OF_FILES or not (of_the_loop and self._kept):
                raise
        # Keeping files is a convenience; this one is needed now.
        self._end_all_keeping()
        return self._acquire(key, create)

    def _acquire(self, key: tuple[int, str], create: bool) -> _OpenFile:
        with self._lock:
            entry = self._by_key.get(key)
            if entry is None:
                entry = _OpenFile(self._open(key[1], create))
                self._by_key[key] = entry
            else:
                self._by_key.move_to_end(key)
            entry.users += 1
            self._make_room()
            return entry

    def release(self, entry: _OpenFile) -> None:
        """Ends one use of a file; it is closed if it is unwanted and not used otherwise."""
        with self._lock:
            entry.users -= 1
            if entry.unwanted and entry.users == 0:
                self._files.close(entry.fd)
            else:
                self._make_room()

    def forget(self, key: tuple[int, str]) -> None:
        """Closes a file, as soon as its last use has ended."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: tuple[int, str]) -> None:
        entry = self._by_key.pop(key, None)
        if entry is None:
            return
        if entry.users == 0:
            self._files.close(entry.fd)
        else:
            entry.unwanted = True

    def _open(self, path: str, create: bool) -> int:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        try:
            return self._files.open(path, flags)
        except OSError as error:
            if error.errno not in OUT_OF_FILES or not self._by_key:
                raise
        # Sockets took the descriptors. Ours can be opened again later, theirs cannot.
        self._shrink(len(self._by_key) // 2)
        return self._files.open(path, flags)

    def _make_room(self) -> None:
        """Closes files until there are clearly fewer than the limit.

        Looking through all of them for each file that is opened would make the work grow with the
        square of the partitions.
        """
        if len(self._by_key) > self._limit:
            self._shrink(self._limit - self._limit // ROOM_PART)

    def _shrink(self, limit: int) -> None:
        idle = [key for key, entry in self._by_key.items() if entry.users == 0]
        for key in idle[: len(self._by_key) - limit]:
            self._files.close(self._by_key.pop(key).fd)


class OpenScope:
    """The open files of one user, as long as it lives."""

    def __init__(self, open_files: OpenFiles, number: int) -> None:
        self._open_files = open_files
        self._number = number
        self._closed = False

    def use(self, path: str, *, create: bool = False) -> "_Use":
        """The file under this path, not closed before the block ends."""
        if self._closed:
            raise OSError(errno.EBADF, "the user of this file is gone", path)
        return _Use(self._open_files, self._open_files.acquire((self._number, path), create))

    def keep(self, paths: Sequence[str]) -> KeptFiles:
        """Files that are there already, to be used again and again without asking."""
        if self._closed:
            raise OSError(errno.EBADF, "the user of these files is gone", paths[0])
        return self._open_files.keep([(self._number, path) for path in paths])

    def forget(self, path: str) -> None:
        """The name will stand for another file, or for none."""
        self._open_files.forget((self._number, path))

    def close(self, directory: str) -> None:
        """No more files, and none left open below the directory, in whatever scope."""
        self._closed = True
        self._open_files.forget_below(directory)


class _Use:
    """One use of an open file. A class, because a generator costs a microsecond more."""

    __slots__ = ("_entry", "_open_files")

    def __init__(self, open_files: OpenFiles, entry: _OpenFile) -> None:
        self._open_files = open_files
        self._entry = entry

    def __enter__(self) -> int:
        return self._entry.fd

    def __exit__(self, *_: object) -> None:
        self._open_files.release(self._entry)
