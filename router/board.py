"""The board: what the owner of each partition has published, for every shard to read.

One memfd made by the supervisor; it outlives any worker. A slot is written by one process, the
owner of the partition it was given to, and read by all. The eight words of a slot mean nothing
here. Slot 0 belongs to the metadata.

    slot n, three cache lines at n * 192

      + 0    version                       counts publications; its lowest bit names the copy
      + 64   w0 w1 w2 w3 w4 w5 w6 w7       copy 0, current while the version is even
      + 128  w0 w1 w2 w3 w4 w5 w6 w7       copy 1, current while the version is odd

Publish writes the copy that is not current and then the version. Read takes the version, its
copy, and the version again, and starts over if that moved. There is no "being written" state: a
writer killed at any step leaves the last publication as it was.

Always: read() returns exactly the words of one publish(), or zeros before the first.

The map covers all slots (3.2 GB of address space) and uses memory only for pages that were
touched. Reading a slot counts as touching, so scan the slots that were given out, not the board.

Measured (2-core x86-64 virtual machine, others at work on it, Python 3.11, best of 40 runs):
publish 0.39 us, read 0.53 us word by word and 0.2 us with struct. The figures are printed by
tests/router/test_board.py. Stores are made word by word, so that nothing depends on how a memcpy
stores. Loads need no such care: a copy read between two equal versions was not being written.
"""

import struct
from typing import Final

from borzoi.router.memory import (
    LINE_SIZE,
    LINE_WORDS,
    WORD_SIZE,
    SharedMemoryError,
    create_memory,
    map_memory,
)

BOARD_SLOTS_MAX: Final = 1 << 24
BOARD_SLOT_WORDS: Final = 3 * LINE_WORDS
BOARD_SLOT_SIZE: Final = BOARD_SLOT_WORDS * WORD_SIZE
METADATA_SLOT: Final = 0
# A try fails only if a publication ends inside it. A thousand in a row do not happen by chance.
READ_TRIES_MAX: Final = 1000

# By a name of its own: it runs for every poll.
_unpack_copy: Final = struct.Struct("8Q").unpack_from

BoardWords = tuple[int, int, int, int, int, int, int, int]


class SlotOutOfRange(SharedMemoryError):
    """The board has no such slot."""


def create_board(slots: int = BOARD_SLOTS_MAX) -> int:
    """The descriptor of an empty board. Called once, by the supervisor."""
    if not 1 <= slots <= BOARD_SLOTS_MAX:
        raise ValueError(f"{slots} slots: a board has between 1 and {BOARD_SLOTS_MAX}")
    return create_memory("borzoi-board", slots * BOARD_SLOT_SIZE)


class Board:
    """The map of the board in one process. It publishes only to slots of partitions it owns."""

    __slots__ = ("_bytes", "_memory", "_words", "slots")

    def __init__(self, fd: int, slots: int = BOARD_SLOTS_MAX, writable: bool = True) -> None:
        if not 1 <= slots <= BOARD_SLOTS_MAX:
            raise ValueError(f"{slots} slots: a board has between 1 and {BOARD_SLOTS_MAX}")
        self._memory = map_memory(fd, slots * BOARD_SLOT_SIZE, writable)
        self._words = self._memory.words
        self._bytes = self._memory.bytes
        self.slots = slots

    def publish(self, slot: int, words: BoardWords) -> None:
        """Make `words` what readers of the slot see from now on."""
        if not 0 <= slot < self.slots:
            raise SlotOutOfRange(f"slot {slot} of a board of {self.slots}")
        shared = self._words
        base = slot * BOARD_SLOT_WORDS
        version = shared[base] + 1
        at = base + 8 + ((version & 1) << 3)
        (
            shared[at],
            shared[at + 1],
            shared[at + 2],
            shared[at + 3],
            shared[at + 4],
            shared[at + 5],
            shared[at + 6],
            shared[at + 7],
        ) = words
        shared[base] = version

    def read(self, slot: int) -> BoardWords:
        """The last words that were published to the slot; zeros if none ever were."""
        if not 0 <= slot < self.slots:
            raise SlotOutOfRange(f"slot {slot} of a board of {self.slots}")
        shared = self._words
        base = slot * BOARD_SLOT_WORDS
        first_copy = slot * BOARD_SLOT_SIZE + LINE_SIZE
        version = shared[base]
        tries_left = READ_TRIES_MAX
        while tries_left:
            words: BoardWords = _unpack_copy(self._bytes, first_copy + (version & 1) * LINE_SIZE)
            seen = version
            version = shared[base]
            if version == seen:
                return words
            tries_left -= 1
        raise AssertionError(f"slot {slot} changed during each of {READ_TRIES_MAX} reads")

    def version_word(self, slot: int) -> memoryview:
        """The word that counts the publications of a slot, to see whether anything is new.

        Looked at before every request, so without a call of ours. Released before `close`.
        """
        if not 0 <= slot < self.slots:
            raise SlotOutOfRange(f"slot {slot} of a board of {self.slots}")
        at = slot * BOARD_SLOT_WORDS
        return self._words[at : at + 1]

    def close(self) -> bool:
        """Unmap; True if the map is gone at once."""
        return self._memory.close()
