"""A broker that copies, to show what it is worth that the real one does not.

With BORZOI_COPY_BYTES=1 every request is copied out of the receive buffer before anything looks at
it, and every answer is joined into one piece before it is sent: what a server does that collects
bytes and writes bytes. `borzoi bench seed` measures it beside the real thing. It stands around the
session and knows nothing of what is inside; the real paths have no switch in them. For a broker of
one shard: another shard is lent the bytes as they were received.
"""

import os
import socket
from collections.abc import Sequence
from typing import Final

from borzoi.router.buffer import Buffer
from borzoi.shards.doors.tcp import SessionOfConnection
from borzoi.shards.serving.session import Link

COPY_BYTES: Final = os.environ.get("BORZOI_COPY_BYTES") == "1"


class CopyingLink:
    """Answers with copies."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def answer(self, frame: bytes, *, close: bool = False) -> None:
        """Small frames are what they are."""
        self._link.answer(frame, close=close)

    def finish(self, parts: Sequence[bytes | memoryview], size: int) -> None:
        """All parts in one piece of memory."""
        self._link.finish([b"".join(parts)], size)

    def note_user(self, user_id: int | None) -> None:
        """Nothing to copy."""
        self._link.note_user(user_id)

    def abandon(self) -> None:
        """Nothing to copy."""
        self._link.abandon()

    def let_go(self) -> socket.socket | None:
        """A connection that copies stays where it is."""
        return None


class CopyingSession:
    """Reads copies."""

    def __init__(self, session: SessionOfConnection) -> None:
        self._session = session

    @property
    def is_authenticated(self) -> bool:
        """As the session says."""
        return self._session.is_authenticated

    @property
    def status_without_login(self) -> int | None:
        """As the session says."""
        return self._session.status_without_login

    @property
    def user_id(self) -> int | None:
        """As the session says."""
        return self._session.user_id

    @property
    def taker(self) -> str:
        """As the session says."""
        return self._session.taker

    def refusal_of_send(self, head: memoryview) -> int:
        """As the session says."""
        return self._session.refusal_of_send(head)

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """The request in memory of its own."""
        copied = bytes(payload)
        # Collecting in a growing buffer and cutting from it is two; batches are stamped in place.
        self._session.begin(code, memoryview(bytearray(copied)), buffer, start)

    def closed(self) -> None:
        """As the session says."""
        self._session.closed()
