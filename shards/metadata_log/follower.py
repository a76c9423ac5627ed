"""A shard's own copy of the metadata, fed from the log.

Every worker has one MetadataCopy and is the only one to touch it. Before each request it compares
one word of the board and calls follow when something is new; entries are small and in the page
cache, so this happens inside the handler, without an await between it and the use of `state`.

The log may be replaced by a shorter one meanwhile (docs/adr/0001). The copy keeps the file open
that it reads, so it can always finish that one; then it goes on at the same entry of the other.

Always: `state` is exactly what the first `applied_index` entries make, and `position` is where
the next starts in the file that is open, which begins with entry `first`.
"""

import os
from typing import Final

from borzoi.shards.metadata.apply import apply
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.sealing import open_entry
from borzoi.shards.metadata_log.snapshot import (
    Snapshot,
    SnapshotDamaged,
    previous_path,
    read_snapshot,
)
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files, Path
from borzoi.storage.wal import (
    START,
    EntryPlace,
    PublishedLog,
    WalDamaged,
    WalEntry,
    read_entries,
    start_of,
)

OPEN_TRIES_MAX: Final = 5
"""So often a copy is opened again because the log was replaced between reading its two files."""


class MetadataCopy:
    """State as of some index. Make one with open_copy."""

    def __init__(
        self,
        files: Files,
        log_path: Path,
        state: State,
        end: EntryPlace,
        snapshot_problem: str | None,
        encryption: Encryption | None = None,
        *,
        fd: int | None = None,
        first: int = 1,
    ) -> None:
        """`fd` is the log, if it is open already; `first` its first entry. The copy closes it."""
        self._files = files
        self.encryption = encryption
        self._log_path = log_path
        self._fd = fd
        self._base = 0
        self.first = first
        self.state = state
        self.applied_index = end.index
        self.position = end.position
        # Why a snapshot that is there was not used: for a line in the broker's log.
        self.snapshot_problem = snapshot_problem

    @property
    def end(self) -> EntryPlace:
        """How far this copy has come."""
        return EntryPlace(self.applied_index, self.position)

    def begin_at(self, published: PublishedLog) -> bool:
        """Take note which file of the run is open; False if the board does not mean this one.

        Then it was replaced since it was opened, or is about to be published: open another copy.
        """
        self._base = published.base
        return self.first == published.first

    def follow(self, published: PublishedLog) -> list[Effects]:
        """Apply everything that is published; what has to be done for it, in log order."""
        # A copy made from a snapshot is ahead of a board that is empty as yet.
        if published.last_index == 0:
            return []
        before = [] if published.first == self.first else self._change_file(published)
        return before + self.catch_up(published.last_index, published.position)

    def moved(self, published: PublishedLog) -> None:
        """For the writer: what is published is what this copy has, in another file."""
        assert published.last_index == self.applied_index
        self.close()
        self.position, self.first, self._base = published[1:]

    def _change_file(self, published: PublishedLog) -> list[Effects]:
        """The log was replaced: go on in the file that is published, at the same entry."""
        cut = published.base - self._base
        found = []
        if self.position < cut and self._fd is not None and self._files.size(self._fd) >= cut:
            # What was cut off was committed, and is still in the old file.
            found = self.catch_up(published.first - 1, cut)
        fd = self._files.open(self._log_path, os.O_RDONLY)
        first = start_of(self._files, fd).index + 1
        if first != published.first or self.position < cut:
            self._files.close(fd)
            raise WalDamaged(
                f"{os.fspath(self._log_path)} begins with entry {first}, {published.first} was"
                f" published, and entry {self.applied_index} is the last one known here. Entries"
                " are missing; a restart loads the snapshot that has them."
            )
        self.close()
        self._fd = fd
        self.position -= cut
        self.first, self._base = published.first, published.base
        return found

    def catch_up(self, committed_index: int, end_position: int) -> list[Effects]:
        """Apply everything up to an end in the file that is open; as follow.

        Never reads from `end_position` on. Entries without consequences leave nothing in the list.
        """
        # Less happens too: a copy made from a snapshot is ahead of a board that is empty as yet.
        if committed_index <= self.applied_index:
            return []
        if self._fd is None:
            self._fd = self._files.open(self._log_path, os.O_RDONLY)
        found = []
        entries = read_entries(self._files, self._fd, self.end, end_position, name=self._log_path)
        for entry, position in entries:
            effects = self.advance(entry, position)
            if effects:
                found.append(effects)
        if self.applied_index != committed_index:
            raise WalDamaged(
                f"{os.fspath(self._log_path)} up to byte {end_position} ends with entry"
                f" {self.applied_index}, but entry {committed_index} was published for that place."
                " One of the two was changed behind the broker's back; restart it."
            )
        return found

    def advance(self, entry: WalEntry, next_position: int) -> Effects:
        """Apply the entry that lies at `position`, for a caller that has it at hand already."""
        assert entry.index == self.applied_index + 1
        effects = apply(self.state, open_entry(entry, self.encryption))
        self.applied_index = entry.index
        self.position = next_position
        return effects

    def close(self) -> None:
        """Give the descriptor back."""
        if self._fd is not None:
            self._files.close(self._fd)
            self._fd = None


def open_copy(
    log_path: Path, snapshot_path: Path, files: Files, encryption: Encryption | None = None
) -> MetadataCopy:
    """The state of the newest good snapshot, or the empty one before all entries.

    Reads of the log only what was committed when the snapshot was taken: follow reads the rest, as
    far as the caller knows it to be committed. WalDamaged if neither the snapshots nor the log
    have the beginning.
    """
    before = None
    for _ in range(OPEN_TRIES_MAX):
        snapshot, problem = _newest_snapshot(snapshot_path, files, encryption)
        # The log after the snapshots: then it goes on at least as far as they do.
        try:
            fd = files.open(log_path, os.O_RDONLY)
        except FileNotFoundError:
            fd = None
        try:
            return _copy_of(snapshot, problem, log_path, fd, snapshot_path, files, encryption)
        except WalDamaged:
            _close(files, fd)
            index = None if snapshot is None else snapshot.end.index
            # Shortened twice between two lines of this function? Then the snapshot is another one.
            if index == before:
                raise
            before = index
        except BaseException:
            _close(files, fd)
            raise
    raise WalDamaged(f"{os.fspath(log_path)} was replaced {OPEN_TRIES_MAX} times meanwhile")


def _newest_snapshot(
    snapshot_path: Path, files: Files, encryption: Encryption | None
) -> tuple[Snapshot | None, str | None]:
    """The newest good one, and what is wrong with one that would be newer."""
    problems = []
    found = None
    for path in (os.fspath(snapshot_path), previous_path(snapshot_path)):
        try:
            found = read_snapshot(files, path, encryption)
        except SnapshotDamaged as error:
            problems.append(f"{path} is not used: {error}")
            continue
        if found is not None:
            break
    return found, "; ".join(problems) or None


def _copy_of(
    snapshot: Snapshot | None,
    problem: str | None,
    log_path: Path,
    fd: int | None,
    snapshot_path: Path,
    files: Files,
    encryption: Encryption | None,
) -> MetadataCopy:
    start = START if fd is None else start_of(files, fd)
    if snapshot is None:
        if start != START:
            raise WalDamaged(
                f"{os.fspath(log_path)} begins with entry {start.index + 1}; what came before is in"
                f" {os.fspath(snapshot_path)}, which cannot be used. Restore it, or its .previous,"
                f" from a backup. {problem or ''}"
            )
        state, end = State(), START
    else:
        if fd is None:
            raise WalDamaged(
                f"{os.fspath(log_path)} is missing, but {os.fspath(snapshot_path)} goes up to its"
                f" entry {snapshot.end.index}. Restore it from a backup."
            )
        state, end = snapshot.state, snapshot.end_in(files, fd, name=log_path)
    return MetadataCopy(
        files, log_path, state, end, problem, encryption, fd=fd, first=start.index + 1
    )


def _close(files: Files, fd: int | None) -> None:
    if fd is not None:
        files.close(fd)
