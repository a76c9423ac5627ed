"""The synchronous core of shard 0, the only writer of metadata.

One command at a time goes through these steps; the orchestration around it waits where a step
blocks:

    entry = writer.prepare(command, ...)  a BrokerError ends it: nothing has happened
    writer.append(entry)                  an OSError ends it: nothing was appended
    writer.sync()                         in a thread; OSError: abandon(), read-only until restart
    publish(writer.published)             on the board; from here on the command holds
    effects = writer.applied()            shard 0's own copy follows
    ...                                   barrier if effects.needs_barrier, then the reply

Now and then, in this order: take_snapshot, write_snapshot, and if shortening_due:

    shorter = writer.begin_shortening()   in a thread, while commands go on
    ...                                   wait until every shard has applied what is to go
    fd = writer.replace_log(shorter)      in a thread, between two commands
    publish(writer.moved_to(shorter, fd)) only now do readers look for the other file

Always: between commands the copy has applied everything in the log. Nothing is published that is
not durable, and nothing published is ever cut off that is not in two snapshots.
"""

import os
from contextlib import suppress
from typing import Final, NamedTuple

from borzoi.protocol.errors import InvalidSizeBytes
from borzoi.shards.decisions.decide import MetadataCommand, MetadataSettings, decide
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.entry_form import new_entry
from borzoi.shards.metadata.requests import RequestKey
from borzoi.shards.metadata.state import State
from borzoi.shards.metadata_log.follower import MetadataCopy, open_copy
from borzoi.shards.metadata_log.sealing import seal_entry
from borzoi.shards.metadata_log.shortening import ShorterLog, check_snapshots, is_worth_it
from borzoi.shards.metadata_log.snapshot import dump, previous_path
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files, Path
from borzoi.storage.wal import (
    COMMAND_SIZE_MAX,
    NOTHING_PUBLISHED,
    EntryPlace,
    PublishedLog,
    decode_entry,
    encode_entry,
    place_behind,
)
from borzoi.storage.wal_writer import TornTail, WalFailed, WalWriter, open_wal

SNAPSHOT_ENTRIES: Final = 10_000
SNAPSHOT_SIZE: Final = 4 << 20


class SnapshotRule(NamedTuple):
    """After so many entries, or bytes of the log, since the last snapshot another one is due.

    By bytes not before the log has grown by the size of a snapshot: those of a large state are
    large, and would be written more often than they spare anything.
    """

    entries: int = SNAPSHOT_ENTRIES
    size_bytes: int = SNAPSHOT_SIZE


class MetadataWriter:
    """The log's end and a copy that is level with it. Make one with open_writer."""

    def __init__(
        self,
        wal: WalWriter,
        copy: MetadataCopy,
        settings: MetadataSettings,
        files: Files,
        log_path: Path,
        snapshot_path: Path,
        snapshot: EntryPlace,
        rule: SnapshotRule,
        first: int,
        base: int,
        command_size_max: int,
    ) -> None:
        """`snapshot` is the end of the one that was loaded, START if there was none."""
        self._wal = wal
        self._files = files
        self._log_path = log_path
        self._snapshot_path = snapshot_path
        self._taken = snapshot
        self._snapshot_size = 0
        self._rule = rule
        self._first = first
        self._base = base
        self._keep_previous = copy.snapshot_problem is None
        # Ends of the snapshots that are surely on the disk.
        self._newest = snapshot if self._keep_previous and snapshot.index else None
        self._previous: EntryPlace | None = None
        self._appended: bytes | None = None
        self._command_size_max = command_size_max
        self.copy: Final = copy
        self.settings: Final = settings

    @property
    def state(self) -> State:
        """What has been applied; also what the next command is judged by."""
        return self.copy.state

    @property
    def end(self) -> EntryPlace:
        """Where the log ends."""
        return self._wal.end

    @property
    def published(self) -> PublishedLog:
        """What to publish, once sync() has returned."""
        return PublishedLog(self._wal.last_index, self._wal.end_position, self._first, self._base)

    @property
    def torn(self) -> TornTail | None:
        """What was cut off when the log was opened, for the broker's own log."""
        return self._wal.torn

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be appended any more, until a restart."""
        return self._wal.has_failed

    def prepare(
        self,
        command: MetadataCommand,
        *,
        user_id: int,
        timestamp: int,
        request: RequestKey | None = None,
    ) -> bytes:
        """The entry for this command, ready to append. Changes nothing."""
        assert self._appended is None, "one command at a time"
        stored = decide(
            self.state, command, user_id=user_id, timestamp=timestamp, settings=self.settings
        )
        plain = new_entry(self._wal.last_index + 1, timestamp, user_id, stored, request)
        entry = seal_entry(plain, self.copy.encryption)
        if len(entry.command) > self._command_size_max:
            # Only permissions for very many topics get here.
            raise InvalidSizeBytes(
                f"the command takes {len(entry.command)} bytes in the log,"
                f" {self._command_size_max} is the most"
            )
        return encode_entry(entry)

    def append(self, entry: bytes) -> None:
        """Write the prepared entry. Not durable, not published, not applied yet."""
        assert self._appended is None, "one command at a time"
        self._wal.append(entry)
        self._appended = entry

    def sync(self) -> None:
        """Make the appended entry durable. Blocks; uses the file only, so a thread may run it."""
        self._wal.sync()

    def applied(self) -> Effects:
        """Apply what was appended, after it was published."""
        assert self._appended is not None, "nothing was appended"
        entry, _ = decode_entry(memoryview(self._appended), 0, len(self._appended))
        self._appended = None
        return self.copy.advance(entry, self._wal.end_position)

    def abandon(self) -> None:
        """Take the appended entry back, after a failed sync and before anything was published.

        So the error the client gets is true: after a restart the command has not happened.
        """
        assert self._appended is not None, "nothing was appended"
        self._appended = None
        self._wal.take_back(self.copy.end)

    @property
    def snapshot_due(self) -> bool:
        """Whether enough has been applied since the last snapshot."""
        entries = self.copy.applied_index - self._taken.index
        if entries >= self._rule.entries:
            return True
        size = self.copy.position - self._taken.position
        return size >= self._rule.size_bytes and size >= self._snapshot_size

    def take_snapshot(self) -> bytes:
        """The state now, as bytes for write_snapshot. Between commands only."""
        assert self._appended is None, "a snapshot is taken between commands"
        self._taken = self.copy.end
        snapshot = dump(self.state, self._taken, self._first, self.copy.encryption)
        self._snapshot_size = len(snapshot)
        return snapshot

    def write_snapshot(self, snapshot: bytes) -> None:
        """Put the snapshot in its place, durably. Blocks; a thread may run it while commands go on.

        The log is synced first: where commands are not synced one by one, a power cut must not
        leave a snapshot that knows more than the log. The one before is kept, unless it could not
        be read: then the one before that is the better one.
        """
        taken = self._taken
        self._wal.sync()
        # Until both are in place it is not known which ones there are.
        newest, self._newest, self._previous = self._newest, None, None
        if self._keep_previous:
            with suppress(FileNotFoundError):
                self._files.rename(self._snapshot_path, previous_path(self._snapshot_path))
        self._files.write_atomically(self._snapshot_path, snapshot)
        self._keep_previous = True
        self._newest, self._previous = taken, newest

    @property
    def shortening_due(self) -> bool:
        """Whether enough of the log is in both snapshots."""
        previous = self._previous
        if previous is None or self._newest is None or self.is_read_only:
            return False
        return is_worth_it(previous.position, self._wal.end_position - previous.position)

    def begin_shortening(self) -> ShorterLog:
        """Copy what is to stay, nearly all of it. Blocks; a thread may run it beside commands.

        OSError or SnapshotDamaged: nothing has changed.
        """
        previous = self._previous
        assert previous is not None, "shortening is not due"
        check_snapshots(self._files, self._snapshot_path, previous.index)
        shorter = ShorterLog(self._files, self._log_path, previous)
        try:
            # Not up to the end of the file: what lies behind may be taken back.
            shorter.copy(self.copy.position)
        except OSError:
            shorter.discard()
            raise
        return shorter

    def replace_log(self, shorter: ShorterLog) -> int:
        """Put the shorter log in its place; its descriptor. Blocks; between commands only.

        Durable when it returns. OSError: nothing has changed. WalFailed: the name may not be
        durable, so nothing can be appended to either file until a restart has looked.
        """
        assert self._appended is None, "the log is replaced between commands"
        try:
            shorter.copy(self._wal.end_position)
            fd = shorter.put_in_place()
        except OSError:
            shorter.discard()
            raise
        try:
            self._files.fsync_directory(os.path.dirname(os.path.abspath(self._log_path)))
        except OSError as error:
            self._files.close(fd)
            self._wal.refuse(f"its replacement by a shorter one could not be synced ({error})")
            raise WalFailed(f"{os.fspath(self._log_path)}: {error}") from error
        return fd

    def moved_to(self, shorter: ShorterLog, fd: int) -> PublishedLog:
        """Go on in the shorter log; what to publish now."""
        cut = shorter.cut
        self._wal.move_to(fd, cut.position)
        self._first = cut.index + 1
        self._base += cut.position
        self._taken = _behind(self._taken, cut)
        self._newest = None if self._newest is None else _behind(self._newest, cut)
        self._previous = EntryPlace(cut.index, 0)
        self.copy.moved(self.published)
        return self.published

    def close(self) -> None:
        """Give the descriptors back. Syncs nothing."""
        self._wal.close()
        self.copy.close()


def _behind(end: EntryPlace, cut: EntryPlace) -> EntryPlace:
    """A place of the log in the file that begins at the cut."""
    return EntryPlace(end.index, end.position - cut.position)


def open_writer(
    log_path: Path,
    snapshot_path: Path,
    files: Files,
    settings: MetadataSettings,
    *,
    published: PublishedLog = NOTHING_PUBLISHED,
    rule: SnapshotRule = SnapshotRule(),  # noqa: B008 - a value that never changes
    encryption: Encryption | None = None,
    command_size_max: int = COMMAND_SIZE_MAX,
) -> MetadataWriter:
    """Open the log as its one writer and bring the state level with it.

    `published` is what is still on the board, when a worker takes over from a dead one. All
    complete entries are kept and durable when this returns: publish `published` of the writer
    before serving anything.
    """
    copy = open_copy(log_path, snapshot_path, files, encryption)
    try:
        known = _published_here(copy.first, published, log_path, files)
        snapshot = copy.end
        wal = open_wal(log_path, files, after=snapshot, published_position=known.position)
    except BaseException:
        copy.close()
        raise
    copy.begin_at(known)
    copy.catch_up(wal.last_index, wal.end_position)
    return MetadataWriter(
        wal, copy, settings, files, log_path, snapshot_path, snapshot, rule, copy.first, known.base,
        command_size_max,
    )  # fmt: skip


def _published_here(
    first: int, published: PublishedLog, log_path: Path, files: Files
) -> PublishedLog:
    """What was published, in terms of the file that is there now.

    It may be a shorter one, whose predecessor died after it had put it in place and before it
    could say so. Readers have the old file open; the difference tells them where to go on.
    """
    if published.last_index == 0 or published.first == first:
        return published._replace(first=first)
    fd = files.open(log_path, os.O_RDONLY)
    try:
        position = place_behind(files, fd, published.last_index, name=log_path).position
    finally:
        files.close(fd)
    base = published.base + published.position - position
    return PublishedLog(published.last_index, position, first, base)
