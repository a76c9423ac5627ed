"""The end of the metadata log: where it is, what a crash tore off it, and appending to it.

The WalWriter owns the file of wal.py: it alone writes, in one process at a time.

Always: the writer makes each entry durable before the next is appended, so after a crash only the
last one can be torn. That is the whole rule of recovery. An invalid entry with no valid later entry
behind it is a torn tail and is cut. Anything else is damage, and the file is left as it is.
"""

import os
from typing import Final, NamedTuple

from borzoi.storage.files import Files, Path
from borzoi.storage.wal import (
    ENTRY_SIZE_MAX,
    ENTRY_SIZE_MIN,
    INDEX,
    START,
    WINDOW_SIZE,
    EntryPlace,
    InvalidEntry,
    Unreadable,
    WalDamaged,
    damage_text,
    decode_entry,
    read_entries,
)


class TornTail(NamedTuple):
    """What open_wal cut off: `size` bytes from `position` on."""

    position: int
    size: int
    reason: str


class WalFailed(OSError):
    """The disk left the end of the log in doubt; nothing more may be appended until a restart."""


class WalWriter:
    """The end of the log, open for appending. Made by open_wal; one per log.

    Always: `end_position` is the length of the file and the place behind entry `last_index`.
    Exceptions are while an append is running, and after one has failed so badly that the writer
    refuses all further work (WalFailed).
    """

    def __init__(
        self, files: Files, fd: int, path: Path, end: EntryPlace, torn: TornTail | None
    ) -> None:
        self._files = files
        self._fd = fd
        self._path = path
        self._failure: str | None = None
        self.last_index = end.index
        self.end_position = end.position
        self.torn: Final = torn

    @property
    def end(self) -> EntryPlace:
        """What to publish once the last append is durable."""
        return EntryPlace(self.last_index, self.end_position)

    @property
    def has_failed(self) -> bool:
        """Whether all further work is refused."""
        return self._failure is not None

    def append(self, entry: bytes) -> None:
        """Write one encoded entry behind the last. Durable only after sync().

        An OSError means nothing was appended: what had been written of it is cut off again.
        """
        self._refuse_if_failed()
        (index,) = INDEX.unpack_from(entry)
        assert index == self.last_index + 1, f"entry {index} cannot follow entry {self.last_index}"
        try:
            self._files.write_all(self._fd, [entry], self.end_position)
        except OSError as error:
            self._cut_to(self.end_position, f"an append failed ({error})")
            raise
        self.last_index = index
        self.end_position += len(entry)

    def sync(self) -> None:
        """fdatasync: when it returns, every entry appended before is durable. May run in a thread.

        After an OSError the kernel may have dropped the dirty pages and would call the next
        fdatasync a success. So the writer refuses all further work until the log is opened again.
        """
        self._refuse_if_failed()
        try:
            self._files.fdatasync(self._fd)
        except OSError as error:
            self._failure = f"an fdatasync failed ({error})"
            raise

    def take_back(self, end: EntryPlace) -> None:
        """Cuts off the entries behind `end`, none of which may have been published yet.

        The caller is responsible for that: readers hold what was published.
        """
        assert end.position <= self.end_position
        self._cut_to(end.position, f"entries behind position {end.position} were taken back")
        self.last_index, self.end_position = end.index, end.position

    def move_to(self, fd: int, cut_size: int) -> None:
        """Go on in a file that holds the same entries without the first `cut_size` bytes.

        It is durable and has the log's name already. The old file stays for its readers.
        """
        self._files.close(self._fd)
        self._fd = fd
        self.end_position -= cut_size

    def refuse(self, why: str) -> None:
        """Take no more entries until a restart: it is in doubt which file a start will find."""
        self._failure = why

    def close(self) -> None:
        """Give the descriptor back. Syncs nothing."""
        self._files.close(self._fd)

    def _cut_to(self, position: int, why: str) -> None:
        try:
            self._files.ftruncate(self._fd, position)
        except OSError as error:
            self._failure = f"{why}, and cutting it back failed too ({error})"
            raise WalFailed(f"{os.fspath(self._path)}: {self._failure}") from error

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise WalFailed(
                f"{os.fspath(self._path)} takes no more entries until a restart: {self._failure}"
            )


def open_wal(
    path: Path, files: Files, *, after: EntryPlace = START, published_position: int = 0
) -> WalWriter:
    """Open (or create) the log for its one writer, verify it behind `after`, cut a torn end.

    `after` is what a snapshot already covers. `published_position` is the end that readers already
    know, if a writer died and came back, else 0. Nothing below it is cut, whatever it looks like.
    When this returns, all entries kept are durable, those too that their writer had not yet synced.
    """
    fd = files.open(path, os.O_RDWR | os.O_CREAT)
    try:
        size = files.size(fd)
        if size < max(after.position, published_position):
            raise WalDamaged(
                damage_text(
                    path,
                    size,
                    after.index + 1,
                    f"the file ends here, but {max(after.position, published_position)} bytes"
                    " were known to be good",
                )
            )
        end, torn = _find_end(files, fd, path, after, size, published_position)
        if torn is not None:
            files.ftruncate(fd, end.position)
        files.fdatasync(fd)
        files.fsync_directory(os.path.dirname(os.path.abspath(path)))
    except BaseException:
        files.close(fd)
        raise
    return WalWriter(files, fd, path, end, torn)


def find_end(files: Files, path: Path, start: EntryPlace) -> tuple[EntryPlace, TornTail | None]:
    """Verify all entries from `start` on: the end of the log, and what open_wal would cut there.

    Changes nothing. WalDamaged where open_wal would refuse.
    """
    fd = files.open(path, os.O_RDONLY)
    try:
        return _find_end(files, fd, path, start, files.size(fd), 0)
    finally:
        files.close(fd)


def _find_end(
    files: Files, fd: int, path: Path, after: EntryPlace, size: int, published_position: int
) -> tuple[EntryPlace, TornTail | None]:
    end = after
    try:
        for entry, position in read_entries(files, fd, after, size, name=path):
            end = EntryPlace(entry.index, position)
    except Unreadable as error:
        if end.position < published_position or _later_entry_follows(files, fd, end, size):
            raise
        return end, TornTail(end.position, size - end.position, error.reason)
    return end, None


def _later_entry_follows(files: Files, fd: int, end: EntryPlace, size: int) -> bool:
    """Whether any byte behind `end` starts a valid entry that is newer than the last good one.

    The lengths in between cannot be trusted, so every position is tried. The index alone rules out
    nearly all of them. It must be newer, and no newer than entries could fit into the bytes that
    are left.
    """
    newest = end.index + 1 + (size - end.position) // ENTRY_SIZE_MIN
    window_start = end.position
    while size - window_start >= ENTRY_SIZE_MIN:
        window = memoryview(files.pread(fd, min(WINDOW_SIZE, size - window_start), window_start))
        # Only starts in the first half: their entries lie in this window as a whole.
        starts = min(ENTRY_SIZE_MAX, len(window) - ENTRY_SIZE_MIN + 1)
        for start in range(starts):
            (index,) = INDEX.unpack_from(window, start)
            if end.index < index <= newest:
                try:
                    decode_entry(window, start, len(window))
                except InvalidEntry:
                    continue
                return True
        window_start += max(starts, 1)
    return False
