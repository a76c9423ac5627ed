"""Pieces of an answer: all of it, in order, none too large, nothing copied."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.doors.large_answer import pieces_of


@given(st.lists(st.binary(max_size=50), max_size=12), st.integers(1, 40))
def test_pieces_are_the_answer_again(parts: list[bytes], piece_size: int) -> None:
    cut = list(pieces_of([memoryview(part) for part in parts], piece_size))
    assert b"".join(b"".join(piece) for piece in cut) == b"".join(parts)
    assert all(sum(map(len, piece)) == piece_size for piece in cut[:-1])
    assert all(0 < sum(map(len, piece)) <= piece_size for piece in cut)
