"""The directories of partitions, brought level with their lane: a local log is a cache of it.

Runs while a lane is opened, before anything else looks at these directories. Files get bytes only
once these are in the lane, so what lies here is nearly always a prefix of it, and only the rest is
written. A directory that is anything else is moved away, and made again from the store.

Blocking; for a thread. Nothing is synced: what a power cut takes is brought back by the next start.
"""

import os
from dataclasses import dataclass, field

from borzoi.cluster.replay import PlacedPiece, ReplayedLife
from borzoi.protocol.identifiers import ConsumerKind
from borzoi.storage.birth import BirthDamaged, read_birth, write_birth
from borzoi.storage.files import Files
from borzoi.storage.layout import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_DIRECTORIES,
    index_path,
    is_number,
    log_path,
    segment_first_offsets,
)
from borzoi.storage.offsets import OFFSET
from borzoi.storage.recovery import recover
from borzoi.storage.scan import scan_file
from borzoi.storage.segment import SealedSegment
from borzoi.storage.segment_end import open_log
from borzoi.storage.trash import retire_directory


@dataclass(slots=True)
class LocalLife:
    """The directory of one life of a partition, and what its lane has of it."""

    directory: str
    birth: int
    life: ReplayedLife
    files: Files
    trash: str
    report: list[str] = field(default_factory=list)

    def begin(self) -> list[PlacedPiece]:
        """Make the directory ready; the pieces whose bytes it lacks."""
        if os.path.isdir(self.directory) and (why := self._misfit()):
            self.start_over(why)
        names = [os.path.join(self.directory, name) for name in OFFSET_DIRECTORIES.values()]
        for path in names:
            self.files.makedirs(path)
        if read_birth(self.directory, self.files) is None:
            write_birth(self.directory, self.birth, self.files)
        self._remove_foreign_segments()
        return [one for one in self.life.pieces if self._lacks(one)]

    def write_piece(self, placed: PlacedPiece, pack: memoryview) -> None:
        """Put the bytes of a piece in their place."""
        piece = placed.piece
        body = pack[piece.at : piece.at + piece.length]
        if len(body) != piece.length:
            raise ValueError(f"a pack of {len(pack)} bytes does not hold {piece}")
        self._write(piece.segment, placed.position, body)

    def finish(self) -> None:
        """Write what came behind the checkpoint, and what consumers have read."""
        for batch in self.life.batches:
            self._write(batch.segment, batch.position, memoryview(batch.body))
        self._write(self.life.active_segment, 0, memoryview(b""))
        for kind, name in OFFSET_DIRECTORIES.items():
            self._write_offsets(kind, os.path.join(self.directory, name))

    def is_level(self) -> bool:
        """Whether all messages are there and sound, as far as a start looks at them."""
        found = recover(self.directory, self.birth, self.files)
        if not all(
            self._is_sound(one) for one in found.sealed if one.first_offset in found.unsynced
        ):
            return False
        first = found.sealed[0].first_offset if found.sealed else found.end.segment
        return (first, found.end.next_offset) == (
            min(self.life.sizes),
            self.life.next_offset,
        )

    def _is_sound(self, segment: SealedSegment) -> bool:
        """Whether every message of a segment is, of which a power cut may have taken some."""
        fd = self.files.open(log_path(self.directory, segment.first_offset), os.O_RDONLY)
        try:
            log = open_log(self.files, fd, segment.first_offset)
            return scan_file(log, 0, segment.first_offset, 0).valid_size == log.size
        finally:
            self.files.close(fd)

    def start_over(self, why: str) -> None:
        """Move the directory away: everything comes from the store."""
        self.report.append(f"{self.directory} is made again from the store: {why}")
        name = f"replaced-{self.birth}-{os.path.basename(self.directory)}"
        retire_directory(self.directory, self.trash, name, self.files)

    def _misfit(self) -> str:
        """Why the files that are there are no prefix of the lane, by their birth and sizes."""
        try:
            birth = read_birth(self.directory, self.files)
        except BirthDamaged as error:
            return str(error)
        if birth != self.birth:
            return f"it is of birth {birth}, not {self.birth}"
        names = self.files.listdir(self.directory)
        for segment in segment_first_offsets(names, LOG_SUFFIX):
            size = self.files.status_of(log_path(self.directory, segment)).size
            wanted = self.life.sizes.get(segment)
            if wanted is None and size and segment >= self.life.first_offset:
                return f"segment {segment} is not in the lane"
            if wanted is not None and size > wanted:
                return f"segment {segment} has {size} bytes, the lane has {wanted}"
        return ""

    def _remove_foreign_segments(self) -> None:
        """Segments that were deleted, and an empty one that the lane knows nothing of."""
        names = self.files.listdir(self.directory)
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
            for segment in segment_first_offsets(names, suffix):
                if segment not in self.life.sizes:
                    for path in (
                        log_path(self.directory, segment),
                        index_path(self.directory, segment),
                    ):
                        self.files.unlink_if_there(path)

    def _lacks(self, placed: PlacedPiece) -> bool:
        piece = placed.piece
        return self._size(piece.segment) < placed.position + piece.length

    def _size(self, segment: int) -> int:
        try:
            return self.files.status_of(log_path(self.directory, segment)).size
        except FileNotFoundError:
            return 0

    def _write(self, segment: int, position: int, body: memoryview) -> None:
        """What is there already is the same: only the rest is written."""
        fd = self.files.open(log_path(self.directory, segment), os.O_RDWR | os.O_CREAT)
        try:
            there = max(0, self.files.size(fd) - position)
            if there < len(body):
                self.files.write_all(fd, (body[there:],), position + there)
        finally:
            self.files.close(fd)

    def _write_offsets(self, kind: ConsumerKind, directory: str) -> None:
        wanted = {
            id: offset for (of_kind, id), offset in self.life.offsets.items() if of_kind == kind
        }
        for name in self.files.listdir(directory):
            if is_number(name) and int(name) not in wanted:
                self.files.unlink_if_there(os.path.join(directory, name))
        for consumer, offset in wanted.items():
            path = os.path.join(directory, str(consumer))
            if self.files.read_all(path, OFFSET.size) != OFFSET.pack(offset):
                self.files.replace(path, OFFSET.pack(offset), durable=False)
