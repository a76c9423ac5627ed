"""What clients have sent, looked at in turns: a flood of small frames is its sender's loss.

HTTP/2 frames may have no payload at all, and the library has Python work for each: what one read
brings may hold thirty thousand of them. So what came is cut into bites of little work
(`FrameWalk`), and all connections of a shard share one turn of each round of the loop
(`ReadingTurns`). The taker whose last bite was longest ago is next. A connection that waits for its
turn is not read from.

Always: bytes of a connection are handed on in their order; in one round no more than TURN_S and one
bite go to all connections together.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, Protocol

PREFACE_SIZE: Final = 24
"""What a client sends before its first frame."""

HEAD_SIZE: Final = 9
"""Length u24, type u8, flags u8, stream u32."""

DATA: Final = 0
HEADERS: Final = 1
SETTINGS: Final = 4

CALL_WORK: Final = 8
"""A frame that may begin a call costs as much as so many others."""

SETTINGS_WORK: Final = 20
"""The same of a change of settings, which a client makes once."""

MESSAGE_SIZE_MIN: Final = 5
"""Bytes of a gRPC message that is empty."""

BITE: Final = 32
"""Frames that are handed on at once: less than a millisecond of work."""

TURN_S: Final = 0.002


class FrameWalk:
    """Where frames end in the bytes of one connection, however they are cut."""

    __slots__ = ("_head", "_left", "idle")

    def __init__(self) -> None:
        self._left = PREFACE_SIZE
        self._head = b""
        self.idle = 0
        """Frames so far that are no part of a call's head or messages."""

    def walk(self, data: bytes, at: int, work_max: int) -> tuple[int, int]:
        """From `at` on: where so much work ends, or the bytes do; and how much it is."""
        size, work = len(data), 0
        if self._left:
            step = min(self._left, size - at)
            self._left -= step
            at += step
        while at < size and work < work_max:
            head, held = data[at : at + HEAD_SIZE - len(self._head)], len(self._head)
            if held:
                head = self._head + head
            if len(head) < HEAD_SIZE:
                self._head = head
                return size, work
            self._head = b""
            length = head[0] << 16 | head[1] << 8 | head[2]
            work += self._work_of(head[3], length)
            end = at + HEAD_SIZE - held + length
            at = min(end, size)
            self._left = end - at
        return at, work

    def _work_of(self, kind: int, length: int) -> int:
        if kind == HEADERS:
            return CALL_WORK
        if kind == SETTINGS:
            self.idle += SETTINGS_WORK
            return SETTINGS_WORK
        if kind != DATA or length < MESSAGE_SIZE_MIN:
            self.idle += 1
        return 1


class Unread:
    """What has come on one connection and was not handed on yet."""

    __slots__ = ("_at", "_chunks", "_walk")

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._at = 0
        self._walk = FrameWalk()

    def __bool__(self) -> bool:
        return bool(self._chunks)

    @property
    def size(self) -> int:
        """Bytes that are in memory for it."""
        return sum(map(len, self._chunks))

    @property
    def idle_frames(self) -> int:
        """Frames so far that are no part of a call's head or messages."""
        return self._walk.idle

    def add(self, data: bytes) -> None:
        """More has come."""
        if data:
            self._chunks.append(data)

    def take(self, work_max: int) -> tuple[bytes, int]:
        """The next bytes, of about so much work; and how much it is."""
        data, start = self._chunks[0], self._at
        end, work = self._walk.walk(data, start, work_max)
        if end < len(data):
            self._at = end
            return data[start:end], work
        self._chunks.popleft()
        self._at = 0
        return data[start:] if start else data, work

    def clear(self) -> None:
        """Nothing of it is wanted any more."""
        self._chunks.clear()
        self._at = 0


class Reader(Protocol):
    """A connection with something unread."""

    taker: str
    unread: Unread

    def read_bite(self, work_max: int) -> int:
        """Hand on the next bytes, of so much work at most; how much it was."""

    def wait_for_turn(self) -> None:
        """Receive nothing for now."""

    def turn_is_over(self) -> None:
        """Receive again: everything was handed on."""


class ReadingTurns:
    """Whose bytes are next, on one shard."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._waiting: OrderedDict[str, deque[Reader]] = OrderedDict()
        """By taker; the first one is next."""

        self._work = 0
        """Of this round of the loop."""

        self._is_due = False

    def come(self, reader: Reader) -> None:
        """Something came on a connection that does not wait: hand it on, now or in its turn."""
        if not self._waiting and self._work < BITE:
            self._work += reader.read_bite(BITE)
            self._call_soon()
        if reader.unread:
            reader.wait_for_turn()
            self._wait(reader)

    def _wait(self, reader: Reader) -> None:
        self._waiting.setdefault(reader.taker, deque()).append(reader)
        self._call_soon()

    def _call_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_due = False
        self._work = 0
        until = self._clock() + TURN_S
        while self._waiting:
            self._bite()
            if self._clock() >= until:
                break
        if self._waiting:
            self._call_soon()

    def _bite(self) -> None:
        taker, readers = self._waiting.popitem(last=False)
        reader = readers.popleft()
        if readers:
            self._waiting[taker] = readers
        if reader.unread:
            reader.read_bite(BITE)
        if reader.unread:
            self._wait(reader)
        else:
            reader.turn_is_over()
