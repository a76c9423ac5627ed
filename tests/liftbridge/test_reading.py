"""What clients have sent is looked at in bites of little work, each taker in turn."""

import struct
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.bridge_connections.reading import (
    BITE,
    CALL_WORK,
    PREFACE_SIZE,
    SETTINGS_WORK,
    TURN_S,
    ReadingTurns,
    Unread,
)
from tests.shards.hand_loop import HandLoop

PREFACE = b"p" * PREFACE_SIZE
DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, 0, 1) + payload


FRAMES = st.lists(
    st.tuples(st.sampled_from([DATA, HEADERS, SETTINGS, PING]), st.integers(0, 40)), max_size=60
)


@given(FRAMES, st.lists(st.integers(1, 50)), st.integers(1, 40))
def test_bytes_keep_their_order_and_work_is_counted_however_they_are_cut(
    frames: list[tuple[int, int]], cuts: list[int], work_max: int
) -> None:
    whole = PREFACE + b"".join(frame(kind, bytes([at % 251] * at)) for kind, at in frames)
    works = {HEADERS: CALL_WORK, SETTINGS: SETTINGS_WORK}
    unread, at = Unread(), 0
    for cut in [*cuts, len(whole)]:
        unread.add(whole[at : at + cut])
        at += cut
    bites = []
    while unread:
        bites.append(unread.take(work_max))
    assert b"".join(data for data, _ in bites) == whole
    assert sum(work for _, work in bites) == sum(works.get(kind, 1) for kind, _ in frames)
    assert all(work < work_max + SETTINGS_WORK for _, work in bites)
    idle = [
        SETTINGS_WORK if kind == SETTINGS else 1 for kind, size in frames if is_idle(kind, size)
    ]
    assert unread.idle_frames == sum(idle)


def is_idle(kind: int, size: int) -> bool:
    return kind in (SETTINGS, PING) or (kind == DATA and size < 5)


class HandReader:
    """A connection whose bites take a millisecond each."""

    def __init__(self, taker: str, bites: list[str], now: list[float]) -> None:
        self.taker = taker
        self.unread = Unread()
        self.waits = False
        self._bites = bites
        self._now = now

    def receive(self, frames: int, first: bytes = b"") -> None:
        self.unread.add(first + frame(PING, bytes(8)) * frames)

    def read_bite(self, work_max: int) -> int:
        self._now[0] += TURN_S / 2
        self._bites.append(self.taker)
        return self.unread.take(work_max)[1]

    def wait_for_turn(self) -> None:
        self.waits = True

    def turn_is_over(self) -> None:
        self.waits = False


def a_shard() -> tuple[HandLoop, ReadingTurns, Callable[[str], HandReader], list[str]]:
    loop, now, bites = HandLoop(), [0.0], list[str]()
    turns = ReadingTurns(loop.as_loop, lambda: now[0])
    return loop, turns, lambda taker: HandReader(taker, bites, now), bites


def test_a_little_is_looked_at_at_once() -> None:
    _, turns, reader, bites = a_shard()
    one = reader("a")
    one.receive(3, PREFACE)
    turns.come(one)
    assert (bites, one.waits, bool(one.unread)) == (["a"], False, False)


def test_a_flood_waits_and_leaves_the_others_their_turns() -> None:
    loop, turns, reader, bites = a_shard()
    flood, second, other = reader("a"), reader("a"), reader("b")
    for one in (flood, second):
        one.receive(20 * BITE, PREFACE)
        turns.come(one)
    other.receive(2 * BITE, PREFACE)
    turns.come(other)
    assert bites == ["a"]
    assert flood.waits
    assert second.waits
    assert other.waits
    # Two bites of a millisecond each in a round, and each taker as often as the other.
    loop.turn()
    assert bites[1:] == ["a", "b"]
    loop.turn()
    assert bites[3:] == ["a", "b"]
    assert not other.waits
    for _ in range(40):
        loop.turn()
    assert len(bites) == 1 + 20 + 19 + 2
    assert not flood.waits
    assert not second.waits
