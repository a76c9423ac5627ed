"""Each second of a slow request belongs to one part, and fast ones leave no trace."""

import gc
import logging
from collections.abc import Iterator

import pytest

from borzoi.shards.loop.slow_requests import Parts, SlowRequests, timed
from tests.shards.hand_loop import HandLoop


class Watched:
    """Slow requests whose clock goes on within a turn of the loop."""

    def __init__(self) -> None:
        self.loop = HandLoop()
        self.passed_s = 0.0
        self.slow = SlowRequests(self.loop.as_loop, 0.1, self.now)

    def now(self) -> float:
        return self.loop.now + self.passed_s

    def next_turn(self) -> None:
        self.loop.now += self.passed_s
        self.passed_s = 0.0


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.slow.close()


def test_what_is_fast_is_not_counted(watched: Watched) -> None:
    course = watched.slow.course("a client")
    course.begin()
    watched.passed_s += 0.09
    course.end("PING")
    assert watched.slow.figures().requests == 0


def test_each_second_belongs_to_one_part(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    course = watched.slow.course("127.0.0.1:1")
    course.first_byte = watched.now()
    watched.passed_s += 1.0  # received
    watched.next_turn()
    watched.passed_s += 2.0  # waited
    course.begin()
    assert watched.slow.current is course
    course.runs_no_more()
    assert watched.slow.current is None
    asked = watched.now()
    watched.passed_s += 4.0
    course.was_asked(asked)
    watched.passed_s += 8.0
    watched.slow.written_s = 8.0
    watched.passed_s += 16.0  # rest
    course.answer_begins()
    watched.passed_s += 32.0
    with caplog.at_level(logging.WARNING):
        course.end("SEND_MESSAGES")
    figures = watched.slow.figures()
    assert figures.requests == 1
    assert figures.parts == pytest.approx(Parts(1.0, 2.0, 4.0, 8.0, 32.0, 16.0))
    (line,) = caplog.messages
    assert "SEND_MESSAGES of 127.0.0.1:1 took 63.000 s" in line
    assert "received 1.000, waited 2.000, ring 4.000, written 8.000, answered 32.000" in line


def test_a_ring_that_was_asked_earlier_counts_from_the_request(watched: Watched) -> None:
    course = watched.slow.course("a client")
    watched.passed_s += 5.0
    course.begin()
    watched.passed_s += 1.0
    # The time of the turn, which is all that the ring knows.
    course.was_asked(watched.loop.now)
    course.end("POLL_MESSAGES")
    assert watched.slow.figures().parts == pytest.approx(Parts(waited=5.0, ring=1.0))


def test_the_next_request_begins_at_zero(watched: Watched) -> None:
    course = watched.slow.course("a client")
    for _ in range(2):
        course.begin()
        watched.passed_s += 1.0
        course.was_asked(watched.loop.now)
        course.end("POLL_MESSAGES")
        watched.next_turn()
    assert watched.slow.figures().parts == pytest.approx(Parts(ring=2.0))


def test_a_line_a_second_says_how_many_are_left_out(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(12):
            course = watched.slow.course("a client")
            course.begin()
            watched.passed_s += 0.2
            course.end("PING")
            watched.next_turn()
    assert watched.slow.figures().requests == 12
    # At 0.2, 1.2 and 2.2 s.
    assert [line.rsplit("; ", 1)[1] for line in caplog.messages] == [
        "0 more since the last line",
        "4 more since the last line",
        "4 more since the last line",
    ]


def test_the_collector_is_watched_until_the_end(watched: Watched) -> None:
    before = watched.slow.figures().collector_seconds
    gc.collect()
    assert watched.slow.figures().collector_seconds == before  # the clock stands still
    assert len(gc.callbacks) >= 1
    watched.slow.close()
    count = len(gc.callbacks)
    gc.callbacks.append(watched.slow._collector)  # the fixture takes it off
    assert len(gc.callbacks) == count + 1


def test_a_request_of_a_peer_is_timed_until_it_is_answered(watched: Watched) -> None:
    answers: list[tuple[int, ...]] = []
    done = timed(watched.slow, 1, "Append", lambda *what: answers.append(what))
    assert watched.slow.current is None
    watched.passed_s += 0.5
    done(0, 1, 2, 3)
    assert answers == [(0, 1, 2, 3)]
    assert watched.slow.figures().parts == pytest.approx(Parts(rest=0.5))
