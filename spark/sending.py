"""Batches on their way to a broker: in order, a few of them ahead of their answers.

While the broker writes one batch the next is encoded and sent. After a broken connection it is not
known which of the unanswered ones arrived. So all of them are sent again over a new one, in their
order and with their ids. Twice is allowed, not at all is not.

Always: at most AHEAD_MAX requests are unanswered when send() returns, and none after finish().
"""

from collections import deque
from types import TracebackType
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.spark.options import Access
from borzoi.spark.wire import BROKEN, Patience, Wire, forget, give_back, lend

AHEAD_MAX: Final = 4


class Sending:
    """The requests of one task. Leaving the block waits for all answers, unless it failed."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._patience = Patience(access)
        self._wire: Wire | None = None
        self._unanswered: deque[tuple[bytes | memoryview, ...]] = deque()
        self._unsent = 0  # of these, the last ones

    def __enter__(self) -> "Sending":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self._abandon()

    def send(self, *payload: bytes | memoryview) -> None:
        """One SEND_MESSAGES; what it is made of must not change until finish()."""
        self._unanswered.append(payload)
        self._unsent += 1
        self._settle(AHEAD_MAX)

    def finish(self) -> None:
        """Waits for all answers and gives the connection back for the next task."""
        self._settle(0)
        if self._wire is not None:
            give_back(self._access, self._wire)
            self._wire = None

    def _settle(self, unanswered_max: int) -> None:
        while self._unsent or len(self._unanswered) > unanswered_max:
            try:
                if self._wire is None:
                    self._wire = lend(self._access)
                    self._unsent = len(self._unanswered)
                while self._unsent:
                    self._wire.send(Code.SEND_MESSAGES, *self._unanswered[-self._unsent])
                    self._unsent -= 1
                while len(self._unanswered) > unanswered_max:
                    self._wire.receive()
                    self._unanswered.popleft()
                    self._patience.reset()
            except BROKEN as error:
                self._abandon()
                forget(self._access)
                self._patience.wait(error)

    def _abandon(self) -> None:
        """Closes the connection: with answers on their way it cannot be used again."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None
            self._unsent = len(self._unanswered)
