import os
from collections.abc import Callable
from pathlib import Path

from tests.endings import at_the_end, end_all
from tests.storage.partitions import Partition


def open_below(directory: Path) -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the one that lists them
        if target.startswith(f"{directory}/"):
            found.append(target)
    return found


def test_the_files_of_a_partition_are_closed_at_the_end_of_a_test(tmp_path: Path) -> None:
    for number in range(3):
        partition = Partition(tmp_path / str(number))
        partition.append(b"one")
        partition.reopen()
        partition.append(b"two")
    assert len(open_below(tmp_path)) >= 6
    end_all()
    assert open_below(tmp_path) == []


def test_what_was_opened_last_ends_first_and_once() -> None:
    ended: list[int] = []
    endings: list[Callable[[], None]] = [lambda: ended.append(1), lambda: ended.append(2)]
    for one in endings:
        at_the_end(one)
    end_all()
    end_all()
    assert ended == [2, 1]
