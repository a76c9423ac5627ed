"""What the consumers and groups of a partition have read, in memory and on disk.

One file per consumer, `offsets/consumers/<id>` or `offsets/groups/<id>`: the offset of the last
message consumed, 8 bytes, little-endian, written in place. Belongs to the owner of the
partition. Commits are collected by store() and reach the files by write(), before they are
acknowledged: so they survive the death of every process. Only sync() makes them survive a power
cut; a cut may bring an older value back, which repeats messages but never skips any.

Always: a value that is not dirty equals its file; a failed write() takes its commits back.
"""

import os
import struct
from collections.abc import Container, Mapping
from functools import partial
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.errors import (
    CannotDeleteConsumerOffsetFile,
    CannotOpenConsumerOffsetsFile,
    CannotSyncFile,
)
from borzoi.protocol.identifiers import U32_MAX, ConsumerKind
from borzoi.shares import ShareFigures
from borzoi.storage.files import Files
from borzoi.storage.layout import OFFSET_DIRECTORIES, is_number
from borzoi.storage.offset_room import OffsetRoom
from borzoi.storage.open_files import KeptFiles, OpenFiles

OFFSET: Final = struct.Struct("<Q")
DIGEST_ROW: Final = struct.Struct("<QQQ")  # kind, id, offset


def forget_groups(directory: str, files: Files, living: Container[int]) -> list[int]:
    """Unlinks the offsets of groups that do not exist; returns the ids of these groups.

    The partition must not be open here. A worker that died before it carried out the deletion of a
    group left them, and the id may be given out again.
    """
    groups = os.path.join(directory, OFFSET_DIRECTORIES[ConsumerKind.GROUP])
    try:
        names = files.listdir(groups)
    except FileNotFoundError:
        return []
    dead = [int(name) for name in names if is_number(name) and int(name) not in living]
    for number in dead:
        files.unlink_if_there(os.path.join(groups, str(number)))
    return sorted(dead)


def offsets_digest(offsets: Mapping[tuple[ConsumerKind, int], int]) -> int:
    """A number that changes when any of these values does."""
    rows = [DIGEST_ROW.pack(*consumer, offset) for consumer, offset in sorted(offsets.items())]
    return xxhash.xxh3_64_intdigest(b"".join(rows))


class OffsetsSync(NamedTuple):
    """Files and directories that a sync has to bring to the disk."""

    paths: tuple[str, ...]
    directories: tuple[str, ...]


class ConsumerOffsets:
    """The committed offsets of one partition."""

    def __init__(
        self,
        directory: str,
        files: Files,
        open_files: OpenFiles,
        consumers_max: int,
        share_weight: int = 1,
    ) -> None:
        """`consumers_max` and `share_weight`: see offset_room.py."""
        self.report: list[str] = []
        self._directory = directory
        self._files = files
        self._open = open_files.scope()
        self._new_room = partial(OffsetRoom, directory, files, consumers_max, share_weight)
        self._room: OffsetRoom | None = None  # until there is a consumer: most have none
        self._offsets: dict[tuple[ConsumerKind, int], int] = {}
        self._before_commit: dict[tuple[ConsumerKind, int], int | None] = {}  # the dirty ones
        # A consumer commits again and again: its file stays open as long as others leave room.
        self._kept: dict[tuple[ConsumerKind, int], KeptFiles] = {}
        self._unsynced: set[tuple[ConsumerKind, int]] = set()
        self._unsynced_names: set[ConsumerKind] = set()
        self._failed_sync = OffsetsSync((), ())

    def __len__(self) -> int:
        return len(self._offsets)

    @classmethod
    def load(
        cls,
        directory: str,
        files: Files,
        offset_max: int | None,
        *,
        open_files: OpenFiles,
        consumers_max: int,
        share_weight: int = 1,
    ) -> "ConsumerOffsets":
        """Read all offset files. `offset_max` is the last offset there is, None if there is none.

        A value beyond it points at messages that a power cut took. It is brought back to the end,
        or else messages written from now on would be skipped. Odd files are left alone and
        reported.
        """
        offsets = cls(directory, files, open_files, consumers_max, share_weight)
        for kind in OFFSET_DIRECTORIES:
            offsets._load_kind(kind, offset_max)
            count = sum(kind is of_kind for of_kind, _ in offsets._offsets)
            if count > consumers_max:
                offsets.report.append(
                    f"{directory}: {count} {kind.name.lower()}s have offsets, more than the limit "
                    f"of {consumers_max}; new ones are refused"
                )
        if offsets._offsets:
            offsets.room.load(offsets._offsets)
        offsets.write()
        return offsets

    def figures(self) -> ShareFigures | None:
        """How full the room is; None if there has never been an offset."""
        return None if self._room is None else self._room.figures()

    @property
    def room(self) -> OffsetRoom:
        """The makers of the offsets, and whether there may be more of them."""
        if self._room is None:
            self._room = self._new_room()
        return self._room

    def get(self, kind: ConsumerKind, id: int) -> int | None:
        """Returns the committed offset of a consumer or group; None if there is none."""
        return self._offsets.get((kind, id))

    def store(self, kind: ConsumerKind, id: int, offset: int, user: int = 0) -> None:
        """Commit in memory, for a user; only write() makes it count."""
        consumer = kind, id
        if consumer not in self._offsets:
            self.room.admit(kind, id, user)
        self._before_commit.setdefault(consumer, self._offsets.get(consumer))
        self._offsets[consumer] = offset

    def write(self) -> None:
        """Bring all commits to their files: with the kernel when it returns, not durable.

        If one cannot be written, it and those behind it are taken back.
        """
        try:
            if self._room is not None and self._room.due:
                self._room.write()
            while self._before_commit:
                consumer = next(iter(self._before_commit))
                self._write_one(consumer)
                del self._before_commit[consumer]
                self._unsynced.add(consumer)
        except OSError as error:
            self._take_back()
            raise CannotOpenConsumerOffsetsFile(f"{self._directory}: {error}") from error

    def delete(self, kind: ConsumerKind, id: int) -> bool:
        """Forget a consumer, on disk as well; False when there was nothing to forget."""
        consumer = kind, id
        if consumer not in self._offsets:
            return False
        self._unlink(consumer)
        del self._offsets[consumer]
        self.room.forget(kind, id)
        self._before_commit.pop(consumer, None)
        self._unsynced.discard(consumer)
        self._unsynced_names.add(kind)
        return True

    def close(self) -> None:
        """The partition has ended: no file of it stays open here."""
        for kept in self._kept.values():
            kept.let_go()
        self._kept.clear()

    def lowest(self) -> tuple[int, ConsumerKind, int] | None:
        """Returns offset, kind and id of the consumer that is furthest behind.

        Nothing above it may be deleted.
        """
        if not self._offsets:
            return None
        (kind, id), offset = min(self._offsets.items(), key=lambda item: (item[1], item[0]))
        return offset, kind, id

    def items(self) -> list[tuple[ConsumerKind, int, int]]:
        """Kind, id and offset of every consumer, in the order of kind and id."""
        return [(kind, id, offset) for (kind, id), offset in sorted(self._offsets.items())]

    def digest(self) -> int:
        """A number that changes when any value does."""
        return offsets_digest(self._offsets)

    def sync(self) -> None:
        """Make what was written durable. Waits for the disk."""
        self.run_sync(self.plan_sync())

    @property
    def is_synced(self) -> bool:
        """Whether all commits that were written survive a power cut."""
        return not (self._unsynced or self._unsynced_names or any(self._failed_sync))

    def plan_sync(self) -> OffsetsSync:
        """Returns what a sync has to do now. The caller must carry the plan out."""
        failed, self._failed_sync = self._failed_sync, OffsetsSync((), ())
        plan = OffsetsSync(
            failed.paths + tuple(self._path(consumer) for consumer in self._unsynced),
            failed.directories + tuple(map(self._kind_directory, self._unsynced_names)),
        )
        self._unsynced.clear()
        self._unsynced_names.clear()
        return plan

    def run_sync(self, plan: OffsetsSync) -> None:
        """Carry out a plan; a thread may do it while the owner commits on."""
        try:
            for path in plan.paths:
                try:
                    with self._open.use(path) as fd:
                        self._files.fdatasync(fd)
                except FileNotFoundError:
                    continue  # The consumer was deleted meanwhile.
            for directory in plan.directories:
                self._files.fsync_directory(directory)
        except OSError as error:
            self._failed_sync = plan  # one store, so the owner may be planning meanwhile
            raise CannotSyncFile(f"{self._directory}: {error}") from error

    def _load_kind(self, kind: ConsumerKind, offset_max: int | None) -> None:
        directory = self._kind_directory(kind)
        try:
            names = self._files.listdir(directory)
        except FileNotFoundError:
            return
        for name in names:
            path = os.path.join(directory, name)
            if not is_number(name) or int(name) > U32_MAX:
                self.report.append(f"{path}: not the number of a consumer, ignored")
                continue
            data = self._files.read_all(path, OFFSET.size)
            if data is None or len(data) != OFFSET.size:
                self.report.append(f"{path}: an offset has {OFFSET.size} bytes, ignored")
                continue
            self._take_in((kind, int(name)), OFFSET.unpack(data)[0], offset_max)

    def _take_in(
        self, consumer: tuple[ConsumerKind, int], offset: int, offset_max: int | None
    ) -> None:
        path = self._path(consumer)
        if offset_max is None:
            # Kept, it would come into force once the partition has grown that far.
            self._unlink(consumer)
            self.report.append(f"{path}: offset {offset} in an empty partition, removed")
        elif offset > offset_max:
            self._offsets[consumer] = self._before_commit[consumer] = offset_max
            self.report.append(f"{path}: offset {offset} is beyond the end, now {offset_max}")
        else:
            self._offsets[consumer] = offset

    def _write_one(self, consumer: tuple[ConsumerKind, int]) -> None:
        kept = self._kept.get(consumer)
        if kept is None or not kept.is_open:
            kept = self._kept[consumer] = self._keep(consumer)
        self._files.write_all(kept.fds[0], (OFFSET.pack(self._offsets[consumer]),), 0)

    def _keep(self, consumer: tuple[ConsumerKind, int]) -> KeptFiles:
        path = self._path(consumer)
        try:
            return self._open.keep((path,))
        except FileNotFoundError:
            # Another consumer's first commit, or the very first here.
            self._files.makedirs(os.path.dirname(path))
            with self._open.use(path, create=True):
                self._unsynced_names.add(consumer[0])
                return self._open.keep((path,))

    def _take_back(self) -> None:
        for consumer, before in self._before_commit.items():
            if before is None:
                del self._offsets[consumer]
                self.room.forget(*consumer)
            else:
                self._offsets[consumer] = before
        self._before_commit.clear()

    def _unlink(self, consumer: tuple[ConsumerKind, int]) -> None:
        path = self._path(consumer)
        kept = self._kept.pop(consumer, None)
        if kept is not None:
            kept.let_go()
        self._open.forget(path)
        try:
            self._files.unlink_if_there(path)
        except OSError as error:
            raise CannotDeleteConsumerOffsetFile(f"{path}: {error}") from error

    def _path(self, consumer: tuple[ConsumerKind, int]) -> str:
        kind, id = consumer
        return os.path.join(self._kind_directory(kind), str(id))

    def _kind_directory(self, kind: ConsumerKind) -> str:
        return os.path.join(self._directory, OFFSET_DIRECTORIES[kind])
