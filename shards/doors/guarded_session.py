"""What stands before the session of a connection while requests are refused that kill workers.

The listener of a shard puts it there and takes it away again; in between it is not there at all,
so that it costs nothing. It keeps nothing of its own.
"""

from typing import Protocol

from borzoi.protocol.errors import FeatureUnavailable
from borzoi.protocol.frame import encode_response
from borzoi.router.buffer import Buffer
from borzoi.shards.doors.tcp import SessionOfConnection
from borzoi.shards.faults.poison import Guard


class Answers(Protocol):
    """How a request is refused: the connection."""

    def answer(self, frame: bytes, *, close: bool = False) -> None:
        """Answer the request in work."""


class GuardedSession:
    """A session that is not asked to carry out everything."""

    def __init__(self, session: SessionOfConnection, link: Answers, guard: Guard) -> None:
        self._session = session
        self._link = link
        self._guard = guard

    @property
    def is_authenticated(self) -> bool:
        """As the session says."""
        return self._session.is_authenticated

    @property
    def taker(self) -> str:
        """As the session says."""
        return self._session.taker

    @property
    def status_without_login(self) -> int | None:
        """As the session says."""
        return self._session.status_without_login

    @property
    def user_id(self) -> int | None:
        """As the session says."""
        return self._session.user_id

    def refusal_of_send(self, head: memoryview) -> int:
        """As the session says."""
        return self._session.refusal_of_send(head)

    def begin(self, code: int, payload: memoryview, buffer: Buffer | None, start: int) -> None:
        """Carry out a request, unless it is one that kills."""
        if self._guard.refuses(code, payload):
            self._link.answer(encode_response(FeatureUnavailable.status))
        else:
            self._session.begin(code, payload, buffer, start)

    def closed(self) -> None:
        """As the session says."""
        self._session.closed()
