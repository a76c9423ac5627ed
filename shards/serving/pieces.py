"""Cutting a large answer, so that one connection does not take a whole turn of the loop."""

from collections.abc import Iterator, Sequence
from typing import Final

PIECE_SIZE: Final = 1024 * 1024
"""Bytes of one answer that are handed to the transport in one turn."""

WHOLE_SIZE_MAX: Final = 2 * PIECE_SIZE
"""Up to here an answer is not worth cutting: 1,000 messages of 1 KB are a little over a piece."""


def pieces_of(parts: Sequence[bytes | memoryview]) -> Iterator[list[bytes | memoryview]]:
    """The answer in pieces of PIECE_SIZE (the last may be smaller). Copies nothing."""
    piece: list[bytes | memoryview] = []
    room = PIECE_SIZE
    for part in parts:
        start = 0
        while start < len(part):
            taken = part[start : start + room]
            piece.append(taken)
            start += len(taken)
            room -= len(taken)
            if room == 0:
                yield piece
                piece, room = [], PIECE_SIZE
    if piece:
        yield piece
