"""A connection whose requests come whole, each on a stream of its own.

What it is to its session, its deadlines and its answers is what any connection is (tcp.py). Only
the way in differs: a stream is asked about when its header is there, and handed over when its
request is whole. So the streams of a client do not stand in each other's way, and no stream that
ends early leaves half a frame behind.
"""

import asyncio
from typing import Protocol, cast

from borzoi.protocol.codes import Code
from borzoi.protocol.send_target import HEAD_SIZE_MAX
from borzoi.router.buffer import Buffer
from borzoi.shards.admission.frames import refusal
from borzoi.shards.doors.tcp import Connection
from borzoi.shards.serving.reply import Reply


class Streams(Protocol):
    """The transport of such a connection."""

    def answered(self) -> None:
        """The request in work has its whole answer."""

    def check_deadlines(self, now: float) -> str | None:
        """What the client did not do in time on one of its streams."""


class StreamedConnection(Connection):
    """The session side of a client with streams."""

    # What its transport asks.

    def admits(self, code: int, total: int, header_size: int, head: memoryview) -> bool:
        """Whether memory is taken for a request that begins so; `head` is what is there of it.

        Of a batch that needs header_size + HEAD_SIZE_MAX bytes, if it has as many.
        """
        session, limits = self._session, self._limits
        without_login = session.status_without_login
        payload_size = total - header_size
        if refusal(limits, code, total, payload_size, without_login=without_login) is not None:
            return False
        if code == Code.SEND_MESSAGES and payload_size > HEAD_SIZE_MAX:
            return not session.refusal_of_send(head[header_size:])
        return True

    @property
    def taker(self) -> str:
        """In whose name memory is taken for what the client sends."""
        return self._session.taker

    @property
    def frame_timeout_s(self) -> float:
        """So long a client may take for one request."""
        return self._limits.frame_timeout_s

    @property
    def is_waiting(self) -> bool:
        """Whether the request handed over last is in work, or waits for memory to be."""
        return self.is_busy or self._intake.has_kept_requests

    # What its transport hands over.

    def take_filled(self, filled: Buffer) -> None:
        """Carry out the request that fills a buffer of the pool, which is ours now."""
        self._intake.take_whole(filled)

    def cut_off(self) -> None:
        """What was handed over last is all that comes of it."""
        self._intake.cut_off()

    # When a request ends.

    def reply(self, reply: Reply) -> None:
        """Answer the request in work; its stream ends with it."""
        super().reply(reply)
        if not self.is_busy:
            self._streams_answered()

    def _large_sent(self) -> None:
        super()._large_sent()
        self._streams_answered()

    def _streams_answered(self) -> None:
        if self.transport is not None:
            cast(Streams, self.transport).answered()

    def check_deadlines(self, now: float) -> str | None:
        """Close the connection if it keeps us waiting too long; the reason, if so."""
        transport: asyncio.Transport | None = self.transport
        reason = super().check_deadlines(now)
        if reason is None and transport is not None:
            reason = cast(Streams, transport).check_deadlines(now)
            if reason is not None:
                transport.abort()
        return reason
