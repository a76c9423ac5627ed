"""The receiving end of an HTTP connection: bytes from the socket become one answer at a time.

Belongs to one WebConnection, which writes a request and hands out the future that this reader
fulfils. Bodies of a known length are received where they stay; those in chunks are put together.

Always: at most one request is unanswered, and once `end()` was called no byte is read or written
any more. An answer is bounded before memory is reserved for it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from borzoi.client.reply_reader import ResponseTooBig
from borzoi.protocol.errors import ConnectionClosed
from borzoi.protocol.http_answer import ChunkedBody, HttpAnswerHead, NotHttp, read_answer_head

PIECE_SIZE: Final = 64 * 1024
"""Received at once; a head has to fit."""


class HttpReply(NamedTuple):
    """An answer as it came; the names of its fields are in small letters."""

    status: int
    fields: dict[str, str]
    body: bytearray


class HttpReader(asyncio.BufferedProtocol):
    """The protocol of one connection: answers one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, response_size_max: int) -> None:
        self._loop = loop
        self._response_size_max = response_size_max
        self._transport: asyncio.Transport | None = None
        self._lost: asyncio.Future[None] = loop.create_future()
        self._waiting: asyncio.Future[HttpReply] | None = None
        self._ended_by: Exception | None = None
        self._piece = memoryview(bytearray(PIECE_SIZE))
        self._start_over()

    @property
    def is_open(self) -> bool:
        """Whether end() was not called yet."""
        return self._ended_by is None

    def ask(self, parts: Sequence[bytes | memoryview]) -> asyncio.Future[HttpReply]:
        """Send the parts of one request; the future is its answer, or why there is none."""
        if self._ended_by is not None:
            raise ConnectionClosed(f"this connection is closed: {self._ended_by}")
        assert self._transport is not None, "asked before the connection was made"
        assert self._waiting is None, "one request at a time"
        self._waiting = self._loop.create_future()
        # An empty part stays in asyncio's buffer for ever from Python 3.12 on.
        self._transport.writelines([part for part in parts if part])
        return self._waiting

    def end(self, error: Exception) -> None:
        """Closes now. A waiting request raises `error`; only the first call counts."""
        if self._ended_by is not None:
            return
        self._ended_by = error
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        self._waiting = None
        assert self._transport is not None, "ended before the connection was made"
        self._transport.abort()

    async def wait_lost(self) -> None:
        """Return when the socket is closed; end() comes before this."""
        await asyncio.shield(self._lost)

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport. Called by the event loop."""
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Returns where the next bytes go. Called by the event loop."""
        if self._body is not None:
            return self._body_view[self._filled :]
        return self._piece[self._filled :]

    def buffer_updated(self, size: int) -> None:
        """Counts received bytes and finishes the answer when it is complete."""
        self._filled += size
        if self._waiting is None:
            self.end(ConnectionClosed(f"the server sent {self._filled} bytes without a request"))
            return
        try:
            self._take()
        except NotHttp as error:
            self.end(ConnectionClosed(f"the server's answer is no HTTP: {error}"))

    def eof_received(self) -> None:
        """The server is gone: the transport closes."""

    def connection_lost(self, error: Exception | None) -> None:
        """Ends the waiting request with the reason. Called by the event loop."""
        cause = "the server closed the connection" if error is None else f"{error}"
        if self._waiting is not None:
            cause += " before it answered" if self._head is None else " in its answer"
        self.end(ConnectionClosed(cause))
        self._lost.set_result(None)

    def _start_over(self) -> None:
        self._filled = 0  # bytes in the piece, or in the body once there is one
        self._head: HttpAnswerHead | None = None
        self._body: bytearray | None = None
        self._body_view = memoryview(b"")
        self._chunks: ChunkedBody | None = None

    def _take(self) -> None:
        if self._body is not None:
            if self._filled == len(self._body):
                self._finish(self._body)
        elif self._chunks is not None:
            came, self._filled = bytes(self._piece[: self._filled]), 0
            self._take_chunks(came)
        else:
            self._begin()

    def _begin(self) -> None:
        came = bytes(self._piece[: self._filled])
        head = read_answer_head(came)
        if head is None:
            if self._filled == len(self._piece):
                raise NotHttp(f"a head of more than {PIECE_SIZE} bytes")
            return
        rest = came[head.size :]
        if head.is_interim:
            self._piece[: len(rest)] = rest
            self._filled = len(rest)
            if rest:
                self._begin()
            return
        self._head = head
        if head.is_chunked:
            self._chunks = ChunkedBody(self._response_size_max)
            self._filled = 0
            self._take_chunks(rest)
            return
        self._take_sized(head.length, rest)

    def _take_sized(self, length: int, rest: bytes) -> None:
        # Before reserving memory: the length is only a claim of the server.
        if length > self._response_size_max:
            self.end(ResponseTooBig(f"{length} bytes; at most {self._response_size_max} are taken"))
            return
        if len(rest) > length:
            raise NotHttp(f"{len(rest) - length} bytes behind the body")
        self._body = bytearray(length)
        self._body_view = memoryview(self._body)
        self._body_view[: len(rest)] = rest
        self._filled = len(rest)
        if self._filled == length:
            self._finish(self._body)

    def _take_chunks(self, came: bytes) -> None:
        assert self._chunks is not None
        if not self._chunks.take(came):
            if self._chunks.is_too_big:
                self.end(ResponseTooBig(f"more than {self._response_size_max} bytes in chunks"))
            return
        self._finish(self._chunks.body)

    def _finish(self, body: bytearray) -> None:
        waiting, head = self._waiting, self._head
        self._waiting = None
        self._start_over()
        assert waiting is not None, "an answer is only begun for a request"
        assert head is not None, "an answer begins with its head"
        if not waiting.done():  # its caller may have been cancelled a moment ago
            waiting.set_result(HttpReply(head.status, head.fields, body))
        if head.closes:
            self.end(ConnectionClosed("the server closes the connection behind its answer"))
