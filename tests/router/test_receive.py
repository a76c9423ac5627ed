"""Receive blocks: windows that are always there, bytes that stay while they are held."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borzoi.router.arena import Arena, create_arena
from borzoi.router.buffer import Buffer
from borzoi.router.pool import KIB, MIB, SLAB_SIZE, MemoryPool
from borzoi.router.receive import BLOCK_SIZE, RESERVE_WINDOW, WINDOW_SIZE, ReceiveBlocks


def make_pool(budget_bytes: int) -> MemoryPool:
    fd = create_arena(0, budget_bytes)
    arena = Arena(fd, budget_bytes, 0)
    os.close(fd)
    return MemoryPool(arena, budget_bytes)


def receive(blocks: ReceiveBlocks, data: bytes) -> tuple[Buffer, int]:
    """What a connection does: read into the window, then say how much."""
    blocks.window()[: len(data)] = data
    return blocks.received(len(data))


def test_the_named_sizes() -> None:
    assert (BLOCK_SIZE, WINDOW_SIZE, RESERVE_WINDOW) == (1 << 20, 1 << 16, 1 << 12)


def test_bytes_lie_one_after_the_other_in_one_block() -> None:
    blocks = ReceiveBlocks(make_pool(4 * MIB))
    first, start = receive(blocks, b"first")
    second, next_start = receive(blocks, b"second")
    assert first is second
    assert (start, next_start) == (0, 5)
    assert bytes(first.view[:11]) == b"firstsecond"
    assert len(blocks.window()) == WINDOW_SIZE
    assert blocks.window() is blocks.window()
    assert not blocks.low


def test_looking_takes_nothing() -> None:
    pool = make_pool(4 * MIB)
    blocks = ReceiveBlocks(pool)
    before = pool.stats()
    for _ in range(100):
        blocks.window()
    assert pool.stats() == before


def test_a_block_ends_when_a_window_no_longer_fits() -> None:
    blocks = ReceiveBlocks(make_pool(4 * MIB))
    held = []
    for number in range(15):
        buffer, start = receive(blocks, bytes([number]) * WINDOW_SIZE)
        assert start == number * WINDOW_SIZE
        held.append(buffer)
    last, start = receive(blocks, b"x")
    assert last is held[0]
    assert start == 15 * WINDOW_SIZE
    following, start = receive(blocks, b"y")
    assert following is not last
    assert start == 0
    assert last.holds == 16  # the receiver itself has let go
    for number, buffer in enumerate(held):
        assert buffer.view[number * WINDOW_SIZE] == number


def test_an_old_block_goes_back_with_its_last_frame() -> None:
    pool = make_pool(4 * MIB)
    blocks = ReceiveBlocks(pool, block_size=2 * SLAB_SIZE, window_size=SLAB_SIZE)
    buffer, _ = receive(blocks, b"a" * SLAB_SIZE)
    frame = buffer.hold()
    buffer.release()
    before = pool.in_use_bytes
    other, _ = receive(blocks, b"b")
    other.release()
    assert frame.holds == 1
    assert pool.in_use_bytes == before + 2 * SLAB_SIZE
    frame.release()
    assert pool.in_use_bytes == before


def low_blocks(refilled: list[str]) -> tuple[MemoryPool, ReceiveBlocks, Buffer]:
    """Receive blocks that run on the reserve, and the buffer whose release ends that."""
    pool = make_pool(MIB + SLAB_SIZE)
    hog = pool.take(MIB)
    assert hog is not None
    blocks = ReceiveBlocks(pool, on_refilled=lambda: refilled.append("refilled"))
    return pool, blocks, hog


def test_without_a_block_the_reserve_takes_small_pieces() -> None:
    refilled: list[str] = []
    pool, blocks, hog = low_blocks(refilled)
    assert blocks.low
    assert len(blocks.window()) == RESERVE_WINDOW
    first, start = receive(blocks, b"1" * RESERVE_WINDOW)
    second, _ = receive(blocks, b"2" * RESERVE_WINDOW)
    assert start == 0
    assert first.position is not None  # the slab of the reserve has room for copies
    assert bytes(first.view) == b"1" * RESERVE_WINDOW
    assert bytes(second.view) == b"2" * RESERVE_WINDOW
    assert (blocks.low, blocks.private_bytes, refilled) == (True, 0, [])
    hog.release()
    assert not blocks.low
    assert refilled == ["refilled"]
    assert len(blocks.window()) == WINDOW_SIZE
    assert pool.stats().waiting == 0
    assert bytes(first.view) == b"1" * RESERVE_WINDOW


def test_without_any_pool_memory_the_copy_is_private() -> None:
    pool, blocks, hog = low_blocks([])
    others = []
    while (other := pool.take(RESERVE_WINDOW)) is not None:
        others.append(other)
    first, start = receive(blocks, b"1" * RESERVE_WINDOW)
    second, _ = receive(blocks, b"22")
    assert start == 0
    assert first.position is second.position is None
    assert (first.length, second.length) == (RESERVE_WINDOW, 2)
    assert bytes(first.view) == b"1" * RESERVE_WINDOW
    assert bytes(second.view) == b"22"
    assert blocks.private_bytes == RESERVE_WINDOW + 2
    first.hold()
    first.release()
    first.release()
    second.release()
    assert blocks.private_bytes == 0
    hog.release()
    assert not blocks.low


def test_a_refill_that_another_taker_took_waits_again() -> None:
    refilled: list[str] = []
    pool = make_pool(MIB + SLAB_SIZE)
    hog = pool.take(MIB)
    assert hog is not None
    stolen: list[Buffer | None] = []
    pool.when_available(lambda: stolen.append(pool.take(MIB)), MIB)
    blocks = ReceiveBlocks(pool, on_refilled=lambda: refilled.append("refilled"))
    hog.release()
    assert stolen[0] is not None
    assert blocks.low
    assert pool.stats().waiting == 1
    stolen[0].release()
    assert refilled == ["refilled"]


def test_a_read_that_finds_memory_ends_the_shortage() -> None:
    refilled: list[str] = []
    _, blocks, hog = low_blocks(refilled)
    waiter = blocks._waiter
    assert waiter is not None
    waiter.callback = lambda: None  # the call gets lost, the next read has to notice by itself
    hog.release()
    assert blocks.low
    copied, _ = receive(blocks, b"copied")
    assert bytes(copied.view) == b"copied"
    assert not blocks.low
    assert refilled == ["refilled"]


def test_close_gives_everything_back() -> None:
    for budget_bytes in (4 * MIB, MIB):
        pool = make_pool(budget_bytes)
        blocks = ReceiveBlocks(pool)
        assert blocks.low == (budget_bytes == MIB)
        blocks.close()
        assert pool.in_use_bytes == 0
        assert pool.stats().waiting == 0


def test_nonsense_is_refused() -> None:
    pool = make_pool(4 * MIB)
    for window_size in (0, 2 * MIB):
        with pytest.raises(ValueError, match="window"):
            ReceiveBlocks(pool, window_size=window_size)
    blocks = ReceiveBlocks(pool)
    for nbytes in (0, -1, WINDOW_SIZE + 1):
        with pytest.raises(AssertionError, match="bytes read into"):
            blocks.received(nbytes)
    full = make_pool(SLAB_SIZE)
    assert full.take(SLAB_SIZE) is not None
    with pytest.raises(ValueError, match="no room for the reserve"):
        ReceiveBlocks(full)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    budget_slabs=st.integers(2, 10),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("receive"), st.integers(1, 16 * KIB)),
            st.tuples(st.just("done"), st.integers(0, 1000)),
            st.tuples(st.just("take"), st.integers(1, 2 * SLAB_SIZE)),
            st.tuples(st.just("trim"), st.just(0)),
        ),
        max_size=100,
    ),
)
def test_held_bytes_are_never_overwritten(budget_slabs: int, steps: list[tuple[str, int]]) -> None:
    pool = make_pool(budget_slabs * SLAB_SIZE)
    blocks = ReceiveBlocks(pool, block_size=SLAB_SIZE, window_size=16 * KIB)
    frames: list[tuple[Buffer, int, bytes]] = []
    number = 0
    for action, amount in steps:
        if action == "receive":
            window = blocks.window()
            assert len(window) == (RESERVE_WINDOW if blocks.low else 16 * KIB)
            number += 1
            # What a read may do to the window is worse than what it reports.
            window[:] = b"\xee" * len(window)
            data = number.to_bytes(4, "little") * (min(amount, len(window)) // 4 + 1)
            data = data[: min(amount, len(window))]
            buffer, start = receive(blocks, data)
            frames.append((buffer, start, data))
        elif action == "take":
            taken = pool.take(amount)
            if taken is not None:
                number += 1
                data = bytes([number % 256]) * amount
                taken.view[:] = data
                frames.append((taken, 0, data))
        elif action == "trim":
            pool.trim(amount)
        elif frames:
            frames.pop(amount % len(frames))[0].release()
        for buffer, start, data in frames:
            assert buffer.view[start : start + len(data)] == data
    for buffer, _, _ in frames:
        buffer.release()
    blocks.close()
    assert pool.in_use_bytes == blocks.private_bytes == 0
