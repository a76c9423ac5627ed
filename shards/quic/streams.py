"""From streams to requests: the bytes of one client's streams until each is a whole request.

Owned by a link. A stream carries one request; what follows it is thrown away. A small request is
kept in private memory, a larger one in a pool buffer of exactly its length, in the name of the
client; so is a small one that goes on when much private memory is used. One that will be refused
keeps its first bytes alone: they are what it is answered by.

    head ──> small ─────────┐
      ├────> large, in a buffer ──> ready ──> taken
      └────> refused ───────┘

Always: at most `waiting_max` private bytes, those of one event, and headers that are not whole lie
here when more is taken. `is_full` says so; what is ready then goes first. Where nothing is ready,
more is taken: streams that are not whole wait for what their client has to send. Nothing is
reserved for a length that was not admitted. A stream that ends before its request does leaves
nothing behind.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import Frame, Need, Refused
from borzoi.protocol.generations import first_generation
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.buffer import Buffer

SMALL_SIZE_MAX: Final = 32 * 1024
"""Up to here a request is not worth a buffer of its own: it is copied into a receive block."""


class Admission(Protocol):
    """What is asked about a request before memory is taken for it."""

    @property
    def taker(self) -> str:
        """In whose name memory is taken."""

    def admits(self, code: int, total: int, header_size: int, head: memoryview) -> bool:
        """Whether memory is taken for a request that begins so."""


class StreamRequest(NamedTuple):
    """What a stream has brought: a buffer that it fills, or private bytes.

    Not `is_whole`: it will be refused, and these are its first bytes.
    """

    stream_id: int
    filled: Buffer | None
    small: bytes
    is_whole: bool = True


class _Stream:
    """A stream that is no whole request yet."""

    __slots__ = ("buffer", "filled", "has_ended", "head", "since", "total")

    def __init__(self, since: float) -> None:
        self.since = since
        self.has_ended = False
        self.head = bytearray()
        self.total = 0  # 0: not known, or not decided
        self.buffer: Buffer | None = None
        self.filled = 0


class RequestStreams:
    """The streams of one client. `take_memory` is a pool's; None from it: wait, and go_on()."""

    def __init__(
        self,
        admission: Admission,
        take_memory: Callable[[int, str], Buffer | None],
        waiting_max: int,
    ) -> None:
        self._admission = admission
        self._take_memory = take_memory
        self._waiting_max = waiting_max
        self._open: dict[int, _Stream] = {}
        # Whole or refused, with the bytes that may still come; their end was not seen.
        self._unended: dict[int, int] = {}
        self._private_bytes = 0
        self._starved: int | None = None
        self.ready: deque[StreamRequest] = deque()
        self.useless: list[int] = []
        """Streams that nothing will be answered on, or read of, any more."""
        self.wanted = 0
        """Bytes that no memory was there for; 0: nothing is waited for."""

    @property
    def is_full(self) -> bool:
        """Whether no more is taken for now: something that is here has to go first."""
        return self.wanted > 0 or (self._private_bytes > self._waiting_max and bool(self.ready))

    @property
    def private_bytes(self) -> int:
        """What lies here outside of the pool."""
        return self._private_bytes

    def oldest_since(self) -> float | None:
        """When the oldest stream has begun that is no whole request yet."""
        return min((one.since for one in self._open.values()), default=None)

    def postpone(self, now: float) -> None:
        """Count from now on: what is not whole could not come, because no more was taken."""
        for stream in self._open.values():
            stream.since = now

    def begin_next(self) -> StreamRequest:
        """The request whose turn it is."""
        request = self.ready.popleft()
        self._private_bytes -= len(request.small)
        return request

    def end(self) -> None:
        """The client is gone: give all memory back."""
        for stream_id in list(self._open):
            self.reset(stream_id)
        for request in self.ready:
            if request.filled is not None:
                request.filled.release()
        self._unended.clear()
        self.ready.clear()
        self._private_bytes = 0

    # What comes.

    def take(self, stream_id: int, data: bytes, ends: bool, now: float) -> None:
        """Bytes of a stream have arrived, perhaps its last."""
        left = self._unended.get(stream_id)
        if left is not None:
            self._take_rest(stream_id, left, len(data), ends)
            return
        stream = self._open.get(stream_id)
        if stream is None:
            if ends and self._is_request(stream_id, data):
                return
            stream = self._open[stream_id] = _Stream(now)
        stream.has_ended = ends
        if stream.buffer is not None:
            self._fill(stream_id, stream, data)
        else:
            stream.head += data
            self._private_bytes += len(data)
            self._sort(stream_id, stream)
        self._give_up_short(stream_id)

    def reset(self, stream_id: int) -> None:
        """The client takes back a stream. What was whole by then is carried out all the same."""
        self._unended.pop(stream_id, None)
        stream = self._open.pop(stream_id, None)
        if stream is None:
            return
        self._private_bytes -= len(stream.head)
        if stream.buffer is not None:
            stream.buffer.release()
        if self._starved == stream_id:
            self._starved, self.wanted = None, 0
        self.useless.append(stream_id)

    def go_on(self) -> None:
        """There may be memory now for the stream that had to wait."""
        stream_id, self._starved, self.wanted = self._starved, None, 0
        if stream_id is not None:
            self._sort(stream_id, self._open[stream_id])
            self._give_up_short(stream_id)

    def _give_up_short(self, stream_id: int) -> None:
        """A stream has ended, and its request has not."""
        stream = self._open.get(stream_id)
        if stream is not None and stream.has_ended and self._starved != stream_id:
            self.reset(stream_id)

    def _take_rest(self, stream_id: int, left: int, size: int, ends: bool) -> None:
        """What belongs to a refused request is drained. What lies behind one is not read."""
        if ends:
            del self._unended[stream_id]
            return
        self._unended[stream_id] = left - size
        if left >= 0 > left - size:
            self.useless.append(stream_id)

    def _is_request(self, stream_id: int, data: bytes) -> bool:
        """Whether one event is a whole small request and nothing else: what most are."""
        if len(data) > SMALL_SIZE_MAX:
            return False
        view = memoryview(data)
        cut = first_generation(view).framing().cut(view, 0, len(data))
        if not isinstance(cut, Frame) or cut.total != len(data):
            return False
        self._private_bytes += len(data)
        self.ready.append(StreamRequest(stream_id, None, data))
        return True

    def _sort(self, stream_id: int, stream: _Stream) -> None:
        """See what becomes of a stream by its first bytes."""
        if not stream.total and not self._decide(stream_id, stream):
            return
        is_small = stream.total <= SMALL_SIZE_MAX
        if is_small and len(stream.head) >= stream.total:
            self._finish(stream_id, stream, stream.total, is_whole=True)
        elif not is_small or self._private_bytes > self._waiting_max:
            self._move(stream_id, stream)

    def _decide(self, stream_id: int, stream: _Stream) -> bool:
        """Whether the length of a request is known by now, and it is welcome."""
        view = memoryview(bytes(stream.head))
        framing = first_generation(view).framing()
        cut = framing.cut(view, 0, len(view))
        if isinstance(cut, Refused):
            # The framing answers it; what else is sent on this stream does not count.
            self._finish(stream_id, stream, len(view), is_whole=False)
            return False
        if cut.code is None:
            return False
        if isinstance(cut, Need):
            needed = framing.header_size + HEAD_SIZE_MAX
            if cut.code == Code.SEND_MESSAGES and len(view) < needed < cut.total:
                return False
            if not self._admission.admits(cut.code, cut.total, framing.header_size, view):
                self._finish(stream_id, stream, cut.total, is_whole=False)
                return False
        stream.total = cut.total
        return True

    def _move(self, stream_id: int, stream: _Stream) -> None:
        """Into a buffer of its own; without one it waits where it is."""
        buffer = self._take_memory(stream.total, self._admission.taker)
        if buffer is None:
            self._starved, self.wanted = stream_id, stream.total
            return
        head, stream.head = stream.head, bytearray()
        self._private_bytes -= len(head)
        stream.buffer = buffer
        self._fill(stream_id, stream, bytes(head))

    def _fill(self, stream_id: int, stream: _Stream, data: bytes) -> None:
        buffer = stream.buffer
        assert buffer is not None, "a stream that is filled has a buffer"
        at = stream.filled
        stream.filled = end = at + len(data)
        if end < stream.total:
            buffer.view[at:end] = data
            return
        buffer.view[at:] = data[: stream.total - at]
        del self._open[stream_id]
        self._is_ready(stream, StreamRequest(stream_id, buffer, b""), 0)

    def _finish(self, stream_id: int, stream: _Stream, total: int, *, is_whole: bool) -> None:
        """A request that is small, or refused; `total` bytes of its stream belong to it."""
        del self._open[stream_id]
        small = bytes(stream.head[:total])
        self._private_bytes -= len(stream.head) - len(small)
        request = StreamRequest(stream_id, None, small, is_whole)
        self._is_ready(stream, request, total - len(small))

    def _is_ready(self, stream: _Stream, request: StreamRequest, left: int) -> None:
        if not stream.has_ended:
            self._unended[request.stream_id] = left
        self.ready.append(request)
