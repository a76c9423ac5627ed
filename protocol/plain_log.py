"""The loops over the log in plain Python, and the ids they give: the twin of _log.pyx.

How twins are kept equal, and why they look as they do, stands in plain_requests.py.
"""

import random
import struct
from bisect import bisect_left
from collections.abc import Callable
from typing import Final, NamedTuple

import xxhash

from borzoi.protocol.equal_messages import EqualMessages
from borzoi.protocol.errors import InvalidMessagesSize
from borzoi.protocol.identifiers import U32_MAX
from borzoi.protocol.index_entry import INDEX_ENTRY, INDEX_ENTRY_SIZE
from borzoi.protocol.message import (
    CHECKSUM_SIZE,
    ENCRYPTED_MARK,
    MESSAGE_HEADER_SIZE,
    MESSAGE_PAYLOAD_SIZE_MAX,
    RESERVED_AT,
    SENT_FIELDS,
    STORED_HEADERS_SIZE_MAX,
)
from borzoi.protocol.payload import U64

ENTRY_TIMESTAMP: Final = struct.Struct("<8xQ")

# Like SENT_FIELDS these span all 64 bytes of a message header.
STAMP_FIELDS: Final = struct.Struct("<8x16s24xIIQ")  # id, both lengths, reserved
STORED_FIELDS: Final = struct.Struct("<Q16xQQ8xIIQ")  # checksum, offset, timestamp, lengths, rsvd

STAMP_AT: Final = 8
STAMP: Final = struct.Struct("<16sQQ")  # id, offset, timestamp

ID_SIZE: Final = 16
NO_ID: Final = bytes(ID_SIZE)
# A random UUID says in its 7th byte that it is of version 4 and in its 9th of which variant.
UUID_VERSION: Final = bytes(byte & 0x0F | 0x40 for byte in range(256))
UUID_VARIANT: Final = bytes(byte & 0x3F | 0x80 for byte in range(256))

SEED_SIZE: Final = 32


class RandomIds:
    """Makes the bytes of random message ids, as `stamp_batch` wants them.

    Asking the kernel costs more than stamping the messages does: 45 us for 1,000 ids. An id has
    to be unique, not secret, so a generator with a random seed per process is enough.
    """

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_SIZE or not any(seed):
            raise ValueError(f"a seed has {SEED_SIZE} bytes that are not all zero")
        self._random = random.Random(seed)

    def __call__(self, size: int) -> bytes:
        """So many random bytes."""
        return self._random.randbytes(size)


def random_ids(count: int, random_bytes: Callable[[int], bytes]) -> bytes:
    """UUIDs of version 4, in their textual byte order, one after the other."""
    if count == 0:
        return b""
    ids = bytearray(random_bytes(count * ID_SIZE))
    ids[6::ID_SIZE] = ids[6::ID_SIZE].translate(UUID_VERSION)
    ids[8::ID_SIZE] = ids[8::ID_SIZE].translate(UUID_VARIANT)
    return bytes(ids)


class Scan(NamedTuple):
    """What a walk over a segment file found before the end or the first unsound message."""

    index_entries: bytearray
    valid_size: int
    message_count: int
    last_timestamp: int


def stamp_batch(
    batch: memoryview,
    message_count: int,
    first_offset: int,
    timestamp: int,
    random_bytes: Callable[[int], bytes],
    segment_first_offset: int,
    position: int,
) -> bytearray:
    """Give every message its offset, time, id if it has none, and checksum; return its index.

    The batch will begin at `position` of the file of the segment that starts with
    `segment_first_offset`. Nothing is changed when the messages do not exactly fill the batch:
    the bytes may lie in memory another process wrote, and its own check is not trusted here.
    Reserved bytes become 0, unless the offset says that the messages are encrypted.
    """
    size = len(batch)
    keeps_reserved = first_offset & ENCRYPTED_MARK
    equal = None if keeps_reserved else EqualMessages.find(batch, message_count)
    if equal is not None and equal.have_ids:
        _check_room(size, message_count, first_offset, segment_first_offset, position)
        return equal.stamp(first_offset, timestamp, first_offset - segment_first_offset, position)
    found: list[tuple[int, bytes]] = []  # where each message ends, and its id
    note = found.append
    at = nameless_count = 0
    read = STAMP_FIELDS.unpack_from
    clear_reserved = False
    try:
        for _ in range(message_count):
            id_bytes, user_headers_length, payload_length, reserved = read(batch, at)
            at += MESSAGE_HEADER_SIZE + user_headers_length + payload_length
            if id_bytes == NO_ID:
                nameless_count += 1
            if reserved and not keeps_reserved:
                clear_reserved = True
            note((at, id_bytes))
    except struct.error:
        raise InvalidMessagesSize(f"a message header runs over the end at {size}") from None
    if at != size:
        raise InvalidMessagesSize(f"{at} bytes of messages in a batch of {size}")
    _check_room(size, message_count, first_offset, segment_first_offset, position)
    new_ids = random_ids(nameless_count, random_bytes)
    new_id_at = start = entry_at = 0
    entries = bytearray(message_count * INDEX_ENTRY_SIZE)
    stamp = STAMP.pack_into
    write_u64 = U64.pack_into
    write_entry = INDEX_ENTRY.pack_into
    digest = xxhash.xxh3_64_intdigest
    offset = first_offset
    for end, id_bytes in found:
        if id_bytes == NO_ID:
            id_bytes = new_ids[new_id_at : new_id_at + ID_SIZE]
            new_id_at += ID_SIZE
        stamp(batch, start + STAMP_AT, id_bytes, offset, timestamp)
        if clear_reserved:
            write_u64(batch, start + RESERVED_AT, 0)
        write_u64(batch, start, digest(batch[start + CHECKSUM_SIZE : end]))
        write_entry(entries, entry_at, offset - segment_first_offset, position + end, timestamp)
        entry_at += INDEX_ENTRY_SIZE
        offset += 1
        start = end
    return entries


def scan_log(
    view: memoryview,
    first_offset: int,
    *,
    segment_first_offset: int,
    position: int,
    timestamp_min: int = 0,
) -> Scan:
    """Walk messages from the start of the view and stop before the first that is not sound.

    Unsound: cut short, a wrong checksum, an offset that is not the next one, a limit exceeded,
    reserved bytes that are set although it is not encrypted. `timestamp_min` is the time of the
    message before the view; index entries and `last_timestamp` never fall below it, nor below
    each other, because a search by time needs that even where a foreign server's clock ran
    backwards.
    """
    entries = bytearray()
    offset = first_offset
    timestamp = timestamp_min
    at = 0
    while end := _end_of_sound_message(view, at, offset):
        relative_offset = offset - segment_first_offset
        assert relative_offset >= 0, "the walk begins before its segment"
        if relative_offset > U32_MAX or position + end > U32_MAX:
            break
        timestamp = max(timestamp, STORED_FIELDS.unpack_from(view, at)[2])
        entries += INDEX_ENTRY.pack(relative_offset, position + end, timestamp)
        offset += 1
        at = end
    return Scan(entries, at, offset - first_offset, timestamp)


def first_bad_message(view: memoryview, message_count: int, first_offset: int) -> int | None:
    """The offset of the first message of a range that is not sound, None when all are.

    Bytes left over behind the last message are held against the offset that would follow it.
    """
    at = 0
    for offset in range(first_offset, first_offset + message_count):
        at = _end_of_sound_message(view, at, offset)
        if not at:
            return offset
    return None if at == len(view) else first_offset + message_count


def matching_messages(batch_stamped: memoryview, stored: memoryview) -> int:
    """How many leading messages of a stamped batch already lie in `stored`, whole.

    Equal headers are enough: they hold the checksum of all the rest.
    """
    limit = min(len(batch_stamped), len(stored))
    at = count = 0
    while (header_end := at + MESSAGE_HEADER_SIZE) <= limit:
        if batch_stamped[at:header_end] != stored[at:header_end]:
            break
        _offset, user_headers_length, payload_length = SENT_FIELDS.unpack_from(stored, at)
        at = header_end + user_headers_length + payload_length
        if at > limit:
            break
        count += 1
    return count


def first_at_or_after(entries: memoryview, message_count: int, timestamp: int) -> int:
    """The number of the first of so many index entries that is not before `timestamp`."""
    assert message_count <= len(entries) // INDEX_ENTRY_SIZE, "fewer entries than messages"
    return bisect_left(
        range(message_count),
        timestamp,
        key=lambda number: ENTRY_TIMESTAMP.unpack_from(entries, number * INDEX_ENTRY_SIZE)[0],
    )


def message_start(batch: memoryview, number: int) -> int:
    """Where the message with this number, counted from 0, begins; number = count is the end."""
    at = 0
    for _ in range(number):
        at = end_of_message(batch, at)
    return at


def end_of_message(batch: memoryview, at: int) -> int:
    """Where the message at `at` ends, which is within the batch."""
    if at + MESSAGE_HEADER_SIZE > len(batch):
        raise InvalidMessagesSize(f"a message header runs over the end at {len(batch)}")
    _offset, user_headers_length, payload_length = SENT_FIELDS.unpack_from(batch, at)
    end: int = at + MESSAGE_HEADER_SIZE + user_headers_length + payload_length
    if end > len(batch):
        raise InvalidMessagesSize(f"a message runs over the end at {len(batch)}")
    return end


def _check_room(
    size: int, message_count: int, first_offset: int, segment_first_offset: int, position: int
) -> None:
    """Index entries must be able to tell offset and end of every message."""
    last_relative_offset = first_offset + message_count - 1 - segment_first_offset
    assert first_offset >= segment_first_offset, "the batch begins before its segment"
    assert last_relative_offset <= U32_MAX, "the segment has too many messages"
    assert position + size <= U32_MAX, "the segment is too large"


def _end_of_sound_message(view: memoryview, at: int, expected_offset: int) -> int:
    """Where the sound message at `at` ends, 0 when there is none."""
    if at + MESSAGE_HEADER_SIZE > len(view):
        return 0
    fields = STORED_FIELDS.unpack_from(view, at)
    checksum, offset, _timestamp, user_headers_length, payload_length, reserved = fields
    if (
        offset != expected_offset
        or (reserved and not offset & ENCRYPTED_MARK)
        or payload_length > MESSAGE_PAYLOAD_SIZE_MAX
        or user_headers_length > STORED_HEADERS_SIZE_MAX
    ):
        return 0
    end: int = at + MESSAGE_HEADER_SIZE + user_headers_length + payload_length
    if end > len(view):
        return 0
    if xxhash.xxh3_64_intdigest(view[at + CHECKSUM_SIZE : end]) != checksum:
        return 0
    return end
