"""Copies live in the pool, within its budget, and go home by themselves."""

import gc
import threading

from borzoi.router.pool import MIB
from borzoi.shards.copy_memory import CopyMemory
from tests.router.test_pool import make_pool
from tests.shards.hand_loop import HandLoop


def test_memory_goes_home_with_the_last_view_of_it() -> None:
    pool = make_pool(8 * MIB)
    memory = CopyMemory(HandLoop().as_loop, pool)
    view = memory.take(1000)
    assert view is not None
    assert view.nbytes == 1000
    view[:3] = b"abc"
    part = view[1:3]
    del view
    assert pool.in_use_bytes > 0
    assert bytes(part) == b"bc"
    del part
    assert pool.in_use_bytes == 0


def test_an_empty_copy_is_possible() -> None:
    view = CopyMemory(HandLoop().as_loop, make_pool(MIB)).take(0)
    assert view is not None
    assert view.nbytes == 0


def test_who_finds_no_room_waits_for_it() -> None:
    pool = make_pool(4 * MIB)
    loop = HandLoop()
    memory = CopyMemory(loop.as_loop, pool)
    held = [memory.take(2 * MIB), memory.take(2 * MIB)]
    assert None not in held
    assert memory.take(2 * MIB) is None
    given: list[memoryview] = []
    for _ in range(2):
        memory.give(2 * MIB, given.append)
    loop.settle()
    assert given == []
    held.pop()
    loop.settle()
    assert len(given) == 1
    held.pop()
    loop.settle()
    assert len(given) == 2
    given.clear()
    gc.collect()
    assert pool.in_use_bytes == 0
    memory.give(1, given.append)
    assert len(given) == 1, "at once if there is room"


def test_a_thread_that_lets_go_last_leaves_the_pool_to_the_loop() -> None:
    pool = make_pool(MIB)
    loop = HandLoop()
    held = [CopyMemory(loop.as_loop, pool).take(1000)]
    assert held[0] is not None
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert pool.in_use_bytes > 0
    loop.settle()
    assert pool.in_use_bytes == 0
