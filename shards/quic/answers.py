"""Answers on their way to the streams of one client, in the order in which they were written.

Owned by a link. An answer waits here as views of what it is made of; the library copies what it is
given, so it gets `window` bytes at a time. Always: what is written to a stream comes before its
end, and nothing behind it.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol


class StreamPart(NamedTuple):
    """A part of an answer on its stream; `ends`: nothing follows on it."""

    stream_id: int
    view: memoryview
    ends: bool = False


class Outlet(Protocol):
    """What takes answers: the library."""

    def get_send_buffer_size(self) -> int:
        """What it has not sent yet."""

    def takes(self, stream_id: int) -> bool:
        """Whether the client still wants what is said on a stream."""

    def send_stream_data(self, stream_id: int, data: memoryview, end_stream: bool) -> None:
        """Take a part of an answer."""


class Answers:
    """What is not with the library yet."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._parts: deque[StreamPart] = deque()
        self.size = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, stream_id: int, parts: Iterable[bytes | memoryview]) -> None:
        """Send these on a stream."""
        for part in parts:
            view = memoryview(part)
            self._parts.append(StreamPart(stream_id, view))
            self.size += len(view)

    def end(self, stream_id: int) -> None:
        """Nothing more is said on a stream."""
        self._parts.append(StreamPart(stream_id, memoryview(b""), ends=True))

    def has(self, stream_id: int) -> bool:
        """Whether something waits for this stream."""
        return any(one.stream_id == stream_id for one in self._parts)

    def drop(self, stream_id: int) -> None:
        """Say nothing more on a stream, not even its end."""
        self._parts = deque(one for one in self._parts if one.stream_id != stream_id)
        self.size = sum(len(one.view) for one in self._parts)

    def clear(self) -> None:
        """The client is gone."""
        self._parts.clear()
        self.size = 0

    def pour(self, outlet: Outlet) -> None:
        """Let the library have as much as it may hold. What is not wanted any more is left out."""
        parts = self._parts
        room = self._window - outlet.get_send_buffer_size() if parts else 0
        while parts and room > 0:
            stream_id, view, ends = parts.popleft()
            if not outlet.takes(stream_id):
                self.size -= len(view)
                continue
            if len(view) > room:
                parts.appendleft(StreamPart(stream_id, view[room:], ends))
                view, ends = view[:room], False
            self.size -= len(view)
            room -= len(view)
            outlet.send_stream_data(stream_id, view, ends)
