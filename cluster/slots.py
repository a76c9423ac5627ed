"""A slot: one object of a lane, as bytes. Pure.

A fence takes a lane over and has 72 bytes; data has at least 128, so a listing tells them apart.
Little-endian, no padding:

     0  magic      8 bytes  "BZLANE01"
     8  kind       u8       1 fence, 2 data
     9  version    u8       1
    10  flags      u16      0
    12  lane       u32      2^32-1 for the metadata lane
    16  slot       u64      the number in its key; the first slot is 1
    24  fence      u64      slot of the fence it was written under; of a fence: its own
    32  writer     16       random bytes, new for every opening of a lane
    48  next       u64      fence: the first slot for data behind it; data: 0
    56  entries    u32      how many entries follow; fence: 0
    60  reserved   u32      0
    64  entries    56 bytes each, below; then their bodies, one after the other
     .  XXH3-64    u64      over all bytes before it

An entry:

     0  kind       u8       EntryKind
     1  consumer   u8       kind of the consumer, for stored and deleted offsets
     2  reserved   u16      0
     4  number     u32      messages of a batch, or the consumer
     8  namespace  u64      the partition
    16  birth      u64      its life
    24  first      u64      first offset of a batch, or the offset that an entry speaks of
    32  segment    u64      first offset of the segment that a batch went into
    40  position   u32      where in that segment
    44  length     u32      bytes of its body
    48  tag        u64      0, reserved

Always: encode and decode are each other's reverse, byte for byte. Whatever else the bytes are,
decoding raises SlotDamaged.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

import xxhash

MAGIC: Final = b"BZLANE01"
VERSION: Final = 1
FENCE: Final = 1
DATA: Final = 2
META_LANE: Final = 2**32 - 1
HEADER: Final = struct.Struct("<8sBBHIQQ16sQII")
ENTRY: Final = struct.Struct("<BBHIQQQQIIQ")
CHECKSUM: Final = struct.Struct("<Q")
WRITER_SIZE: Final = 16
FENCE_SIZE: Final = HEADER.size + CHECKSUM.size
DATA_SIZE_MIN: Final = FENCE_SIZE + ENTRY.size


class SlotDamaged(Exception):
    """These bytes are no slot that this version can read."""


class EntryKind(IntEnum):
    """What an entry says."""

    BATCH = 1
    OFFSET_STORED = 2
    OFFSET_DELETED = 3
    SEGMENT_ARCHIVED = 4
    DROPPED = 5
    METADATA = 6
    RELEASED = 7


WITH_BODY: Final = frozenset({EntryKind.BATCH, EntryKind.METADATA})


class Entry(NamedTuple):
    """One thing that happened to a partition, or one metadata entry."""

    kind: EntryKind
    namespace: int = 0
    birth: int = 0
    first: int = 0
    number: int = 0
    segment: int = 0
    position: int = 0
    consumer_kind: int = 0
    tag: int = 0
    body: bytes | memoryview = b""


class FenceSlot(NamedTuple):
    """A writer takes the lane over; its data begins at `next`."""

    lane: int
    slot: int
    writer: bytes
    next: int


class DataSlot(NamedTuple):
    """A group of entries, written under a fence."""

    lane: int
    slot: int
    fence: int
    writer: bytes
    entries: tuple[Entry, ...]


Slot: TypeAlias = FenceSlot | DataSlot


def encode_fence(fence: FenceSlot) -> bytes:
    """Returns the 72 bytes of a fence."""
    header = HEADER.pack(
        MAGIC, FENCE, VERSION, 0, fence.lane, fence.slot, fence.slot, fence.writer, fence.next, 0, 0
    )
    return _sealed([header])


def encode_data(data: DataSlot) -> bytes:
    """Returns the bytes of a group; every body is copied once."""
    assert data.entries, "a data slot has an entry"
    header = HEADER.pack(
        MAGIC,
        DATA,
        VERSION,
        0,
        data.lane,
        data.slot,
        data.fence,
        data.writer,
        0,
        len(data.entries),
        0,
    )
    rows = b"".join(map(_encode_entry, data.entries))
    return _sealed([header, rows, *(entry.body for entry in data.entries)])


def decode_slot(data: bytes) -> Slot:
    """The slot in these bytes; bodies are views of them. SlotDamaged if they are anything else."""
    if len(data) < FENCE_SIZE:
        raise SlotDamaged(f"{len(data)} bytes are too few for a slot")
    end = len(data) - CHECKSUM.size
    view = memoryview(data)
    if CHECKSUM.unpack_from(data, end)[0] != xxhash.xxh3_64_intdigest(view[:end]):
        raise SlotDamaged("its XXH3 does not match")
    magic, kind, version, flags, lane, slot, fence, writer, after, count, reserved = (
        HEADER.unpack_from(data)
    )
    if magic != MAGIC or version != VERSION or flags or reserved or not slot:
        raise SlotDamaged("its header is not of this version")
    if kind == FENCE:
        if end != HEADER.size or count or fence != slot or after <= slot:
            raise SlotDamaged("a fence contradicts itself")
        return FenceSlot(lane, slot, writer, after)
    if kind != DATA or after or not count or fence >= slot:
        raise SlotDamaged("a group contradicts itself")
    return DataSlot(lane, slot, fence, writer, _decode_entries(view[HEADER.size : end], count))


def _encode_entry(entry: Entry) -> bytes:
    assert not len(entry.body) or entry.kind in WITH_BODY, "only these have a body"
    return ENTRY.pack(
        entry.kind,
        entry.consumer_kind,
        0,
        entry.number,
        entry.namespace,
        entry.birth,
        entry.first,
        entry.segment,
        entry.position,
        len(entry.body),
        entry.tag,
    )


def _decode_entries(view: memoryview, count: int) -> tuple[Entry, ...]:
    # Before the loop: a hostile count must not make it long.
    if count * ENTRY.size > len(view):
        raise SlotDamaged(f"{count} entries do not fit")
    entries = []
    position = count * ENTRY.size
    for row in range(count):
        entry, length = _decode_entry(view, row * ENTRY.size)
        entries.append(entry._replace(body=view[position : position + length]))
        position += length
    if position != len(view):
        raise SlotDamaged("its bodies are not as long as its entries say")
    return tuple(entries)


def _decode_entry(view: memoryview, at: int) -> tuple[Entry, int]:
    kind, consumer, reserved, number, namespace, birth, first, segment, position, length, tag = (
        ENTRY.unpack_from(view, at)
    )
    try:
        known = EntryKind(kind)
    except ValueError as error:
        raise SlotDamaged(f"entry kind {kind} is not known") from error
    if reserved or (length and known not in WITH_BODY):
        raise SlotDamaged("an entry contradicts itself")
    return (
        Entry(known, namespace, birth, first, number, segment, position, consumer, tag),
        length,
    )


def _sealed(parts: Sequence[bytes | memoryview]) -> bytes:
    checksum = xxhash.xxh3_64()
    for part in parts:
        checksum.update(part)
    return b"".join([*parts, CHECKSUM.pack(checksum.intdigest())])
