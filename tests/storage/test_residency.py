"""Pages of mapped files leave the page tables at the bound; the bytes stay readable."""

import gc
import os
from pathlib import Path

import pytest

from borzoi.storage.files import FileIdentity
from borzoi.storage.mapped import MappedWindow, WindowCache
from borzoi.storage.residency import Residency, resident_file_bytes

MIB = 1024 * 1024
SIZE = 32 * MIB
BOUND = 8 * MIB


class HandResidency:
    """A process whose mapped bytes the test sets, and its only window."""

    def __init__(self) -> None:
        self.resident = 100
        self.released = 0
        self.fails = False
        self.residency = Residency(BOUND, self.tell)
        self.residency.add(self)

    def tell(self) -> int:
        if self.fails:
            raise OSError("no descriptor")
        return self.resident

    def release(self) -> None:
        self.released += 1
        self.resident = 200  # programs have grown meanwhile


def test_what_is_far_from_the_bound_stays() -> None:
    hand = HandResidency()
    hand.resident += BOUND * 7 // 8
    hand.residency.look()
    assert hand.released == 0
    assert hand.residency.left == BOUND // 8


def test_near_the_bound_all_is_released() -> None:
    hand = HandResidency()
    hand.resident += BOUND * 7 // 8 + 1
    hand.residency.look()
    assert hand.released == hand.residency.releases == 1
    assert hand.residency.left == BOUND
    # Counted from what was there without windows.
    assert hand.residency.mapped() == 0
    hand.resident += 5
    assert hand.residency.mapped() == 5


def test_without_an_answer_of_the_kernel_all_is_released() -> None:
    hand = HandResidency()
    hand.fails = True
    hand.residency.look()
    assert hand.released == 1
    assert hand.residency.left == BOUND


def test_windows_that_are_gone_are_forgotten() -> None:
    hand, other = HandResidency(), HandResidency()
    hand.residency.add(other)
    hand.resident += BOUND
    hand.residency.look()
    assert other.released == 1
    del other
    gc.collect()
    hand.resident += BOUND
    hand.residency.look()
    assert hand.released == 2


def test_pages_go_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "log"
    data = os.urandom(MIB) * (SIZE // MIB)
    path.write_bytes(data)
    fd = os.open(path, os.O_RDONLY)
    residency = Residency(BOUND)
    cache = WindowCache(2, SIZE, residency)
    window = cache.map(FileIdentity(1, 1), 0, fd)
    os.close(fd)
    view = window.below(SIZE)
    assert bytes(view) == data
    full = resident_file_bytes()
    residency.look()
    assert residency.releases == 1
    assert full - resident_file_bytes() > SIZE // 2
    assert residency.mapped() == pytest.approx(0, abs=4 * MIB)
    # The view was held all the time.
    assert bytes(view[-MIB:]) == data[-MIB:]
    assert bytes(view) == data


def test_a_window_of_a_cut_file_is_released_without_a_touch(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(MIB))
    fd = os.open(path, os.O_RDONLY)
    window = MappedWindow(fd, 0, SIZE)
    os.truncate(path, 0)
    os.close(fd)
    window.release()
