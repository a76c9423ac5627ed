"""The board: publications are read whole, from any process, and unused slots cost nothing."""

import os
import timeit
from pathlib import Path

import pytest

from borzoi.router.board import (
    BOARD_SLOT_SIZE,
    BOARD_SLOTS_MAX,
    METADATA_SLOT,
    READ_TRIES_MAX,
    Board,
    SlotOutOfRange,
    create_board,
)
from borzoi.router.memory import SharedMemoryError
from tests.router.child import record
from tests.router.conftest import StartChild
from tests.router.dying import DyingWords

ZEROS = (0,) * 8
U64_MAX = (1 << 64) - 1


def test_a_slot_reads_as_what_was_published_last() -> None:
    fd = create_board(16)
    board, reader = Board(fd, 16), Board(fd, 16, writable=False)
    assert reader.read(METADATA_SLOT) == ZEROS
    for number in range(1, 6):
        board.publish(7, record(number))
        assert reader.read(7) == record(number)
    board.publish(7, (U64_MAX,) * 8)
    assert reader.read(7) == (U64_MAX,) * 8
    assert reader.read(6) == reader.read(8) == ZEROS
    assert board.close()
    assert reader.close()
    os.close(fd)


def test_what_is_not_eight_words_changes_nothing() -> None:
    fd = create_board(2)
    board = Board(fd, 2)
    board.publish(1, record(1))
    with pytest.raises(ValueError, match="invalid value"):
        board.publish(1, (0, 0, 0, 0, 0, 0, 0, -1))
    with pytest.raises(ValueError, match="values to unpack"):
        board.publish(1, (0,) * 7)  # type: ignore[arg-type]  # what is tested
    assert board.read(1) == record(1)
    os.close(fd)


@pytest.mark.parametrize("slot", [-1, 16, BOARD_SLOTS_MAX])
def test_no_such_slot(slot: int) -> None:
    fd = create_board(16)
    board = Board(fd, 16)
    with pytest.raises(SlotOutOfRange, match="of a board of 16"):
        board.publish(slot, ZEROS)
    with pytest.raises(SlotOutOfRange, match="of a board of 16"):
        board.read(slot)
    os.close(fd)


def test_sizes_are_bounded() -> None:
    for slots in (0, BOARD_SLOTS_MAX + 1):
        with pytest.raises(ValueError, match="slots"):
            create_board(slots)
        with pytest.raises(ValueError, match="slots"):
            Board(0, slots)
    fd = create_board(1)
    with pytest.raises(SharedMemoryError, match="announced"):
        Board(fd, 2)
    os.close(fd)


def test_a_reader_cannot_publish() -> None:
    fd = create_board(1)
    board = Board(fd, 1, writable=False)
    with pytest.raises(TypeError):
        board.publish(0, ZEROS)
    os.close(fd)


class RestlessWords(DyingWords):
    """A board whose version has moved whenever one looks."""

    def __getitem__(self, index: int) -> int:
        if index == 0:
            self._words[0] += 1
        return self._words[index]


def test_a_version_that_always_moves_ends_in_an_assertion() -> None:
    fd = create_board(1)
    board = Board(fd, 1)
    shared = board._words
    board._words = RestlessWords(shared, 0)  # type: ignore[assignment]  # stands in for the words
    with pytest.raises(AssertionError, match="changed during each of"):
        board.read(0)
    assert shared[0] == READ_TRIES_MAX + 1
    os.close(fd)


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return sum(
        int(line.split()[1]) for line in status.splitlines() if line.startswith(("RssS", "RssA"))
    )


def test_the_whole_board_is_mapped_and_hardly_used() -> None:
    fd = create_board()
    assert os.fstat(fd).st_size == BOARD_SLOTS_MAX * BOARD_SLOT_SIZE == 3 << 30
    before_kib = resident_kib()
    board = Board(fd)
    for slot in (0, 1, 2, BOARD_SLOTS_MAX // 2, BOARD_SLOTS_MAX - 1):
        board.publish(slot, record(slot))
    assert board.read(BOARD_SLOTS_MAX - 1) == record(BOARD_SLOTS_MAX - 1)
    assert resident_kib() - before_kib < 4096
    assert os.fstat(fd).st_blocks * 512 <= 3 * 4096
    assert board.close()
    os.close(fd)


@pytest.mark.slow
def test_reads_beside_a_process_that_publishes_are_whole(start_child: StartChild) -> None:
    fd = create_board(8)
    board = Board(fd, 8, writable=False)
    child = start_child("publish_for_ever", fd, 8, 3, fds=[fd])
    while board.read(3) == ZEROS:
        assert child.poll() is None
        os.sched_yield()
    newest = changes = 0
    for _ in range(200_000):
        words = board.read(3)
        number = words[0]
        assert words == record(number)
        assert number >= newest
        changes += number != newest
        newest = number
    assert changes > 10, "the other process stood still"
    os.close(fd)


def test_speed_is_printed() -> None:
    """The figures in the module's docstring; never asserted."""
    fd = create_board(64)
    board = Board(fd, 64)
    words = record(1)
    for name, call in (
        ("publish", lambda: board.publish(9, words)),
        ("read", lambda: board.read(9)),
    ):
        best = min(timeit.repeat(call, number=5000, repeat=5)) / 5000
        print(f"{name}: {best * 1e6:.2f} us")
    os.close(fd)
