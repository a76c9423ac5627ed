"""A large answer leaves in pieces, so that one connection does not take a whole turn of the loop.

A piece is handed to the transport in each turn, and none while the client lags behind.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from borzoi.protocol.errors import CannotReadMessage

LOG: Final = logging.getLogger(__name__)

PIECE_SIZE: Final = 1024 * 1024
"""Bytes of one answer that are handed to the transport in one turn."""

WHOLE_SIZE_MAX: Final = 2 * PIECE_SIZE
"""Up to here an answer is not worth cutting: 1,000 messages of 1 KB are a little over a piece."""


class LargeAnswer:
    """An answer on its way. `sent` is called behind the last piece, unless the client is gone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        parts: Iterable[bytes | memoryview],
        sent: Callable[[], None],
        *,
        is_paused: bool,
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._pieces = pieces_of(parts)
        self._sent = sent
        self._is_scheduled = False
        self.is_paused = is_paused
        # The next piece is at hand while the kernel still works on the last.
        transport.set_write_buffer_limits(high=2 * PIECE_SIZE, low=PIECE_SIZE)

    def go_on(self) -> None:
        """Hand over the next piece, unless the client lags or a turn does it anyway."""
        if not self._is_scheduled:
            self._hand_over()

    def _turn(self) -> None:
        self._is_scheduled = False
        self._hand_over()

    def _hand_over(self) -> None:
        transport = self._transport
        if self.is_paused or transport.is_closing():
            return
        try:
            piece = next(self._pieces, None)
        except CannotReadMessage:
            break_off(transport)
            return
        if piece is None:
            transport.set_write_buffer_limits()
            self._sent()
            return
        # One turn at a time: behind the last piece `sent` is called once.
        self._is_scheduled = True
        self._loop.call_soon(self._turn)
        transport.writelines(piece)


def break_off(transport: asyncio.Transport) -> None:
    """The length of the answer is said, and a part is on its way: there is no other way to end."""
    LOG.exception("an answer is broken off: messages changed while they were sent")
    transport.abort()


def pieces_of(
    parts: Iterable[bytes | memoryview], piece_size: int = PIECE_SIZE
) -> Iterator[list[bytes | memoryview]]:
    """The answer in pieces of one size (the last may be smaller). Copies nothing."""
    piece: list[bytes | memoryview] = []
    room = piece_size
    for part in parts:
        start = 0
        while start < len(part):
            taken = part[start : start + room]
            piece.append(taken)
            start += len(taken)
            room -= len(taken)
            if room == 0:
                yield piece
                piece, room = [], piece_size
    if piece:
        yield piece
