"""The messages of a compressed segment as a reader sees them: plain bytes, block by block.

Stands where MappedFile stands for a plain one, and counts in the same plain positions. Nothing is
read in the loop. A reader asks what is `missing`, a thread loads that (MissingBlocks.load), the
loop takes it in, and the reader asks again. Only code that may wait for the disk lets `views` load.

The checksum of a block is enough to trust its bytes. Whether the messages in it are sound is
checked by the reader, as for every byte that was found at the start.
"""

import os
from collections.abc import Callable
from typing import NamedTuple

from borzoi.storage.block_index import (
    BLOCK_SIZE,
    BlockDamaged,
    BlockIndex,
    BlockIndexDamaged,
    decode_block,
    read_block_index,
    walk_blocks,
)
from borzoi.storage.copy_memory import Copy
from borzoi.storage.encrypted import CannotOpenSegment, PartitionCipher, SegmentCipher
from borzoi.storage.files import FileIdentity, Files
from borzoi.storage.plain_blocks import BlockKey, PlainBlocks
from borzoi.storage.segment_form import PLAIN, SegmentForm


class Replaced(Exception):
    """The name leads to another file by now."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was replaced")
        self.path = path


class FileBlocks(NamedTuple):
    """Which file it is, where its blocks lie, and what decrypts them."""

    identity: FileIdentity
    places: BlockIndex
    cipher: SegmentCipher | None


class SoundViews(NamedTuple):
    """Plain bytes up to a position: the end that was wanted, or where a damaged block begins."""

    views: list[memoryview]
    end: int


class CompressedFile:
    """One file by name. Belongs to a SegmentView."""

    def __init__(
        self,
        path: str,
        segment: int,
        files: Files,
        blocks: PlainBlocks,
        note_found: Callable[[], None],
        cipher: PartitionCipher | None = None,
    ) -> None:
        self.path = path
        self.segment = segment
        self._files = files
        self._blocks = blocks
        self._number = blocks.new_file()
        self._found: FileBlocks | None = None
        # The reader confirms the birth of the directory after each file that was found in it.
        self._note_found = note_found
        self.cipher = cipher

    def size(self, _size_wanted: int) -> int:
        """How many plain bytes there are. Loads the block index, if need be."""
        return self._places().plain_size

    @property
    def written_form(self) -> SegmentForm:
        """The form in which the segment was written, which its .index has too.

        Loads the block index, if need be; not where nothing can be encrypted.
        """
        return PLAIN if self.cipher is None else self._places().form

    def missing_form(self) -> "MissingBlocks | None":
        """What has to be loaded before the form can be had; None if nothing."""
        if self.cipher is None or self._found is not None:
            return None
        return MissingBlocks(self, self._files, 0, 0, None)

    def _places(self) -> BlockIndex:
        if self._found is None:
            MissingBlocks(self, self._files, 0, 0, None).load_now()
        assert self._found is not None
        return self._found.places

    def missing(self, start: int, end: int) -> "MissingBlocks | None":
        """What has to be loaded before these bytes can be had; None if nothing."""
        found = self._found
        if found is not None:
            if end > found.places.plain_size:
                return None
            if all(map(self.is_known, found.places.numbers_of(start, end))):
                return None
        return MissingBlocks(self, self._files, start, end, found)

    def views(self, start: int, end: int) -> list[memoryview]:
        """These bytes, loaded now if need be. BlockDamaged if one of the blocks is."""
        found = self.sound_views(start, end)
        if found.end < end:
            raise BlockDamaged(f"{self.path}: plain bytes from {found.end} on")
        return found.views

    def sound_views(self, start: int, end: int) -> SoundViews:
        """These bytes up to the first damaged block, loaded now if need be."""
        missing = self.missing(start, end)
        # Holds what it has loaded until the views hold it.
        loaded = missing.load_now() if missing is not None else []
        assert self._found is not None
        index = self._found.places
        views: list[memoryview] = []
        for number in index.numbers_of(start, end):
            block = self.block(number)
            plain_start, plain_end, _, _ = index.place(number)
            if block is None:
                return SoundViews(views, max(start, plain_start))
            first, last = max(start, plain_start), min(end, plain_end)
            views.append(self._blocks.piece(block, first - plain_start, last - plain_start))
        del loaded
        return SoundViews(views, end)

    def was_replaced(self) -> bool:
        """Returns whether another file has this name now. Asks the disk."""
        assert self._found is not None
        return self._files.status_of(self.path).identity != self._found.identity

    def let_go(self) -> None:
        """Drops the blocks of the segment: it was deleted, or its file was replaced."""
        self._blocks.let_go(self._number)

    def take_in(
        self, found: FileBlocks, plain: dict[int, Copy], damaged: dict[int, str]
    ) -> list[Copy]:
        """In the loop: what was loaded. The blocks can be found while the list is held."""
        if self._found is None:
            self._found = found
            self._note_found()
        for number, text in damaged.items():
            self._blocks.note_damage(BlockKey(self._number, number), text)
        return [
            self.block(number) or self._blocks.put(BlockKey(self._number, number), data)
            for number, data in plain.items()
        ]

    def block(self, number: int) -> Copy | None:
        """A block, if it is in memory."""
        return self._blocks.get(BlockKey(self._number, number))

    def is_known(self, number: int) -> bool:
        """Whether a block is in memory, or is known to be damaged."""
        key = BlockKey(self._number, number)
        return self._blocks.get(key) is not None or self._blocks.damage(key) is not None


class MissingBlocks:
    """Blocks that a read needs: loaded by a thread, taken in by the loop."""

    def __init__(
        self, file: CompressedFile, files: Files, start: int, end: int, found: FileBlocks | None
    ) -> None:
        self._file = file
        self._files = files
        self._start = start
        self._end = end
        self._found = found
        self._plain: dict[int, Copy] = {}
        self._damaged: dict[int, str] = {}
        numbers = self._numbers(found.places) if found is not None else range(0)
        # Those that are there already stay there while the others are loaded.
        present = {number: file.block(number) for number in numbers if file.is_known(number)}
        self._held = [block for block in present.values() if block is not None]
        self._known = frozenset(present)
        self._is_loaded = False
        # At both ends there is a part of a block at most; a larger block is one message.
        self.size_max = end - start + 2 * BLOCK_SIZE if end > start else 0
        self.path = file.path

    @property
    def is_loaded(self) -> bool:
        """False if loading it came to nothing."""
        return self._is_loaded

    def load(self) -> None:
        """In a thread: wait for the disk, decompress. OSError, Replaced."""
        fd = self._files.open(self.path, os.O_RDONLY)
        try:
            self._load(fd)
            self._is_loaded = True
        finally:
            self._files.close(fd)

    def take_in(self) -> list[Copy]:
        """In the loop. The blocks can be found for as long as the list is held."""
        assert self._found is not None
        loaded = self._file.take_in(self._found, self._plain, self._damaged)
        self._plain.clear()
        held, self._held = self._held, []
        return [*held, *loaded]

    def load_now(self) -> list[Copy]:
        """Loads the blocks in this thread, waiting for the disk, and takes them in."""
        self.load()
        return self.take_in()

    def _load(self, fd: int) -> None:
        status = self._files.status(fd)

        def read(size: int, position: int) -> bytes:
            return self._files.pread(fd, size, position)

        if self._found is None:
            try:
                index = read_block_index(read, status.size, self._file.segment)
            except BlockIndexDamaged:
                index = walk_blocks(read, status.size)
            cipher = cipher_of_blocks(self._file.cipher, self._file.segment, index.form)
            self._found = FileBlocks(status.identity, index, cipher)
        elif self._found.identity != status.identity:
            raise Replaced(self.path)
        index = self._found.places
        for number in self._numbers(index):
            if number in self._known:
                continue
            place = index.place(number)
            data = read(place.file_end - place.file_start, place.file_start)
            try:
                self._plain[number] = Copy(decode_block(data, place, self._found.cipher))
            except BlockDamaged as error:
                self._damaged[number] = str(error)

    def _numbers(self, index: BlockIndex) -> range:
        if not self._start < self._end <= index.plain_size:
            return range(0)
        return index.numbers_of(self._start, self._end)


def cipher_of_blocks(
    cipher: PartitionCipher | None, segment: int, form: SegmentForm
) -> SegmentCipher | None:
    """What decrypts the blocks of a file; None if nothing has to, or can. Then a block says so."""
    if cipher is None or form.header is None:
        return None
    try:
        return cipher.resume(segment, form.header)
    except CannotOpenSegment:
        return None
