"""The synchronous core of shard 0, the only writer of metadata.

One command at a time goes through these steps; the orchestration around it waits where a step
blocks:

    entry = writer.prepare(command, ...)  a BrokerError ends it: nothing has happened
    writer.append(entry)                  an OSError ends it: nothing was appended
    writer.sync()                         in a thread; OSError: abandon(), read-only until restart
    publish(writer.end)                   on the board; from here on the command holds
    effects = writer.applied()            shard 0's own copy follows
    ...                                   barrier if effects.needs_barrier, then the reply

Always: between commands the copy has applied everything in the log. Nothing is published that is
not durable, and nothing published is ever cut off.
"""

from contextlib import suppress
from typing import Final

from borzoi.protocol.errors import InvalidSizeBytes
from borzoi.shards.metadata.decide import MetadataCommand, MetadataSettings, decide
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.metadata.entries import new_entry
from borzoi.shards.metadata.follower import MetadataCopy, open_copy
from borzoi.shards.metadata.sealing import seal_entry
from borzoi.shards.metadata.snapshot import dump, previous_path
from borzoi.shards.metadata.state import State
from borzoi.storage.encrypted import Encryption
from borzoi.storage.files import Files, Path
from borzoi.storage.wal import (
    COMMAND_SIZE_MAX,
    LogEnd,
    TornTail,
    WalWriter,
    decode_entry,
    encode_entry,
    log_start,
    open_wal,
)

SNAPSHOT_EVERY: Final = 10_000


class MetadataWriter:
    """The log's end and a copy that is level with it. Make one with open_writer."""

    def __init__(
        self,
        wal: WalWriter,
        copy: MetadataCopy,
        settings: MetadataSettings,
        files: Files,
        snapshot_path: Path,
        snapshot_index: int,
        snapshot_every: int,
        first_index: int,
    ) -> None:
        self._wal = wal
        self._files = files
        self._snapshot_path = snapshot_path
        self._snapshot_index = snapshot_index
        self._snapshot_every = snapshot_every
        self._first_index = first_index
        self._keep_previous = copy.snapshot_problem is None
        self._appended: bytes | None = None
        self.copy: Final = copy
        self.settings: Final = settings

    @property
    def state(self) -> State:
        """What has been applied; also what the next command is judged by."""
        return self.copy.state

    @property
    def end(self) -> LogEnd:
        """What to publish, once sync() has returned."""
        return self._wal.end

    @property
    def torn(self) -> TornTail | None:
        """What was cut off when the log was opened, for the broker's own log."""
        return self._wal.torn

    @property
    def is_read_only(self) -> bool:
        """Whether nothing can be appended any more, until a restart."""
        return self._wal.has_failed

    def prepare(self, command: MetadataCommand, *, user_id: int, timestamp: int) -> bytes:
        """The entry for this command, ready to append. Changes nothing."""
        assert self._appended is None, "one command at a time"
        stored = decide(
            self.state, command, user_id=user_id, timestamp=timestamp, settings=self.settings
        )
        plain = new_entry(self._wal.last_index + 1, timestamp, user_id, stored)
        entry = seal_entry(plain, self.copy.encryption)
        if len(entry.command) > COMMAND_SIZE_MAX:
            # Only permissions for very many topics get here.
            raise InvalidSizeBytes(
                f"the command takes {len(entry.command)} bytes in the log,"
                f" {COMMAND_SIZE_MAX} is the most"
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
        return self.copy.applied_index - self._snapshot_index >= self._snapshot_every

    def take_snapshot(self) -> bytes:
        """The state now, as bytes for write_snapshot. Between commands only."""
        assert self._appended is None, "a snapshot is taken between commands"
        self._snapshot_index = self.copy.applied_index
        return dump(self.state, self.copy.end, self._first_index, self.copy.encryption)

    def write_snapshot(self, snapshot: bytes) -> None:
        """Put the snapshot in its place, durably. Blocks; a thread may run it while commands go on.

        The log is synced first: where commands are not synced one by one, a power cut must not
        leave a snapshot that knows more than the log. The one before is kept, unless it could not
        be read: then the one before that is the better one.
        """
        self._wal.sync()
        if self._keep_previous:
            with suppress(FileNotFoundError):
                self._files.rename(self._snapshot_path, previous_path(self._snapshot_path))
        self._files.write_atomically(self._snapshot_path, snapshot)
        self._keep_previous = True

    def close(self) -> None:
        """Give the descriptors back. Syncs nothing."""
        self._wal.close()
        self.copy.close()


def open_writer(
    log_path: Path,
    snapshot_path: Path,
    files: Files,
    settings: MetadataSettings,
    *,
    published_position: int = 0,
    snapshot_every: int = SNAPSHOT_EVERY,
    encryption: Encryption | None = None,
) -> MetadataWriter:
    """Open the log as its one writer and bring the state level with it.

    `published_position` is the end position still on the board, when a worker takes over from a
    dead one. All complete entries are kept and durable when this returns: publish `end` before
    serving anything.
    """
    copy = open_copy(log_path, snapshot_path, files, encryption)
    snapshot_index = copy.applied_index
    wal = open_wal(log_path, files, after=copy.end, published_position=published_position)
    copy.catch_up(wal.last_index, wal.end_position)
    return MetadataWriter(
        wal,
        copy,
        settings,
        files,
        snapshot_path,
        snapshot_index,
        snapshot_every,
        log_start(files, log_path).index + 1,
    )
