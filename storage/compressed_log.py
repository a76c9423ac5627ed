"""A compressed segment that is read as a whole: by recovery, index checks and the compressor.

Reads with pread through one block at a time. A damaged block reads as zeros, which are no sound
message, so a walk over the log finds what lies behind it. `damage` has what was met.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from borzoi.storage.block_index import (
    BlockDamaged,
    BlockIndex,
    BlockIndexDamaged,
    check_block,
    decode_block,
    read_block_index,
    read_packed_form,
    walk_blocks,
)
from borzoi.storage.compressed_file import cipher_of_blocks
from borzoi.storage.encrypted import PartitionCipher
from borzoi.storage.files import Files
from borzoi.storage.layout import log_path, segment_codecs, stored_log_path
from borzoi.storage.scan import LogBytes, LogFile
from borzoi.storage.segment_form import PLAIN, SegmentForm


class CompressedLog:
    """An open .log.<codec>, read as the plain bytes that it stands for."""

    def __init__(
        self, files: Files, fd: int, segment: int, cipher: PartitionCipher | None = None
    ) -> None:
        self._files = files
        self._fd = fd
        self._segment = segment
        self.stored_bytes = files.size(fd)
        self.damage: list[str] = []
        self.index = self._find_blocks()
        self._cipher = cipher_of_blocks(cipher, segment, self.index.form)
        self._number = -1
        self._plain = b""

    @property
    def segment(self) -> int:
        """The first offset of the segment."""
        return self._segment

    @property
    def size(self) -> int:
        """The size of the plain bytes."""
        return self.index.plain_size

    @property
    def form(self) -> SegmentForm:
        """The form of the bytes that read() returns: always plain."""
        return PLAIN

    @property
    def index_form(self) -> SegmentForm:
        """The form in which the segment was written, which its .index has too."""
        return self.index.form

    def read(self, position: int, size: int) -> memoryview:
        """Plain bytes from a position on; fewer at the end."""
        end = min(position + size, self.size)
        if end <= position:
            return memoryview(b"")
        pieces = []
        for number in self.index.numbers_of(position, end):
            plain_start = self.index.place(number).plain_start
            block = memoryview(self._block(number))
            pieces.append(block[max(position - plain_start, 0) : end - plain_start])
        return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))

    def block(self, number: int) -> bytes:
        """One block. BlockDamaged if it is not what was written."""
        place = self.index.place(number)
        data = self._pread(place.file_end - place.file_start, place.file_start)
        return decode_block(data, place, self._cipher)

    @property
    def is_readable(self) -> bool:
        """Whether it is not encrypted, or the key is there."""
        return self.index.form == PLAIN or self._cipher is not None

    def check_blocks(self) -> None:
        """Verify all blocks as far as that goes without a key."""
        for number in range(self.index.block_count):
            place = self.index.place(number)
            try:
                check_block(self._pread(place.file_end - place.file_start, place.file_start), place)
            except BlockDamaged as error:
                self._note_damage(number, error)

    def _block(self, number: int) -> bytes:
        if number != self._number:
            try:
                self._plain = self.block(number)
            except BlockDamaged as error:
                place = self.index.place(number)
                self._note_damage(number, error)
                self._plain = bytes(place.plain_end - place.plain_start)
            self._number = number
        return self._plain

    def _note_damage(self, number: int, error: BlockDamaged) -> None:
        place = self.index.place(number)
        self.damage.append(
            f"block {number}, plain bytes {place.plain_start} to {place.plain_end}: {error}"
        )

    def _find_blocks(self) -> BlockIndex:
        try:
            return read_block_index(self._pread, self.stored_bytes, self._segment)
        except BlockIndexDamaged as error:
            self.damage.append(f"block index: {error}")
            return walk_blocks(self._pread, self.stored_bytes)

    def _pread(self, size: int, position: int) -> bytes:
        return self._files.pread(self._fd, size, position)


@contextmanager
def open_log(
    directory: str, segment: int, files: Files, cipher: PartitionCipher | None = None
) -> Iterator[LogBytes]:
    """The bytes of a segment as its index goes by them, whatever form a plain file has.

    FileNotFoundError if it is gone.
    """
    try:
        fd = files.open(log_path(directory, segment), os.O_RDONLY)
    except FileNotFoundError:
        # It may have been compressed, just now or long ago.
        codec = segment_codecs(files.listdir(directory)).get(segment)
        if codec is None:
            raise
        path = stored_log_path(directory, segment, codec)
        with open_compressed(path, segment, files, cipher) as packed:
            yield packed
        return
    try:
        yield LogFile(files, fd, segment, files.size(fd))
    finally:
        files.close(fd)


@contextmanager
def open_compressed(
    path: str, segment: int, files: Files, cipher: PartitionCipher | None = None
) -> Iterator[CompressedLog]:
    """Opens a compressed segment; the file is closed at the end of the block."""
    fd = files.open(path, os.O_RDONLY)
    try:
        yield CompressedLog(files, fd, segment, cipher)
    finally:
        files.close(fd)


def packed_form(path: str, files: Files) -> SegmentForm:
    """How a compressed file is encrypted, whatever else of it is damaged."""
    fd = files.open(path, os.O_RDONLY)
    try:
        return read_packed_form(lambda size, position: files.pread(fd, size, position))
    finally:
        files.close(fd)
