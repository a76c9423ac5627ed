"""Where the time of slow requests goes: a log line now and then, and figures of all of them.

Owned by the worker's loop, and there only where `limits.slow_request` is set. A request begins with
its first byte that was read, and ends when its answer is with the transport. In between:

    received   from the first to the last byte of a frame that came in pieces
    waited     for its turn: other requests of the same turn of the loop were first
    ring       another shard was asked
    written    its batch was written, in mode fsync synced
    answered   from the first piece of a large answer to its last: the client had to read
    rest       everything else: decoding, look-ups, reading from a disk, waiting for the write

What the garbage collector took meanwhile lies in these, and is said beside them. A request that
another shard asks for begins when it is taken from the ring.

Always: a request belongs to one `Course` from its begin to its end, and each of its seconds to one
part.
"""

import asyncio
import gc
import logging
from collections.abc import Callable
from time import monotonic
from typing import Final, NamedTuple, TypeAlias

from borzoi.shards.loop.rarely import Rarely

LOG: Final = logging.getLogger(__name__)

LINE_INTERVAL_S: Final = 1.0

Outcome: TypeAlias = Callable[..., None]
"""Gets a status and up to three numbers."""


class Parts(NamedTuple):
    """Seconds of one request, or of many."""

    received: float = 0.0
    waited: float = 0.0
    ring: float = 0.0
    written: float = 0.0
    answered: float = 0.0
    rest: float = 0.0


class SlowFigures(NamedTuple):
    """Since the worker started."""

    requests: int
    parts: Parts
    collector_seconds: float


class SlowRequests:
    """The slow requests of one shard."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        threshold_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """The clock is the one of `loop.time`, which stands still during a turn."""
        assert threshold_s > 0, "without a threshold nothing is watched"
        self._loop = loop
        self._clock = clock
        self._threshold_s = threshold_s
        self.current: Course | None = None
        """The request that runs right now, if it is known."""
        self.written_s = 0.0
        """How long the write took whose answers go out right now."""
        self.collector_s = 0.0
        self._collector_began = 0.0
        self._requests = 0
        self._sums = Parts()
        self._lines = Rarely(LINE_INTERVAL_S)
        self._silent = 0
        gc.callbacks.append(self._collector)

    def close(self) -> None:
        """Watch the garbage collector no more."""
        gc.callbacks.remove(self._collector)

    def figures(self) -> SlowFigures:
        """What metrics tell."""
        return SlowFigures(self._requests, self._sums, self.collector_s)

    def course(self, place: str) -> "Course":
        """For the requests of one connection, or of one peer."""
        return Course(self, self._loop, self._clock, place)

    def end(self, course: "Course", what: str) -> None:
        """A request has ended; nothing comes of it if it was fast."""
        now = self._clock()
        took_s = now - course.began
        if took_s < self._threshold_s:
            return
        parts = course.parts(now, min(self.written_s, took_s))
        collector_s = self.collector_s - course.collector_before_s
        self._requests += 1
        self._sums = Parts(*map(sum, zip(self._sums, parts, strict=True)))
        if not self._lines.is_due("", now):
            self._silent += 1
            return
        said = ", ".join(f"{part} {seconds:.3f}" for part, seconds in parts._asdict().items())
        LOG.warning(
            "slow request: %s of %s took %.3f s: %s; collector %.3f; %d more since the last line",
            what,
            course.place,
            took_s,
            said,
            collector_s,
            self._silent,
        )
        self._silent = 0

    def _collector(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._collector_began = self._clock()
        else:
            self.collector_s += self._clock() - self._collector_began


class Course:
    """The one request that a connection has in work, as far as its time goes."""

    __slots__ = (
        "_answer_since",
        "_clock", "_loop", "_ring_s", "_slow", "_started", "_turn", "began", "code",
        "collector_before_s", "first_byte", "place",
    )  # fmt: skip

    def __init__(
        self,
        slow: SlowRequests,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        place: str,
    ) -> None:
        self._slow = slow
        self._loop = loop
        self._clock = clock
        self.place = place
        self.code = 0
        """What is asked for; the door notes it."""
        self.first_byte: float | None = None
        """When the frame in work began to come, if it came in pieces."""
        self.began = self._turn = self._started = 0.0
        self._ring_s = 0.0
        self._answer_since: float | None = None
        self.collector_before_s = 0.0

    def begin(self) -> None:
        """The request is whole, and is carried out now."""
        # When the sockets of this turn were found to be readable.
        turn = self._loop.time()
        self._started = self._clock()
        self.began = self._turn = min(turn, self._started)
        if self.first_byte is not None:
            self.began = min(self.first_byte, turn)
            self.first_byte = None
        self._ring_s = 0.0
        self._answer_since = None
        self.collector_before_s = self._slow.collector_s
        self._slow.current = self

    def runs_no_more(self) -> None:
        """Its first turn is over; what it waits for will call."""
        self._slow.current = None

    def was_asked(self, since: float) -> None:
        """Another shard has answered what it was asked at this time."""
        self._ring_s += max(0.0, self._clock() - max(since, self._started))

    def answer_begins(self) -> None:
        """From now on only the client is waited for."""
        self._answer_since = self._clock()

    def end(self, what: str) -> None:
        """The request has its answer."""
        self._slow.end(self, what)

    def parts(self, now: float, written_s: float) -> Parts:
        """Where the time went, up to now."""
        answered = 0.0 if self._answer_since is None else now - self._answer_since
        received = self._turn - self.began
        waited = self._started - self._turn
        known = received + waited + self._ring_s + written_s + answered
        rest = max(0.0, now - self.began - known)
        return Parts(received, waited, self._ring_s, written_s, answered, rest)


def timed(slow: SlowRequests, shard: int, what: str, done: Outcome) -> Outcome:
    """`done` of a request that a peer asks for, which is looked at when it is called."""
    course = slow.course(f"shard {shard}")
    course.begin()
    # What is asked next may be for another request.
    course.runs_no_more()

    def answered(status: int, first: int = 0, second: int = 0, third: int = 0) -> None:
        course.end(what)
        done(status, first, second, third)

    return answered
