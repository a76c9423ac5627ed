"""Blocks of compressed segments as plain bytes: the ones read lately, and those still being sent.

Messages of a compressed segment cannot be sent from a map; they are sent from memory, and this
is who counts that memory. A block lives as long as somebody holds a view of it, a socket for
instance; beyond that only the ones used last are kept. Whoever wants more than there is room for
waits until views are gone (shards/warm_reads.py).

Owned by the loop of a shard; only the dying of a block may happen in another thread.
"""

import weakref
from collections import OrderedDict
from itertools import count
from typing import Final, NamedTuple

KEPT_PART: Final = 4
"""A quarter of the memory is for blocks that nobody holds, the rest for those being sent."""

READ_PART: Final = 4
"""One read gets a quarter of it at most, so that a few large ones do not stop all others."""

DAMAGED_MAX: Final = 1024


class Block(bytearray):
    """Plain bytes that tell when the last view of them is gone."""

    __slots__ = ("__weakref__",)


class BlockKey(NamedTuple):
    """A block of a file. Files are numbered here: an inode may be another file tomorrow."""

    file: int
    number: int


class PlainBlocks:
    """All decompressed bytes of a shard."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._kept_size_max = size_max // KEPT_PART
        self.read_size_max = size_max // READ_PART
        self._serials = count()
        self._file_numbers = count()
        # By serial number. One dict call at a time: blocks die in any thread.
        self._sizes: dict[int, int] = {}
        self._alive: dict[int, weakref.ref[Block]] = {}
        self._by_key: dict[BlockKey, weakref.ref[Block]] = {}
        self._kept: OrderedDict[BlockKey, Block] = OrderedDict()
        self._kept_size = 0
        self._reserved = 0
        self._damaged: dict[BlockKey, str] = {}

    def new_file(self) -> int:
        """A number for the keys of a file."""
        return next(self._file_numbers)

    @property
    def size(self) -> int:
        """How many bytes are held, by views and by us."""
        return sum(self._sizes.values())

    def get(self, key: BlockKey) -> Block | None:
        """The block, if it is in memory."""
        found = self._by_key.get(key)
        block = found() if found is not None else None
        if block is not None and key in self._kept:
            self._kept.move_to_end(key)
        return block

    def put(self, key: BlockKey, plain: bytes) -> Block:
        """Take a block in."""
        self._forget(key)
        block = self._count(plain, key)
        self._by_key[key] = weakref.ref(block)
        self._kept[key] = block
        self._kept_size += len(block)
        self._shrink(self._kept_size_max)
        return block

    def piece(self, block: Block, start: int, end: int) -> memoryview:
        """Some bytes of a block, to be held for as long as it takes.

        Copied if they are the smaller part: a slow reader of one message must not hold a block.
        """
        if (end - start) * 2 < len(block):
            return memoryview(self._count(memoryview(block)[start:end])).toreadonly()
        return memoryview(block)[start:end].toreadonly()

    def note_damage(self, key: BlockKey, text: str) -> None:
        if len(self._damaged) >= DAMAGED_MAX:
            self._damaged.clear()
        self._damaged[key] = text

    def damage(self, key: BlockKey) -> str | None:
        """What is wrong with a block, None if nothing is known."""
        return self._damaged.get(key)

    def reserve(self, size: int) -> bool:
        """Room for so many bytes until release(); False if there is none now.

        When nothing else is held there is room for anything: a message may be larger than all.
        """
        if self._does_not_fit(size):
            self._shrink(max(0, self._size_max - self._reserved - size))
        if self._does_not_fit(size):
            self._shrink(0)
        if self._does_not_fit(size) and (self._reserved or self._sizes):
            return False
        self._reserved += size
        return True

    def release(self, size: int) -> None:
        self._reserved -= size

    def let_go(self, file: int) -> None:
        """Nobody will ask for blocks of this file again."""
        for key in [key for key in self._kept if key.file == file]:
            self._forget(key)
        for key in [key for key in self._damaged if key.file == file]:
            del self._damaged[key]

    def _does_not_fit(self, size: int) -> bool:
        return self.size + self._reserved + size > self._size_max

    def _count(self, plain: bytes | memoryview, key: BlockKey | None = None) -> Block:
        block = Block(plain)
        serial = next(self._serials)
        self._sizes[serial] = len(block)

        def died(_ref: weakref.ref[Block]) -> None:
            del self._sizes[serial], self._alive[serial]
            if key is not None:
                # If another has come in its place that one is not found: a loss of time.
                self._by_key.pop(key, None)

        self._alive[serial] = weakref.ref(block, died)
        return block

    def _shrink(self, size: int) -> None:
        while self._kept_size > size:
            self._forget(next(iter(self._kept)))

    def _forget(self, key: BlockKey) -> None:
        block = self._kept.pop(key, None)
        if block is not None:
            self._kept_size -= len(block)
