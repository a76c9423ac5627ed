"""Reading by offset and by time, beside an owner that goes on working."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from borzoi.protocol.errors import CannotReadMessage, InvalidMessageChecksum
from borzoi.storage.files import Files
from borzoi.storage.files import Path as FilePath
from borzoi.storage.mapped import WindowCache
from borzoi.storage.outcome import Slices
from borzoi.storage.published import Published
from borzoi.storage.reader import PartitionReader
from borzoi.storage.trash import empty_trash
from borzoi.storage.verified import RANGES_MAX, VerifiedOffsets
from tests.storage.partitions import (
    ALL,
    BIRTH,
    NOW_US,
    WINDOW_SIZE,
    Partition,
    begin_next_life,
    payloads_in,
)


def numbered(root: Path, count: int, segment_size_max: int = 1 << 20) -> Partition:
    partition = Partition(root, segment_size_max=segment_size_max)
    for number in range(count):
        partition.append(b"%04d" % number)
    return partition


def numbers(payloads: list[bytes]) -> list[int]:
    return [int(payload) for payload in payloads]


@pytest.mark.parametrize("segment_size_max", [1 << 20, 68 * 4, 1], ids=["one", "fives", "twos"])
def test_every_range_of_a_small_partition(tmp_path: Path, segment_size_max: int) -> None:
    partition = numbered(tmp_path, 12, segment_size_max)
    for start in range(14):
        for count in range(14):
            found = numbers(partition.read(start, count))
            assert found == list(range(12))[start : start + count]


@pytest.mark.parametrize("segment_size_max", [1 << 20, 68 * 4])
def test_bytes_max_cuts_between_messages_but_leaves_one(
    tmp_path: Path, segment_size_max: int
) -> None:
    partition = numbered(tmp_path, 12, segment_size_max)
    for bytes_max in range(0, 68 * 12 + 5, 17):
        slices = partition.reader.read(partition.log.written, 3, ALL, bytes_max)
        assert slices.message_count == min(max(bytes_max // 68, 1), 9)
        assert numbers(payloads_in(slices))[0] == 3


def test_nothing_to_read(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    assert partition.reader.read(Published.empty(BIRTH), 0, 10, 10) == Slices([], 0, 0, 0)
    assert partition.reader.find_timestamp(Published.empty(BIRTH), 0) == 0
    partition.append(b"x")
    assert partition.read(0, 0) == []
    assert partition.read(1, 5) == []
    assert partition.read(1 << 63, 5) == []


def test_messages_across_windows(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    payloads = [os.urandom(20_000) for _ in range(20)]
    partition.append(*payloads)
    slices = partition.reader.read(partition.log.written, 0, ALL, ALL)
    assert len(slices.views) == -(-slices.size // WINDOW_SIZE)
    assert payloads_in(slices) == payloads
    assert (
        partition.new_reader(validate_checksum=True).read(partition.log.written, 2, 3, ALL).size
        == 3 * 20_064
    )


def test_an_index_across_windows(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    count = WINDOW_SIZE // 16 * 2 + 10
    for start in range(0, count, 1000):
        partition.append(*(b"%d" % number for number in range(start, min(start + 1000, count))))
    edge = WINDOW_SIZE // 16
    partition.reopen(partition.log.clean_partition(0))
    assert numbers(partition.read(edge - 2, 4)) == list(range(edge - 2, edge + 2))
    assert numbers(partition.read(count - 3, 10)) == [count - 3, count - 2, count - 1]
    assert numbers(partition.read(edge - 2, 4)) == list(range(edge - 2, edge + 2))


def test_only_what_was_published_is_seen(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 3)
    published = partition.log.written
    partition.append(b"0003")
    assert numbers(payloads_in(partition.reader.read(published, 0, ALL, ALL))) == [0, 1, 2]
    assert partition.reader.read(published, 3, ALL, ALL).message_count == 0


def test_a_reader_follows_growth_rolls_and_deletions(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=68 * 3)
    for number in range(40):
        partition.append(b"%04d" % number)
        assert numbers(partition.read(max(0, number - 5))) == list(
            range(max(partition.log.written.first_offset, number - 5), number + 1)
        )
        if number % 10 == 9:
            partition.delete_oldest(2)
            first = partition.log.written.first_offset
            assert numbers(partition.read(0)) == list(range(first, number + 1))


def test_what_was_published_before_a_deletion_is_read_from_the_oldest_left(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 10, segment_size_max=1)
    before = partition.log.written
    partition.delete_oldest(3)
    assert numbers(payloads_in(partition.reader.read(before, 0, ALL, ALL))) == [6, 7, 8, 9]
    # Also when it had seen the files that are gone.
    again = numbered(tmp_path / "again", 10, segment_size_max=1)
    before = again.log.written
    assert len(again.read()) == 10
    again.delete_oldest(3)
    fresh = again.reader.read(before._replace(trusted_from=1), 0, ALL, ALL)
    assert numbers(payloads_in(fresh)) == [6, 7, 8, 9]


def test_slices_outlive_deletion_and_purge(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 10, segment_size_max=1)
    slices = partition.reader.read(partition.log.written, 0, ALL, ALL)
    partition.delete_oldest(2)
    begin_next_life(partition, BIRTH + 1)
    assert empty_trash(partition.trash, partition.files) == 1
    partition.append(b"0042")
    assert numbers(payloads_in(slices)) == list(range(10))


@pytest.mark.parametrize("seen_before", [True, False])
@pytest.mark.parametrize("new_count", [0, 3, 30])
def test_what_was_published_before_a_purge_is_gone(
    tmp_path: Path, seen_before: bool, new_count: int
) -> None:
    partition = numbered(tmp_path, 10)
    before = partition.log.written
    if seen_before:
        partition.read()
    begin_next_life(partition, BIRTH + 1)
    for _ in range(new_count):
        partition.append(b"9999")
    reader = partition.reader if seen_before else partition.new_reader()
    found = payloads_in(reader.read(before, 0, ALL, ALL))
    # Its own map still shows the old life; a directory of the new life is never mistaken for it.
    assert numbers(found) in ([], list(range(10)))
    assert seen_before or found == []
    after = reader.read(partition.log.written, 0, ALL, ALL)
    assert payloads_in(after) == [b"9999"] * new_count


def test_files_shorter_than_published_are_an_error_not_a_crash(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 10)
    published = partition.log.written
    with partition.log_file().open("r+b") as file:
        file.truncate(100)
    with pytest.raises(InvalidMessageChecksum):
        partition.new_reader().read(published, 5, 1, ALL)
    assert numbers(payloads_in(partition.new_reader().read(published, 0, 1, ALL))) == [0]
    with partition.index_file().open("r+b") as file:
        file.truncate(16)
    with pytest.raises(CannotReadMessage):
        partition.new_reader().read(published, 5, 1, ALL)
    partition.index_file().unlink()
    with pytest.raises(CannotReadMessage):
        partition.new_reader().find_timestamp(published, 0)


def test_an_index_replaced_by_a_new_owner_is_mapped_again(tmp_path: Path) -> None:
    """The reader of another process had it mapped when the owner died and was replaced."""
    partition = numbered(tmp_path, 10)
    reader = partition.new_reader()
    board = partition.log.written
    assert len(payloads_in(reader.read(board, 0, ALL, ALL))) == 10
    partition.append(b"0010")  # the owner dies before the index entry and the publication
    index = partition.index_file().read_bytes()
    with partition.index_file().open("r+b") as file:
        file.truncate(len(index) - 16)
    inode = partition.index_file().stat().st_ino
    partition.reopen(board=board)
    assert partition.index_file().stat().st_ino != inode
    assert partition.log.written.trusted_from == board.trusted_from
    assert numbers(payloads_in(reader.read(partition.log.written, 0, ALL, ALL))) == list(range(11))


def test_old_bytes_are_verified_once_and_new_ones_never(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 4)
    partition.reopen(partition.log.clean_partition(0))
    partition.append(b"0004")
    assert numbers(partition.read(0, 2)) == [0, 1]

    def spoil(offset: int) -> None:
        with partition.log_file().open("r+b") as file:
            file.seek(offset * 68 + 64)
            file.write(b"7")

    for offset in (1, 2, 4):
        spoil(offset)
    assert partition.read(0, 2) == [b"0000", b"7001"], "verified before it was spoilt"
    with pytest.raises(InvalidMessageChecksum):
        partition.read(2)
    assert partition.read(4) == [b"7004"], "written by this run"
    assert partition.read(3, 1) == [b"0003"]
    strict = partition.new_reader(validate_checksum=True)
    for offset in (1, 2, 4):
        with pytest.raises(InvalidMessageChecksum):
            strict.read(partition.log.written, offset, 1, ALL)
    assert strict.read(partition.log.written, 0, ALL, ALL).message_count == 1


def test_a_damaged_message_behind_good_ones_ends_the_read(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 12, segment_size_max=68 * 3)
    with partition.log_file(4).open("r+b") as file:
        file.seek(64)
        file.write(b"7")
    partition.reopen(partition.log.clean_partition(0))
    assert numbers(partition.read(0)) == [0, 1, 2, 3]
    with pytest.raises(InvalidMessageChecksum):
        partition.read(4)
    assert numbers(partition.read(5)) == list(range(5, 12))


def test_by_time(tmp_path: Path) -> None:
    """Runs of equal timestamps, some of them across segments."""
    partition = Partition(tmp_path, segment_size_max=68 * 3)
    times = [10, 10, 10, 20, 20, 20, 20, 20, 20, 20, 30, 40, 40, 50, 50, 50, 50, 50, 50, 60]
    for number, timestamp in enumerate(times):
        partition.now_us = NOW_US + timestamp
        partition.append(b"%04d" % number)
    assert partition.log.written.segment_count == 5 + 1
    published = partition.log.written
    for timestamp in range(65):
        expected = sum(each < timestamp for each in times)
        assert partition.reader.find_timestamp(published, NOW_US + timestamp) == expected
    assert partition.reader.find_timestamp(published, 0) == 0
    partition.delete_oldest(1)
    first = partition.log.written.first_offset
    assert partition.reader.find_timestamp(partition.log.written, 0) == first


@pytest.mark.parametrize("batch_size", [1000, WINDOW_SIZE // 16 // 4])
def test_by_time_across_windows_of_the_index(tmp_path: Path, batch_size: int) -> None:
    """Times that change inside windows, and at their edges."""
    partition = Partition(tmp_path)
    count = WINDOW_SIZE // 16 * 3
    for start in range(0, count, batch_size):
        partition.now_us = NOW_US + 2 * start
        partition.append(*[b""] * min(batch_size, count - start))
    published = partition.log.written
    assert published.next_offset == count
    find = partition.reader.find_timestamp
    for start in range(0, count, batch_size):
        assert find(published, NOW_US + 2 * start - 1) == start
        assert find(published, NOW_US + 2 * start) == start
        assert find(published, NOW_US + 2 * start + 1) == min(start + batch_size, count)


def test_by_time_in_a_partition_whose_segments_are_all_deleted(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 2, segment_size_max=1)
    partition.delete_oldest(1)
    published = partition.log.written
    assert (published.first_offset, published.next_offset) == (2, 2)
    assert partition.reader.find_timestamp(published, 0) == 2
    assert partition.read(0) == []


WRITER = """
import sys
from pathlib import Path
from tests.storage.partitions import Partition
partition = Partition(Path(sys.argv[1]), segment_size_max=5000)
for number in range(0, 4000, 4):
    partition.append(*(b"%04d" % (number + each) for each in range(4)))
    if number % 40 == 0:
        print(*partition.log.written, flush=True)
print(*partition.log.written, flush=True)
"""


@pytest.mark.slow
def test_reading_while_another_process_grows_and_rolls(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert writer.stdout is not None
    directory = Partition(tmp_path).directory
    reader = PartitionReader(directory, WindowCache(4, WINDOW_SIZE), Files())
    next_offset = 0
    with writer, writer.stdout as lines:
        deadline = time.monotonic() + 60
        for line in lines:
            published = Published(*map(int, line.split()))
            while next_offset < published.next_offset:
                assert time.monotonic() < deadline
                found = payloads_in(reader.read(published, next_offset, 37, 2000))
                assert numbers(found) == list(range(next_offset, next_offset + len(found)))
                next_offset += len(found)
    assert next_offset == 4000
    assert writer.returncode == 0


def test_verified_ranges_merge() -> None:
    verified = VerifiedOffsets()
    for start, end in ((10, 20), (30, 40), (20, 25), (5, 8)):
        verified.add(start, end)
    assert len(verified) == 3
    assert verified.covers(10, 25)
    assert not verified.covers(10, 26)
    assert not verified.covers(8, 10)
    verified.add(7, 35)
    assert len(verified) == 1
    assert verified.covers(5, 40)


def test_verified_ranges_are_bounded() -> None:
    verified = VerifiedOffsets()
    for number in range(RANGES_MAX):
        verified.add(number * 10, number * 10 + 1)
    assert len(verified) == RANGES_MAX
    verified.add(0, 5)
    assert len(verified) == RANGES_MAX
    verified.add(7, 8)
    assert len(verified) == 1
    assert verified.covers(7, 8)


def test_a_deletion_between_two_looks_at_the_directory_is_no_error(tmp_path: Path) -> None:
    """However stale the names are that a reader has seen, the board tells which are wanted."""
    partition = numbered(tmp_path, 12, segment_size_max=1)
    before = partition.log.written
    names = os.listdir(partition.directory)

    class Late(Files):
        def listdir(self, path: FilePath) -> list[str]:
            return names

    partition.delete_oldest(3)
    windows = WindowCache(16, WINDOW_SIZE)
    reader = PartitionReader(
        partition.directory, windows, Late(), newest=lambda: partition.log.written
    )
    found = reader.read(before, 0, ALL, ALL)
    assert numbers(payloads_in(found)) == list(range(6, 12))
    assert reader.find_timestamp(before, 0) == 6
    with pytest.raises(CannotReadMessage):
        PartitionReader(partition.directory, windows, Late()).read(before, 0, ALL, ALL)


def test_deleted_segments_are_unmapped(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 8, segment_size_max=1)
    windows = WindowCache(16, WINDOW_SIZE)
    reader = PartitionReader(
        partition.directory, windows, Files(), newest=lambda: partition.log.written
    )
    slices = reader.read(partition.log.written, 0, 3, ALL)
    assert len(windows) == 2 * 2
    reader.let_go_of_deleted()
    assert len(windows) == 2 * 2
    partition.delete_oldest(2)
    reader.let_go_of_deleted()
    assert len(windows) == 0
    assert numbers(payloads_in(slices)) == [0, 1, 2]
    assert numbers(payloads_in(reader.read(partition.log.written, 0, ALL, ALL))) == [4, 5, 6, 7]
    # A reader that goes on reading lets go of them as well.
    assert len(windows) == 2 * 2
    partition.delete_oldest(1)
    assert numbers(payloads_in(reader.read(partition.log.written, 0, ALL, ALL))) == [6, 7]
    assert len(windows) == 2
    # Also if it looks at the directory with an older board in its hands, and never again.
    before = partition.log.written
    partition.append(b"0008")
    partition.append(b"0009")
    partition.delete_oldest(1)
    fresh = reader.read(before._replace(trusted_from=1), 0, ALL, ALL)
    assert fresh.message_count == 0
    assert len(windows) == 0


def test_a_place_read_last_is_not_one_of_another_life(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(b"old")
    old = partition.log.written
    begin_next_life(partition, BIRTH + 1)
    partition.append(b"new", b"newer")
    # The board still tells of the life before; its files are gone.
    assert partition.reader.read(old, 0, ALL, ALL).message_count == 0
    assert partition.reader.read_on(old, 0, 1, ALL) is None


def test_a_count_of_nothing_where_the_partition_was_read_last(tmp_path: Path) -> None:
    partition = numbered(tmp_path, 12)
    published = partition.log.written
    for offset in (0, 5, 11):
        assert len(partition.read(offset, 1)) == 1
        for count in (0, -1):
            assert partition.reader.read_on(published, offset, count, ALL) is None
        assert partition.read(offset, 0) == []


def test_what_is_published_but_not_in_the_index_is_not_touched(tmp_path: Path) -> None:
    """Whatever the board says: an entry is looked at only where the file has been seen to go."""
    partition = numbered(tmp_path, 12)
    published = partition.log.written
    assert len(partition.read(3, 2)) == 2
    far = published._replace(next_offset=4000, end_position=60_000)
    for offset, count in ((3, 3000), (2999, 1), (3990, 10)):
        assert partition.reader.read_on(far, offset, count, ALL) is None
        with pytest.raises(CannotReadMessage):
            partition.reader.read(far, offset, count, ALL)


def test_a_hot_place_follows_the_index_from_page_to_page(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(b"first")
    assert len(partition.read(0, 1)) == 1
    for number in range(1, 1000):
        partition.append(b"%04d" % number)
        found = partition.reader.read_on(partition.log.written, number, 10, ALL)
        if number * 69 < WINDOW_SIZE - 200:
            assert found is not None
            assert bytes(found[1][-4:]) == b"%04d" % number


def test_what_lies_before_the_hot_window_of_an_index(tmp_path: Path) -> None:
    """The last read was behind 4,096 messages, where a second window of the index begins."""
    partition = Partition(tmp_path)
    partition.append(*[b""] * 4200)
    published = partition.log.written
    assert len(partition.read(4150, 10)) == 10
    for offset in (0, 1, 4095, 4096):
        for count in (0, 1, 4095, 4096, 4097, 4199, 2**32 - 1):
            found = partition.reader.read_on(published, offset, count, ALL)
            assert found is None
            assert len(partition.read(offset, count)) == min(count, 4200 - offset)
            assert len(partition.read(4150, 10)) == 10
