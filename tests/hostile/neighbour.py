"""A well-behaved client beside the hostile ones: sends, polls and compares, all the time.

It lives in a thread of its own with its own connections, one for every few ports so that each
shard is likely to have some. What it notices is either a wrong answer (an error) or a late one
(counted, never asserted against a clock except by the socket's own timeout).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

from borzoi.protocol.codes import Code
from borzoi.protocol.responses.polled import decode_polled_messages
from tests.broker import BrokerProcess, wait_for
from tests.topics import make_topic
from tests.wire import Wire, poll_frame, send_frame

CONNECTIONS: Final = 4
STREAM: Final = "neighbour"
TOPIC: Final = "letters"
PAUSE_S: Final = 0.001
JOIN_TIMEOUT_S: Final = 60.0


@dataclass
class Neighbour:
    """What the good client has seen."""

    rounds: int = 0
    latencies_s: list[float] = field(default_factory=list)
    error: BaseException | None = None

    def check(self, rounds_more: int = 8) -> None:
        """Raise what went wrong; otherwise see it served `rounds_more` times from now on."""
        wanted = self.rounds + rounds_more
        wait_for(lambda: self.error is not None or self.rounds >= wanted, JOIN_TIMEOUT_S)
        if self.error is not None:
            raise AssertionError("the good client was disturbed") from self.error

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1000


@contextmanager
def good_neighbour(broker: BrokerProcess) -> Iterator[Neighbour]:
    """Runs the good client; raises at the end if it was disturbed."""
    seen = Neighbour()
    ended = Event()
    wires = [Wire(broker) for _ in range(CONNECTIONS)]
    make_topic(wires[0], STREAM, TOPIC)
    thread = Thread(target=_live, args=(wires, seen, ended))
    thread.start()
    try:
        yield seen
        seen.check()
    finally:
        ended.set()
        thread.join(JOIN_TIMEOUT_S)
        for wire in wires:
            wire.close()


def _live(wires: list[Wire], seen: Neighbour, ended: Event) -> None:
    offset = 0
    try:
        while not ended.wait(PAUSE_S):
            wire = wires[seen.rounds % len(wires)]
            began = time.perf_counter()
            assert wire.request(Code.PING).status == 0
            payload = b"letter %d" % offset
            wire.put(send_frame(STREAM, TOPIC, [payload]))
            assert wire.answer().status == 0
            wire.put(poll_frame(STREAM, TOPIC, offset, 1))
            answer = wire.answer()
            assert answer.status == 0
            (message,) = decode_polled_messages(memoryview(answer.payload)).messages
            assert message.payload == payload
            seen.latencies_s.append(time.perf_counter() - began)
            offset += 1
            seen.rounds += 1
    except Exception as error:
        seen.error = error
