"""Copies are counted until the last view of them is gone, against one bound."""

import threading

from borzoi.storage.copy_memory import READ_PART, Copy, CopyMemory


def test_memory_is_free_again_with_the_last_view_of_it() -> None:
    memory = CopyMemory(4000)
    view = memory.take(1000)
    assert view is not None
    assert view.nbytes == memory.size == 1000
    view[:3] = b"abc"
    part = view[1:3]
    del view
    assert memory.size == 1000
    assert bytes(part) == b"bc"
    del part
    assert memory.size == 0


def test_there_is_room_up_to_the_bound_and_for_one_that_is_larger() -> None:
    memory = CopyMemory(1000)
    assert memory.read_size_max == 1000 // READ_PART
    memory.reading_for = "user 1"
    assert memory.reserve(600)
    memory.reading_for = "user 2"
    assert memory.take(401) is None
    assert memory.reserve(400)
    memory.release(600, "user 1")
    memory.release(400, "user 2")
    held = memory.take(700)
    memory.reading_for = "user 1"
    assert not memory.reserve(400)
    assert memory.is_full(400)
    assert memory.reserve(300)
    memory.release(300, "user 1")
    assert not memory.reserve(5000)
    del held
    assert memory.reserve(5000), "one that is larger than all is let in alone"
    assert not memory.reserve(1)


def test_one_user_never_has_all_of_it_and_its_copies_count_until_they_are_gone() -> None:
    memory = CopyMemory(1000)
    memory.reading_for = "user 1"
    views = [memory.take(100) for _ in range(5)]
    assert all(view is not None for view in views)
    assert memory.take(1) is None
    assert not memory.is_full(1)
    memory.reading_for = "user 2"
    others = memory.take(250)
    assert others is not None
    memory.reading_for = "user 1"
    assert memory.take(1) is None, "the other one makes no difference to what it holds"
    views.clear()
    assert memory.take(100) is not None
    assert (memory.shares.held("user 1"), memory.shares.held("user 2")) == (100, 250)
    assert memory.size == 250


def test_who_cannot_wait_is_counted_as_well() -> None:
    memory = CopyMemory(1000)
    views = [memory.take_anyway(800), memory.take_anyway(800)]
    assert memory.size == 1600
    memory.reading_for = "user 1"
    assert memory.take(0) is None
    views.pop()
    assert memory.take(200) is not None


def test_a_copy_may_be_made_and_die_in_a_thread() -> None:
    memory = CopyMemory(1000)
    made: list[Copy] = []
    sizes: list[int] = []
    run(lambda: made.append(Copy(300)))
    memory.hold(made[0], lambda: sizes.append(memory.size))
    assert memory.size == 300
    run(made.clear)
    assert memory.size == 0
    assert sizes == [0]


def run(work: object) -> None:
    assert callable(work)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
