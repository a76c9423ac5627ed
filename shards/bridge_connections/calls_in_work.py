"""The calls of one connection: how many there are, and that each of them ends once.

The library starts a task for each call. A call that its client resets before that task has run is
forgotten by nothing there: its entry would stay until the connection ends. Here each call is
released when it is reset, and a client that opens and resets calls without an end loses its
connection.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol

from grpclib.protocol import Stream
from grpclib.server import Handler
from h2.errors import ErrorCodes

from borzoi.shards.bridge_connections.often import Often

RESETS_MAX: Final = 1000
"""Calls that a client may reset within a second."""


class Visitor(Protocol):
    """The connection of calls."""

    def call_begins(self) -> bool:
        """One more call; False if there is no room for it."""

    def call_ends(self) -> None:
        """One call less."""

    def abort(self) -> None:
        """End the connection."""


class CallsInWork(Handler):
    """Starts a task for each call of a connection."""

    visitor: Visitor

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._releases: dict[Stream, Callable[[], None]] = {}
        self._resets = Often()

    def accept(self, stream: Stream, headers: Any, release_stream: Callable[[], Any]) -> None:
        """Begin a call, or refuse it: its client may try again."""
        if not self.visitor.call_begins():
            stream.reset_nowait(ErrorCodes.REFUSED_STREAM)
            release_stream()
            return

        def release() -> None:
            if self._releases.pop(stream, None) is not None:
                self.visitor.call_ends()
                release_stream()

        self._releases[stream] = release
        super().accept(stream, headers, release)

    def cancel(self, stream: Stream) -> None:
        """The client has reset a call."""
        task = self._tasks.pop(stream, None)
        if task is not None and not task.done():
            task.cancel()
            self._cancelled.add(task)
            task.add_done_callback(self._cancelled.discard)
        if (release := self._releases.get(stream)) is not None:
            release()
        if self._resets.is_too_often(asyncio.get_running_loop().time(), RESETS_MAX):
            self.visitor.abort()
