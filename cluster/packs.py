"""Packs: what checkpoints move out of slots, so that these can be deleted. Pure.

A pack is the bytes of its pieces, one after the other, and the XXH3-64 of them all (u64). A piece
is a run of one segment, exactly as it lies in the `.log`.

A checkpoint would leave one more piece of each segment that grows. So a new piece takes the ones
before it along as long as they are no longer than it is: a segment has some 20 pieces then, however
many checkpoints it has seen, and a byte is put some 10 times at most, mostly once.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import xxhash

from borzoi.cluster.checkpoints import PackedPiece
from borzoi.cluster.keys import Checkpoint

MERGED_SIZE_MAX: Final = 32 * 1024 * 1024
"""Pieces that are larger are not put again."""

CHECKSUM: Final = struct.Struct("<Q")


class PackDamaged(Exception):
    """These bytes are no pack, or not the one that a checkpoint names."""


class SegmentRun(NamedTuple):
    """A segment as it is now: its messages and its bytes."""

    first_offset: int
    number: int
    size: int


class Addition(NamedTuple):
    """What goes into a pack: so many bytes of a segment, from a position on."""

    segment: int
    position: int
    length: int
    first: int
    number: int


class Packing(NamedTuple):
    """What of a life stays where it is, and what goes into the next pack."""

    kept: tuple[PackedPiece, ...]
    additions: tuple[Addition, ...]


def plan_packing(pieces: Sequence[PackedPiece], segments: Iterable[SegmentRun]) -> Packing:
    """Which bytes of these segments the next pack has to hold; what is gone is left out."""
    by_segment: dict[int, list[PackedPiece]] = {}
    for piece in pieces:
        by_segment.setdefault(piece.segment, []).append(piece)
    kept: list[PackedPiece] = []
    additions: list[Addition] = []
    for segment in segments:
        there = by_segment.get(segment.first_offset, [])
        position = sum(piece.length for piece in there)
        length = segment.size - position
        first = there[-1].end if there else segment.first_offset
        if length:
            while there and there[-1].length <= min(length, MERGED_SIZE_MAX):
                merged = there.pop()
                position, length, first = (
                    position - merged.length,
                    length + merged.length,
                    merged.first,
                )
            number = segment.first_offset + segment.number - first
            additions.append(Addition(segment.first_offset, position, length, first, number))
        kept += there
    return Packing(tuple(kept), tuple(additions))


def pieces_of(packing: Packing, pack: Checkpoint, at: int) -> tuple[tuple[PackedPiece, ...], int]:
    """The pieces of a life once its additions lie in a pack from `at` on; where they end there."""
    pieces = list(packing.kept)
    for one in packing.additions:
        pieces.append(PackedPiece(pack, one.segment, one.first, one.number, at, one.length))
        at += one.length
    return tuple(sorted(pieces, key=lambda piece: piece.first)), at


def sealed_pack(parts: Sequence[bytes]) -> bytes:
    """Returns the bytes of a pack; nothing if there is nothing in it."""
    checksum = xxhash.xxh3_64()
    for part in parts:
        checksum.update(part)
    return b"".join([*parts, CHECKSUM.pack(checksum.intdigest())]) if parts else b""


def opened_pack(data: bytes) -> memoryview:
    """The pieces in these bytes. PackDamaged if they are not as they were put."""
    end = len(data) - CHECKSUM.size
    view = memoryview(data)
    if end < 0 or CHECKSUM.unpack_from(data, end)[0] != xxhash.xxh3_64_intdigest(view[:end]):
        raise PackDamaged("its XXH3 does not match")
    return view[:end]
