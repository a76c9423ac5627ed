"""Free ids and free ranges of slots."""

from hypothesis import given
from hypothesis import strategies as st

from borzoi.shards.metadata.slots import FIRST_SLOT, IdPool, SlotRanges


def test_the_most_recently_freed_id_comes_first() -> None:
    pool = IdPool()
    assert [pool.take() for _ in range(4)] == [0, 1, 2, 3]
    pool.release(1)
    pool.release(3)
    assert pool.peek() == 3
    assert [pool.take() for _ in range(4)] == [3, 1, 4, 5]


def test_ids_left_out_by_a_chosen_one_come_next() -> None:
    pool = IdPool()
    assert pool.take() == 0
    pool.take_this(4)
    assert [pool.take() for _ in range(4)] == [1, 2, 3, 5]
    pool.release(2)
    pool.release(3)
    pool.take_this(2)
    assert [pool.is_free(id) for id in (1, 2, 3, 6)] == [False, False, True, True]
    assert [pool.take(), pool.take()] == [3, 6]


def test_slots_start_behind_the_one_of_the_metadata() -> None:
    slots = SlotRanges()
    assert slots.take(10) == FIRST_SLOT == 1
    assert slots.take(5) == 11


def test_the_smallest_range_that_fits_is_used_and_its_rest_stays_free() -> None:
    slots = SlotRanges()
    ranges = [(slots.take(size), size) for size in (10, 1, 4, 1, 6, 1)]
    for first, size in ranges[::2]:
        slots.release(first, size)
    assert slots.take(3) == ranges[2][0]
    assert slots.take(1) == ranges[2][0] + 3
    assert slots.take(5) == ranges[4][0]
    assert slots.take(11) == slots.frontier - 11


def test_neighbours_and_the_frontier_become_one() -> None:
    slots = SlotRanges()
    for _ in range(5):
        slots.take(10)
    slots.release(1, 10)
    slots.release(21, 10)
    assert slots.starts == [1, 21]
    slots.release(11, 10)
    assert slots.by_size == [(30, 1)]
    slots.release(41, 10)
    assert slots.frontier == 41
    slots.release(31, 10)
    assert slots == SlotRanges()


def test_fits_at_the_bound() -> None:
    slots = SlotRanges()
    assert slots.fits(9, 10)
    assert not slots.fits(10, 10)
    first = slots.take(5)
    slots.take(4)
    assert not slots.fits(1, 10)
    slots.release(first, 5)
    assert slots.fits(5, 10)
    assert not slots.fits(6, 10)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 20), st.integers(0, 100)), max_size=60))
def test_ranges_never_overlap_and_the_free_lists_agree(
    steps: list[tuple[bool, int, int]],
) -> None:
    slots = SlotRanges()
    taken: list[tuple[int, int]] = []
    for take, size, pick in steps:
        if take or not taken:
            taken.append((slots.take(size), size))
        else:
            first, whole = taken.pop(pick % len(taken))
            gone = min(size, whole)
            # The end of a range goes first, as partitions do.
            slots.release(first + whole - gone, gone)
            if gone < whole:
                taken.append((first, whole - gone))
        used = {slot for first, size in taken for slot in range(first, first + size)}
        assert len(used) == sum(size for _, size in taken)
        free = [(start, slots.counts[start]) for start in slots.starts]
        assert sorted((size, start) for start, size in free) == slots.by_size
        assert slots.starts == sorted(slots.counts)
        spare = {slot for start, size in free for slot in range(start, start + size)}
        assert used | spare == set(range(FIRST_SLOT, slots.frontier))
        assert not used & spare
        # Ranges that touch are one.
        assert all(start - 1 not in spare for start, _ in free)
        assert slots.frontier - 1 not in spare
