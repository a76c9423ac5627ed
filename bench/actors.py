"""One connection with one request in flight: what all actors of a load generator share.

Lives in one generator process and its loop. What an actor sends and what it makes of the answers is
in roles.py.

Always: an answer that is not a success ends the run with the status; nothing is retried.
"""

import time
from array import array
from collections.abc import Callable
from typing import Final

from borzoi.bench.carriers import Carrier
from borzoi.bench.pacing import Pace
from borzoi.bench.plans import ActorPlan, ActorResult
from borzoi.protocol.errors import error_for
from borzoi.protocol.framing import LENGTH_SIZE, REQUEST_HEADER

ENDLESS: Final = 1 << 62


class LoadFailed(Exception):
    """The server said no, or went away; the text is for the user."""


class Actor:
    """What every actor has: a socket, a goal, a pace, and what it has measured so far."""

    def __init__(
        self,
        plan: ActorPlan,
        connection: Carrier,
        wait: Callable[["Actor", int], None],
        finished: Callable[["Actor"], None],
        watch_writable: Callable[["Actor", bool], None],
    ) -> None:
        self.plan = plan
        self.socket = connection
        self.pace = Pace(plan.interval_ns)
        self.messages_done = 0
        self.bytes_done = 0
        self._wait = wait
        self._finished = finished
        self._watch_writable = watch_writable
        self._unsent: memoryview | None = None
        self._planned_ns = 0
        self._left = ENDLESS
        self._until_ns = ENDLESS
        self._interval_ns = plan.interval_ns
        self._started_ns = 0
        self._empty_polls = 0
        self._wall_ns = 0
        self._clear()
        self.prepare()

    def prepare(self) -> None:
        """Build requests and buffers, before anything is measured."""

    def _clear(self) -> None:
        self._ends = array("q")
        self._latencies = array("q")
        self._messages = array("q")
        self._user_bytes = array("q")
        self._empty_polls = 0

    def start(self, start_ns: int, now_ns: int, until_ns: int | None, *, endless: bool) -> None:
        """Begin a phase; what was measured before is forgotten."""
        goal = self.plan.goal
        self._clear()
        self._started_ns = start_ns
        self._until_ns = ENDLESS if until_ns is None else until_ns
        counts = (goal.requests, goal.messages, goal.user_bytes)
        wanted = next((count for count in counts if count is not None), None)
        self._left = ENDLESS if endless or wanted is None else wanted
        # Origin timestamps are wall time, everything else here is monotonic.
        self._wall_ns = time.time_ns() - time.monotonic_ns()
        self.pace.restart(start_ns)
        self.rewind()
        self.advance(now_ns)

    def rewind(self) -> None:
        """Back to where the plan begins."""

    def begin(self, planned_ns: int) -> None:
        """Send the request that was planned for this moment."""
        raise NotImplementedError

    def receive(self) -> None:
        """There are bytes to read."""
        raise NotImplementedError

    def advance(self, now_ns: int) -> None:
        """After a request: the next one, now or when it is planned, or the end."""
        if self._left <= 0 or now_ns >= self._until_ns:
            self._finished(self)
            return
        if not self._interval_ns:
            self.begin(now_ns)
            return
        planned = self.pace.next_planned_ns(now_ns)
        if planned >= self._until_ns:
            self._finished(self)
        elif planned > now_ns:
            self._wait(self, planned)
        else:
            self.begin(planned)

    def flush(self) -> None:
        """The socket takes bytes again."""
        rest = self._unsent
        if rest is None:
            return
        try:
            sent = self.socket.send(rest)
        except BlockingIOError:
            sent = 0
        if sent == len(rest):
            self._unsent = None
            self._watch_writable(self, False)
        else:
            self._unsent = rest[sent:]

    def result(self, ended_ns: int) -> ActorResult:
        """Returns the samples of the actor; `ended_ns` counts if it has none."""
        return ActorResult(
            role=self.plan.role,
            actor_id=self.plan.actor_id,
            started_ns=self._started_ns,
            ended_ns=self._ends[-1] if self._ends else ended_ns,
            ends=self._ends.tobytes(),
            latencies=self._latencies.tobytes(),
            messages=self._messages.tobytes(),
            user_bytes=self._user_bytes.tobytes(),
            empty_polls=self._empty_polls,
        )

    @property
    def requests_done(self) -> int:
        """How many requests were answered in this phase."""
        return len(self._ends)

    def _send(self, frame: bytearray) -> None:
        try:
            sent = self._send_in_pieces(frame) if self.plan.in_pieces else self.socket.send(frame)
        except BlockingIOError:
            sent = 0
        if sent != len(frame):
            self._unsent = memoryview(frame)[sent:]
            self._watch_writable(self, True)

    def _send_in_pieces(self, frame: bytearray) -> int:
        view = memoryview(frame)
        sent = self.socket.send(view[:LENGTH_SIZE])
        sent += self.socket.send(view[LENGTH_SIZE : REQUEST_HEADER.size])
        return sent + self.socket.send(view[REQUEST_HEADER.size :])

    def _note(self, now_ns: int, latency_ns: int, messages: int, user_bytes: int) -> None:
        self._ends.append(now_ns)
        self._latencies.append(latency_ns)
        self._messages.append(messages)
        self._user_bytes.append(user_bytes)
        self.messages_done += messages
        self.bytes_done += user_bytes


def refusal(status: int, what: str) -> LoadFailed:
    """A status other than success, in words."""
    error = error_for(status)
    return LoadFailed(f"the server refused a {what}: {type(error).__name__} (status {status})")
