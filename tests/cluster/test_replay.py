"""What a lane comes to: checkpoints and groups, in order or refused."""

import pytest

from borzoi.cluster.checkpoints import (
    LaneCheckpoint,
    PackedPiece,
    PartitionState,
    StoredOffset,
    encode_checkpoint,
)
from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.replay import LaneReplay, LifeKey
from borzoi.cluster.slots import DataSlot, Entry, EntryKind
from borzoi.storage.archive.manifest import ManifestDamaged

LIFE = LifeKey(7, 3)
NAME = Checkpoint(100, 90)


def group(*entries: Entry) -> DataSlot:
    return DataSlot(2, 101, 90, bytes(16), entries)


def batch(first: int, number: int, segment: int, position: int, size: int = 10) -> Entry:
    body = bytes(size)
    return Entry(EntryKind.BATCH, *LIFE, first, number, segment, position, body=body)


def offset(kind: EntryKind, consumer: int, value: int = 0) -> Entry:
    return Entry(kind, *LIFE, first=value, number=consumer, consumer_kind=1)


def checkpoint() -> bytes:
    pieces = (
        PackedPiece(Checkpoint(50, 40), 0, 0, 4, 0, 100),
        PackedPiece(NAME, 4, 4, 2, 0, 30),
        PackedPiece(NAME, 4, 6, 1, 30, 20),
    )
    state = PartitionState(*LIFE, 0, 7, 4, 50, 99, 150, pieces, (StoredOffset(1, 5, 2),))
    return encode_checkpoint(
        LaneCheckpoint(lane=2, next=100, fence=90, entry=12, partitions=(state,))
    )


def test_a_checkpoint_says_where_its_pieces_lie() -> None:
    replay = LaneReplay(2)
    assert replay.begin(NAME, checkpoint()) == {Checkpoint(50, 40), NAME}
    life = replay.lives[LIFE]
    assert [one.position for one in life.pieces] == [0, 0, 30]
    assert (life.sizes, life.offsets, replay.entry) == ({0: 100, 4: 50}, {(1, 5): 2}, 12)


def test_a_damaged_checkpoint_is_refused() -> None:
    with pytest.raises(ManifestDamaged):
        LaneReplay(2).begin(NAME, checkpoint()[:-2])


def test_groups_follow_each_other() -> None:
    replay = LaneReplay(2)
    replay.begin(NAME, checkpoint())
    assert replay.apply(group(batch(7, 2, 4, 50), batch(9, 1, 9, 0)))
    assert replay.apply(group(batch(10, 1, 9, 10), offset(EntryKind.OFFSET_STORED, 6, 8)))
    assert replay.apply(group(offset(EntryKind.OFFSET_DELETED, 5)))
    life = replay.lives[LIFE]
    assert (life.next_offset, life.active_segment) == (11, 9)
    assert (life.sizes, life.offsets) == ({0: 100, 4: 60, 9: 20}, {(1, 6): 8})


@pytest.mark.parametrize(
    "wrong",
    [
        batch(8, 1, 4, 50),  # an offset is missing
        batch(6, 1, 4, 50),  # an offset comes twice
        batch(7, 1, 4, 51),  # bytes are missing
        batch(7, 1, 5, 0),  # a segment of another name
        batch(7, 1, 7, 1),  # a new segment that does not begin
    ],
)
def test_nothing_is_taken_of_a_group_that_does_not_follow(wrong: Entry) -> None:
    replay = LaneReplay(2)
    replay.begin(NAME, checkpoint())
    good = Entry(EntryKind.BATCH, 8, 3, 0, 1, 0, 0, body=b"x")
    assert not replay.apply(group(good, wrong))
    assert (set(replay.lives), replay.lives[LIFE].next_offset) == ({LIFE}, 7)


def test_segments_that_were_dropped_need_no_pack() -> None:
    replay = LaneReplay(2)
    replay.begin(NAME, checkpoint())
    assert replay.apply(group(Entry(EntryKind.DROPPED, *LIFE, first=4)))
    life = replay.lives[LIFE]
    assert (life.first_offset, life.sizes, len(life.pieces)) == (4, {4: 50}, 2)
    assert replay.apply(group(Entry(EntryKind.DROPPED, *LIFE, first=7)))
    # All of it: the active segment was empty, and no batch had said so.
    assert (life.sizes, life.pieces, life.active_segment) == ({7: 0}, [], 7)
    assert replay.apply(group(batch(7, 1, 7, 0)))


def test_a_walk_that_starts_over_knows_nothing() -> None:
    replay = LaneReplay(2)
    assert replay.apply(group(batch(0, 1, 0, 0)))
    assert replay.begin(None, b"") == frozenset()
    assert replay.lives == {}
