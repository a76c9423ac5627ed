"""A write group meets a failing disk: all of it is appended, or nothing."""

import errno
from pathlib import Path

import pytest

from borzoi.protocol.errors import CannotSaveMessagesToSegment
from borzoi.storage.files import BUFFERS_PER_WRITE_MAX, Buffer, Files
from tests.storage.faults import ERRORS, SHORT, FailingFiles
from tests.storage.partitions import Partition

GROUP = [b"%d" % number * 40 for number in range(6)]
BEFORE = [b"before" * 10, b"and before" * 10]


def partition_with_two_messages(root: Path, files: FailingFiles) -> Partition:
    partition = Partition(root, segment_size_max=200, files=files)
    partition.append(*BEFORE)
    return partition


def stage_group(partition: Partition) -> None:
    for payload in GROUP:
        partition.stage(payload)


def calls_of_the_group(root: Path, *, fresh: bool) -> int:
    files = FailingFiles()
    partition = Partition(root, segment_size_max=200, files=files)
    if not fresh:
        partition.append(*BEFORE)
    stage_group(partition)
    files.calls.clear()
    partition.log.write()
    assert partition.log.written.segment_count >= 3
    return len(files.calls)


@pytest.mark.parametrize("fresh", [False, True], ids=["later", "first"])
@pytest.mark.parametrize("fault", ERRORS)
def test_any_call_of_a_group_that_rolls_may_fail(tmp_path: Path, fault: int, fresh: bool) -> None:
    before = [] if fresh else BEFORE
    for nth in range(calls_of_the_group(tmp_path / "count", fresh=fresh)):
        files = FailingFiles()
        partition = Partition(tmp_path / f"{nth}", segment_size_max=200, files=files)
        if not fresh:
            partition.append(*BEFORE)
        written = partition.log.written
        stage_group(partition)
        files.fail_nth(nth, fault)
        with pytest.raises(CannotSaveMessagesToSegment) as raised:
            partition.log.write()
        assert isinstance(raised.value.__cause__, OSError)
        files.repair()
        assert partition.log.written == written
        assert partition.log.staged_messages == 0
        assert partition.read() == before
        log_size = sum(partition.sizes(".log").values())
        assert log_size == written.size_bytes, f"call {nth} left bytes behind"

        assert partition.append(b"next") == len(before)
        stage_group(partition)
        partition.log.write()
        assert partition.read() == [*before, b"next", *GROUP]
        partition.reopen()
        assert partition.read() == [*before, b"next", *GROUP]


def test_short_writes_are_completed(tmp_path: Path) -> None:
    for nth in range(calls_of_the_group(tmp_path / "count", fresh=False)):
        files = FailingFiles()
        partition = partition_with_two_messages(tmp_path / f"{nth}", files)
        stage_group(partition)
        files.fail_nth(nth, SHORT)
        partition.log.write()
        files.repair()
        assert partition.read() == [*BEFORE, *GROUP]
        partition.reopen()
        assert partition.read() == [*BEFORE, *GROUP]


@pytest.mark.parametrize("fault", ERRORS)
def test_a_disk_that_refuses_even_the_clean_up(tmp_path: Path, fault: int) -> None:
    """What sticks out behind the end is cut before the next group, or there is none."""
    for nth in range(calls_of_the_group(tmp_path / "count", fresh=False)):
        files = FailingFiles()
        partition = partition_with_two_messages(tmp_path / f"{nth}", files)
        stage_group(partition)
        files.fail_nth(nth, fault, once=False)
        with pytest.raises(CannotSaveMessagesToSegment):
            partition.log.write()
        partition.stage(b"still failing")
        with pytest.raises(CannotSaveMessagesToSegment):
            partition.log.write()
        files.repair()
        assert partition.append(b"next") == len(BEFORE)
        assert partition.read() == [*BEFORE, b"next"]
        partition.reopen()
        assert partition.read() == [*BEFORE, b"next"]


def test_a_write_that_takes_nothing_is_a_full_disk(tmp_path: Path) -> None:
    class FullFiles(Files):
        def pwrite(self, fd: int, data: object, position: int) -> int:
            return 0

        def pwritev(self, fd: int, buffers: object, position: int) -> int:
            return 0

    fd = Files().open(tmp_path / "file", 0o102)
    for buffers in ([b"x"], [b"x", b"y"]):
        with pytest.raises(OSError, match="no bytes") as raised:
            FullFiles().write_all(fd, buffers, 0)
        assert raised.value.errno == errno.ENOSPC
    Files().close(fd)


@pytest.mark.parametrize("count", [1, BUFFERS_PER_WRITE_MAX, BUFFERS_PER_WRITE_MAX + 1, 3000])
@pytest.mark.parametrize("step", [1, 7, 1 << 20])
def test_write_all_loops_over_short_writes_and_many_buffers(
    tmp_path: Path, count: int, step: int
) -> None:
    class SlowFiles(Files):
        calls = 0

        def pwritev(self, fd: int, buffers: object, position: int) -> int:
            assert isinstance(buffers, list)
            assert len(buffers) <= BUFFERS_PER_WRITE_MAX
            self.calls += 1
            return self.pwrite(fd, b"".join(buffers), position)

        def pwrite(self, fd: int, data: Buffer, position: int) -> int:
            return super().pwrite(fd, memoryview(data)[:step], position)

    files = SlowFiles()
    buffers = [b"%d," % number if number % 3 else b"" for number in range(count)]
    fd = files.open(tmp_path / "file", 0o102)
    assert files.write_all(fd, [b"head", *buffers[1:]], 5) == len(b"head" + b"".join(buffers[1:]))
    files.close(fd)
    assert (tmp_path / "file").read_bytes() == bytes(5) + b"head" + b"".join(buffers[1:])
    # A single buffer needs no call that takes several.
    assert files.calls == (-(-count // BUFFERS_PER_WRITE_MAX) if count > 1 else 0)
