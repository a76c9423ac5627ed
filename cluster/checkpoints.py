"""What a checkpoint of a data lane says: the state of its partitions, as bytes. Pure.

A line of JSON and a line with its SHA-256, as the manifests of the archive:

    {"format":1,"lane":3,"next":1234,"fence":1100,"entry":812,"partitions":[
      [namespace,birth,first_offset,next_offset,active_segment,end_position,last_timestamp,size_bytes,
        [[[next,fence],segment,first,number,at,length],...],
        [[consumer_kind,consumer,offset],...]],...]}

`entry` is the last metadata entry that its writer had applied. A piece is what a pack has of a
segment: `number` messages from offset `first` on, `length` bytes from `at` on. Its pack has the
name of the checkpoint that made it.

Always: a checkpoint that decodes does not contradict itself. Its pieces follow each other up to
the next offset, and its packs are not younger than itself.
"""

from typing import Final

import msgspec

from borzoi.cluster.keys import Checkpoint
from borzoi.storage.archive.manifest import FORMAT, ManifestDamaged, decode, encode

CHECKPOINT_SIZE_MAX: Final = 64 * 1024 * 1024


class PackedPiece(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a segment that lie in a pack."""

    pack: Checkpoint
    segment: int
    first: int
    number: int
    at: int
    length: int

    @property
    def end(self) -> int:
        """The offset behind its last message."""
        return self.first + self.number


class StoredOffset(msgspec.Struct, frozen=True, array_like=True):
    """What a consumer or group has read."""

    consumer_kind: int
    consumer: int
    offset: int


class PartitionState(msgspec.Struct, frozen=True, array_like=True):
    """One life of a partition, as of a slot."""

    namespace: int
    birth: int
    first_offset: int
    next_offset: int
    active_segment: int
    end_position: int
    last_timestamp: int
    size_bytes: int
    pieces: tuple[PackedPiece, ...]
    offsets: tuple[StoredOffset, ...]


class LaneCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a lane as of all slots before `next`."""

    format: int = FORMAT
    lane: int
    next: int
    fence: int
    entry: int
    partitions: tuple[PartitionState, ...]

    @property
    def name(self) -> Checkpoint:
        """The name under which it is stored."""
        return Checkpoint(self.next, self.fence)

    @property
    def packs(self) -> frozenset[Checkpoint]:
        """The packs that it needs."""
        return frozenset(piece.pack for one in self.partitions for piece in one.pieces)


def encode_checkpoint(checkpoint: LaneCheckpoint) -> bytes:
    """Returns the bytes of a checkpoint."""
    return encode(checkpoint)


def decode_checkpoint(data: bytes, lane: int, name: Checkpoint) -> LaneCheckpoint:
    """The checkpoint that lies under this name; ManifestDamaged if it is not that one."""
    if len(data) > CHECKPOINT_SIZE_MAX:
        raise ManifestDamaged(f"{len(data)} bytes are too many for a checkpoint")
    found = decode(data, LaneCheckpoint)
    if (found.lane, found.name) != (lane, name):
        raise ManifestDamaged(f"it is of lane {found.lane}, {found.name}")
    for partition in found.partitions:
        _check(partition, name)
    lives = {(one.namespace, one.birth) for one in found.partitions}
    if len(lives) != len(found.partitions):
        raise ManifestDamaged("a life of a partition is there twice")
    return found


def _check(partition: PartitionState, name: Checkpoint) -> None:
    if not 0 <= partition.first_offset <= partition.next_offset:
        raise ManifestDamaged("a partition ends before it begins")
    end: int | None = None
    for piece in partition.pieces:
        if piece.number <= 0 or piece.length <= 0 or min(piece.at, piece.first) < 0:
            raise ManifestDamaged("a piece has no messages")
        if piece.pack > name:
            raise ManifestDamaged("a piece lies in a younger pack")
        if piece.first < piece.segment or (end is not None and piece.first < end):
            raise ManifestDamaged("pieces of a partition overlap")
        end = piece.end
    if end is not None and end > partition.next_offset:
        raise ManifestDamaged("a piece goes beyond the end of its partition")
