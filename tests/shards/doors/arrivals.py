"""Frames of any kind, cut anywhere, on their way to a bench."""

import struct
from itertools import cycle
from typing import NamedTuple

from hypothesis import strategies as st

from borzoi.protocol.codes import Code
from borzoi.protocol.framing import (
    encode_request,
    encode_response,
)
from borzoi.router.buffer import Buffer
from borzoi.router.pool import KIB
from tests.shards.doors.hand_bench import LIMITS, REFUSED, WINDOW, Begun, Bench
from tests.shards.doors.hand_transport import HIGH_WATER


class Sent(NamedTuple):
    """One frame: what is wrong with it, if anything, its code and the size of its payload."""

    kind: str
    code: int
    size: int

    @property
    def payload(self) -> bytes:
        return bytes((self.code + number) % 251 for number in range(self.size))

    @property
    def data(self) -> bytes:
        if self.kind == "too short":
            return struct.pack("<II", self.size, self.code)
        return encode_request(self.code, self.payload)

    @property
    def begun(self) -> Begun | None:
        """What the session is to see of it."""
        return Begun(self.code, self.payload) if self.kind == "good" else None

    @property
    def answer(self) -> bytes:
        return answer_to(self.code) if self.kind == "good" else REFUSED


def answer_to(code: int) -> bytes:
    return encode_response(0, struct.pack("<I", code))


CODES = st.sampled_from([Code.PING, Code.SEND_MESSAGES, Code.POLL_MESSAGES, 77])
SIZES = (
    st.integers(0, 40)
    | st.integers(WINDOW - 20, WINDOW + 20)
    | st.integers(0, LIMITS.control_frame_size_max)
)
SENT = (
    st.builds(Sent, st.just("good"), CODES, SIZES)
    | st.builds(
        Sent,
        st.just("too large"),
        st.just(77),
        st.integers(LIMITS.control_frame_size_max + 1, LIMITS.frame_size_max - 8),
    )
    | st.builds(Sent, st.just("too short"), CODES, st.integers(0, 3))
)
STEPS = st.lists(
    st.sampled_from(["deliver", "deliver", "answer", "turn", "hog", "unhog", "peer reads"]),
    min_size=1,
    max_size=12,
)


class Arrival:
    """Bytes on their way to a bench, chunk by chunk, and what happens meanwhile."""

    def __init__(self, bench: Bench, data: bytes, chunks: list[int]) -> None:
        self._bench = bench
        self._chunks = cycle(chunks)
        self._hogged: list[Buffer] = []
        self.data = data
        self.at = 0
        self.hurry = 1

    def act(self, step: str) -> None:
        session = self._bench.session
        if step == "deliver":
            chunk = self.data[self.at : self.at + next(self._chunks) * self.hurry]
            self.at += len(chunk) - len(self._bench.transport.deliver(chunk))
        elif step == "answer" and session.waiting is not None:
            session.finish()
        elif step == "turn":
            self._bench.loop.turn()
        elif step == "hog":
            # Another user takes all there is, so that buffers and receive blocks run out.
            while (taken := self._bench.pool.take(64 * KIB)) is not None:
                self._hogged.append(taken)
        elif step == "unhog":
            while self._hogged:
                self._hogged.pop().release()
        elif step == "peer reads":
            self._bench.transport.take(HIGH_WATER)

    @property
    def is_over(self) -> bool:
        """Whether all has arrived, is answered, and was read by the peer."""
        is_answered = self._bench.session.waiting is None and not self._bench.transport.unsent
        return is_answered and self.at == len(self.data)
