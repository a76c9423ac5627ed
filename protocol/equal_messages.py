"""A batch of messages that have the same lengths, seen as columns: for the plain loops.

Fixed-size records are what many producers send. Slices with a step read and write a field of all
messages in one call, without a loop of ours; only the checksums are made one by one: 0.4 us a
message for check and stamp instead of 1.1.

Always: what is not exactly that (other lengths, an index that says anything unusual) is left to the
loops over single messages, which know what to answer.
"""

import struct
import sys
from array import array
from collections.abc import Iterable
from itertools import repeat
from typing import Final

import xxhash

from borzoi.protocol.index_entry import INDEX_ENTRY_SIZE
from borzoi.protocol.message import (
    CHECKSUM_SIZE,
    ID_AT,
    LENGTHS_AT,
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    OFFSET_AT,
    RESERVED_AT,
    TIMESTAMP_AT,
    USER_HEADERS_SIZE_MAX,
)

LENGTHS: Final = struct.Struct("<II")  # user headers, payload
WORD_SIZE: Final = 8
NATIVE_WORDS: Final = sys.byteorder == "little"
EQUAL_MESSAGES_MIN: Final = 8  # fewer are faster one by one


class EqualMessages:
    """The batch as 8-byte words. They need no alignment: the view copies them byte by byte."""

    __slots__ = ("_batch", "_count", "_lengths", "_size", "_step", "_words")

    def __init__(self, batch: memoryview, count: int, lengths: tuple[int, int]) -> None:
        self._batch = batch
        self._count = count
        self._lengths = lengths  # of user headers and payload
        self._size = batch.nbytes // count
        self._step = self._size // WORD_SIZE
        self._words = batch.cast("Q")

    @classmethod
    def find(cls, batch: memoryview, count: int) -> "EqualMessages | None":
        """The batch as that, if it is so many sound messages of equal lengths; else None."""
        if count < EQUAL_MESSAGES_MIN or not NATIVE_WORDS:
            return None
        size, rest = divmod(batch.nbytes, count)
        if rest or size % WORD_SIZE or size < MESSAGE_HEADER_SIZE:
            return None
        user_headers_length, payload_length = LENGTHS.unpack_from(batch, LENGTHS_AT)
        if MESSAGE_HEADER_SIZE + user_headers_length + payload_length != size:
            return None
        words = batch.cast("Q")[LENGTHS_AT // WORD_SIZE :: size // WORD_SIZE].tolist()
        if words.count(words[0]) != count:
            return None
        return cls(batch, count, (user_headers_length, payload_length))

    def _column(self, at: int) -> list[int]:
        return self._words[at // WORD_SIZE :: self._step].tolist()

    def _fill(self, at: int, numbers: Iterable[int]) -> None:
        self._words[at // WORD_SIZE :: self._step] = memoryview(array("Q", numbers))

    def is_sent_with(self, indexes: memoryview) -> bool:
        """Whether a request may carry them with this index; False: look closer, one by one."""
        user_headers_length, payload_length = self._lengths
        entries = indexes.cast("Q")
        first = self._size << 32
        return (
            payload_length <= MESSAGE_PAYLOAD_SIZE_MAX
            and user_headers_length <= USER_HEADERS_SIZE_MAX
            and entries[::2].tolist() == list(range(first, first * self._count + 1, first))
            and not any(entries[1::2].tolist())
            and not any(self._column(OFFSET_AT))
        )

    @property
    def have_ids(self) -> bool:
        """Whether every message brought an id (or, seen from here, half of one)."""
        return all(self._column(ID_AT)) or all(self._column(ID_AT + WORD_SIZE))

    def stamp(
        self, first_offset: int, timestamp: int, relative_offset: int, position: int
    ) -> bytearray:
        """As stamp_batch does."""
        count, size, batch = self._count, self._size, self._batch
        self._fill(OFFSET_AT, range(first_offset, first_offset + count))
        self._fill(TIMESTAMP_AT, repeat(timestamp, count))
        self._fill(RESERVED_AT, repeat(0, count))
        digest = xxhash.xxh3_64_intdigest
        self._fill(
            0,
            [
                digest(batch[start : start + size - CHECKSUM_SIZE])
                for start in range(CHECKSUM_SIZE, batch.nbytes, size)
            ],
        )
        entries = array("Q", bytes(count * INDEX_ENTRY_SIZE))
        # Relative offset in the lower half, where the message ends in the upper.
        first = relative_offset | position + size << 32
        step = 1 | size << 32
        entries[::2] = array("Q", range(first, first + step * count, step))
        entries[1::2] = array("Q", [timestamp]) * count
        return bytearray(entries)
