"""Rings: order, full and empty, damage, and a second real process at the other end."""

import os
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borzoi.router.control import ControlLayout, OwnControl, SharedControl, create_control
from borzoi.router.link import Link
from borzoi.router.memory import SharedMemoryError
from borzoi.router.ring import (
    DRAIN_MAX,
    RING_SLOTS,
    SLOT_SIZE,
    RingCorrupt,
    RingReader,
    RingWriter,
)
from borzoi.router.wake import Wake
from tests.readable import is_readable
from tests.router.child import record
from tests.router.conftest import StartChild

U64_MAX = (1 << 64) - 1


class PlainRing:
    """A ring in ordinary memory, both ends in this process."""

    def __init__(self, slots: int) -> None:
        producer = memoryview(bytearray((slots + 1) * SLOT_SIZE))
        self.producer = producer.cast("Q")
        self.consumer = memoryview(bytearray(8)).cast("Q")
        self.writer = RingWriter(self.producer, 0, 8, self.consumer, 0, slots)
        self.reader = RingReader(self.producer, 0, producer[SLOT_SIZE:], self.consumer, 0, slots)


def test_an_empty_ring_has_nothing() -> None:
    ring = PlainRing(4)
    assert ring.reader.drain() == []
    assert not ring.reader.has_more
    assert ring.writer.free == 4


def test_a_full_ring_refuses_and_goes_on_when_drained() -> None:
    ring = PlainRing(4)
    for number in range(4):
        assert ring.writer.push(*record(number))
    assert not ring.writer.push(*record(4))
    assert ring.writer.free == 0
    assert ring.reader.drain(1) == [record(0)]
    assert ring.writer.push(*record(4))
    assert not ring.writer.push(*record(5))
    assert ring.reader.drain() == [record(number) for number in range(1, 5)]


def test_the_named_bounds() -> None:
    assert RING_SLOTS == 4096
    ring = PlainRing(RING_SLOTS)
    pushed = 0
    while ring.writer.push(*record(pushed)):
        pushed += 1
    assert pushed == RING_SLOTS
    assert len(ring.reader.drain()) == DRAIN_MAX == 128
    assert ring.reader.has_more
    drained = DRAIN_MAX
    while records := ring.reader.drain():
        assert records[0] == record(drained)
        drained += len(records)
    assert drained == RING_SLOTS
    assert not ring.reader.has_more


def test_words_are_whole_u64() -> None:
    ring = PlainRing(2)
    assert ring.writer.push(*[U64_MAX] * 8)
    assert ring.reader.drain() == [(U64_MAX,) * 8]
    with pytest.raises(ValueError, match="invalid value"):
        ring.writer.push(0, 0, 0, U64_MAX + 1, 0, 0, 0, 0)
    assert ring.reader.drain() == []


@given(
    slots=st.sampled_from([1, 2, 4, 8]),
    steps=st.lists(st.one_of(st.just(-1), st.integers(0, 9)), max_size=60),
)
def test_behaves_like_a_bounded_list(slots: int, steps: list[int]) -> None:
    """-1 pushes, any other number drains up to so many."""
    ring = PlainRing(slots)
    model: list[int] = []
    pushed = 0
    for step in steps:
        if step < 0:
            taken = ring.writer.push(*record(pushed))
            assert taken == (len(model) < slots)
            if taken:
                model.append(pushed)
                pushed += 1
        else:
            assert ring.reader.drain(step) == [record(number) for number in model[:step]]
            del model[:step]
        assert ring.reader.has_more == bool(model)
        assert ring.writer.free == slots - len(model)


def test_drain_stops_at_the_tail_it_saw() -> None:
    ring = PlainRing(8)
    ring.writer.push(*record(1))
    assert ring.reader.drain() == [record(1)]
    ring.writer.push(*record(2))
    assert ring.reader.drain() == [record(2)]


class HastyProducer:
    """The head of a ring whose producer refills every slot the moment the head moves."""

    def __init__(self, head: memoryview, slots: memoryview) -> None:
        self._head = head
        self._slots = slots

    def __getitem__(self, index: int) -> int:
        return self._head[index]

    def __setitem__(self, index: int, value: int) -> None:
        self._head[index] = value
        self._slots[:] = memoryview(b"\xee" * self._slots.nbytes).cast("Q")


def test_slots_are_copied_out_before_the_head_moves() -> None:
    ring = PlainRing(4)
    head = cast(memoryview, HastyProducer(ring.consumer, ring.producer[8:]))
    reader = RingReader(ring.producer, 0, ring.producer.cast("B")[SLOT_SIZE:], head, 0, 4)
    for number in range(3):
        assert ring.writer.push(*record(number))
    assert reader.drain() == [record(number) for number in range(3)]
    for number in range(3, 6):
        assert ring.writer.push(*record(number))
    assert reader.drain() == [record(number) for number in range(3, 6)]


@pytest.mark.parametrize("tail", [5, 1000, U64_MAX])
def test_an_impossible_tail_is_noticed(tail: int) -> None:
    ring = PlainRing(4)
    ring.producer[0] = tail
    with pytest.raises(RingCorrupt):
        ring.reader.drain()


@pytest.mark.parametrize("head", [1, 1000, U64_MAX])
def test_an_impossible_head_is_noticed(head: int) -> None:
    ring = PlainRing(4)
    ring.consumer[0] = head
    with pytest.raises(RingCorrupt):
        ring.writer.push(*record(0))


@pytest.mark.parametrize("slots", [0, 3, 100, -4])
def test_slots_are_a_power_of_two(slots: int) -> None:
    words = memoryview(bytearray(1024)).cast("Q")
    with pytest.raises(ValueError, match="power of two"):
        RingWriter(words, 0, 8, words, 1, slots)
    with pytest.raises(ValueError, match="power of two"):
        RingReader(words, 0, words.cast("B"), words, 1, slots)
    with pytest.raises(SharedMemoryError, match="are not 4 slots"):
        RingReader(words, 0, words.cast("B"), words, 1, 4)


@pytest.mark.slow
def test_another_process_pushes_200_000_records(start_child: StartChild) -> None:
    count = 200_000
    layout = ControlLayout(2)
    own_fd, peer_fd = create_control(layout, 0, 1), create_control(layout, 1, 1)
    reader = Link(
        OwnControl(own_fd, layout, 0, 1), SharedControl(peer_fd, layout, 1, 1)
    ).requests_in
    child = start_child("push_many", peer_fd, own_fd, RING_SLOTS, count, fds=[own_fd, peer_fd])
    expected = 1
    while expected <= count:
        records = reader.drain()
        if not records:
            assert reader.has_more or child.poll() in (None, 0), "the producer died"
            os.sched_yield()
        for words in records:
            assert words == record(expected)
            expected += 1
    assert child.wait(timeout=30) == 0
    assert not reader.has_more
    os.close(own_fd)
    os.close(peer_fd)


@pytest.mark.slow
def test_no_wake_up_is_lost_between_two_sleeping_processes(start_child: StartChild) -> None:
    """Requests go out in bursts of every small size, both sides sleep on their eventfd."""
    slots, rounds = 64, 1500
    layout = ControlLayout(2, slots)
    own_fd, peer_fd = create_control(layout, 0, 1), create_control(layout, 1, 1)
    rings = Link(OwnControl(own_fd, layout, 0, 1), SharedControl(peer_fd, layout, 1, 1))
    bell, peer_bell = Wake.create(), Wake.create()
    fds = [peer_fd, own_fd, peer_bell.fd, bell.fd]
    child = start_child("answer", peer_fd, own_fd, slots, peer_bell.fd, bell.fd, fds=fds)
    asked = answered = 0

    def wait_for_answers() -> None:
        nonlocal answered
        while answered < asked:
            assert is_readable(bell.fd, 30), f"slept through {answered + 1}"
            bell.clear()
            while replies := rings.replies_in.drain():
                for words in replies:
                    answered += 1
                    assert words == record(answered)

    for burst in range(rounds):
        for _ in range(burst % 7 + 1):
            asked += 1
            assert rings.requests_out.push(*record(asked))
        peer_bell.notify()
        wait_for_answers()
    assert rings.requests_out.push(*record(0))
    peer_bell.notify()
    assert child.wait(timeout=30) == 0
    for fd in (own_fd, peer_fd, bell.fd, peer_bell.fd):
        os.close(fd)
