"""Bytes in views: the same bytes however they are cut, and no copy of what is whole."""

import pytest

from borzoi.protocol.errors import CannotReadMessage
from borzoi.protocol.message import Message, encode_messages
from borzoi.shards.web_forms.limits import PIECE_SIZE
from borzoi.shards.web_messages.message_json import ENCODED_SIZE, polled_pieces
from borzoi.shards.web_messages.stored_bytes import StoredBytes

DATA = bytes(range(20))


@pytest.mark.parametrize("cut", range(1, 20))
def test_views_may_be_cut_anywhere(cut: int) -> None:
    views = [memoryview(DATA)[at : at + cut] for at in range(0, len(DATA), cut)]
    walk = StoredBytes([memoryview(b""), *views])
    taken = [bytes(walk.take(size)) for size in (1, 7, 0, 12)]
    assert b"".join(taken) == DATA
    assert walk.is_over()


def test_what_is_whole_is_not_copied() -> None:
    view = memoryview(bytearray(DATA))
    assert StoredBytes([view]).take(10).obj is view.obj


def test_too_few_bytes_are_an_error() -> None:
    walk = StoredBytes([memoryview(DATA)[:5], memoryview(DATA)[5:8]])
    with pytest.raises(CannotReadMessage, match="8 bytes where 9 are needed"):
        walk.take(9)


def test_pieces_of_a_large_message_are_small() -> None:
    stored = memoryview(encode_messages([Message(b"x" * (4 * PIECE_SIZE + 1), offset=0)]))
    half = len(stored) // 2
    for views in ([stored], [stored[:half], stored[half:]]):
        sizes = [len(piece) for piece in polled_pieces(0, 0, 1, views)]
        assert max(sizes) <= 2 * PIECE_SIZE
        assert sum(sizes) > 4 * PIECE_SIZE * 4 // 3
    assert ENCODED_SIZE % 3 == 0
