"""Blocks of compressed segments as plain bytes: the ones read lately, and those still being sent.

Messages of a compressed segment cannot be sent from a map; they are sent from memory
(copy_memory.py counts it). A block is found as long as a view of it exists. Beyond that only the
ones used last are kept, and they make room where memory is needed.

Owned by the loop of a shard; only the dying of a block may happen in another thread.
"""

import weakref
from collections import OrderedDict
from itertools import count
from typing import Final, NamedTuple

from borzoi.storage.copy_memory import Copy, CopyMemory

DAMAGED_MAX: Final = 1024


class BlockKey(NamedTuple):
    """A block of a file. Files are numbered here: an inode may be another file tomorrow."""

    file: int
    number: int


class PlainBlocks:
    """The decompressed blocks of a shard."""

    def __init__(self, memory: CopyMemory) -> None:
        self.memory = memory
        memory.let_go_of_one = self._let_go_of_oldest
        self._kept_size_max = memory.read_size_max
        self._file_numbers = count()
        self._by_key: dict[BlockKey, weakref.ref[Copy]] = {}
        self._kept: OrderedDict[BlockKey, Copy] = OrderedDict()
        self._kept_size = 0
        self._damaged: dict[BlockKey, str] = {}

    def new_file(self) -> int:
        """A number for the keys of a file."""
        return next(self._file_numbers)

    def get(self, key: BlockKey) -> Copy | None:
        """The block, if it is in memory."""
        found = self._by_key.get(key)
        block = found() if found is not None else None
        if block is not None and key in self._kept:
            self._kept.move_to_end(key)
        return block

    def put(self, key: BlockKey, block: Copy) -> Copy:
        """Take a block in."""
        self._forget(key)
        # If another has come in its place that one is not found: a loss of time.
        self.memory.hold(block, lambda: self._by_key.pop(key, None))
        self._by_key[key] = weakref.ref(block)
        self._kept[key] = block
        self._kept_size += len(block)
        while self._kept_size > self._kept_size_max:
            self._let_go_of_oldest()
        return block

    def piece(self, block: Copy, start: int, end: int) -> memoryview:
        """Some bytes of a block, to be held for as long as it takes.

        Copied if they are the smaller part: a slow reader of one message must not hold a block.
        """
        if (end - start) * 2 < len(block):
            copy = self.memory.hold(Copy(memoryview(block)[start:end]))
            return memoryview(copy).toreadonly()
        return memoryview(block)[start:end].toreadonly()

    def note_damage(self, key: BlockKey, text: str) -> None:
        """Notes that a block cannot be read, so that it is not loaded again."""
        if len(self._damaged) >= DAMAGED_MAX:
            self._damaged.clear()
        self._damaged[key] = text

    def damage(self, key: BlockKey) -> str | None:
        """What is wrong with a block, None if nothing is known."""
        return self._damaged.get(key)

    def let_go(self, file: int) -> None:
        """Drops the blocks of a file that is not read any more."""
        for key in [key for key in self._kept if key.file == file]:
            self._forget(key)
        for key in [key for key in self._damaged if key.file == file]:
            del self._damaged[key]

    def _let_go_of_oldest(self) -> bool:
        if not self._kept:
            return False
        self._forget(next(iter(self._kept)))
        return True

    def _forget(self, key: BlockKey) -> None:
        block = self._kept.pop(key, None)
        if block is not None:
            self._kept_size -= len(block)
