"""The ids of a partition's last messages, in plain Python: what deduplication looks them up in.

Like the loops of plain_log.py this has a compiled twin, _seen_ids.pyx, that behaves the same;
whatever is changed here is changed there, and LOOPS_VERSION raised.

Always: the window holds the last `entries_max` messages it was shown, in their order, without
those that expired. So it follows from the log alone, and can be read back from it. An id that is
met again does not become younger by that.

A batch may lie in memory that another shard lent, and is shown to a successor if the owner dies:
messages are never moved inside it. What is left of a batch with duplicates is a copy.
"""

import sys
from array import array
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.index_entry import INDEX_ENTRY
from borzoi.protocol.message import ID_AT, MESSAGE_HEADER_SIZE, OFFSET_AT
from borzoi.protocol.payload import U64
from borzoi.protocol.plain_log import (
    ID_SIZE,
    NO_ID,
    STAMP_FIELDS,
    random_ids,
)

ENTRIES_MAX: Final = (1 << 24) - 1
"""Places in a ring that the compiled table can tell apart."""

STAMPED_DUPLICATE: Final = 1
"""Stands for the checksum of a duplicate that begins a batch: its offset is that of the first
message of the batch that is new, or of the message that it repeats if none is."""

START_SIZE: Final = 4


class Survivors(NamedTuple):
    """What is left of a batch that had duplicates in it."""

    batch: bytearray
    message_count: int
    starts: bytearray  # 32 bits each: where these messages begin in the batch as it was sent


class SeenIds:
    """The ids of the last messages of one partition.

    An id expires `expiry_us` after its message was stamped, 0 means never. The seed makes it
    hard to find ids that the compiled table cannot tell apart quickly; a dict has its own.
    """

    def __init__(self, entries_max: int, expiry_us: int, seed: int) -> None:
        if not 1 <= entries_max <= ENTRIES_MAX:
            raise ValueError(f"a window of {entries_max} ids: needs 1 to {ENTRIES_MAX}")
        self._entries_max = entries_max
        self._expiry_us = expiry_us
        self._order: deque[tuple[bytes, int, int]] = deque()  # id, timestamp, number
        self._numbers: dict[bytes, int] = {}
        self._next_number = 0

    def __len__(self) -> int:
        return len(self._order)

    def __sizeof__(self) -> int:
        entries = len(self._order) * (
            sys.getsizeof(NO_ID) + sys.getsizeof((0, 0, 0)) + 2 * sys.getsizeof(1 << 62)
        )
        return (
            object.__sizeof__(self)
            + sys.getsizeof(self._order)
            + sys.getsizeof(self._numbers)
            + entries
        )

    def admit(
        self,
        batch: memoryview,
        message_count: int,
        timestamp: int,
        random_bytes: Callable[[int], bytes],
    ) -> Survivors | None:
        """Remember the messages of a batch; None if all are new, else those that are.

        Messages without an id get a random one, in place, and are always new. Of several with
        the same id the first wins. Nothing is changed when the messages do not exactly fill the
        batch.
        """
        ids, ends = _ids_and_ends(batch, message_count)
        new_ids = random_ids(ids.count(NO_ID), random_bytes)
        self._forget_before(timestamp)
        new_id_at = start = 0
        starts: list[int] = []
        kept: list[memoryview] = []
        for id_bytes, end in zip(ids, ends, strict=True):
            if id_bytes == NO_ID:
                id_bytes = new_ids[new_id_at : new_id_at + ID_SIZE]
                new_id_at += ID_SIZE
                batch[start + ID_AT : start + ID_AT + ID_SIZE] = id_bytes
            elif id_bytes in self._numbers:
                start = end
                continue
            self._insert(id_bytes, timestamp)
            starts.append(start)
            kept.append(batch[start:end])
            start = end
        if len(kept) == message_count:
            return None
        return Survivors(bytearray().join(kept), len(kept), _packed(starts))

    def remember(self, log: memoryview, position: int, entries: memoryview) -> None:
        """Take in messages of a log, as their index entries say: where they end, and their time.

        The first begins at `position`, with which `log` begins as well. A message whose header
        does not lie in `log`, because the index is damaged, has its place without an id.
        """
        start = position
        for _offset, end, timestamp in INDEX_ENTRY.iter_unpack(entries):
            at = start - position
            is_there = 0 <= at <= len(log) - MESSAGE_HEADER_SIZE
            id_bytes = bytes(log[at + ID_AT : at + ID_AT + ID_SIZE]) if is_there else NO_ID
            self._insert(id_bytes, timestamp)
            start = end

    def back_to_first(self, batch: memoryview) -> int:
        """How far before the window's end the message lies that has the id of a batch's first one.

        1: it is the last of the log; 0: no message of the window has that id.
        """
        number = self._numbers.get(bytes(batch[ID_AT : ID_AT + ID_SIZE]))
        return 0 if number is None else self._next_number - number

    def forget_expired(self, timestamp: int) -> None:
        """Let go of what expired, and of memory that is not needed any more."""
        self._forget_before(timestamp)
        if not self._order:
            self._numbers = {}  # cleared, a dict keeps its size

    def _insert(self, id_bytes: bytes, timestamp: int) -> None:
        if len(self._order) == self._entries_max:
            self._drop_oldest()
        number = self._next_number
        self._next_number = number + 1
        self._order.append((id_bytes, timestamp, number))
        self._numbers[id_bytes] = number

    def _forget_before(self, timestamp: int) -> None:
        if self._expiry_us == 0:
            return
        while self._order and self._order[0][1] <= timestamp - self._expiry_us:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        id_bytes, _timestamp, number = self._order.popleft()
        # A log from before deduplication may hold an id twice: then the later one counts.
        if self._numbers[id_bytes] == number:
            del self._numbers[id_bytes]


def copy_stamps(batch: memoryview, survivors: memoryview, starts: bytes | bytearray) -> None:
    """Write the headers of stamped survivors where these messages lie in the batch as sent.

    So the batch is recognised if it is submitted again after the worker that stamped it died.
    Only headers change: at whatever point this ends, the batch holds the same messages.
    """
    at = 0
    for number, start in enumerate(memoryview(starts).cast("I").tolist()):
        assert start + MESSAGE_HEADER_SIZE <= len(batch), "a survivor began behind its batch"
        header = survivors[at : at + MESSAGE_HEADER_SIZE]
        _id, user_headers_length, payload_length, _reserved = _fields(survivors, at)
        if number == 0 and start:
            # The first message was a duplicate, but it is where one looks.
            batch[OFFSET_AT : OFFSET_AT + U64.size] = header[OFFSET_AT : OFFSET_AT + U64.size]
            U64.pack_into(batch, 0, STAMPED_DUPLICATE)
        batch[start : start + MESSAGE_HEADER_SIZE] = header
        at += MESSAGE_HEADER_SIZE + user_headers_length + payload_length


def without_stored(
    batch: memoryview, message_count: int, stored: memoryview
) -> tuple[bytearray, int]:
    """A copy of the messages of a stamped batch that are not stored yet, and their number.

    These are the messages behind the last that lies in `stored`, which begins with the offset that
    was stamped first. Equal headers are enough, they hold the checksum of all the rest. A message
    that is not stored although a later one is was dropped as a duplicate: that is decided,
    although the window may have moved on since.
    """
    _ids, ends = _ids_and_ends(batch, message_count)
    rest: list[memoryview] = []
    start = stored_at = 0
    for end in ends:
        size = end - start
        header = batch[start : start + MESSAGE_HEADER_SIZE]
        if (
            len(stored) - stored_at >= size
            and stored[stored_at : stored_at + MESSAGE_HEADER_SIZE] == header
        ):
            stored_at += size
            rest.clear()
        else:
            rest.append(batch[start:end])
        start = end
    return bytearray().join(rest), len(rest)


def stamp_duplicates(batch: memoryview, offset: int) -> None:
    """Note in a batch of which nothing is new where the message lies that its first repeats."""
    batch[OFFSET_AT : OFFSET_AT + U64.size] = U64.pack(offset)
    U64.pack_into(batch, 0, STAMPED_DUPLICATE)


def _fields(batch: memoryview, at: int) -> tuple[bytes, int, int, int]:
    fields: tuple[bytes, int, int, int] = STAMP_FIELDS.unpack_from(batch, at)
    return fields


def _ids_and_ends(batch: memoryview, message_count: int) -> tuple[list[bytes], list[int]]:
    """The id of each message and where it ends; they fill the batch exactly."""
    size = len(batch)
    if message_count > size // MESSAGE_HEADER_SIZE:
        raise InvalidMessagesSize(f"a message header runs over the end at {size}")
    ids: list[bytes] = []
    ends: list[int] = []
    at = 0
    for _ in range(message_count):
        if size - at < MESSAGE_HEADER_SIZE:
            raise InvalidMessagesSize(f"a message header runs over the end at {size}")
        id_bytes, user_headers_length, payload_length, _reserved = _fields(batch, at)
        at += MESSAGE_HEADER_SIZE + user_headers_length + payload_length
        ids.append(id_bytes)
        ends.append(at)
    if at != size:
        raise InvalidMessagesSize(f"{at} bytes of messages in a batch of {size}")
    return ids, ends


def _packed(starts: list[int]) -> bytearray:
    packed = array("I", starts)
    assert packed.itemsize == START_SIZE
    return bytearray(packed)
