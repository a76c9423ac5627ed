"""Packs hold every byte that no slot has any more, in few pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.cluster.checkpoints import PackedPiece
from borzoi.cluster.keys import Checkpoint
from borzoi.cluster.packs import (
    MERGED_SIZE_MAX,
    PackDamaged,
    SegmentRun,
    opened_pack,
    pieces_of,
    plan_packing,
    sealed_pack,
)

GROWTH = st.lists(
    st.tuples(st.sampled_from(("grow", "grow", "roll", "drop")), st.integers(1, 50)), max_size=60
)


@given(GROWTH)
def test_pieces_are_the_segments(growth: list[tuple[str, int]]) -> None:
    segments: dict[int, bytes] = {0: b""}
    packs: dict[Checkpoint, bytes] = {}
    pieces: tuple[PackedPiece, ...] = ()
    for number, (what, size) in enumerate(growth):
        active = max(segments)
        if what == "grow":
            segments[active] += bytes((number,)) * size
        elif what == "roll" and segments[active]:
            segments[active + len(segments[active])] = b""
        elif what == "drop" and len(segments) > 1:
            del segments[min(segments)]
        # One message is one byte.
        runs = [SegmentRun(first, len(log), len(log)) for first, log in segments.items()]
        packing = plan_packing(pieces, runs)
        name = Checkpoint(number + 1, 0)
        parts = [
            segments[one.segment][one.position : one.position + one.length]
            for one in packing.additions
        ]
        packs[name] = sealed_pack(parts)
        pieces, end = pieces_of(packing, name, 0)
        assert end == sum(map(len, parts))
        stored = {first: b"" for first in segments}
        for piece in pieces:
            assert piece.first == piece.segment + len(stored[piece.segment])
            body = bytes(opened_pack(packs[piece.pack])[piece.at : piece.at + piece.length])
            assert piece.number == len(body)
            stored[piece.segment] += body
        assert stored == segments


def test_many_checkpoints_leave_few_pieces_and_put_little_twice() -> None:
    pieces: tuple[PackedPiece, ...] = ()
    put = 0
    for number in range(1, 1001):
        packing = plan_packing(pieces, [SegmentRun(0, number, 1000 * number)])
        put += sum(one.length for one in packing.additions)
        pieces, _ = pieces_of(packing, Checkpoint(number, 0), 0)
        assert len(pieces) <= 10
    assert put <= 10 * 1000 * 1000


def test_large_pieces_are_not_put_again() -> None:
    large = PackedPiece(Checkpoint(1, 0), 0, 0, 1, 0, MERGED_SIZE_MAX + 1)
    packing = plan_packing((large,), [SegmentRun(0, 2, 3 * MERGED_SIZE_MAX)])
    assert packing.kept == (large,)
    assert packing.additions[0].position == large.length


@pytest.mark.parametrize("damage", [b"", b"1234567", b"x" * 30])
def test_a_damaged_pack_is_found(damage: bytes) -> None:
    with pytest.raises(PackDamaged):
        opened_pack(damage)


def test_nothing_is_no_pack() -> None:
    assert sealed_pack([]) == b""
