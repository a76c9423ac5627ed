"""Room that is set aside behind a growing log."""

import errno
import os
from pathlib import Path

import pytest

from borzoi.storage.files import Files
from borzoi.storage.log_directory import RESERVED_FROM, RESERVED_PART, RESERVED_SIZE_MAX
from tests.storage.faults import FailingFiles
from tests.storage.partitions import Partition

LARGE = bytes(128 * 1024)
BLOCK = 512


@pytest.fixture(autouse=True)
def _can_reserve(tmp_path: Path) -> None:
    """What a file system does not offer cannot be tested on it."""
    with (tmp_path / "probe").open("wb") as file:
        try:
            Files().reserve(file.fileno(), 0, RESERVED_FROM)
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                pytest.skip("this file system sets no room aside")
            raise


class NotedFiles(Files):
    """Notes what is set aside: from where, and how much."""

    def __init__(self) -> None:
        self.reserved: list[tuple[int, int]] = []

    def reserve(self, fd: int, start: int, size: int) -> None:
        self.reserved.append((start, size))
        super().reserve(fd, start, size)


def taken(path: Path) -> int:
    """Bytes that a file has on the disk."""
    with path.open("rb") as file:
        os.fdatasync(file.fileno())
        return os.fstat(file.fileno()).st_blocks * BLOCK


def test_room_is_set_aside_behind_a_log_that_grows(tmp_path: Path) -> None:
    files = NotedFiles()
    partition = Partition(tmp_path, files=files, segment_size_max=1 << 30)
    starts = []
    for _ in range(20):
        starts.append(partition.log.written.end_position)
        partition.append(LARGE)
    size = partition.log.written.end_position
    assert partition.log_file().stat().st_size == size
    assert len(partition.read()) == 20
    ends = [start + room for start, room in files.reserved]
    assert 3 < len(ends) < 15
    # Nothing for a short log; then the write at hand, and a quarter of what the log has behind it.
    assert files.reserved[0][0] >= RESERVED_FROM - 2 * len(LARGE)
    written = dict(zip(starts, [*starts[1:], size], strict=True))
    for start, room in files.reserved:
        end = written[start]
        assert room == end - start + end // RESERVED_PART
    assert ends == sorted(ends)
    assert ends[-1] > size


def test_so_much_is_set_aside_at_most(tmp_path: Path) -> None:
    files = NotedFiles()
    partition = Partition(tmp_path, files=files, segment_size_max=1 << 30)
    large = bytes(RESERVED_SIZE_MAX * RESERVED_PART * 2)
    partition.append(large)
    size = partition.log.written.end_position
    assert files.reserved == [(0, size + RESERVED_SIZE_MAX)]


def test_a_short_log_has_nothing_behind_it(tmp_path: Path) -> None:
    files = NotedFiles()
    partition = Partition(tmp_path, files=files)
    for _ in range(20):
        partition.append(bytes(1000))
    assert files.reserved == []


def test_a_sealed_segment_gives_back_what_it_did_not_need(tmp_path: Path) -> None:
    files = NotedFiles()
    partition = Partition(tmp_path, files=files, segment_size_max=1 << 30)
    for _ in range(8):
        partition.append(LARGE)
    partition.log.sync()
    size = partition.log.written.end_position
    assert taken(partition.log_file()) >= sum(files.reserved[-1]) > size + 2 * BLOCK * 8
    partition.log.roll()
    assert taken(partition.log_file()) < size + 2 * BLOCK * 8
    assert partition.log_file().stat().st_size == size
    assert len(partition.read()) == 8
    # The next one begins without.
    before = len(files.reserved)
    partition.append(LARGE)
    assert len(files.reserved) == before


def test_what_was_set_aside_before_a_restart_is_given_back_too(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1 << 30)
    for _ in range(8):
        partition.append(LARGE)
    size = partition.log.written.end_position
    partition.reopen()
    partition.log.roll()
    assert taken(partition.log_file()) < size + 2 * BLOCK * 8
    assert len(partition.read()) == 8


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EOPNOTSUPP])
def test_without_room_it_is_written_all_the_same(tmp_path: Path, fault: int) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files, segment_size_max=3 * 1024 * 1024)
    files.fail("reserve", fault)
    for _ in range(20):
        partition.append(LARGE)
    # Asked once for a segment.
    assert [name for name, _ in files.calls].count("reserve") == 1
    assert len(partition.read()) == 20
    files.repair()
    for _ in range(20):
        partition.append(LARGE)
    assert [name for name, _ in files.calls].count("reserve") > 1
    assert len(partition.read()) == 40


def test_a_segment_that_cannot_give_back_is_not_sealed(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files, segment_size_max=1 << 30)
    for _ in range(8):
        partition.append(LARGE)
    files.fail("ftruncate", errno.EIO)
    with pytest.raises(Exception, match="Input/output error"):
        partition.log.roll()
    assert partition.log.written.segment_count == 1
    files.repair()
    partition.append(LARGE)
    assert len(partition.read()) == 9
