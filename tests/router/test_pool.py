"""The memory pool: buckets, budget, reuse, waiting, and a long random life."""

import os
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.router.arena import Arena, create_arena
from borzoi.router.buffer import Buffer
from borzoi.router.memory import PAGE_SIZE
from borzoi.router.pool import (
    BUCKET_SIZES,
    KIB,
    LENGTH_MAX,
    MIB,
    SLAB_SIZE,
    TRIM_SLABS_MAX,
    WAKES_MAX,
    MemoryPool,
)


def make_pool(
    budget_bytes: int, arena_size: int | None = None, bucket_capacity: int = 8192
) -> MemoryPool:
    size = arena_size or budget_bytes
    fd = create_arena(0, size)
    arena = Arena(fd, size, 0)
    os.close(fd)
    return MemoryPool(arena, budget_bytes, bucket_capacity, generation=5)


def take(pool: MemoryPool, length: int) -> Buffer:
    buffer = pool.take(length)
    assert buffer is not None
    return buffer


def place(buffer: Buffer) -> int:
    assert buffer.position is not None
    return buffer.position


def warm(pool: MemoryPool, length: int, count: int) -> None:
    """Take so many buffers, touch every page of them, and give them back."""
    buffers = [take(pool, length) for _ in range(count)]
    for buffer in buffers:
        buffer.view[::PAGE_SIZE] = bytes(-(-length // PAGE_SIZE))
        buffer.release()


def test_the_thirty_two_sizes() -> None:
    kib = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 768]
    mib = [1, 1.5, 2, 4, 6, 8, 10, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]
    assert [size / KIB for size in BUCKET_SIZES] == kib + [size * 1024 for size in mib]
    assert len(BUCKET_SIZES) == 32


@pytest.mark.parametrize(
    ("length", "capacity"),
    [
        (1, 256),
        (256, 256),
        (257, 512),
        (4096, 4096),
        (4097, 8192),
        (SLAB_SIZE - 1, SLAB_SIZE),
        (SLAB_SIZE + 1, 2 * SLAB_SIZE),
        (600 * KIB, 768 * KIB),
        (MIB + 1, 1536 * KIB),
    ],
)
def test_a_buffer_has_its_length_and_the_smallest_capacity_that_holds_it(
    length: int, capacity: int
) -> None:
    pool = make_pool(4 * MIB)
    buffer = take(pool, length)
    assert (buffer.length, len(buffer.view), buffer.capacity) == (length, length, capacity)
    assert buffer.generation == 5
    assert place(buffer) % min(capacity, 4096) == 0
    assert pool.in_use_bytes == capacity
    buffer.release()
    assert pool.in_use_bytes == 0


def test_the_largest_buffer_and_one_byte_more() -> None:
    pool = make_pool(LENGTH_MAX)
    buffer = take(pool, LENGTH_MAX)
    buffer.view[-1] = 1
    assert pool.take(1) is None
    buffer.release()
    assert pool.take(LENGTH_MAX + 1) is None
    with pytest.raises(ValueError, match="never fit"):
        pool.when_available(print, LENGTH_MAX + 1)
    for length in (0, -1):
        with pytest.raises(ValueError, match="a buffer of"):
            pool.take(length)


def test_budget_is_between_a_slab_and_the_arena() -> None:
    for budget_bytes in (0, SLAB_SIZE - 1, MIB + 1):
        with pytest.raises(ValueError, match="budget"):
            make_pool(budget_bytes, arena_size=MIB)
    assert make_pool(SLAB_SIZE).take(1) is not None


def test_the_warmest_buffer_is_reused_first() -> None:
    pool = make_pool(8 * MIB)
    first, second, third = (take(pool, MIB) for _ in range(3))
    places = [place(buffer) for buffer in (first, second, third)]
    for buffer in (second, third, first):
        buffer.release()
    assert [place(take(pool, MIB)) for _ in range(3)] == [places[0], places[2], places[1]]


def test_small_buffers_share_a_slab_and_are_reused() -> None:
    pool = make_pool(SLAB_SIZE)
    buffers = [take(pool, 256) for _ in range(SLAB_SIZE // 256)]
    assert len({place(buffer) for buffer in buffers}) == len(buffers)
    assert pool.take(256) is None
    last = place(buffers[-1])
    buffers.pop().release()
    assert place(take(pool, 100)) == last


def test_holds_are_counted_and_too_many_releases_are_noticed() -> None:
    pool = make_pool(MIB)
    buffer = take(pool, 1000)
    view = buffer.view
    assert buffer.hold() is buffer
    buffer.release()
    assert buffer.view is view
    buffer.release()
    assert len(buffer.view) == 0
    with pytest.raises(AssertionError, match="more often"):
        buffer.release()
    with pytest.raises(AssertionError, match="already given back"):
        buffer.hold()
    assert pool.stats().returned == 1


def test_used_up_is_none_and_counted() -> None:
    pool = make_pool(2 * MIB, arena_size=16 * MIB)
    buffers = [take(pool, MIB), take(pool, MIB)]
    assert pool.take(1) is None
    assert pool.take(MIB) is None
    assert pool.stats().exhausted == 2
    buffers.pop().release()
    assert pool.take(MIB) is not None


def test_idle_memory_of_one_size_makes_room_for_another() -> None:
    pool = make_pool(2 * MIB)
    small = [take(pool, 1000) for _ in range(2048)]
    assert pool.take(MIB) is None
    for buffer in small:
        buffer.release()
    assert pool.free_bytes == 2 * MIB
    large = take(pool, 2 * MIB)
    assert (pool.in_use_bytes, pool.free_bytes) == (2 * MIB, 0)
    large.release()
    assert pool.take(1000) is not None
    assert pool.take(MIB) is not None


def test_room_in_the_budget_but_no_gap_is_none_until_neighbours_come_back() -> None:
    pool = make_pool(4 * MIB)
    buffers = [take(pool, MIB) for _ in range(4)]
    buffers[0].release()
    buffers[2].release()
    assert pool.in_use_bytes == 2 * MIB
    assert pool.take(2 * MIB) is None
    assert pool.stats().free_bytes == 0
    buffers[1].release()
    assert take(pool, 2 * MIB).position == 0


def test_a_full_bucket_lets_go() -> None:
    pool = make_pool(8 * MIB, bucket_capacity=2)
    for buffer in [take(pool, MIB) for _ in range(5)]:
        buffer.release()
    assert pool.free_bytes == 2 * MIB
    assert pool.stats().dropped_bytes == 3 * MIB


def test_trim_gives_pages_back_coldest_first() -> None:
    size = 16 * MIB
    fd = create_arena(0, size)
    pool = MemoryPool(Arena(fd, size, 0), size)
    warm(pool, MIB, 8)
    assert os.fstat(fd).st_blocks * 512 == 8 * MIB
    held = take(pool, MIB)
    warmest = take(pool, MIB)
    warmest_place = place(warmest)
    warmest.release()
    assert pool.trim(2 * MIB) == 5 * MIB
    assert os.fstat(fd).st_blocks * 512 == 3 * MIB
    assert (pool.in_use_bytes, pool.free_bytes, pool.idle_bytes) == (MIB, 2 * MIB, 2 * MIB)
    assert place(take(pool, MIB)) == warmest_place
    held.release()
    assert pool.trim(0) == 2 * MIB
    assert pool.trim(0) == 0
    os.close(fd)


def test_one_trim_is_bounded() -> None:
    pool = make_pool(16 * MIB)
    for buffer in [take(pool, SLAB_SIZE) for _ in range(TRIM_SLABS_MAX + 10)]:
        buffer.release()
    assert pool.trim(0) == TRIM_SLABS_MAX * SLAB_SIZE
    assert pool.trim(0) == 10 * SLAB_SIZE


def test_pages_that_stay_in_use_are_not_given_back() -> None:
    """A new buffer over dropped ones keeps their warm pages; the others go."""
    fd = create_arena(0, 4 * MIB)
    pool = MemoryPool(Arena(fd, 4 * MIB, 0), 4 * MIB)
    warm(pool, MIB, 4)
    assert take(pool, 2 * MIB).position == 0
    assert os.fstat(fd).st_blocks * 512 == pool.in_use_bytes + pool.free_bytes == 4 * MIB
    pool.trim(0)
    assert os.fstat(fd).st_blocks * 512 == 2 * MIB
    os.close(fd)


def test_pages_that_the_new_buffer_does_not_cover_are_given_back() -> None:
    fd = create_arena(0, 4 * MIB)
    pool = MemoryPool(Arena(fd, 4 * MIB, 0), 4 * MIB)
    warm(pool, MIB, 4)
    take(pool, 1536 * KIB)
    assert pool.in_use_bytes + pool.free_bytes == 3584 * KIB
    assert os.fstat(fd).st_blocks * 512 == 3584 * KIB
    os.close(fd)


def test_waiters_are_called_in_order_and_once() -> None:
    pool = make_pool(2 * MIB)
    buffers = [take(pool, MIB), take(pool, MIB)]
    called: list[str] = []
    pool.when_available(lambda: called.append("a"), MIB)
    pool.when_available(lambda: called.append("b"), MIB)
    pool.when_available(lambda: called.append("c"), MIB)
    assert pool.stats().waiting == 3
    buffers[0].release()
    assert called == ["a"]
    taken = take(pool, MIB)
    buffers[1].release()
    assert called == ["a", "b"]
    taken.release()
    assert called == ["a", "b", "c"]
    take(pool, MIB).release()
    assert called == ["a", "b", "c"]


def test_a_large_waiter_is_not_overtaken() -> None:
    pool = make_pool(2 * MIB)
    buffers = [take(pool, MIB), take(pool, MIB)]
    called: list[str] = []
    pool.when_available(lambda: called.append("large"), 2 * MIB)
    pool.when_available(lambda: called.append("small"), MIB)
    buffers[0].release()
    assert called == []
    buffers[1].release()
    assert called == ["large"]


def test_who_gives_up_lets_the_next_one_in() -> None:
    pool = make_pool(2 * MIB)
    buffers = [take(pool, MIB), take(pool, MIB)]
    called: list[str] = []
    large = pool.when_available(lambda: called.append("large"), 2 * MIB)
    small = pool.when_available(lambda: called.append("small"), MIB)
    pool.when_available(lambda: called.append("last"), 2 * MIB)
    buffers[0].release()
    large.cancel()
    large.cancel()
    assert called == ["small"]
    buffers[1].release()
    assert called == ["small", "last"]
    small.cancel()
    assert pool.stats().waiting == 0


def test_called_but_gone_passes_the_memory_on() -> None:
    pool = make_pool(MIB)
    buffer = take(pool, MIB)
    called: list[str] = []
    first = pool.when_available(lambda: called.append("first"), MIB)
    pool.when_available(lambda: called.append("second"), MIB)
    buffer.release()
    assert called == ["first"]
    first.cancel()
    assert called == ["first", "second"]


def test_one_release_calls_a_bounded_number() -> None:
    pool = make_pool(4 * MIB)
    buffer = take(pool, 4 * MIB)
    called: list[int] = []
    for number in range(40):
        pool.when_available(lambda number=number: called.append(number))  # type: ignore[misc]  # default binds the loop's value
    buffer.release()
    assert called == list(range(WAKES_MAX))
    take(pool, 1).release()
    assert called == list(range(2 * WAKES_MAX))


def test_waiters_may_take_and_release_while_they_are_called() -> None:
    pool = make_pool(MIB)
    buffer = take(pool, MIB)
    served: list[int] = []

    def serve(number: int) -> None:
        taken = pool.take(MIB)
        if taken is None:
            pool.when_available(lambda: serve(number), MIB)
            return
        served.append(number)
        taken.release()

    for number in range(50):
        pool.when_available(lambda number=number: serve(number), MIB)  # type: ignore[misc]  # default binds the loop's value
    buffer.release()
    for _ in range(60):
        take(pool, MIB).release()
    assert served == list(range(50))
    assert pool.stats().waiting == 0


LENGTHS = st.one_of(
    st.sampled_from([1, 256, 257, 4 * KIB, SLAB_SIZE, SLAB_SIZE + 1, MIB, MIB + 1, 2 * MIB]),
    st.integers(1, 3 * MIB),
    st.integers(1, 9000),
)
STEPS = st.one_of(
    st.tuples(st.just("take"), LENGTHS),
    st.tuples(st.sampled_from(["hold", "release", "release"]), st.integers(0, 1 << 16)),
    st.tuples(st.just("trim"), st.integers(0, 2 * MIB)),
)


class PoolLife:
    """A pool, and the buffers that were taken from it."""

    def __init__(self, budget_bytes: int, arena_size: int, bucket_capacity: int) -> None:
        self.budget_bytes, self.arena_size = budget_bytes, arena_size
        self.fd = create_arena(0, arena_size)
        self.pool = MemoryPool(Arena(self.fd, arena_size, 0), budget_bytes, bucket_capacity)
        self.live: list[tuple[Buffer, int]] = []  # with the mark that was written into it
        self.holds: list[int] = []  # indexes are those of live
        self._mark = self._exhausted = 0

    def take(self, size: int) -> None:
        buffer = self.pool.take(size)
        if buffer is None:
            self._exhausted += 1
            smallest = min(one for one in BUCKET_SIZES if one >= size)
            assert self.live or smallest > self.budget_bytes
        else:
            self._mark = (self._mark + 1) % 256
            buffer.view[0] = buffer.view[-1] = self._mark
            self.live.append((buffer, self._mark))
            self.holds.append(1)

    def trim(self, size: int) -> None:
        self.pool.trim(size)
        assert self.pool.idle_bytes <= size

    def hold(self, number: int) -> None:
        if self.live:
            index = number % len(self.live)
            self.live[index][0].hold()
            self.holds[index] += 1

    def release(self, number: int) -> None:
        if self.live:
            index = number % len(self.live)
            buffer, written = self.live[index]
            assert buffer.view[0] == buffer.view[-1] == written
            buffer.release()
            self.holds[index] -= 1
            if not self.holds[index]:
                del self.live[index], self.holds[index]

    def check(self) -> None:
        pool = self.pool
        ranges = sorted((place(buffer), buffer.capacity) for buffer, _ in self.live)
        assert all(low + size <= high for (low, size), (high, _) in pairwise(ranges))
        assert all(low + size <= self.arena_size for low, size in ranges)
        assert pool.in_use_bytes == sum(size for _, size in ranges)
        assert 0 <= pool.idle_bytes <= pool.free_bytes
        assert pool.in_use_bytes + pool.free_bytes <= self.budget_bytes
        assert os.fstat(self.fd).st_blocks * 512 <= pool.in_use_bytes + pool.free_bytes
        stats = pool.stats()
        assert stats.in_use == len(self.live) == stats.allocated - stats.returned
        assert stats.exhausted == self._exhausted


@pytest.mark.slow
@settings(max_examples=150)
@given(
    steps=st.lists(STEPS, max_size=80),
    budget_bytes=st.sampled_from([SLAB_SIZE, 2 * MIB, 3 * MIB + SLAB_SIZE, 4 * MIB]),
    arena_size=st.sampled_from([4 * MIB, 8 * MIB]),
    bucket_capacity=st.sampled_from([0, 1, 3, 8192]),
)
def test_a_long_random_life(
    steps: list[tuple[str, int]], budget_bytes: int, arena_size: int, bucket_capacity: int
) -> None:
    life = PoolLife(budget_bytes, arena_size, bucket_capacity)
    actions = {"take": life.take, "trim": life.trim, "hold": life.hold, "release": life.release}
    for action, number in steps:
        actions[action](number)
        life.check()
    while life.live:
        life.release(len(life.live) - 1)
    life.check()
    largest = max(size for size in BUCKET_SIZES if size <= budget_bytes)
    assert life.pool.take(largest) is not None
    os.close(life.fd)
