"""Links: four ends that meet, one life of a peer after the other."""

import os

import pytest

from borzoi.router.control import (
    ControlLayout,
    ControlMismatch,
    OwnControl,
    SharedControl,
    create_control,
)
from borzoi.router.link import Link
from borzoi.router.ring import RingDropped
from tests.router.child import record

LAYOUT = ControlLayout(3, 4)


class Shard:
    """The control memory of one life of a shard, as its owner has it and for peers to map."""

    def __init__(self, shard: int, generation: int = 1) -> None:
        self.shard = shard
        self.generation = generation
        self.fd = create_control(LAYOUT, shard, generation)
        self.own = OwnControl(self.fd, LAYOUT, shard, generation)

    def link(self, other: "Shard") -> Link:
        return Link(self.own, SharedControl(other.fd, LAYOUT, other.shard, other.generation))

    def close(self) -> None:
        os.close(self.fd)


def test_what_one_sends_the_other_gets_on_all_four_rings() -> None:
    a, b, c = Shard(0), Shard(1), Shard(2)
    ab, ba, ac, ca = a.link(b), b.link(a), a.link(c), c.link(a)
    assert (ab.peer, ab.peer_generation, ba.peer) == (1, 1, 0)
    assert ab.requests_out.push(*record(1))
    assert ab.replies_out.push(*record(2))
    assert ba.requests_out.push(*record(3))
    assert ba.replies_out.push(*record(4))
    assert ac.requests_out.push(*record(5))
    assert ca.requests_out.push(*record(6))
    assert ba.requests_in.drain() == [record(1)]
    assert ba.replies_in.drain() == [record(2)]
    assert ab.requests_in.drain() == [record(3)]
    assert ab.replies_in.drain() == [record(4)]
    assert ca.requests_in.drain() == [record(5)]
    assert ac.requests_in.drain() == [record(6)]
    assert not any(link.requests_in.has_more for link in (ab, ba, ac, ca))
    for shard in (a, b, c):
        shard.close()


def test_full_and_free_again_across_a_link() -> None:
    a, b = Shard(0), Shard(1)
    ab, ba = a.link(b), b.link(a)
    for number in range(4):
        assert ab.requests_out.push(*record(number))
    assert not ab.requests_out.push(*record(4))
    assert len(ba.requests_in.drain()) == 4
    assert ab.requests_out.push(*record(4))
    a.close()
    b.close()


def test_the_next_life_starts_clean_and_finds_what_waited_for_it() -> None:
    survivor, dead = Shard(0), Shard(1)
    old, old_of_dead = survivor.link(dead), dead.link(survivor)
    for number in range(3):
        assert old.requests_out.push(*record(number))
        assert old_of_dead.requests_out.push(*record(number))
    assert old_of_dead.replies_out.push(*record(7))

    # Death. Complete answers of the dead still count; then nothing old is seen again.
    assert old.replies_in.drain() == [record(7)]
    old.drop()
    old.drop()
    assert old.requests_in.drain() == []
    assert not old.requests_in.has_more
    with pytest.raises(RingDropped):
        old.requests_out.push(*record(9))

    successor = Shard(1, generation=2)
    new = survivor.link(successor)
    assert new.peer_generation == 2
    assert not new.requests_in.has_more
    assert new.requests_out.push(*record(10))  # the successor does not live yet
    new_of_successor = successor.link(survivor)
    assert new_of_successor.requests_in.drain() == [record(10)]
    assert new_of_successor.replies_out.push(*record(11))
    assert new.replies_in.drain() == [record(11)]
    for shard in (survivor, dead, successor):
        shard.close()


def test_one_link_per_peer_and_life() -> None:
    a, b = Shard(0), Shard(1, generation=5)
    a.link(b)
    for generation in (4, 5):
        again = Shard(1, generation)
        with pytest.raises(ControlMismatch, match="already linked in generation 5"):
            a.link(again)
        again.close()
    with pytest.raises(ControlMismatch, match="to itself"):
        a.link(a)
    a.close()
    b.close()


def test_layouts_must_agree() -> None:
    a = Shard(0)
    other = ControlLayout(2, 4)
    fd = create_control(other, 1, 1)
    with pytest.raises(ControlMismatch, match="differently"):
        Link(a.own, SharedControl(fd, other, 1, 1))
    os.close(fd)
    a.close()


def test_a_dropped_peer_can_be_unmapped() -> None:
    a, b = Shard(0), Shard(1)
    peer = SharedControl(b.fd, LAYOUT, 1, 1)
    link = Link(a.own, peer)
    link.drop()
    assert peer.close()
    with pytest.raises(RingDropped):
        link.requests_out.push(*record(1))
    assert link.replies_in.drain() == []
    a.close()
    b.close()
