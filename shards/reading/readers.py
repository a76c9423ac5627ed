"""Reading any partition of this broker from its files, whichever shard owns it.

Each shard has its own readers and maps. What may be read is what the owner published on the
board; nothing here ever writes, waits for another shard, or touches a byte above that end.
"""

import logging
import time
from collections.abc import Callable, Iterator
from typing import Final

from borzoi.protocol.errors import BrokerError, CannotReadFile
from borzoi.router.board import Board
from borzoi.router.placement import unpack_namespace
from borzoi.router.target import Target
from borzoi.shards.loop.rarely import Rarely
from borzoi.shards.metadata.effects import Effects
from borzoi.shards.rings.requests import DeathRule, Done, OfPartition
from borzoi.storage.encrypted import Encryption, cipher_of
from borzoi.storage.files import Files
from borzoi.storage.index_windows import IndexCaching, IndexWindows
from borzoi.storage.layout import DataLayout
from borzoi.storage.mapped import WindowCache
from borzoi.storage.outcome import Doubt
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.published import Published
from borzoi.storage.reader import PartitionReader
from borzoi.storage.segment_list import RECENT_SIZE

LOG: Final = logging.getLogger(__name__)

READERS_MAX: Final = 1024
HEALS_MAX: Final = 8
"""So many indexes are checked for one poll; then its error stands."""


class SegmentReplaced(OfPartition):
    """To all other shards: the log of a segment is another file now."""

    KIND = 36
    RULE = DeathRule.COMPLETE

    first_offset: int


class PartitionReaders:
    """The partitions this shard has read lately."""

    def __init__(
        self,
        board: Board,
        layout: DataLayout,
        windows: WindowCache,
        files: Files,
        validate_checksum: bool,
        blocks: PlainBlocks,
        caching: IndexCaching = IndexCaching.OPEN_SEGMENT,
        encryption: Encryption | None = None,
        recent_size: int = RECENT_SIZE,
    ) -> None:
        self._board = board
        self._layout = layout
        self._windows = windows
        self._index_windows = IndexWindows(caching, windows)
        self._files = files
        self._validate_checksum = validate_checksum
        self._encryption = encryption
        self._recent_size = recent_size
        self.blocks = blocks
        # How to ask the owner of a partition to check an index; the worker wires it.
        self.ask_owner: Callable[[Target, int, Done], None] | None = None
        self._reports = Rarely()
        self._readers: dict[tuple[int, int], PartitionReader] = {}  # oldest first

    def published(self, slot: int) -> Published:
        """What the owner of a slot published last, of whatever birth that was."""
        # As Published._make does; it runs for every poll.
        return tuple.__new__(Published, self._board.read(slot))

    def forget(self, effects: Effects) -> None:
        """Let go of files that were removed, so that their space is freed."""
        births = {run.birth for _, _, run in effects.removed}
        births |= {old.birth for _, _, old, _ in effects.purged}
        if births:
            for key in [key for key in self._readers if key[1] in births]:
                del self._readers[key]
            self._windows.clear()
            self._index_windows.clear()

    def read_on(
        self, bytes_max: int, target: Target, offset: int, count: int
    ) -> tuple[int, int, memoryview] | None:
        """What follows the last read of a partition: current offset, message count and bytes.

        None if the read does not go on there, or if nothing of this life is published.
        """
        published = self.published(target.slot)
        if published.birth != target.birth:
            return None
        found = self.reader(target).read_on(published, offset, count, bytes_max)
        if found is None:
            return None
        return published.next_offset - 1, *found

    def heal(self, target: Target, doubt: Doubt, again: Callable[[], None]) -> bool:
        """Have the owner check an index that is in doubt, then call `again`.

        False if there is no owner to ask: then the error stands.
        """
        if self.ask_owner is None:
            return False
        reader = self.reader(target)

        def checked(_status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
            # Whatever came of it: the next read tells what is wrong, if something still is.
            reader.accept(doubt.segment)
            again()

        self.ask_owner(target, doubt.segment, checked)
        return True

    def report(self, target: Target, error: BrokerError) -> None:
        """Log, once a minute for each partition, that the system refuses to read its files."""
        if isinstance(error, CannotReadFile) and self._reports.is_due(target, time.monotonic()):
            LOG.error("partition %s cannot be read, its polls fail until it can: %s", target, error)

    def let_go_of_deleted(self) -> None:
        """Unmap segments that their owners have deleted: until then they take disk space."""
        for reader in self._readers.values():
            reader.let_go_of_deleted()

    def reads(self) -> Iterator[tuple[int, int, int]]:
        """Namespace, reads, and how many of them had to wait for the disk."""
        for (namespace, _), reader in self._readers.items():
            if reader.reads_count:
                yield namespace, reader.reads_count, min(reader.cold_count, reader.reads_count)

    def replaced(self, target: Target, segment: int) -> None:
        """The owner has compressed a segment: let go of its plain log."""
        reader = self._readers.get((target.namespace, target.birth))
        if reader is not None:
            reader.replaced(segment)

    def serve_replaced(
        self, _shard: int, request: SegmentReplaced, _lent: memoryview, done: Done
    ) -> None:
        """The owner on another shard has compressed a segment."""
        self.replaced(request.target, request.first_offset)
        done(0)

    def reader(self, target: Target) -> PartitionReader:
        """The reader of one life of a partition."""
        key = (target.namespace, target.birth)
        reader = self._readers.get(key)
        if reader is None:
            directory = self._layout.partition(*unpack_namespace(target.namespace))
            reader = PartitionReader(
                directory,
                self._windows,
                self._files,
                validate_checksum=self._validate_checksum,
                newest=lambda: self.published(target.slot),
                index_windows=self._index_windows,
                cipher=cipher_of(self._encryption, target.namespace, target.birth),
                blocks=self.blocks,
                recent_size=self._recent_size,
            )
            self._readers[key] = reader
            if len(self._readers) > READERS_MAX:
                # The one made first, not the one used last: noting every use costs more than
                # making a reader again once in a thousand.
                self._readers.pop(next(iter(self._readers))).let_go()
        return reader
