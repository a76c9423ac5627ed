"""What a lane of data comes to: its partitions as of the last slot, built while it is opened. Pure.

The machine's Replay (lane.py). A walk begins from a checkpoint, or from nothing, and takes group by
group what came behind it. Bodies of batches stay views of the slots they came in; they are what no
pack has yet, so a checkpoint bounds them.

Always: the batches of a life follow each other without a gap, in offsets and in the bytes of each
segment. A group that does not follow is not taken, no part of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from borzoi.cluster.checkpoints import PackedPiece, PartitionState, decode_checkpoint
from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.slots import DataSlot, Entry, EntryKind


class LifeKey(NamedTuple):
    """A life of a partition."""

    namespace: int
    birth: int


class PlacedPiece(NamedTuple):
    """A piece of a pack, and where in its segment it lies."""

    piece: PackedPiece
    position: int


@dataclass(slots=True)
class ReplayedLife:
    """One life of a partition, as a lane has it."""

    first_offset: int = 0
    next_offset: int = 0
    active_segment: int = 0
    pieces: list[PlacedPiece] = field(default_factory=list)
    batches: list[Entry] = field(default_factory=list)
    offsets: dict[tuple[int, int], int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """Bytes of each segment, by its first offset."""

    def drop(self, first_offset: int) -> None:
        """Forget the segments that lie before an offset as a whole."""
        self.first_offset = max(self.first_offset, first_offset)
        if self.first_offset >= self.next_offset:
            # The active one was empty, of which no batch has said that it is there.
            self.active_segment = self.next_offset
            self.sizes[self.active_segment] = 0
        ends = [*sorted(self.sizes)[1:], self.active_segment]
        for segment, end in zip(sorted(self.sizes), ends, strict=True):
            if end <= self.first_offset and segment < self.active_segment:
                del self.sizes[segment]
        self.pieces = [one for one in self.pieces if one.piece.segment in self.sizes]
        self.batches = [one for one in self.batches if one.segment in self.sizes]

    def follows(self, batch: Entry) -> bool:
        """Whether a batch goes where this life ends."""
        if batch.first != self.next_offset:
            return False
        is_new = batch.segment == batch.first and batch.position == 0
        return is_new or (
            batch.segment == self.active_segment
            and batch.position == self.sizes.get(batch.segment, 0)
        )

    def take(self, batch: Entry) -> None:
        """Take a batch that follows."""
        self.batches.append(batch)
        self.next_offset += batch.number
        self.active_segment = batch.segment
        self.sizes[batch.segment] = batch.position + len(batch.body)


class LaneReplay:
    """The partitions of one lane, by life."""

    def __init__(self, lane: int) -> None:
        self._lane = lane
        self.lives: dict[LifeKey, ReplayedLife] = {}
        self.entry = 0
        """The last metadata entry that the writer of the checkpoint had applied."""

    def begin(self, checkpoint: Checkpoint | None, body: bytes) -> frozenset[Checkpoint]:
        """Start from a checkpoint, or from nothing. ManifestDamaged if it cannot be used."""
        self.lives, self.entry = {}, 0
        if checkpoint is None:
            return frozenset()
        found = decode_checkpoint(body, self._lane, checkpoint)
        self.entry = found.entry
        for one in found.partitions:
            self.lives[LifeKey(one.namespace, one.birth)] = _life_of(one)
        return found.packs

    def apply(self, data: DataSlot) -> bool:
        """Take a group, or nothing of it if it does not follow."""
        if not self._follows(data.entries):
            return False
        for entry in data.entries:
            life = self.lives.setdefault(LifeKey(entry.namespace, entry.birth), ReplayedLife())
            match entry.kind:
                case EntryKind.BATCH:
                    life.take(entry)
                case EntryKind.OFFSET_STORED:
                    life.offsets[entry.consumer_kind, entry.number] = entry.first
                case EntryKind.OFFSET_DELETED:
                    life.offsets.pop((entry.consumer_kind, entry.number), None)
                case EntryKind.DROPPED:
                    life.drop(entry.first)
        return True

    def _follows(self, entries: Iterable[Entry]) -> bool:
        ends: dict[LifeKey, ReplayedLife] = {}
        for entry in entries:
            if entry.kind is not EntryKind.BATCH:
                continue
            key = LifeKey(entry.namespace, entry.birth)
            end = ends.get(key)
            if end is None:
                end = ends[key] = _end_of(self.lives.get(key, ReplayedLife()))
            if not end.follows(entry):
                return False
            end.take(entry)
        return True


def _end_of(life: ReplayedLife) -> ReplayedLife:
    """Just enough of a life to tell what follows it."""
    active = life.active_segment
    return ReplayedLife(
        next_offset=life.next_offset,
        active_segment=active,
        sizes={active: life.sizes.get(active, 0)},
    )


def _life_of(state: PartitionState) -> ReplayedLife:
    life = ReplayedLife(state.first_offset, state.next_offset, state.active_segment)
    for piece in state.pieces:
        position = life.sizes.get(piece.segment, 0)
        life.pieces.append(PlacedPiece(piece, position))
        life.sizes[piece.segment] = position + piece.length
    life.sizes.setdefault(state.active_segment, 0)
    life.offsets = {(one.consumer_kind, one.consumer): one.offset for one in state.offsets}
    return life
