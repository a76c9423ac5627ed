"""A shard's own copy of the metadata, fed from the log.

Every worker has one MetadataCopy and is the only one to touch it. Before each request it compares
`applied_index` with the committed index on the board and calls catch_up when they differ; entries
are small and in the page cache, so this happens inside the handler, without an await between it
and the use of `state`.

Always: `state` is exactly what the first `applied_index` entries make, and `position` is where
the next starts.
"""

import os

from borzoi.shards.metadata.apply import apply
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.sealing import open_entry
from borzoi.shards.metadata.snapshot import SnapshotDamaged, previous_path, read_snapshot
from borzoi.shards.metadata.state import State
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files, Path
from borzoi.storage.wal import START, LogEnd, WalDamaged, WalEntry, log_start, read_entries


class MetadataCopy:
    """State as of some index. Make one with open_copy."""

    def __init__(
        self,
        files: Files,
        log_path: Path,
        state: State,
        end: LogEnd,
        snapshot_problem: str | None,
        encryption: Encryption | None = None,
    ) -> None:
        self._files = files
        self.encryption = encryption
        self._log_path = log_path
        self._fd: int | None = None
        self.state = state
        self.applied_index = end.index
        self.position = end.position
        # Why a snapshot that is there was not used: for the log of whoever opened this copy.
        self.snapshot_problem = snapshot_problem

    @property
    def end(self) -> LogEnd:
        """How far this copy has come."""
        return LogEnd(self.applied_index, self.position)

    def catch_up(self, committed_index: int, end_position: int) -> list[Effects]:
        """Apply everything up to the published end; what has to be done for it, in log order.

        Never reads from `end_position` on. Entries without consequences leave nothing in the list.
        """
        # Less happens too: a copy made from a snapshot is ahead of a board nobody has written yet.
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
        """Apply the entry that lies at `position`, for whoever has it at hand already."""
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

    Reads of the log only what was committed when the snapshot was taken: catch_up reads the rest,
    as far as the caller knows it to be committed. WalDamaged if neither the snapshots nor the log
    have the beginning.
    """
    problems = []
    for path in (os.fspath(snapshot_path), previous_path(snapshot_path)):
        try:
            snapshot = read_snapshot(files, path, encryption)
        except SnapshotDamaged as error:
            problems.append(f"{path} is not used: {error}")
            continue
        if snapshot is not None:
            end = snapshot.end_in(files, log_path)
            problem = "; ".join(problems) or None
            return MetadataCopy(files, log_path, snapshot.state, end, problem, encryption)
    start = log_start(files, log_path)
    if start != START:
        raise WalDamaged(
            f"{os.fspath(log_path)} begins with entry {start.index + 1}; what came before is in"
            f" {os.fspath(snapshot_path)}, which cannot be used. Restore it, or its .previous, from"
            f" a backup. {' '.join(problems)}"
        )
    return MetadataCopy(files, log_path, State(), START, "; ".join(problems) or None, encryption)
