"""Frames that are not taken in: answered when their header is there, then thrown away.

Owned by a connection. The rest of a refused frame is drained, so that the next one is found where
it begins. Of one that is too long even for that no end is waited for: our side is shut at once.
"""

import asyncio

from borzoi.shards.admission.deadlines import Patience
from borzoi.shards.admission.frames import ConnectionLimits, refusal
from borzoi.shards.doors.carried import Framed, SessionOfConnection


class RefusedFrames:
    """What is refused on one connection, and how much of it is still to come."""

    __slots__ = (
        "_framed", "_limits", "_loop", "_patience", "_session", "_transport", "is_last", "left",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ConnectionLimits,
        framed: Framed,
        patience: Patience,
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._framed = framed
        self._patience = patience
        self._transport: asyncio.Transport
        self._session: SessionOfConnection
        self.left = 0  # bytes of the refused frame that have not come yet
        self.is_last = False  # nothing is said or read behind it

    def begin(self, transport: asyncio.Transport, session: SessionOfConnection) -> None:
        """The connection is open."""
        self._transport = transport
        self._session = session

    def admits(self, code: int, total: int) -> bool:
        """Whether a frame of `total` bytes is taken in; otherwise it is answered and drained."""
        limits = self._limits
        payload_size = total - self._framed.framing.header_size
        without_login = self._session.status_without_login
        status = refusal(limits, code, total, payload_size, without_login=without_login)
        if status is None:
            return True
        self._begin_drain(min(total, limits.frame_size_max), status)
        if total > limits.frame_size_max:
            # Too much even to throw away: the byte stream cannot be cut any more.
            if without_login is not None:
                self._framed.unreadable()
            self._part()
        return False

    def refuses_send(self, head: memoryview, total: int) -> bool:
        """Whether a batch is not kept, because its beginning says that it cannot be appended."""
        status = self._session.refusal_of_send(head)
        if status:
            self._begin_drain(total, status)
        return status != 0

    def drain(self, present: int) -> int:
        """How many of the bytes that are there belong to the refused frame: they are gone."""
        thrown = min(self.left, present)
        self.left -= thrown
        if self.left == 0:
            self._patience.frame_since = None
            if self.is_last:
                self._transport.abort()
        return thrown

    def drop(self, answer: bytes, total: int) -> None:
        """Answer a frame that no session sees with these bytes, and throw it away."""
        if not self._transport.is_closing():
            self._transport.write(answer)
        self.left = total
        self._patience.wait_for_frame(self._loop.time())

    def _begin_drain(self, size: int, status: int) -> None:
        self.drop(self._framed.framing.status(status), size)

    def _part(self) -> None:
        """Say no more, and listen for a while yet.

        A close while bytes are unread is a reset, which may overtake the answer.
        """
        if self._transport.can_write_eof():
            self.is_last = True
            self._transport.write_eof()
        else:
            self._transport.close()
