"""Arenas: lent across processes, never beyond their end."""

import os

import pytest

from borzoi.router.arena import Arena, ArenaOutOfRange, PeerArena, create_arena
from borzoi.router.control import ControlLayout, OwnControl, SharedControl, create_control
from borzoi.router.link import Link
from borzoi.router.pool import MIB, MemoryPool
from tests.router.conftest import StartChild


def test_a_peer_sees_and_stamps_the_same_bytes() -> None:
    fd = create_arena(3, MIB)
    own, peer = Arena(fd, MIB, 3), PeerArena(fd, MIB, 3, 9)
    os.close(fd)
    own.view[100:105] = b"hello"
    lent = peer.lent(100, 5)
    assert bytes(lent) == b"hello"
    lent[0] = ord("j")
    assert bytes(own.view[100:105]) == b"jello"
    assert (peer.shard, peer.generation, own.shard) == (3, 9, 3)
    assert own.close()
    assert not peer.close()  # the loan is still in use
    assert bytes(lent) == b"jello"


@pytest.mark.parametrize(
    ("position", "length"), [(MIB, 1), (MIB - 4, 5), (-1, 4), (0, -1), (0, MIB + 1), (1 << 63, 1)]
)
def test_a_descriptor_that_points_outside_is_refused(position: int, length: int) -> None:
    fd = create_arena(0, MIB)
    peer = PeerArena(fd, MIB, 0, 2)
    os.close(fd)
    with pytest.raises(ArenaOutOfRange, match="generation 2"):
        peer.lent(position, length)
    assert len(peer.lent(MIB - 4, 4)) == 4


def test_arenas_are_whole_pages() -> None:
    for size in (0, -4096, 1000):
        with pytest.raises(ValueError, match="whole number of pages"):
            create_arena(0, size)


def test_a_buffer_is_lent_to_another_process_and_comes_back_by_its_reply(
    start_child: StartChild,
) -> None:
    layout = ControlLayout(2, 8)
    own_fd, peer_fd = create_control(layout, 0, 1), create_control(layout, 1, 1)
    arena_fd = create_arena(0, MIB)
    pool = MemoryPool(Arena(arena_fd, MIB, 0), MIB, generation=1)
    rings = Link(OwnControl(own_fd, layout, 0, 1), SharedControl(peer_fd, layout, 1, 1))
    fds = [own_fd, peer_fd, arena_fd]
    child = start_child("stamp", peer_fd, own_fd, 8, arena_fd, MIB, fds=fds)

    buffer = pool.take(3000)
    assert buffer is not None
    assert buffer.position is not None
    original = bytes(range(250)) * 12
    buffer.view[:] = original
    request = (1, buffer.generation, buffer.position, buffer.length, 0, 0, 0, 0)
    assert rings.requests_out.push(*request)
    assert child.wait(timeout=30) == 0
    assert rings.replies_in.drain() == [request]
    assert bytes(buffer.view) == bytes(reversed(original))
    buffer.release()
    assert pool.in_use_bytes == 0
    for fd in fds:
        os.close(fd)
