"""The log of one partition, in the hands of its owner: the only one who writes these files.

    stage(batch) ... stage(batch)   stamped in memory, offsets given out
    write()                         with the kernel: survives the death of every process
    sync()                          with the disk: survives a power cut
    written                         what may be published after write() (or after sync())

One thread of control calls everything here. Exceptions, for calls that wait for the disk: a
plan from plan_sync() may be run by a thread while the owner stages and writes on; and
save_recovery_point() and make_directory() may be called by a thread.

A log is one life of its partition: a purge retires the directory as a whole (trash.py) and
create() begins another.

Always: the files hold what `written` says, and possibly more behind it after a failed write,
which is cut before the next one. write() appends the whole staged group or nothing.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from borzoi.protocol.errors import CannotCreateSegmentLogFile, CannotSaveMessagesToSegment
from borzoi.storage.clean_stop import CleanPartition
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.encrypted_staging import new_group
from borzoi.storage.files import Files
from borzoi.storage.log_directory import LogDirectory
from borzoi.storage.log_sync import LogSync, SyncPlan
from borzoi.storage.open_files import OpenFiles
from borzoi.storage.published import Published
from borzoi.storage.recent_ids import Tail, tail_of
from borzoi.storage.recovered import Recovered
from borzoi.storage.recovery import recover
from borzoi.storage.sealed_segments import SealedSegments
from borzoi.storage.segment import SealedSegment
from borzoi.storage.segment_form import PLAIN
from borzoi.storage.staging import LargeBatch, StagedGroup

__all__ = ["LogSettings", "PartitionLog", "SyncPlan"]


class LogSettings(NamedTuple):
    """What the config says about logs."""

    segment_size_max: int


class PartitionLog:
    """Appends to a partition and keeps its segments."""

    def __init__(
        self,
        directory: str,
        birth: int,
        settings: LogSettings,
        files: Files,
        open_files: OpenFiles,
        recovery: Recovered,
        random_bytes: Callable[[int], bytes],
        cipher: PartitionCipher | None = None,
    ) -> None:
        self.directory = directory
        self.birth = birth
        self.settings = settings
        self.cipher = cipher
        self.recovery = recovery
        self._random_bytes = random_bytes
        self._files = files
        self._place = LogDirectory(directory, files, open_files, exists=recovery.has_directory)
        self._sync = LogSync(self._place, list(recovery.unsynced), is_synced=recovery.is_synced)

        self._end = recovery.end
        self.segments = SealedSegments(
            self._place, self._sync, recovery, cipher, lambda: self._end, self._ensure_active_files
        )
        self._staged = new_group(self._end, settings.segment_size_max, random_bytes, cipher)
        # An active segment that is empty and of another form than it will have is made again.
        self._has_active_files = recovery.has_active_files and self._staged.form == self._end.form

        self._must_cut = False
        self._created_in_group: list[int] = []

    @classmethod
    def create(
        cls,
        directory: str,
        birth: int,
        settings: LogSettings,
        files: Files,
        *,
        open_files: OpenFiles,
        random_bytes: Callable[[int], bytes] = os.urandom,
        cipher: PartitionCipher | None = None,
    ) -> "PartitionLog":
        """A log that has no files yet; the first write makes them."""
        return cls(directory, birth, settings, files, open_files, Recovered(), random_bytes, cipher)

    @classmethod
    def recover(
        cls,
        directory: str,
        birth: int,
        settings: LogSettings,
        files: Files,
        clean: CleanPartition | None = None,
        *,
        board: Published | None = None,
        last_stop: CleanPartition | None = None,
        open_files: OpenFiles,
        random_bytes: Callable[[int], bytes] = os.urandom,
        cipher: PartitionCipher | None = None,
    ) -> "PartitionLog":
        """The log that lies in the directory. The caller has compared its birth (read_birth)."""
        recovery = recover(directory, birth, files, clean, board, last_stop, cipher)
        log = cls(directory, birth, settings, files, open_files, recovery, random_bytes, cipher)
        if recovery.end.next_offset and not recovery.has_active_files:
            # Messages are lost. The name of the next segment tells a later start that their
            # offsets were given out, when the board and the clean stop that knew it are gone.
            try:
                log.make_files()
            except CannotCreateSegmentLogFile as error:
                recovery.report.append(f"the next segment has no file yet: {error}")
        return log

    # What there is.

    @property
    def written(self) -> Published:
        """Everything write() has appended so far."""
        end = self._end
        segments = self.segments
        sealed = segments.all
        return Published(
            self.birth,
            sealed[0].first_offset if sealed else end.segment,
            end.next_offset,
            end.segment,
            end.position,
            segments.size_bytes + (end.position if end.form is PLAIN else end.message_bytes),
            len(sealed) + 1,
            segments.trusted_from,
        )

    @property
    def sealed(self) -> tuple[SealedSegment, ...]:
        """The segments retention may look at, oldest first."""
        return tuple(self.segments.all)

    @property
    def is_encrypted(self) -> bool:
        """Whether any of its segments is."""
        forms = [self._end.form, *(segment.form for segment in self.segments.all)]
        return any(form.header is not None for form in forms)

    @property
    def is_active_outdated(self) -> bool:
        """Whether the active segment has a key that was exchanged: roll() ends that."""
        return self._staged.is_outdated

    @property
    def sealed_unsynced(self) -> tuple[int, ...]:
        """First offsets of sealed segments that are not known to be on the disk."""
        return tuple(self._sync.unsynced)

    @property
    def read_only(self) -> bool:
        """Whether nothing is written any more until a restart."""
        return self._sync.read_only

    def refuse_writes(self) -> None:
        """Makes the log read-only until a restart, so that nothing is published meanwhile.

        What a failed sync left in the files may show after the restart.
        """
        self._sync.read_only = True

    @property
    def is_synced(self) -> bool:
        """Whether a power cut would lose nothing of what is written."""
        return self._sync.is_synced

    @property
    def staged_bytes(self) -> int:
        """Bytes of messages that the next write() writes."""
        return self._staged.size_bytes

    @property
    def staged_messages(self) -> int:
        """How many messages the next write() writes."""
        return self._staged.message_count

    @property
    def staged_end(self) -> int:
        """The offset the next batch will begin with; it falls back when a group is refused."""
        return self._staged.next_offset

    def timestamp_at(self, now_us: int) -> int:
        """What a batch is stamped with that is staged at this time."""
        return self._staged.timestamp_at(now_us)

    def tail(self, message_count: int) -> list[Tail]:
        """Where the last so many written messages lie, oldest first."""
        return tail_of(self.segments.all, self._end, message_count)

    def clean_partition(self, offsets_digest: int) -> CleanPartition:
        """The row for the record of a clean stop, after the last sync."""
        assert not self.staged_messages
        end = self._end
        return CleanPartition(
            self.birth, end.segment, end.position, end.next_offset, end.index_size, offsets_digest
        )

    # Appending.

    def stage(self, batch: memoryview, message_count: int, now_us: int) -> int:
        """Stamp the batch in place and return its first offset.

        The memory must stay untouched until write() has returned or raised.
        """
        if self._sync.read_only:
            self._check_writable()
        return self._staged.add(batch, message_count, now_us)

    def tell_large_batches(self, tell: Callable[[LargeBatch], None]) -> None:
        """From now on `tell` is called with every staged batch that is larger than a segment."""
        self._staged.on_large_batch = tell

    def write(self) -> None:
        """Append the staged batches: all of them, or none and CannotSaveMessagesToSegment.

        With the kernel when it returns, durable only after sync().
        """
        staged = self._staged
        if not staged.message_count and not staged.sealed:
            return
        try:
            self._check_writable()
            if staged.sealed or self._must_cut or not self._has_active_files:
                self._write_parts(staged)
            else:
                self._append(
                    staged.segment,
                    staged.start_position,
                    staged.position,
                    staged.buffers,
                    staged.index_position,
                    staged.index_entries,
                )
        except OSError as error:
            staged.dropped(self._end)
            self._must_cut = True
            self._try_to_cut_back()
            raise CannotSaveMessagesToSegment(f"{self.directory}: {error}") from error
        except CannotSaveMessagesToSegment:
            staged.dropped(self._end)
            raise
        self._sync.is_synced = False
        self._end = staged.end
        staged.written()

    def roll(self) -> None:
        """Seal the active segment now, unless it is empty, and begin another.

        An empty one whose key was exchanged is made again.
        """
        assert not self.staged_messages
        if self._end.message_count:
            self._staged.seal()
            self.write()
        elif self._staged.is_outdated:
            self._staged.dropped(self._end)
            if self._has_active_files:
                self._has_active_files = False
                self.make_files()

    def make_files(self) -> None:
        """Make the directory and the empty first segment now instead of at the first write."""
        assert not self._has_active_files
        form = self._staged.form
        try:
            self._place.make(self.birth)
            self._place.make_segment(self._end.segment, form)
        except OSError as error:
            raise CannotCreateSegmentLogFile(f"{self.directory}: {error}") from error
        self._has_active_files = True
        self._end = self._end._replace(position=form.start, form=form)
        self._sync.is_synced = False

    def _ensure_active_files(self) -> None:
        if not self._has_active_files:
            self.make_files()

    @property
    def has_directory(self) -> bool:
        """Whether the next write finds the directory made."""
        return self._place.exists

    def make_directory(self) -> None:
        """Make the directory now instead of at the last write. OSError when it cannot be made.

        Without room for offsets: no commit comes any more. A thread may do it while the owner
        leaves this log alone. Not durable.
        """
        self._place.make(self.birth, for_offsets=False)

    def _check_writable(self) -> None:
        if self._sync.read_only:
            raise CannotSaveMessagesToSegment(f"{self.directory} is read-only until a restart")

    def _append(
        self,
        segment: int,
        position: int,
        end: int,
        buffers: list[memoryview],
        index_position: int,
        index_entries: bytearray,
    ) -> None:
        """Write batches and their entries, each at its position. With the kernel on return."""
        place = self._place
        kept = place.kept
        if kept is None or not kept.is_open or place.kept_segment != segment:
            kept = place.keep(segment)
        log, index = kept.fds
        if end >= place.reserve_at:
            place.reserve(log, position, end)
        # The log first: an entry of the index always stands for bytes that are there.
        self._files.write_all(log, buffers, position)
        self._files.write_all(index, (index_entries,), index_position)

    def _write_parts(self, staged: StagedGroup) -> None:
        """The unusual: segments to be made or sealed, or leftovers of a failed write."""
        if self._must_cut:
            self._cut_back()
        self._created_in_group = []
        self._place.make(self.birth)
        parts = staged.parts
        for part in parts:
            if part.segment != self._end.segment or not self._has_active_files:
                self._created_in_group.append(part.segment)
                self._place.make_segment(part.segment, part.end.form)
            if part.buffers:
                self._append(
                    part.segment,
                    part.position,
                    part.end.position,
                    part.buffers,
                    part.index_position,
                    part.index_entries,
                )
            if part.sealed:
                self._place.give_back(part.segment, part.end.position)
        # They belong to the log now: the failure of a later group must not remove them.
        self._created_in_group = []
        self._has_active_files = True
        for part in parts:
            if part.sealed:
                self.segments.add(part.end.sealed())

    def _try_to_cut_back(self) -> None:
        try:
            self._cut_back()
        except OSError:
            # The disk refuses even that. The next write begins with it, or does not begin.
            return

    def _cut_back(self) -> None:
        """Make the files what `written` says they are.

        Bytes of a refused group must go: a shorter group could be written over them, and
        recovery would take what sticks out for messages.
        """
        while self._created_in_group:
            self._place.unlink_segment(self._created_in_group[-1])
            self._created_in_group.pop()
        if self._has_active_files:
            self._place.cut(self._end)
        self._must_cut = False

    # Durability.

    def sync(self) -> None:
        """Make everything written so far durable, or raise CannotSyncFile.

        Waits for the disk. A thread may call it while the owner does nothing but stage().
        """
        plan = self.plan_sync()
        if plan is not None:
            self.run_sync(plan)
            self.finish_sync(plan)

    def plan_sync(self) -> SyncPlan | None:
        """What a sync would have to do now, None when there is nothing."""
        return self._sync.plan(self.birth, self._end, has_active_files=self._has_active_files)

    def run_sync(self, plan: SyncPlan) -> None:
        """Carry out a plan; the slow part, which a thread may do while the owner writes on."""
        self._sync.run(plan)

    def finish_sync(self, plan: SyncPlan) -> None:
        """The owner takes note that a plan was carried out."""
        self._sync.finish(plan, self._end)
        for segment in plan.sealed:
            # A sealed segment is never written to, and readers have maps of their own.
            self._place.let_go(segment)

    @property
    def is_point_saved(self) -> bool:
        """Whether save_recovery_point() would have nothing to do."""
        return self._sync.is_point_saved

    def save_recovery_point(self) -> None:
        """Note durably how far the last finished sync got. Waits for the disk."""
        self._sync.save_recovery_point()

    def close(self) -> None:
        """Let go of the files. Writes and syncs nothing, and nothing can be written any more."""
        self._place.close()
        self.segments.outlive(self._end)
