"""The owner's side of partitions without a worker: real files, a loop and a disk moved by hand."""

import os
from pathlib import Path

from borzoi.protocol.batch import clear_first_checksum
from borzoi.protocol.message import Message, decode_messages, encode_messages
from borzoi.router.board import Board, create_board
from borzoi.router.placement import pack_namespace
from borzoi.router.target import Target
from borzoi.shards.lifecycle.deleting import Deleting
from borzoi.shards.lifecycle.repairing import Repairing
from borzoi.shards.partitions.deduplication import Deduplication
from borzoi.shards.partitions.durability import Durability
from borzoi.shards.partitions.group_commit import GroupCommit
from borzoi.shards.partitions.owned import Partitions
from borzoi.shards.partitions.partition import OwnedPartition
from borzoi.shards.ports.append import OwnAppends
from borzoi.shards.ports.reads import Reads
from borzoi.shards.reading.readers import PartitionReaders
from borzoi.shards.reading.warm_reads import WarmReads
from borzoi.shards.rings.requests import Done, Request
from borzoi.storage.copy_memory import CopyMemory
from borzoi.storage.encrypted import Encryption, cipher_of
from borzoi.storage.layout import DataLayout
from borzoi.storage.log import LogSettings, PartitionLog
from borzoi.storage.mapped import WindowCache
from borzoi.storage.offsets import ConsumerOffsets
from borzoi.storage.plain_blocks import PlainBlocks
from borzoi.storage.published import Published
from borzoi.storage.retention import Protection, Unread
from borzoi.storage.segment_list import RECENT_SIZE
from tests.endings import new_open_files
from tests.shards.hand_loop import HandExecutor, HandLoop
from tests.storage.faults import FailingFiles

BOARD_SLOTS = 64
TARGET = Target(pack_namespace(0, 0, 0), 3, 1)
JOURNAL_MESSAGES_MAX = 8
JOURNAL_SIZE_MAX = 1024
CONSUMERS_MAX = 16
RESPONSE_SIZE_MAX = 1 << 24
COPIED_SIZE_MAX = 1 << 24
BOUNDED = Unread(Protection.BOUNDED, 3_600_000_000)


class Statuses(list[int]):
    """A `done` that remembers the statuses it was called with."""

    def done(self, status: int, _first: int = 0, _second: int = 0, _third: int = 0) -> None:
        self.append(status)


class NoPeers:
    """There is no other shard."""

    def ask(self, shard: int, request: Request, _done: Done) -> None:
        raise AssertionError(f"{request} is asked of shard {shard}")


class Owner:
    """One shard's partitions; `die` and `succeed` are its death and its successor's birth."""

    def __init__(
        self,
        root: Path,
        durability: Durability,
        *,
        segment_size_max: int = 1 << 20,
        window: tuple[int, int] | None = None,
        encryption: Encryption | None = None,
        recent_size: int = RECENT_SIZE,
    ) -> None:
        self.durability = durability
        self.window = window
        self.now_us = 1_000_000_000
        self.encryption = encryption
        self.recent_size = recent_size
        self.layout = DataLayout(root)
        self.settings = LogSettings(segment_size_max)
        self._board_fd = create_board(BOARD_SLOTS)
        self.board = Board(self._board_fd, BOARD_SLOTS)
        self._begin()

    def _begin(self) -> None:
        self.loop = HandLoop()
        self.disk = HandExecutor()
        self.files = FailingFiles()
        self.open_files = new_open_files(self.files, 64)
        self.layout.create_skeleton(self.files)
        self.copy_memory = CopyMemory(COPIED_SIZE_MAX)
        self.readers = PartitionReaders(
            self.board,
            self.layout,
            WindowCache(16),
            self.files,
            False,
            PlainBlocks(self.copy_memory),
            encryption=self.encryption,
            recent_size=self.recent_size,
        )
        self.commit = self._new_commit()
        self.deduplication = self._new_deduplication()
        self.partitions = Partitions(
            self.layout,
            self.files,
            self.open_files,
            self.settings,
            self.durability,
            self.commit,
            consumers_max=CONSUMERS_MAX,
            share_weight=1,
            encryption=self.encryption,
        )
        self.appends = OwnAppends(
            self.partitions, self.commit, self.readers, self.durability, self.deduplication
        )
        self.reads = Reads(
            0,
            1,
            self.partitions,
            self.commit,
            self.readers,
            WarmReads(self.loop.as_loop, self.disk, self.files, self.copy_memory),
            NoPeers(),
            self.durability,
            RESPONSE_SIZE_MAX,
        )
        self.repairing = Repairing(self.loop.as_loop, self.disk, self.partitions, self.commit)
        self.readers.ask_owner = self.repairing.check_index
        self.deleting = Deleting(
            self.loop.as_loop,
            self.disk,
            self.files,
            self.layout.trash,
            self.partitions,
            self.commit,
            lambda: self.now_us,
            BOUNDED,
        )

    def _new_commit(self) -> GroupCommit:
        return GroupCommit(
            self.loop.as_loop,
            self.board,
            self.disk,
            self.durability,
            journal_messages_max=JOURNAL_MESSAGES_MAX,
            journal_size_max=JOURNAL_SIZE_MAX,
        )

    def _new_deduplication(self) -> Deduplication | None:
        if self.window is None:
            return None
        entries_max, expiry_us = self.window
        return Deduplication(
            self.loop.as_loop,
            self.disk,
            self.files,
            self.commit,
            self.readers,
            self.durability,
            entries_max=entries_max,
            expiry_us=expiry_us,
            now_us=lambda: self.now_us,
        )

    def succeed(self) -> None:
        """The process is gone with all it had in memory; another one recovers its partition."""
        self.open_files.close()
        self._begin()
        directory = self.directory
        if not os.path.exists(directory):
            return
        board = self.published
        log = PartitionLog.recover(
            directory,
            TARGET.birth,
            self.settings,
            self.files,
            board=board if board.birth == TARGET.birth else None,
            open_files=self.open_files,
            cipher=cipher_of(self.encryption, TARGET.namespace, TARGET.birth),
        )
        offsets = ConsumerOffsets.load(
            directory,
            self.files,
            log.written.next_offset - 1 if log.written.next_offset else None,
            open_files=self.open_files,
            consumers_max=CONSUMERS_MAX,
            share_weight=1,
        )
        self.partitions.adopt(TARGET, log, offsets)

    @property
    def directory(self) -> str:
        return self.layout.partition(0, 0, 0)

    @property
    def log_file(self) -> Path:
        return Path(self.directory, f"{0:020d}.log")

    @property
    def published(self) -> Published:
        return Published(*self.board.read(TARGET.slot))

    @property
    def partition(self) -> OwnedPartition:
        return self.partitions.find(TARGET)

    def append(
        self, batch: memoryview, count: int, statuses: Statuses, *, resubmitted: bool = False
    ) -> None:
        self.appends.append(TARGET, batch, count, resubmitted, statuses.done)

    def send(self, *payloads: bytes) -> Statuses:
        """Append a fresh batch; the turn is not over yet."""
        statuses = Statuses()
        self.append(batch_of(*payloads), len(payloads), statuses)
        return statuses

    def visible(self) -> list[bytes]:
        """What a reader of the board finds."""
        published = self.published
        if published.birth != TARGET.birth:
            return []
        slices = self.readers.reader(TARGET).read(published, 0, 1 << 20, RESPONSE_SIZE_MAX)
        joined = memoryview(b"".join(slices.views))
        found = list(decode_messages(joined))
        assert [one.offset for one in found] == list(range(len(found)))
        return [one.payload for one in found]

    def visible_from(self, first_offset: int) -> list[bytes]:
        """What a reader finds whose partition begins at this offset."""
        found = self.readers.reader(TARGET).read(self.published, 0, 1 << 20, RESPONSE_SIZE_MAX)
        assert found.first_offset == first_offset
        return [one.payload for one in decode_messages(memoryview(b"".join(found.views)))]

    def forget_board(self) -> None:
        """As after the end of the whole broker."""
        self.board.publish(TARGET.slot, (0,) * 8)

    def close(self) -> None:
        self.open_files.close()
        os.close(self._board_fd)


def batch_of(*payloads: bytes) -> memoryview:
    """A batch as a session hands it on: checked, and marked as not stamped."""
    batch = memoryview(bytearray(encode_messages(Message(payload) for payload in payloads)))
    clear_first_checksum(batch)
    return batch
