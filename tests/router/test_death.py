"""F8: a writer dies at every point of a push and of a publication.

The reader never sees a half record, what was complete stays readable, and the next life starts
clean. First in process, at every store of about a thousand different states each; then with real
children that kill themselves at every store, or are killed in full flight.
"""

import os
import random
import signal

import pytest

from borzoi.router.board import Board, create_board
from borzoi.router.control import ControlLayout, OwnControl, SharedControl, create_control
from borzoi.router.link import Link
from borzoi.router.ring import RingWriter
from tests.router.child import record
from tests.router.conftest import StartChild
from tests.router.dying import Died, dying

# A push and a publication are eight words and then the one that makes them count.
STORES = 9
SLOTS = 16


class Pair:
    """Shard 0 survives; shard 1 writes to it and dies, life after life."""

    def __init__(self, slots: int) -> None:
        self.layout = ControlLayout(2, slots)
        self.survivor_fd = create_control(self.layout, 0, 1)
        self.survivor = OwnControl(self.survivor_fd, self.layout, 0, 1)
        self.generation = 1
        self.fd = create_control(self.layout, 1, 1)
        self.link = Link(self.survivor, SharedControl(self.fd, self.layout, 1, 1))

    def new_life(self) -> None:
        """What supervisor and survivor do after a death."""
        self.link.drop()
        os.close(self.fd)
        self.generation += 1
        self.fd = create_control(self.layout, 1, self.generation)
        self.link = Link(self.survivor, SharedControl(self.fd, self.layout, 1, self.generation))

    def producer(self) -> RingWriter:
        """Shard 1's end of the ring to the survivor."""
        own = OwnControl(self.fd, self.layout, 1, self.generation)
        return Link(own, SharedControl(self.survivor_fd, self.layout, 0, 1)).requests_out

    def doomed_producer(self, stores: int) -> RingWriter:
        """The same end, going on from where it is, which dies after so many stores."""
        own = OwnControl(self.fd, self.layout, 1, self.generation)
        peer = SharedControl(self.survivor_fd, self.layout, 0, 1)
        layout = self.layout
        return RingWriter(
            dying(own.memory.words, stores),
            layout.request_tail(0),
            layout.request_slots(0),
            peer.memory.words,
            layout.request_head(1),
            layout.ring_slots,
        )

    def close(self) -> None:
        os.close(self.fd)
        os.close(self.survivor_fd)


@pytest.mark.slow
def test_death_at_every_store_of_a_push() -> None:
    """110 states of the ring (empty, part full, wrapped) times 9 stores: 990 deaths."""
    pair = Pair(SLOTS)
    deaths = 0
    for passed in range(0, 44, 2):  # records that went through before
        for waiting in (0, 1, 7, SLOTS - 2, SLOTS - 1):
            for stores in range(STORES):
                healthy = pair.producer()
                reader = pair.link.requests_in
                for number in range(passed):
                    assert healthy.push(*record(number))
                    assert reader.drain() == [record(number)]
                for number in range(waiting):
                    assert healthy.push(*record(100 + number))
                with pytest.raises(Died):
                    pair.doomed_producer(stores).push(*record(999))
                deaths += 1
                assert reader.drain() == [record(100 + number) for number in range(waiting)]
                assert reader.drain() == []
                pair.new_life()
                assert pair.link.requests_in.drain() == []
    assert deaths == 990
    pair.close()


def test_a_push_is_nine_stores() -> None:
    """One store later the record is complete, so the test above covers every point."""
    pair = Pair(SLOTS)
    writer = pair.doomed_producer(STORES)
    assert writer.push(*record(1))
    assert pair.link.requests_in.drain() == [record(1)]
    with pytest.raises(Died):
        writer.push(*record(2))
    assert pair.link.requests_in.drain() == []
    pair.close()


def test_death_at_every_store_of_a_publication() -> None:
    """112 publications times 9 stores: 1,008 deaths of the owner of one slot."""
    fd = create_board(4)
    reader = Board(fd, 4, writable=False)
    deaths = 0
    for number in range(112):
        published = reader.read(2)
        assert published == (record(number) if number else (0,) * 8)
        for stores in range(STORES):
            doomed = Board(fd, 4)
            doomed._words = dying(doomed._words, stores)
            with pytest.raises(Died):
                doomed.publish(2, record(number + 1_000_000))
            deaths += 1
            assert reader.read(2) == published
        successor = Board(fd, 4)
        successor._words = dying(successor._words, STORES)
        successor.publish(2, record(number + 1))
    assert deaths == 1008
    assert reader.read(1) == reader.read(3) == (0,) * 8
    os.close(fd)


@pytest.mark.slow
def test_children_killed_at_every_store_of_a_push(start_child: StartChild) -> None:
    for stores in range(STORES + 1):
        pair = Pair(8)
        child = start_child(
            "push_and_die", pair.fd, pair.survivor_fd, 8, 5, stores, fds=[pair.fd, pair.survivor_fd]
        )
        assert child.wait(timeout=30) == -signal.SIGKILL
        complete = 5 if stores < STORES else 6
        reader = pair.link.requests_in
        assert reader.drain() == [record(number) for number in range(1, complete + 1)]
        assert not reader.has_more
        pair.new_life()
        assert pair.link.requests_in.drain() == []
        pair.close()


@pytest.mark.slow
def test_children_killed_while_pushing_as_fast_as_they_can(start_child: StartChild) -> None:
    chance = random.Random(8)
    for _ in range(20):
        pair = Pair(64)
        child = start_child(
            "push_many",
            *(pair.fd, pair.survivor_fd, 64, 1_000_000_000),
            fds=[pair.fd, pair.survivor_fd],
        )
        reader = pair.link.requests_in
        seen, until = 0, chance.randrange(1, 3000)
        while seen < until:
            for words in reader.drain():
                seen += 1
                assert words == record(seen)
            assert child.poll() is None
        child.kill()
        assert child.wait(timeout=30) == -signal.SIGKILL
        while records := reader.drain():
            for words in records:
                seen += 1
                assert words == record(seen)
        pair.new_life()
        assert pair.link.requests_in.drain() == []
        pair.close()


@pytest.mark.slow
def test_children_killed_at_every_store_of_a_publication(start_child: StartChild) -> None:
    fd = create_board(8)
    board = Board(fd, 8)
    board.publish(5, record(41))
    for stores in range(STORES + 1):
        before = board.read(5)
        child = start_child("publish_and_die", fd, 8, 5, stores, fds=[fd])
        assert child.wait(timeout=30) == -signal.SIGKILL
        assert board.read(5) == (before if stores < STORES else record(42))
    os.close(fd)


@pytest.mark.slow
def test_children_killed_while_publishing_as_fast_as_they_can(start_child: StartChild) -> None:
    chance = random.Random(88)
    fd = create_board(8)
    board = Board(fd, 8, writable=False)
    newest = 0
    for _ in range(20):
        child = start_child("publish_for_ever", fd, 8, 3, fds=[fd])
        until = newest + chance.randrange(1, 5000)
        while newest < until:
            words = board.read(3)
            assert words[0] >= newest
            assert words == record(words[0]) or words == (0,) * 8
            newest = words[0]
            assert child.poll() is None
        child.kill()
        assert child.wait(timeout=30) == -signal.SIGKILL
        words = board.read(3)
        assert words == record(words[0])
        newest = words[0]
    os.close(fd)
