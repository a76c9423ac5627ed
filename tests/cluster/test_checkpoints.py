import hashlib
from typing import Any, Final

import msgspec
import pytest

from borzoi.cluster.checkpoints import (
    LaneCheckpoint,
    PackedPiece,
    PartitionState,
    StoredOffset,
    decode_checkpoint,
    encode_checkpoint,
)
from borzoi.cluster.keys import Checkpoint
from borzoi.storage.archive.manifest import ManifestDamaged

NAME: Final = Checkpoint(1234, 1100)
OLDER: Final = Checkpoint(900, 800)
CHECKPOINT: Final = LaneCheckpoint(
    lane=3,
    next=1234,
    fence=1100,
    entry=812,
    partitions=(
        PartitionState(
            namespace=5,
            birth=6,
            first_offset=0,
            next_offset=30,
            active_segment=20,
            end_position=4096,
            last_timestamp=7,
            size_bytes=9000,
            pieces=(
                PackedPiece(OLDER, 0, 0, 20, 0, 4904),
                PackedPiece(NAME, 20, 20, 10, 0, 4096),
            ),
            offsets=(StoredOffset(1, 11, 29), StoredOffset(2, 4, 12)),
        ),
    ),
)
LINE: Final = (
    b'{"format":1,"lane":3,"next":1234,"fence":1100,"entry":812,"partitions":'
    b"[[5,6,0,30,20,4096,7,9000,"
    b"[[[900,800],0,0,20,0,4904],[[1234,1100],20,20,10,0,4096]],[[1,11,29],[2,4,12]]]]}"
)


def sealed(line: bytes) -> bytes:
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def changed(**fields: Any) -> bytes:
    """The checkpoint with other fields in its partition, and a right checksum."""
    partition = msgspec.structs.replace(CHECKPOINT.partitions[0], **fields)
    return encode_checkpoint(msgspec.structs.replace(CHECKPOINT, partitions=(partition,)))


def test_the_bytes_are_these() -> None:
    assert encode_checkpoint(CHECKPOINT) == sealed(LINE)
    assert decode_checkpoint(sealed(LINE), 3, NAME) == CHECKPOINT
    assert CHECKPOINT.name == NAME
    assert CHECKPOINT.packs == {NAME, OLDER}


def test_a_checkpoint_that_is_cut_anywhere_is_damaged() -> None:
    whole = sealed(LINE)
    for size in range(len(whole)):
        with pytest.raises(ManifestDamaged):
            decode_checkpoint(whole[:size], 3, NAME)


def test_a_checkpoint_with_one_bit_flipped_is_damaged() -> None:
    whole = bytearray(sealed(LINE))
    for bit in range(len(whole) * 8):
        whole[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ManifestDamaged):
            decode_checkpoint(bytes(whole), 3, NAME)
        whole[bit // 8] ^= 1 << bit % 8


@pytest.mark.parametrize(("lane", "name"), [(4, NAME), (3, OLDER), (3, Checkpoint(1234, 1101))])
def test_a_checkpoint_under_another_name_is_damaged(lane: int, name: Checkpoint) -> None:
    with pytest.raises(ManifestDamaged, match="it is of lane 3"):
        decode_checkpoint(sealed(LINE), lane, name)


def test_another_format_is_refused() -> None:
    later = LINE.replace(b'"format":1', b'"format":2')
    with pytest.raises(ManifestDamaged, match="format 2"):
        decode_checkpoint(sealed(later), 3, NAME)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"first_offset": 31}, "ends before it begins"),
        ({"next_offset": 29}, "beyond the end"),
        ({"pieces": (PackedPiece(NAME, 0, 0, 0, 0, 10),)}, "no messages"),
        ({"pieces": (PackedPiece(NAME, 0, 0, 3, -1, 10),)}, "no messages"),
        ({"pieces": (PackedPiece(NAME, 4, 3, 3, 0, 10),)}, "overlap"),
        ({"pieces": (PackedPiece(NAME, 0, 0, 3, 0, 9),) * 2}, "overlap"),
        ({"pieces": (PackedPiece(Checkpoint(1235, 1), 0, 0, 3, 0, 9),)}, "younger pack"),
    ],
)
def test_a_checkpoint_that_contradicts_itself_is_damaged(
    fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ManifestDamaged, match=sentence):
        decode_checkpoint(changed(**fields), 3, NAME)


def test_one_life_is_there_once() -> None:
    twice = msgspec.structs.replace(CHECKPOINT, partitions=CHECKPOINT.partitions * 2)
    with pytest.raises(ManifestDamaged, match="twice"):
        decode_checkpoint(encode_checkpoint(twice), 3, NAME)
