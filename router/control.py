"""The control memory of a shard: its header, its heartbeat and its half of every ring.

One memfd per shard and life. The supervisor creates and labels it. From then on only shard k writes
control memory k, and its peers (and the supervisor, for the heartbeat) map it read-only.

    control memory of shard k                                        written by k alone

    word 0   magic          page 0
         1   version
         2   shard          k
         3   generation     which life of shard k: 1 at boot, one more after each death
         4   shard count
         5   ring slots
         8   heartbeat      nanoseconds of the monotonic clock, own cache line
         9   to write       one more than the partitions a stop has yet to write; 0 = no stop yet
        10   to sync        partitions that it has yet to sync
         16  in work        up to the end of the page; what it means is its user's business

    page 1   block of peer 0
             block of peer 1              (the block of k itself is never touched)
             ...

    block of peer j, each counter in its own cache line
      + 0    request tail   how many requests k pushed to j
      + 64   reply tail     how many replies k pushed to j
      + 128  request head   how many requests of j k has taken
      + 192  reply head     how many replies of j k has taken
      + 4096 request slots  ring k -> j
      + ...  reply slots    ring k -> j

The block of peer j pairs with the block of peer k in j's control memory (link.py).
"""

import os
from dataclasses import dataclass
from typing import Final, NamedTuple

from borzoi.router.memory import (
    LINE_WORDS,
    PAGE_SIZE,
    WORD_SIZE,
    SharedMemoryError,
    create_memory,
    map_memory,
)
from borzoi.router.ring import RING_SLOTS, SLOT_SIZE

MAGIC: Final = int.from_bytes(b"brzctl\0\0", "little")
VERSION: Final = 1
SHARDS_MAX: Final = 1024
FIRST_GENERATION: Final = 1

_MAGIC_AT: Final = 0
_VERSION_AT: Final = 1
_SHARD_AT: Final = 2
_GENERATION_AT: Final = 3
_SHARD_COUNT_AT: Final = 4
_RING_SLOTS_AT: Final = 5
_HEARTBEAT_AT: Final = LINE_WORDS
_IN_WORK_AT: Final = 2 * LINE_WORDS
_TO_WRITE_AT: Final = LINE_WORDS + 1
_TO_SYNC_AT: Final = LINE_WORDS + 2

_PAGE_WORDS: Final = PAGE_SIZE // WORD_SIZE


class ControlMismatch(SharedMemoryError):
    """A control memory is not the one it was said to be."""


class LeftToStop(NamedTuple):
    """What a shard that stops has yet to do, in partitions."""

    to_write: int
    to_sync: int


@dataclass(frozen=True, slots=True)
class ControlLayout:
    """Where things lie in a control memory. Positions are word numbers."""

    shard_count: int
    ring_slots: int = RING_SLOTS

    def __post_init__(self) -> None:
        if not 1 <= self.shard_count <= SHARDS_MAX:
            raise ValueError(f"{self.shard_count} shards: between 1 and {SHARDS_MAX} can be run")

    @property
    def ring_words(self) -> int:
        """Words of the slots of one ring, rounded up to whole pages."""
        words = self.ring_slots * (SLOT_SIZE // WORD_SIZE)
        return -(-words // _PAGE_WORDS) * _PAGE_WORDS

    @property
    def block_words(self) -> int:
        """Words of the block of one peer."""
        return _PAGE_WORDS + 2 * self.ring_words

    @property
    def size(self) -> int:
        """Bytes of the whole control memory."""
        return (_PAGE_WORDS + self.shard_count * self.block_words) * WORD_SIZE

    def request_tail(self, peer: int) -> int:
        """Returns the word that counts the requests pushed to a peer."""
        return self._block(peer)

    def reply_tail(self, peer: int) -> int:
        """Returns the word that counts the replies pushed to a peer."""
        return self._block(peer) + LINE_WORDS

    def request_head(self, peer: int) -> int:
        """Returns the word that counts the requests taken from a peer."""
        return self._block(peer) + 2 * LINE_WORDS

    def reply_head(self, peer: int) -> int:
        """Returns the word that counts the replies taken from a peer."""
        return self._block(peer) + 3 * LINE_WORDS

    def request_slots(self, peer: int) -> int:
        """Returns the first word of the slots for requests to a peer."""
        return self._block(peer) + _PAGE_WORDS

    def reply_slots(self, peer: int) -> int:
        """Returns the first word of the slots for replies to a peer."""
        return self._block(peer) + _PAGE_WORDS + self.ring_words

    def _block(self, peer: int) -> int:
        if not 0 <= peer < self.shard_count:
            raise ValueError(f"there is no shard {peer} among {self.shard_count}")
        return _PAGE_WORDS + peer * self.block_words


def create_control(layout: ControlLayout, shard: int, generation: int) -> int:
    """A new, labelled control memory: the descriptor to hand to the shard and its peers.

    Called by the supervisor, before the shard lives: peers link to it and queue requests while
    the shard is still starting.
    """
    if not 0 <= shard < layout.shard_count:
        raise ValueError(f"there is no shard {shard} among {layout.shard_count}")
    if generation < FIRST_GENERATION:
        raise ValueError(f"generation {generation}: lives are counted from {FIRST_GENERATION}")
    fd = create_memory(f"borzoi-control-{shard}", layout.size)
    memory = map_memory(fd, layout.size, writable=True)
    words = memory.words
    words[_VERSION_AT] = VERSION
    words[_SHARD_AT] = shard
    words[_GENERATION_AT] = generation
    words[_SHARD_COUNT_AT] = layout.shard_count
    words[_RING_SLOTS_AT] = layout.ring_slots
    words[_MAGIC_AT] = MAGIC
    memory.close()
    return fd


class SharedControl:
    """The control memory of a shard, to read. Checked against what the supervisor announced."""

    __slots__ = ("generation", "layout", "memory", "shard")

    writable = False

    def __init__(self, fd: int, layout: ControlLayout, shard: int, generation: int) -> None:
        actual = os.fstat(fd).st_size
        if actual != layout.size:
            raise ControlMismatch(
                f"control memory of shard {shard} has {actual} bytes instead of {layout.size}"
            )
        self.memory = map_memory(fd, layout.size, self.writable)
        self.layout = layout
        self.shard = shard
        self.generation = generation
        try:
            self._check()
        except ControlMismatch:
            self.memory.close()
            raise

    def last_beat(self) -> int:
        """When the shard's loop last said that it runs, in nanoseconds; 0 = not yet."""
        return self.memory.words[_HEARTBEAT_AT]

    @property
    def in_work(self) -> memoryview:
        """The words that tell what the shard is doing, for when it has died."""
        return self.memory.words[_IN_WORK_AT:_PAGE_WORDS]

    def left_to_stop(self) -> LeftToStop | None:
        """How far the shard's stop has got; None while it has not begun to write."""
        to_write = self.memory.words[_TO_WRITE_AT]
        return LeftToStop(to_write - 1, self.memory.words[_TO_SYNC_AT]) if to_write else None

    def close(self) -> bool:
        """Unmap; links over this memory must have been dropped or are never used again."""
        return self.memory.close()

    def _check(self) -> None:
        words = self.memory.words
        for name, at, wanted in (
            ("magic", _MAGIC_AT, MAGIC),
            ("version", _VERSION_AT, VERSION),
            ("shard", _SHARD_AT, self.shard),
            ("generation", _GENERATION_AT, self.generation),
            ("shard count", _SHARD_COUNT_AT, self.layout.shard_count),
            ("ring slots", _RING_SLOTS_AT, self.layout.ring_slots),
        ):
            if words[at] != wanted:
                raise ControlMismatch(
                    f"control memory of shard {self.shard}: {name} is {words[at]}, not {wanted}"
                )


class OwnControl(SharedControl):
    """The control memory of this process, the only one that it may write."""

    __slots__ = ("linked_generations",)

    writable = True

    def __init__(self, fd: int, layout: ControlLayout, shard: int, generation: int) -> None:
        super().__init__(fd, layout, shard, generation)
        # Of each peer, the newest life that was linked to: cursors may be reset only for a newer.
        self.linked_generations = [0] * layout.shard_count

    def beat(self, now_ns: int) -> None:
        """Say that the loop runs. Called by the loop itself, never by a thread beside it."""
        self.memory.words[_HEARTBEAT_AT] = now_ns

    def tell_left(self, to_write: int, to_sync: int) -> None:
        """Say how far a stop has got."""
        self.memory.words[_TO_SYNC_AT] = to_sync
        self.memory.words[_TO_WRITE_AT] = to_write + 1
