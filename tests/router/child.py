"""What the second process of a test does: run as `python child.py ROLE NUMBER...`.

Roles find their descriptors and bounds in the numbers, which each function names. Records and
publications are made from a counter alone, so that a reader can check every word of them.
"""

import os
import signal
import sys
import time
from collections.abc import Callable

from borzoi.router.arena import PeerArena
from borzoi.router.board import Board, BoardWords
from borzoi.router.control import ControlLayout, OwnControl, SharedControl
from borzoi.router.link import Link
from borzoi.router.ring import RingWriter, Slot
from borzoi.router.wake import Wake
from tests.readable import is_readable
from tests.router.dying import dying

GENERATION = 1
PUBLISH_BURST = 200
MASK = (1 << 64) - 1


def record(number: int) -> Slot:
    """The nth record or publication: any mixture of two of them is recognised."""
    spread = number * 0x9E3779B97F4A7C15 & MASK
    return (number, spread, ~number & MASK, number, spread ^ number, number, spread, number)


def link(own_fd: int, peer_fd: int, own: int, peer: int, layout: ControlLayout) -> Link:
    return Link(
        OwnControl(own_fd, layout, own, GENERATION),
        SharedControl(peer_fd, layout, peer, GENERATION),
    )


def push_many(own_fd: int, peer_fd: int, slots: int, count: int) -> None:
    """Shard 1: push records 1 .. count to shard 0."""
    writer = link(own_fd, peer_fd, 1, 0, ControlLayout(2, slots)).requests_out
    for number in range(1, count + 1):
        words = record(number)
        while not writer.push(*words):
            os.sched_yield()


def push_and_die(own_fd: int, peer_fd: int, slots: int, count: int, stores: int) -> None:
    """Shard 1: push `count` records, then be killed after `stores` stores of the next."""
    layout = ControlLayout(2, slots)
    own = OwnControl(own_fd, layout, 1, GENERATION)
    peer = SharedControl(peer_fd, layout, 0, GENERATION)
    writer = Link(own, peer).requests_out
    for number in range(1, count + 1):
        assert writer.push(*record(number))
    killed = RingWriter(
        dying(own.memory.words, stores, kill_myself),
        layout.request_tail(0),
        layout.request_slots(0),
        peer.memory.words,
        layout.request_head(1),
        slots,
    )
    killed.push(*record(count + 1))
    kill_myself()


def answer(own_fd: int, peer_fd: int, slots: int, own_wake: int, peer_wake: int) -> None:
    """Shard 1: answer every request with the same words, asleep in between, until record 0."""
    rings = link(own_fd, peer_fd, 1, 0, ControlLayout(2, slots))
    bell, peer_bell = Wake(own_wake), Wake(peer_wake)
    while True:
        is_readable(own_wake, None)
        bell.clear()
        while requests := rings.requests_in.drain():
            for words in requests:
                assert rings.replies_out.push(*words)
            peer_bell.notify()
            if requests[-1] == record(0):
                return


def publish_for_ever(board_fd: int, slots: int, slot: int) -> None:
    """Publish record after record, continuing after the one that is there."""
    board = Board(board_fd, slots)
    number = board.read(slot)[0]
    while True:
        number += 1
        board.publish(slot, record(number))
        if number % PUBLISH_BURST == 0:
            # A reader that is being traced for coverage needs a moment to get through.
            time.sleep(0.0002)


def publish_and_die(board_fd: int, slots: int, slot: int, stores: int) -> None:
    """Publish the next record, killed after `stores` stores."""
    board = Board(board_fd, slots)
    number = board.read(slot)[0] + 1
    board._words = dying(board._words, stores, kill_myself)
    publication: BoardWords = record(number)
    board.publish(slot, publication)
    kill_myself()


def stamp(own_fd: int, peer_fd: int, slots: int, arena_fd: int, arena_size: int) -> None:
    """Shard 1: reverse the bytes of one lent buffer where they lie, then reply."""
    rings = link(own_fd, peer_fd, 1, 0, ControlLayout(2, slots))
    arena = PeerArena(arena_fd, arena_size, 0, GENERATION)
    while not (requests := rings.requests_in.drain()):
        os.sched_yield()
    ((_, generation, position, length, *_),) = requests
    assert generation == arena.generation
    bytes_lent = arena.lent(position, length)
    bytes_lent[:] = bytes(reversed(bytes(bytes_lent)))
    assert rings.replies_out.push(*requests[0])


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


ROLES: dict[str, Callable[..., None]] = {
    role.__name__: role
    for role in (
        push_many,
        push_and_die,
        answer,
        publish_for_ever,
        publish_and_die,
        stamp,
    )
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*map(int, sys.argv[2:]))
