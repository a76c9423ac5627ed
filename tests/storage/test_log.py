"""Appending: offsets, rolling, timestamps, syncing, purging."""

import errno
import gc
import os
import weakref
from pathlib import Path

import pytest

from borzoi.protocol.errors import (
    CannotCreateSegmentLogFile,
    CannotSaveMessagesToSegment,
    CannotSyncFile,
    InvalidMessagesSize,
    SegmentNotFound,
)
from borzoi.storage.birth import read_birth
from borzoi.storage.files import Files
from borzoi.storage.published import Published
from borzoi.storage.recovery_point import read_recovery_point
from borzoi.storage.segment import POSITION_MAX, LogEnd
from borzoi.storage.staging import StagedGroup
from tests.storage.faults import FailingFiles
from tests.storage.partitions import BIRTH, NOW_US, Partition, begin_next_life, new_batch, overwrite


def test_nothing_is_made_before_the_first_append(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    assert partition.log.written == Published.empty(BIRTH)
    partition.log.write()
    partition.log.sync()
    partition.log.save_recovery_point()
    assert list(tmp_path.iterdir()) == []


def test_the_first_append_makes_the_directory_with_its_birth(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    assert partition.append(b"one", b"two") == 0
    assert partition.append(b"three") == 2
    assert read_birth(partition.directory, Files()) == BIRTH
    assert partition.path("offsets/consumers").is_dir()
    assert partition.path("offsets/groups").is_dir()
    assert partition.path("").stat().st_mode & 0o777 == 0o700
    assert partition.log_file().stat().st_mode & 0o777 == 0o600
    assert partition.read() == [b"one", b"two", b"three"]
    size = 3 * 64 + len(b"onetwothree")
    assert partition.log.written == Published(BIRTH, 0, 3, 0, size, size, 1, 0)


def test_segments_roll_one_batch_late(tmp_path: Path) -> None:
    """5 KiB segments and messages of 1,000 bytes, one per batch."""
    partition = Partition(tmp_path, segment_size_max=5 * 1024)
    for number in range(25):
        partition.append(bytes([number]) * (1000 - 64))
    assert partition.sizes(".log") == {0: 7000, 7: 7000, 14: 7000, 21: 4000}
    assert partition.sizes(".index") == {0: 112, 7: 112, 14: 112, 21: 64}
    assert partition.log.written.segment_count == 4
    assert partition.log.written.size_bytes == 25_000
    assert [payload[0] for payload in partition.read()] == list(range(25))


def test_a_sealed_segment_has_its_successor_at_once(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=5 * 1024)
    for _ in range(7):
        partition.append(bytes(1000 - 64))
    assert partition.sizes(".log") == {0: 7000, 7: 0}
    assert partition.log.written.active_segment == 7


def test_rolling_is_judged_per_batch_inside_a_group(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=5 * 1024)
    for number in range(25):
        assert partition.stage(bytes([number]) * (1000 - 64)) == number
    assert (partition.log.staged_messages, partition.log.staged_bytes) == (25, 25_000)
    partition.log.write()
    assert (partition.log.staged_messages, partition.log.staged_bytes) == (0, 0)
    assert partition.sizes(".log") == {0: 7000, 7: 7000, 14: 7000, 21: 4000}
    assert partition.sizes(".index") == {0: 112, 7: 112, 14: 112, 21: 64}
    assert [payload[0] for payload in partition.read()] == list(range(25))


def test_a_batch_never_ends_beyond_what_an_index_entry_can_hold() -> None:
    batch = new_batch([b"x"])
    room = len(batch)
    fits = StagedGroup(LogEnd(0, POSITION_MAX - room, 5, 0, 0), 1 << 40, bytes)
    assert fits.add(batch, 1, NOW_US) == 5
    assert fits.end.position == POSITION_MAX
    rolls = StagedGroup(LogEnd(0, POSITION_MAX - room + 1, 5, 0, 0), 1 << 40, bytes)
    assert rolls.add(batch, 1, NOW_US) == 5
    assert rolls.end == LogEnd(5, room, 6, NOW_US, NOW_US)
    assert [part.sealed for part in rolls.parts] == [True, False]


def test_a_group_of_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    for number in range(2500):
        partition.stage(b"%d" % number)
    partition.log.write()
    assert partition.read() == [b"%d" % number for number in range(2500)]


def test_timestamps_never_decrease_when_the_clock_goes_back(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    partition.append(b"now")
    partition.now_us = NOW_US - 3_600_000_000
    partition.append(b"an hour earlier")
    partition.reopen()
    partition.append(b"still earlier")
    partition.now_us = NOW_US + 5
    partition.append(b"later")
    published = partition.log.written
    find = partition.reader.find_timestamp
    assert find(published, NOW_US) == 0
    assert find(published, NOW_US + 1) == 3
    assert find(published, NOW_US + 5) == 3
    assert find(published, NOW_US + 6) == published.next_offset


def test_a_batch_that_is_not_what_it_says_leaves_no_trace(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(b"one")
    with pytest.raises(InvalidMessagesSize):
        partition.log.stage(new_batch([b"x", b"y"]), 3, NOW_US)
    partition.log.write()
    assert partition.append(b"two") == 1
    assert partition.read() == [b"one", b"two"]


def test_a_failed_sync_makes_the_log_read_only_for_good(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files)
    partition.append(b"one")
    partition.stage(b"staged before the failure")
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(CannotSyncFile):
        partition.log.sync()
    files.repair()
    assert partition.log.read_only
    with pytest.raises(CannotSaveMessagesToSegment):
        partition.log.write()
    with pytest.raises(CannotSaveMessagesToSegment):
        partition.stage(b"after")
    with pytest.raises(CannotSyncFile):
        partition.log.sync()
    assert partition.read() == [b"one"]
    partition.reopen()
    assert partition.append(b"two") == 1


def test_a_sync_without_descriptors_is_tried_again(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files)
    partition.append(b"x")
    partition.open_files.close()
    files.fail("open", errno.EMFILE)
    with pytest.raises(CannotSyncFile):
        partition.log.sync()
    files.repair()
    partition.log.sync()
    assert partition.log.is_synced
    assert partition.append(b"y") == 1


def test_a_sync_covers_every_file_and_name_that_is_new(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, segment_size_max=1, files=files)
    partition.append(b"one")
    partition.append(b"two")
    assert partition.log.sealed_unsynced == (0,)
    files.calls.clear()
    partition.log.sync()
    synced = [Path(path) for name, path in files.calls if name in ("fdatasync", "fsync_directory")]
    assert partition.log_file(0) in synced
    assert partition.log_file(2) in synced
    assert partition.path("birth") in synced
    assert Path(partition.directory) in synced
    assert tmp_path in synced
    assert partition.log.is_synced
    assert len(partition.log.sealed_unsynced) == 0

    files.calls.clear()
    partition.log.sync()
    assert files.calls == []
    partition.append(b"three")
    assert not partition.log.is_synced
    partition.log.sync()
    assert [name for name, _ in files.calls if "sync" in name] == ["fdatasync"]


def test_the_recovery_point_is_what_was_written_when_the_sync_began(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(b"one")
    plan = partition.log.plan_sync()
    assert plan is not None
    partition.append(b"two")
    partition.log.run_sync(plan)
    partition.log.finish_sync(plan)
    partition.log.save_recovery_point()
    point = read_recovery_point(partition.directory, BIRTH, Files())
    assert point == (BIRTH, 0, 64 + 3, 1)
    assert not partition.log.is_synced
    assert read_recovery_point(partition.directory, BIRTH + 1, Files()) is None


def test_what_is_not_synced_or_not_published_is_not_deleted(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    for _ in range(4):
        partition.append(b"x")
    before = partition.log.written
    partition.append(b"x")
    partition.append(b"x")
    assert [one.first_offset for one in partition.log.sealed] == [0, 2, 4]
    assert partition.log.segments.deletable(partition.log.written) == ()
    partition.log.sync()
    assert partition.log.segments.deletable(before) == partition.log.sealed[:2]
    assert partition.log.segments.deletable(partition.log.written) == partition.log.sealed


def test_the_oldest_segments_go_first_and_never_the_active_one(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    for number in range(7):
        partition.append(b"%d" % number)
    assert [segment.first_offset for segment in partition.log.sealed] == [0, 2, 4]
    assert partition.delete_oldest(2) == 2
    assert partition.sizes(".log").keys() == {4, 6}
    assert partition.log.written.first_offset == 4
    assert partition.read(0) == [b"4", b"5", b"6"]
    assert partition.delete_oldest(9) == 1
    assert partition.sizes(".log").keys() == {6}
    assert partition.append(b"7") == 7
    partition.reopen()
    assert partition.log.written.first_offset == 6
    assert partition.read(0) == [b"6", b"7"]
    assert partition.log.written.size_bytes == partition.log_file(6).stat().st_size


def test_a_purge_begins_an_empty_life(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    for number in range(5):
        partition.append(b"%d" % number)
    partition.log.sync()
    partition.log.save_recovery_point()
    partition.path("offsets/consumers/3").write_bytes(bytes(8))
    old = partition.log
    begin_next_life(partition, BIRTH + 1)
    assert partition.log.written == Published.empty(BIRTH + 1)
    assert read_birth(partition.directory, Files()) == BIRTH + 1
    assert read_recovery_point(partition.directory, BIRTH, Files()) is None
    assert partition.sizes(".log") == partition.sizes(".index") == {0: 0}
    assert os.listdir(partition.path("offsets/consumers")) == []
    assert len(os.listdir(partition.trash)) == 1
    old.stage(new_batch([b"too late"]), 1, NOW_US)
    with pytest.raises(CannotSaveMessagesToSegment):
        old.write()
    assert partition.append(b"new") == 0
    partition.reopen()
    assert partition.read() == [b"new"]


def test_the_new_life_is_durable_after_its_first_sync(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files)
    partition.append(b"old")
    partition.log.sync()
    begin_next_life(partition, BIRTH + 1)
    assert not partition.log.is_synced
    files.calls.clear()
    partition.log.sync()
    synced = [Path(path) for name, path in files.calls if name in ("fdatasync", "fsync_directory")]
    assert partition.log_file(0) in synced
    assert partition.path("birth") in synced
    assert Path(partition.directory) in synced
    assert Path(partition.directory).parent in synced
    assert partition.log.is_synced


def test_purge_of_a_partition_without_files_retires_nothing(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    begin_next_life(partition, BIRTH + 1)
    assert os.listdir(partition.trash) == []
    assert partition.sizes(".log") == partition.sizes(".index") == {0: 0}
    assert partition.append(b"x") == 0
    assert read_birth(partition.directory, Files()) == BIRTH + 1


def test_a_new_life_is_not_read_only(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, files=files)
    partition.append(b"x")
    files.fail("fdatasync", errno.EIO)
    with pytest.raises(CannotSyncFile):
        partition.log.sync()
    assert partition.log.read_only
    files.repair()
    begin_next_life(partition, BIRTH + 1)
    assert not partition.log.read_only
    assert partition.append(b"y") == 0
    partition.log.sync()
    assert partition.read() == [b"y"]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_new_life_never_begins_over_the_files_of_another(
    tmp_path: Path, is_damaged: bool
) -> None:
    """The rename of a purge fails; appends to the new life are refused until it succeeds."""
    files = FailingFiles()
    partition = Partition(tmp_path, files=files)
    partition.append(b"old", b"old as well")
    if is_damaged:
        birth = partition.path("birth").read_bytes()
        overwrite(partition.path("birth"), bytes([birth[0] ^ 1]) + birth[1:])
    before = partition.log_file().read_bytes()
    files.fail("rename", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        begin_next_life(partition, BIRTH + 1)
    files.repair()
    partition.birth = BIRTH + 1
    partition.log = partition.new_log()
    with pytest.raises(CannotSaveMessagesToSegment):
        partition.append(b"new")
    with pytest.raises(CannotCreateSegmentLogFile):
        partition.log.make_files()
    assert partition.log_file().read_bytes() == before
    begin_next_life(partition, BIRTH + 1)
    assert partition.append(b"new") == 0
    partition.reopen()
    assert partition.read() == [b"new"]


def test_only_sealed_segments_can_be_repaired(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    partition.append(b"x")
    with pytest.raises(SegmentNotFound):
        partition.repair_index(0)
    partition.log.roll()
    assert partition.repair_index(0) == []
    partition.log.roll()
    assert partition.sizes(".log") == {0: 65, 1: 0}


def test_open_files_stay_within_their_bound(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, segment_size_max=1, files=files, open_files_max=3)
    for _ in range(10):
        partition.append(b"x")
        assert len(partition.open_files) <= 3
        assert files.open_count <= 3
    partition.log.close()
    assert files.open_count == 0


def test_sealed_segments_are_let_go_once_they_are_on_the_disk(tmp_path: Path) -> None:
    files = FailingFiles()
    partition = Partition(tmp_path, segment_size_max=1, files=files, open_files_max=100)
    for _ in range(10):
        partition.append(b"x")
    partition.log.sync()
    assert files.open_count <= 3, "the active pair, and the birth that was synced"


def test_a_closed_log_goes_with_its_last_reference(tmp_path: Path) -> None:
    partition = Partition(tmp_path, segment_size_max=1)
    for _ in range(3):
        partition.append(b"x")
    log = weakref.ref(partition.log)
    segments, written = partition.log.segments, partition.log.written
    gc.disable()
    try:
        partition.log.close()
        del partition
        assert log() is None
        # The segments still know where it had ended.
        assert segments.without_oldest(written, 1).first_offset == 2
    finally:
        gc.enable()
