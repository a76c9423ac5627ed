"""Which of a log's files and names are not known to be on the disk yet.

A sync has three steps, so that only the middle one, which waits for the disk, needs a thread. The
owner plans, the thread runs the plan while the owner writes on, the owner takes note. What was
written after the plan is not covered by it.

A sync that fails makes the log read-only until a restart: the kernel may have dropped the pages
it could not write, and says so only once.
"""

from contextlib import suppress
from typing import NamedTuple

from borzoi.protocol.errors import CannotSyncFile
from borzoi.storage.layout import index_path, log_path
from borzoi.storage.log_directory import LogDirectory
from borzoi.storage.open_files import OUT_OF_FILES
from borzoi.storage.recovery_point import RecoveryPoint, write_recovery_point
from borzoi.storage.segment import LogEnd


class SyncPlan(NamedTuple):
    """What has to be synced for everything written so far to be durable."""

    point: RecoveryPoint  # reached when the plan has been carried out
    sealed: tuple[int, ...]
    creations: int
    sealed_paths: tuple[str, ...]  # may be gone by then, deleted by retention
    paths: tuple[str, ...]
    directories: tuple[str, ...]


class LogSync:
    """What is durable of a log, for its owner."""

    def __init__(self, directory: LogDirectory, unsynced: list[int], *, is_synced: bool) -> None:
        self._directory = directory
        self._creations_synced = directory.creations if is_synced else -1
        self._all_names_synced = False
        self._synced_point: RecoveryPoint | None = None
        self._saved_point: RecoveryPoint | None = None
        self.unsynced = unsynced  # sealed segments
        # Everything that was written is known to be on the disk; a write sets it to False.
        self.is_synced = is_synced
        self.read_only = False

    def plan(self, birth: int, end: LogEnd, *, has_active_files: bool) -> SyncPlan | None:
        """Returns what a sync has to do now, None when there is nothing. For the loop."""
        directory = self._directory
        if self.read_only:
            raise CannotSyncFile(f"{directory.path} is read-only until a restart")
        if self.is_synced or not directory.exists:
            return None
        # An index could be made again, but that of a sealed segment is never looked at closely.
        sealed_paths = [
            path(directory.path, segment)
            for segment in self.unsynced
            for path in (log_path, index_path)
        ]
        paths = [log_path(directory.path, end.segment)] if has_active_files else []
        directories: list[str] = []
        if directory.creations != self._creations_synced:
            if not self._all_names_synced:
                paths.append(directory.birth_file())
            directories = directory.directories(all_above=not self._all_names_synced)
        return SyncPlan(
            RecoveryPoint(birth, end.segment, end.position, end.next_offset),
            tuple(self.unsynced),
            directory.creations,
            tuple(sealed_paths),
            tuple(paths),
            tuple(directories),
        )

    def run(self, plan: SyncPlan) -> None:
        """Wait for the disk, in a thread. CannotSyncFile when it did not take everything."""
        try:
            self._run(plan)
        except OSError as error:
            # Without a descriptor nothing was tried: the next sync may do it.
            if error.errno not in OUT_OF_FILES:
                self.read_only = True
            raise CannotSyncFile(f"{self._directory.path}: {error}") from error

    def _run(self, plan: SyncPlan) -> None:
        for path in plan.sealed_paths:
            with suppress(FileNotFoundError):
                self._sync_file(path)
        for path in plan.paths:
            self._sync_file(path)
        for directory in plan.directories:
            self._directory.files.fsync_directory(directory)

    def finish(self, plan: SyncPlan, end: LogEnd) -> None:
        """Notes that a plan was carried out; `end` is where the log ends by now."""
        done = set(plan.sealed)
        self.unsynced = [segment for segment in self.unsynced if segment not in done]
        self._creations_synced = plan.creations
        self._all_names_synced = self._all_names_synced or bool(plan.directories)
        self._synced_point = plan.point
        self.is_synced = (
            (end.segment, end.position) == (plan.point.segment, plan.point.position)
            and not self.unsynced
            and self._directory.creations == plan.creations
        )

    @property
    def is_point_saved(self) -> bool:
        """Whether the recovery point says how far the last finished sync got."""
        return self._synced_point is None or self._synced_point == self._saved_point

    def save_recovery_point(self) -> None:
        """Note durably how far the last finished sync got, if that is news. Waits for the disk."""
        point = self._synced_point
        if point is None or point == self._saved_point:
            return
        try:
            write_recovery_point(self._directory.path, point, self._directory.files)
        except OSError as error:
            raise CannotSyncFile(f"{self._directory.path}: {error}") from error
        self._saved_point = point

    def _sync_file(self, path: str) -> None:
        with self._directory.open.use(path) as fd:
            self._directory.files.fdatasync(fd)
