"""A queue of descriptors from one shard to another: single producer, single consumer, no lock.

    producer's control memory                      consumer's control memory

    tail  [ n pushed ]   written by the producer   head  [ n taken ]  written by the consumer
    slots [ 64 bytes ] x slots

    slot  | w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7 |   eight u64 words, opaque to this module

Tail and head only count up; slot number = count modulo slots (a power of two). The ring is empty
when they are equal and full when they are `slots` apart. Each process writes only its own memory.

Push fills the slot and then moves the tail. A producer that dies in between leaves a slot that is
never read. Drain copies everything up to the tail it saw once and then moves the head. So a slot is
not refilled while it is being read. Both orders need stores to stay in order and loads to stay in
order (processor.py).

Slots are filled word by word. They are read with one struct call for the whole run. Below the tail
nothing is written, so how the bytes are loaded makes no difference (55 ns a slot against 250).

Always: 0 <= tail - head <= slots. Anything else means the memory is damaged, and is an error.
"""

import struct
from typing import Final

from borzoi.router.memory import LINE_SIZE, LINE_WORDS, SharedMemoryError

RING_SLOTS: Final = 4096
SLOT_WORDS: Final = LINE_WORDS
SLOT_SIZE: Final = LINE_SIZE
DRAIN_MAX: Final = 128
"""Records of one ring that are handled before the event loop gets its turn."""

Slot = tuple[int, int, int, int, int, int, int, int]

_SLOT: Final = struct.Struct("8Q")
assert _SLOT.size == SLOT_SIZE


class RingCorrupt(SharedMemoryError):
    """Head and tail of a ring contradict each other."""


class RingDropped(SharedMemoryError):
    """The ring belongs to a peer that is gone."""


class RingWriter:
    """The producer's end. Exactly one exists for a ring, in the process that owns `words`."""

    __slots__ = (
        "_dropped",
        "_head_at",
        "_head_words",
        "_limit",
        "_mask",
        "_slots",
        "_slots_at",
        "_tail",
        "_tail_at",
        "_words",
    )

    def __init__(
        self,
        words: memoryview,
        tail_at: int,
        slots_at: int,
        head_words: memoryview,
        head_at: int,
        slots: int = RING_SLOTS,
    ) -> None:
        """Positions are word numbers.

        `tail_at` and `slots_at` are in our own memory `words`, `head_at` in the consumer's memory
        `head_words`.
        """
        _check_slots(slots)
        self._words = words
        self._tail_at = tail_at
        self._slots_at = slots_at
        self._head_words = head_words
        self._head_at = head_at
        self._slots = slots
        self._mask = slots - 1
        self._tail = words[tail_at]
        # The tail that may not be passed before the head is looked at again. It saves the load of a
        # word that the other processor keeps writing.
        self._limit = self._tail
        self._dropped = False

    def push(
        self,
        w0: int,
        w1: int,
        w2: int = 0,
        w3: int = 0,
        w4: int = 0,
        w5: int = 0,
        w6: int = 0,
        w7: int = 0,
    ) -> bool:
        """Append one record; False, and nothing has happened, when the ring is full."""
        tail = self._tail
        if tail == self._limit and not self.free:
            return False
        words = self._words
        at = self._slots_at + (tail & self._mask) * SLOT_WORDS
        words[at] = w0
        words[at + 1] = w1
        words[at + 2] = w2
        words[at + 3] = w3
        words[at + 4] = w4
        words[at + 5] = w5
        words[at + 6] = w6
        words[at + 7] = w7
        # Only now does the record exist.
        words[self._tail_at] = tail + 1
        self._tail = tail + 1
        return True

    @property
    def free(self) -> int:
        """How many records can be pushed now."""
        if self._dropped:
            raise RingDropped("pushed to a peer whose rings were dropped")
        head = self._head_words[self._head_at]
        used = self._tail - head
        if not 0 <= used <= self._slots:
            raise RingCorrupt(f"head {head} of a ring of {self._slots} at tail {self._tail}")
        self._limit = head + self._slots
        return self._slots - used

    def drop(self) -> None:
        """The consumer is gone: every further push raises RingDropped."""
        self._dropped = True
        self._limit = self._tail


class RingReader:
    """The consumer's end. Exactly one exists for a ring, in the process that owns the head."""

    __slots__ = (
        "_dropped",
        "_head",
        "_head_at",
        "_head_words",
        "_mask",
        "_records",
        "_slots",
        "_tail_at",
        "_tail_words",
    )

    def __init__(
        self,
        tail_words: memoryview,
        tail_at: int,
        records: memoryview,
        head_words: memoryview,
        head_at: int,
        slots: int = RING_SLOTS,
    ) -> None:
        """Positions are word numbers, and `records` the bytes of all slots.

        `tail_at` is in the producer's memory `tail_words`, as are the slots; `head_at` is in our
        own memory `head_words`.
        """
        _check_slots(slots)
        if len(records) != slots * SLOT_SIZE:
            raise SharedMemoryError(f"{len(records)} bytes are not {slots} slots")
        self._tail_words = tail_words
        self._tail_at = tail_at
        self._records = records
        self._head_words = head_words
        self._head_at = head_at
        self._slots = slots
        self._mask = slots - 1
        self._head = head_words[head_at]
        self._dropped = False

    def drain(self, limit: int = DRAIN_MAX) -> list[Slot]:
        """Take up to `limit` records, oldest first, of those that are there now."""
        head = self._head
        count = self._waiting()
        if not count:
            return []
        count = limit if count > limit else count
        first = head & self._mask
        last = first + count
        records = self._records
        taken: list[Slot]
        if last <= self._slots:
            taken = list(_SLOT.iter_unpack(records[first * SLOT_SIZE : last * SLOT_SIZE]))
        else:
            taken = list(_SLOT.iter_unpack(records[first * SLOT_SIZE :]))
            taken += _SLOT.iter_unpack(records[: (last - self._slots) * SLOT_SIZE])
        # Everything is copied out; only now may the producer use these slots again.
        self._head = head + count
        self._head_words[self._head_at] = head + count
        return taken

    @property
    def has_more(self) -> bool:
        """True when a drain would find something: come back next turn without being woken."""
        return self._waiting() > 0

    def _waiting(self) -> int:
        if self._dropped:
            return 0
        tail = self._tail_words[self._tail_at]
        count = tail - self._head
        if not 0 <= count <= self._slots:
            raise RingCorrupt(f"tail {tail} of a ring of {self._slots} at head {self._head}")
        return count

    def drop(self) -> None:
        """The producer is gone and its records are no longer wanted: drains find nothing."""
        self._dropped = True
        self._records.release()


def _check_slots(slots: int) -> None:
    if slots < 1 or slots & (slots - 1):
        raise ValueError(f"a ring cannot have {slots} slots: not a power of two")
